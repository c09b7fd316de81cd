// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/layout.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "dataplane/slab_header.h"
#include "dataplane/timeline.h"
#include "kernels/block_list.h"
#include "kernels/counters.h"
#include "kernels/layer_audits.h"
#include "kernels/select.h"
#include "kernels/state.h"

namespace spin::dataplane {
namespace {

using kernels::Dtype;

SessionShape SmallShape() {
  return {.geometry =
              {.layers = 2, .block = 64, .topk = 512, .tokens_per_slot = 1, .state = Dtype::kF32},
          .max_slots = 1000,
          .max_requests = 3,
          .max_next_n = 2,
          .scores = Dtype::kBF16,
          .staging = true};
}

struct Region {
  uint64_t begin;
  uint64_t bytes;
};

// In the documented order, with the documented shapes.
std::vector<Region> Regions(const SessionLayout& layout, const SessionShape& shape) {
  const uint64_t layers = shape.geometry.layers;
  const uint64_t requests = shape.max_requests;
  const uint64_t blocks = (shape.max_slots + shape.geometry.block - 1) / shape.geometry.block;
  const uint64_t row = blocks * shape.geometry.block;
  std::vector<Region> regions = {
      {layout.records, requests * sizeof(kernels::RequestRecord)},
      {layout.counters, layers * sizeof(kernels::LayerCounters)},
      {layout.audits, layers * sizeof(kernels::LayerAudits)},
      {layout.timeline, sizeof(Timeline)},
      {layout.headers, 2 * requests * layers * sizeof(kernels::ListHeader)},
      {layout.lists, 2 * requests * layers * blocks * 4},
      {layout.masks, 2 * requests * layers * ((blocks + 31) / 32) * 8},
  };
  if (shape.staging) {
    const uint64_t element = shape.scores == Dtype::kF32 ? 4 : 2;
    regions.push_back({layout.staging, layers * requests * shape.max_next_n * row * element});
  }
  return regions;
}

void ExpectRegionsInOrder(uint64_t base, const SessionShape& shape) {
  const SessionLayout layout = LayoutAt(base, shape);
  uint64_t end = base;
  for (const Region& region : Regions(layout, shape)) {
    EXPECT_EQ(region.begin % kSlabAlignment, 0);
    EXPECT_GE(region.begin, end);
    EXPECT_LT(region.begin - end, kSlabAlignment);
    end = region.begin + region.bytes;
  }
  EXPECT_GE(layout.end, end);
  EXPECT_LT(layout.end - end, kSlabAlignment);
  EXPECT_EQ(layout.end % kSlabAlignment, 0);
}

TEST(LayoutTest, RegionsAreAlignedInOrderAndDoNotOverlap) {
  std::mt19937_64 random(1);
  const auto upto = [&](int32_t most) { return static_cast<int32_t>(1 + random() % most); };
  for (int i = 0; i < 500; ++i) {
    SessionShape shape = SmallShape();
    shape.geometry.layers = upto(kernels::kMaxLayers);
    shape.geometry.block = 16 << random() % 4;
    shape.max_slots = upto(kernels::kMaxSlots);
    shape.max_requests = upto(512);
    shape.max_next_n = upto(kernels::kMaxNextN);
    shape.scores = random() % 2 == 0 ? Dtype::kF32 : Dtype::kBF16;
    shape.staging = random() % 2 == 0;
    ExpectRegionsInOrder(random() % 1000 * kSlabAlignment, shape);
  }
}

TEST(LayoutTest, LargestShapeFitsTheArithmetic) {
  SessionShape shape = SmallShape();
  shape.geometry.layers = kernels::kMaxLayers;
  shape.geometry.block = 16;
  shape.max_slots = kernels::kMaxSlots;
  shape.max_requests = 512;
  shape.max_next_n = kernels::kMaxNextN;
  shape.scores = Dtype::kF32;
  ExpectRegionsInOrder(kSlabAlignment, shape);
}

TEST(LayoutTest, StagedRowsAreWholeBlocks) {
  EXPECT_EQ(LayoutAt(0, SmallShape()).staging_stride, 1024);
}

TEST(LayoutTest, WithoutStagingThereIsNone) {
  SessionShape shape = SmallShape();
  shape.staging = false;
  const SessionLayout layout = LayoutAt(256, shape);
  EXPECT_EQ(layout.staging, 0);
  EXPECT_EQ(layout.staging_stride, 0);
  EXPECT_LT(layout.end, LayoutAt(256, SmallShape()).end);
}

TEST(LayoutTest, BaseMovesEverything) {
  const SessionLayout at_0 = LayoutAt(0, SmallShape());
  const SessionLayout at_512 = LayoutAt(512, SmallShape());
  EXPECT_EQ(at_512.records, at_0.records + 512);
  EXPECT_EQ(at_512.staging, at_0.staging + 512);
  EXPECT_EQ(at_512.end, at_0.end + 512);
}

}  // namespace
}  // namespace spin::dataplane
