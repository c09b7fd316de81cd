// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "absl/time/clock.h"
#include "kernels/device.h"
#include "server/quarantine.h"
#include "server/session.h"
#include "server/session_table.h"
#include "server/slab.h"
#include "tests/server/temp_folder.h"

namespace spin::server {

// A slab, a device and sessions in them, without gRPC.
class SessionFixture : public ::testing::Test {
 protected:
  static constexpr uint64_t kSlabBytes = 64 << 20;

  static dataplane::SessionShape SmallShape() {
    return {.geometry = {.layers = 2,
                         .block = 64,
                         .topk = 64,
                         .tokens_per_slot = 1,
                         .state = kernels::Dtype::kF32},
            .max_slots = 16384,
            .max_requests = 4,
            .max_next_n = 3,
            .scores = kernels::Dtype::kF32,
            .staging = true};
  }

  std::shared_ptr<SessionRegion> MakeRegion(const dataplane::SessionShape& shape = SmallShape()) {
    auto region = SessionRegion::Create(slab_.get(), shape);
    EXPECT_TRUE(region.ok()) << region.status();
    return *region;
  }

  std::shared_ptr<Session> MakeSession(const std::string& model = "m", pid_t pid = 0,
                                       uint64_t connection = 1) {
    return std::make_shared<Session>(SessionIdentity{.id = RandomId(),
                                                     .model_name = model,
                                                     .client_name = "test",
                                                     .executor = v1::EXECUTOR_SIDECAR,
                                                     .zero_init = false,
                                                     .peer = {connection, pid, 0},
                                                     .opened_at = absl::Now()},
                                     MakeRegion(), Policy{});
  }

  uint64_t used() const { return slab_->extents().used(); }

  TempFolder folder_;
  std::unique_ptr<kernels::Device> device_ = kernels::MakeCpuDevice();
  std::unique_ptr<Slab> slab_ = *Slab::Create(device_.get(), folder_.path(), kSlabBytes);
  Quarantine quarantine_{absl::Hours(1)};
  SessionTable sessions_{&quarantine_};
};

}  // namespace spin::server
