// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/plan/slab_plan.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/cli/plan/models.h"
#include "kernels/device.h"
#include "server/request.h"
#include "server/slab.h"
#include "tests/server/temp_folder.h"

namespace spin::cli {
namespace {

// As many requests of the longest context as were planned for.
int RequestsThatFit(const dataplane::SessionShape& shape, uint64_t slab_bytes) {
  const server::TempFolder folder;
  const auto device = kernels::MakeCpuDevice();
  const auto slab = server::Slab::Create(device.get(), folder.path(), slab_bytes);
  EXPECT_TRUE(slab.ok()) << slab.status();
  const auto region = server::SessionRegion::Create(slab->get(), shape);
  if (!region.ok()) return -1;
  std::vector<std::shared_ptr<server::Request>> requests;
  for (int i = 0; i < shape.max_requests; ++i) {
    auto request = server::Request::Create(*region, absl::StrCat(i), shape.max_slots, false);
    if (!request.ok()) break;
    requests.push_back(*std::move(request));
  }
  return static_cast<int>(requests.size());
}

TEST(SlabPlanTest, WhatWasPlannedForFits) {
  for (const bool staging : {false, true}) {
    for (const kernels::Dtype state : {kernels::Dtype::kF32, kernels::Dtype::kBF16}) {
      const dataplane::SessionShape shape = {
          .geometry = {.layers = 3, .block = 64, .topk = 64, .tokens_per_slot = 4, .state = state},
          .max_slots = 10000,
          .max_requests = 5,
          .max_next_n = 2,
          .scores = kernels::Dtype::kF32,
          .staging = staging};
      const SlabPlan plan = PlanSlab(shape);
      EXPECT_EQ(RequestsThatFit(shape, plan.total()), 5);
      const uint64_t spare = 5 * kernels::PageBytes(shape.geometry);
      EXPECT_LT(RequestsThatFit(shape, plan.total() - spare - 1), 5);  // and not much too much
      EXPECT_EQ(plan.staging > 0, staging);
    }
  }
}

TEST(SlabPlanTest, KnownModelsAreWithinTheLimits) {
  for (const IndexerModel& model : KnownModels()) {
    EXPECT_LE(model.layers, kernels::kMaxLayers) << model.name;
    EXPECT_LE(model.topk, kernels::kMaxTopk) << model.name;
    EXPECT_TRUE(kernels::IsBlockSize(model.block)) << model.name;
  }
}

}  // namespace
}  // namespace spin::cli
