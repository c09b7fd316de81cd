// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/observe_pass.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "kernels/geometry.h"

namespace spin::kernels::internal {
namespace {

using ::testing::ElementsAreArray;

TEST(ObservePassTest, PassesTakeEachVerifierRowOnceInOrderAndPairThoseOfOneSlot) {
  for (const uint32_t per_slot : {1u, 2u, 3u, 4u, 5u, 64u}) {
    for (int32_t next_n = 1; next_n <= kMaxNextN; ++next_n) {
      for (uint32_t token = 0; token < per_slot; ++token) {
        std::vector<uint32_t> taken;
        for (int32_t i = 0; i < PassesFor(next_n, static_cast<int32_t>(per_slot)); ++i) {
          const ObservePass pass = PassOf(token, per_slot, static_cast<uint32_t>(i));
          taken.push_back(pass.first);
          if (!pass.pair) continue;
          taken.push_back(pass.first + 1);
          EXPECT_EQ((token + pass.first) / per_slot, (token + pass.first + 1) / per_slot);
        }
        ASSERT_GE(taken.size(), next_n) << per_slot << ' ' << token;
        std::vector<uint32_t> in_order(taken.size());
        std::iota(in_order.begin(), in_order.end(), 0);
        EXPECT_THAT(taken, ElementsAreArray(in_order)) << per_slot << ' ' << token;
      }
    }
  }
}

TEST(ObservePassTest, FewerPassesThanVerifierRowsWhereSlotsHaveSeveralTokens) {
  EXPECT_EQ(PassesFor(1, 4), 1);
  EXPECT_EQ(PassesFor(2, 4), 2);  // the second row may be in another slot
  EXPECT_EQ(PassesFor(3, 4), 2);
  EXPECT_EQ(PassesFor(8, 4), 5);
  EXPECT_EQ(PassesFor(8, 64), 5);
  EXPECT_EQ(PassesFor(8, 1), 8);
}

}  // namespace
}  // namespace spin::kernels::internal
