// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/fill.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

// TestSession fills the pages of a request when it is opened or grown.
namespace spin::kernels {
namespace {

using ::testing::Each;

class FillTest : public DeviceTest {};
SPIN_TEST_ON_EVERY_DEVICE(FillTest);

TEST_P(FillTest, FreshPagesAreUnobserved) {
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    TestSession session(device_, {.geometry = {2, 64, 64, 1, state}, .max_slots = 9000});
    session.Open(0, 9000);
    for (const int32_t layer : {0, 1}) {
      EXPECT_THAT(session.V(0, layer), Each(reference::kCold));
      EXPECT_THAT(session.D(0, layer), Each(reference::kCold));
    }
  }
}

TEST_P(FillTest, ZeroInitMakesThemZero) {
  for (const Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    TestSession session(device_, {.geometry = {2, 64, 64, 1, state}, .zero_init = true});
    session.Open(0, 1000);
    const std::vector<float> zeros(session.capacity(0), 0.0f);
    EXPECT_TRUE(SameBits(session.V(0, 1), zeros));
    EXPECT_TRUE(SameBits(session.D(0, 1), zeros));
  }
}

TEST_P(FillTest, PagesOfOthersAreLeftAsTheyWere) {
  TestSession session(device_, {.max_requests = 3, .max_slots = 4096});
  for (const uint32_t request : {0, 1, 2}) session.Open(request, 4096);
  const std::vector<float> values(4096, 3.0f);
  for (const uint32_t request : {0, 2}) session.SetV(request, 0, values);
  session.Open(1, 4096);
  EXPECT_EQ(session.V(0, 0), values);
  EXPECT_EQ(session.V(2, 0), values);
}

TEST_P(FillTest, NothingOfAnEarlierOwnerIsLeft) {
  TestSession session(device_, {.max_slots = 4096});
  session.Open(0, 4096);
  session.SetV(0, 0, std::vector<float>(4096, 3.0f));
  session.SetD(0, 0, std::vector<float>(4096, 3.0f));
  const std::vector<uint32_t> pages = session.pages(0);
  session.Open(0, 4096);
  ASSERT_EQ(session.pages(0), pages);  // the slab has no other
  EXPECT_THAT(session.V(0, 0), Each(reference::kCold));
  EXPECT_THAT(session.D(0, 0), Each(reference::kCold));
}

}  // namespace
}  // namespace spin::kernels
