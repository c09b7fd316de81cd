// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/fp8.h"

#include <bit>
#include <cmath>

#include "gtest/gtest.h"

namespace spin::trace {
namespace {

TEST(Fp8Test, KnownCodesHaveTheirValues) {
  EXPECT_EQ(kFp8ToFloat[0x00], 0.0f);
  EXPECT_EQ(kFp8ToFloat[0x01], std::ldexp(1.0f, -9));  // smallest subnormal
  EXPECT_EQ(kFp8ToFloat[0x07], std::ldexp(7.0f, -9));
  EXPECT_EQ(kFp8ToFloat[0x08], std::ldexp(1.0f, -6));  // smallest normal
  EXPECT_EQ(kFp8ToFloat[0x38], 1.0f);
  EXPECT_EQ(kFp8ToFloat[0x3c], 1.5f);
  EXPECT_EQ(kFp8ToFloat[0x7e], 448.0f);  // the largest: there are no infinities
}

TEST(Fp8Test, ValuesAscendWithTheCode) {
  for (int code = 1; code < 0x7f; ++code) {
    EXPECT_LT(kFp8ToFloat[code - 1], kFp8ToFloat[code]) << code;
  }
}

TEST(Fp8Test, TheTopBitIsTheSign) {
  EXPECT_TRUE(std::signbit(kFp8ToFloat[0x80]));
  for (int code = 0; code < 0x7f; ++code) {
    EXPECT_EQ(kFp8ToFloat[code | 0x80], -kFp8ToFloat[code]) << code;
  }
}

TEST(Fp8Test, BothNanCodesAreNan) {
  EXPECT_TRUE(std::isnan(kFp8ToFloat[0x7f]));
  EXPECT_TRUE(std::isnan(kFp8ToFloat[0xff]));
}

TEST(Fp8Test, EveryValueFitsBfloat16) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(std::bit_cast<uint32_t>(kFp8ToFloat[code]) & 0xffff, 0u) << code;
  }
}

}  // namespace
}  // namespace spin::trace
