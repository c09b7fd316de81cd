// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "server/config.h"
#include "server/spind.h"

namespace {

// One line an event on stderr; stdout stays empty.
void StartLog(const spin::server::Config& config) {
  auto log = spdlog::stderr_color_mt("spind");
  log->set_level(spdlog::level::from_str(config.log_level));
  log->set_pattern(config.log_format == "json"
                       ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                       : "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::set_default_logger(log);
}

}  // namespace

int main(int argc, char** argv) {
  const spin::server::ConfigOrExit parsed = spin::server::ReadConfig(argc, argv);
  if (!parsed.config.has_value()) return parsed.exit_code;
  StartLog(*parsed.config);

  // Before any thread starts, so that all of them inherit it and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto spind = spin::server::Spind::Start(*parsed.config);
  if (!spind.ok()) {
    std::fprintf(stderr, "spind: %s\n", std::string(spind.status().message()).c_str());
    return 1;
  }
  int received = 0;
  sigwait(&signals, &received);
  spdlog::info("{}: stopping", received == SIGINT ? "SIGINT" : "SIGTERM");
  spind->reset();
  return 0;
}
