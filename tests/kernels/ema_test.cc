// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/ema.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_values.h"

namespace spin::kernels {
namespace {

TEST(EmaTest, EveryBf16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = ToFloat(Bf16{static_cast<uint16_t>(bits)});
    ASSERT_EQ(BitsOf(value), bits << 16);
    if (std::isnan(value)) continue;
    ASSERT_EQ(FromFloat<Bf16>(value).bits, bits);
  }
}

TEST(EmaTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0x3f808000)).bits, 0x3f80);  // halfway: down to even
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0x3f818000)).bits, 0x3f82);  // halfway: up to even
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0xbf808001)).bits, 0xbf81);
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0x00008001)).bits, 0x0001);  // subnormal
}

TEST(EmaTest, Bf16RangeEndsHalfAUnitAboveItsLargestValue) {
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0x7f7f7fff)).bits, 0x7f7f);
  EXPECT_EQ(FromFloat<Bf16>(FromBits(0x7f7f8000)).bits, 0x7f80);  // infinity
}

TEST(EmaTest, Bf16RoundingEqualsTheArithmeticDefinition) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float value = FromBits(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(BitsOf(ToFloat(FromFloat<Bf16>(value))), BitsOf(reference::RoundToBf16(value)))
        << std::hex << BitsOf(value);
  }
}

TEST(EmaTest, WeightsAreRoundedOnceFromDouble) {
  const EmaWeights weights = WeightsOf(0.9);
  EXPECT_EQ(weights.past, 0.9f);
  EXPECT_EQ(weights.now, 0.1f);
  EXPECT_NE(weights.now, 1 - weights.past);  // what float arithmetic would give
}

TEST(EmaTest, UnobservedIsRepresentedInBothTypes) {
  EXPECT_EQ(ToFloat(FromFloat<Bf16>(kUnobserved)), kUnobserved);
  EXPECT_EQ(ToFloat(FromFloat<float>(kUnobserved)), kUnobserved);
}

}  // namespace
}  // namespace spin::kernels
