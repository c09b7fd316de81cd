// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/request_key.h"

#include <gtest/gtest.h>

namespace spin::dataplane {
namespace {

// Expected values: xxh64(key, seed=0) of the Python package xxhash.
TEST(RequestKeyTest, HashIsXxh64WithSeed0) {
  EXPECT_EQ(HashRequestKey(""), 0xef46db3751d8e999);
  EXPECT_EQ(HashRequestKey("a"), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(HashRequestKey("chat-17"), 0x71d980b2304d63e8);
  EXPECT_EQ(HashRequestKey("cmpl-7f3a9c2e5d1b4f60a8e2c9d0b1a2f3e4"), 0xc222f8899ec25f8f);
}

TEST(RequestKeyTest, KeysAreBytes) {
  EXPECT_EQ(HashRequestKey("schl\xc3\xbcssel"), 0x9e8f9d29817e144f);
  EXPECT_EQ(HashRequestKey(absl::string_view("request/\0with\0zeros", 19)), 0x6cdf1ebb8c465a5b);
}

}  // namespace
}  // namespace spin::dataplane
