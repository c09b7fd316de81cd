// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/topk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spin::trace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> Top(const std::vector<float>& scores, int k) {
  const size_t size = std::min(scores.size(), static_cast<size_t>(std::max(k, 0)));
  std::vector<int32_t> workspace(scores.size());
  std::vector<int32_t> top(size);
  const int count = TopK(scores, k, absl::MakeSpan(workspace), absl::MakeSpan(top));
  EXPECT_EQ(static_cast<size_t>(count), size);
  return top;
}

// The definition: a stable sort, NaN last.
std::vector<int32_t> SortedTop(const std::vector<float>& scores, int k) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) return !std::isnan(scores[a]);
    return scores[a] > scores[b];
  });
  order.resize(std::min(scores.size(), static_cast<size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopKTest, TakesTheLargestInIndexOrder) {
  EXPECT_THAT(Top({1, 5, -2, 4, 3}, 3), ElementsAre(1, 3, 4));
}

TEST(TopKTest, TiesGoToTheLowerIndex) {
  EXPECT_THAT(Top({2, 1, 2, 1, 1, 0}, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Top({7, 7, 7, 7}, 2), ElementsAre(0, 1));
}

TEST(TopKTest, BothZerosTie) {
  EXPECT_THAT(Top({-0.0f, 0.0f, -0.0f}, 1), ElementsAre(0));
  EXPECT_THAT(Top({0.0f, -0.0f, 0.0f}, 2), ElementsAre(0, 1));
}

TEST(TopKTest, NanRanksBelowMinusInfinity) {
  EXPECT_THAT(Top({kNaN, -kInfinity, kNaN, kInfinity}, 2), ElementsAre(1, 3));
  EXPECT_THAT(Top({kNaN, -kNaN, -kInfinity}, 1), ElementsAre(2));
}

TEST(TopKTest, NansTieWhateverTheirSignAndAreTakenLast) {
  EXPECT_THAT(Top({-kNaN, kNaN, 1, -kNaN}, 3), ElementsAre(0, 1, 2));
}

TEST(TopKTest, MoreThanThereAreGivesAll) {
  EXPECT_THAT(Top({3, kNaN, 1}, 9), ElementsAre(0, 1, 2));
}

TEST(TopKTest, NothingGivesNothing) {
  EXPECT_THAT(Top({}, 4), IsEmpty());
  EXPECT_THAT(Top({1, 2}, 0), IsEmpty());
  EXPECT_THAT(Top({1, 2}, -1), IsEmpty());
}

TEST(TopKTest, ExtremeFloatsKeepTheirOrder) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  const std::vector<float> descending = {kInfinity, huge, 1, tiny, 0, -tiny, -1, -huge, -kInfinity};
  for (size_t k = 1; k <= descending.size(); ++k) {
    EXPECT_EQ(Top(descending, k), SortedTop(descending, k)) << k;
    const std::vector<float> ascending(descending.rbegin(), descending.rend());
    EXPECT_EQ(Top(ascending, k), SortedTop(ascending, k)) << k;
  }
}

TEST(TopKTest, AgreesWithASortForManySizes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const int n : {1, 2, 31, 32, 33, 255, 257, 1000, 8192, 32768}) {
    std::vector<float> scores(n);
    for (float& score : scores) score = normal(random) - 2;  // mostly negative, as real ones
    for (const int k : {1, 2, 7, n / 4, n / 4 + 1, n / 2, 512, 2048, n - 1, n}) {
      EXPECT_EQ(Top(scores, k), SortedTop(scores, std::max(k, 0))) << n << " choose " << k;
    }
  }
}

TEST(TopKTest, AgreesWithASortWhereMostTie) {
  std::mt19937 random(2);
  const std::vector<float> values = {-1, -0.0f, 0, 1, kNaN, -kInfinity};
  for (const int n : {40, 1000, 5000}) {
    std::vector<float> scores(n);
    for (float& score : scores) score = values[random() % values.size()];
    for (const int k : {1, 10, n / 8, n / 3, n - 1}) {
      EXPECT_EQ(Top(scores, k), SortedTop(scores, k)) << n << " choose " << k;
    }
  }
}

TEST(TopKTest, AgreesWithASortWhereTheBoundMisleads) {
  std::vector<float> scores(32768, -1.0f);
  for (int i = 0; i < 128; ++i) scores[i * 256] = i;  // all in one group of the bound
  EXPECT_EQ(Top(scores, 64), SortedTop(scores, 64));
  std::iota(scores.begin(), scores.end(), 0.0f);
  EXPECT_EQ(Top(scores, 2048), SortedTop(scores, 2048));
}

}  // namespace
}  // namespace spin::trace
