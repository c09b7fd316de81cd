// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "kernels/word_wait.h"
#include "server/admin_http.h"
#include "server/config.h"
#include "server/process_metrics.h"
#include "server/spind.h"
#include "server/start_failure.h"
#include "server/status_page.h"

namespace {

using spin::server::AdminHttp;
using spin::server::MayPass;
using spin::server::PartOf;
using spin::server::Spind;

// Between attempts to start; doubles from the first to the longest.
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(30);

// The message as a JSON string: it may quote what it complains of.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& entry, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const nlohmann::json text = std::string(entry.payload.data(), entry.payload.size());
    const std::string json = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(json.data(), json.data() + json.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

// One line an event on stderr; stdout stays empty.
void StartLog(const spin::server::Config& config) {
  auto log = spdlog::stderr_color_mt("spind");
  log->set_level(spdlog::level::from_str(config.log_level));
  if (config.log_format == "json") {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
    log->set_formatter(std::move(formatter));
  } else {
    log->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  }
  spdlog::set_default_logger(log);
}

// SIGINT or SIGTERM, or nothing if neither came within `limit`.
std::optional<int> AwaitSignal(const sigset_t& signals, absl::Duration limit) {
  const timespec wait = absl::ToTimespec(limit);
  int received = 0;
  do {
    received = limit == absl::InfiniteDuration() ? sigwaitinfo(&signals, nullptr)
                                                 : sigtimedwait(&signals, nullptr, &wait);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return std::nullopt;
  spdlog::info("{}: stopping", received == SIGINT ? "SIGINT" : "SIGTERM");
  return received;
}

// Both probes say yes. In a pod the kubelet starts no engine before the startup probe of its
// sidecar has passed, and would restart a sidecar that is not live: neither brings an answer
// nearer, while an engine that finds no socket scores all blocks and serves. What is wrong is told
// by the metric and the status instead, which alerts and people read.
AdminHttp::Pages PagesOf(const absl::Status& failure) {
  return {.metrics = {std::make_shared<spin::server::StartMetrics>(failure),
                      std::make_shared<spin::server::ProcessMetrics>()},
          .live = [] { return true; },
          .started = [] { return true; },
          .status_json = [json = spin::server::StartFailureJson(failure)] { return json; }};
}

void LogFailure(const absl::Status& failure, const std::string& admin_address) {
  spdlog::error("not serving ({}): {}. Engines score all blocks. {}; status at http://{}/",
                std::string(NameOf(PartOf(failure))), std::string(failure.message()),
                MayPass(failure) ? "spind tries again by itself"
                                 : "This needs a new start with other settings, in Kubernetes a "
                                   "new pod",
                admin_address);
}

int Leave(const absl::Status& failure) {
  std::fprintf(stderr, "spind: %s\n", std::string(failure.message()).c_str());
  return 1;
}

// Serves until a signal comes. Where it cannot, `config.stay_up` decides between leaving and
// telling why, until a later attempt works or the signal comes.
int Run(const spin::server::Config& config, const absl::Status& mistake, const sigset_t& signals) {
  std::shared_ptr<AdminHttp> admin;  // opened by the first failure, and kept by what follows
  std::optional<absl::Status> told;
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    absl::Status failure = mistake;
    if (failure.ok()) {
      auto spind = Spind::Start(config, admin);
      if (spind.ok()) {
        AwaitSignal(signals, absl::InfiniteDuration());
        return 0;
      }
      failure = spind.status();
    }
    if (!config.stay_up) return Leave(failure);
    if (admin == nullptr) {
      auto opened = AdminHttp::Start(config.admin_address);
      if (!opened.ok()) return Leave(failure);  // nobody could be told, and no probe would pass
      admin = *std::move(opened);
    }
    admin->Show(PagesOf(failure));
    if (!told.has_value() || PartOf(*told) != PartOf(failure))
      LogFailure(failure, admin->address());
    told = failure;
    if (AwaitSignal(signals, MayPass(failure) ? pause : absl::InfiniteDuration())) return 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Whatever the pod says: it is the engine that it says it for.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", spin::kernels::kHardwareQueues, 1);
  const spin::server::ConfigOrExit read = spin::server::ReadConfig(argc, argv);
  if (!read.config.has_value()) return read.exit_code;
  StartLog(*read.config);
  for (const std::string& warning : read.warnings) spdlog::warn("{}", warning);

  // Before any thread starts, so that all of them inherit it and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Run(*read.config, read.mistake, signals);
}
