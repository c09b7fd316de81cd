// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "server/spind.h"
#include "spin/session.h"
#include "tests/client/toy_engine.h"
#include "tests/server/temp_folder.h"

namespace spin {

// A spind in this process, and sessions with it over its real socket.
class SessionFixture : public ::testing::Test {
 protected:
  static constexpr int kLayers = 2;
  static constexpr int kMaxSlots = 16384;

  server::Config SpindConfig() {
    server::Config config;
    config.socket = folder_.File("s");
    config.shm_dir = folder_.path();
    config.slab_bytes = slab_bytes_;
    config.admin_address = "127.0.0.1:0";
    config.allow_uids = {getuid()};
    config.policy.sparsity = 0.5;
    config.policy.audit_every = 0;
    return config;
  }

  void StartSpind() {
    auto spind = server::Spind::Start(SpindConfig());
    ASSERT_TRUE(spind.ok()) << spind.status();
    spind_ = *std::move(spind);
  }

  SessionOptions Options(Executor executor = Executor::kInline) {
    SessionOptions options;
    options.socket = folder_.File("s");
    options.model = {.name = "toy",
                     .layers = kLayers,
                     .block_slots = 64,
                     .topk = 128,
                     .tokens_per_slot = 1,
                     .max_slots = kMaxSlots};
    options.max_requests = 4;
    options.max_next_n = max_next_n_;
    options.executor = executor;
    options.step_timeout = absl::Seconds(20);  // sanitizers are slow
    options.control_timeout = absl::Seconds(20);
    options.reconnect_interval = absl::Milliseconds(5);
    return options;
  }

  std::unique_ptr<Session> Open(const SessionOptions& options) {
    auto session = Session::Create(options);
    EXPECT_TRUE(session.ok()) << session.status();
    const absl::Status ready = (*session)->WaitUntilReady(absl::Seconds(20));
    EXPECT_TRUE(ready.ok()) << ready;
    return *std::move(session);
  }

  ToyEngine Engine() { return ToyEngine(kLayers, 64, kMaxSlots, 4, max_next_n_); }

  // Polls until the condition holds; false if it never does.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (!condition()) {
      if (absl::Now() > limit) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

  uint64_t slab_bytes_ = 64 << 20;
  int max_next_n_ = 1;
  server::TempFolder folder_;
  std::unique_ptr<server::Spind> spind_;
};

}  // namespace spin
