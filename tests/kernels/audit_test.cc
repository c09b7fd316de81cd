// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/audit.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {

bool operator==(const AuditResult& a, const AuditResult& b) {
  return a.topk == b.topk && a.missed == b.missed;
}
std::ostream& operator<<(std::ostream& out, const AuditResult& result) {
  return out << result.missed << " missed of " << result.topk;
}

namespace {

using ::testing::ElementsAre;

class AuditTest : public DeviceTest {
 protected:
  // 64 slots in blocks of 16, a top-K of 4; the list keeps `kept_first` and block 3.
  AuditResult AuditOf(const std::vector<float>& row, int32_t kept_first) {
    TestSession session(device_, {.geometry = {1, 16, 4, 1, Dtype::kF32}});
    session.Open(0, 100);
    std::vector<float> block_scores(4, 0.0f);
    block_scores[kept_first] = 1.0f;
    session.SelectFrom(block_scores, RowAt(63), Skip(0.5));
    ScoreTensor scores(1, 1, 1, 64);
    std::copy(row.begin(), row.end(), scores.At(0, 0));
    return session.Audit({ScoredAt(63)}, scores)[0];
  }

  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
};
SPIN_TEST_ON_EVERY_DEVICE(AuditTest);

TEST_P(AuditTest, CountsTopkSlotsOutsideTheList) {
  std::vector<float> row(64, -5.0f);
  row[0] = row[17] = row[40] = row[63] = -1;  // blocks 0, 1, 2, 3
  EXPECT_EQ(AuditOf(row, 1), (AuditResult{4, 2}));
}

TEST_P(AuditTest, TiesGoToTheLowerSlot) {
  std::vector<float> row(64, -5.0f);
  EXPECT_EQ(AuditOf(row, 0), (AuditResult{4, 0}));  // slots 0 to 3
  row[16] = row[17] = -1;                           // and now slots 0 and 1
  EXPECT_EQ(AuditOf(row, 0), (AuditResult{4, 2}));
  EXPECT_EQ(AuditOf(row, 1), (AuditResult{4, 2}));
}

TEST_P(AuditTest, ZerosOfBothSignsTie) {
  std::vector<float> row(64, -5.0f);
  std::fill_n(row.begin(), 4, -0.0f);
  std::fill_n(row.begin() + 16, 4, 0.0f);
  EXPECT_EQ(AuditOf(row, 0), (AuditResult{4, 0}));
}

TEST_P(AuditTest, NanRanksBelowEverything) {
  std::vector<float> row(64, kNan);
  std::fill_n(row.begin() + 16, 4, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(AuditOf(row, 1), (AuditResult{4, 0}));
  row[18] = row[19] = -kNan;  // two of the top four are now the NaN of slots 0 and 1
  EXPECT_EQ(AuditOf(row, 1), (AuditResult{4, 2}));
}

TEST_P(AuditTest, ContextShorterThanTheTopkCountsItsSlots) {
  TestSession session(device_, {.geometry = {1, 16, 100, 1, Dtype::kF32}});
  session.Open(0, 100);
  session.SelectFrom({0, 0}, RowAt(19), Skip(0.5));
  ScoreTensor scores(1, 1, 1, 20);
  std::fill_n(scores.At(0, 0), 20, 1.0f);
  EXPECT_THAT(session.Audit({ScoredAt(19)}, scores), ElementsAre(AuditResult{20, 0}));
}

TEST_P(AuditTest, OnlyAcceptedVerifierRowsCount) {
  TestSession session(device_, {.geometry = {1, 16, 4, 1, Dtype::kF32}});
  session.Open(0, 100);
  session.Select({RowAt(62, 3)}, Skip(0));
  ScoreTensor scores(1, 1, 3, 65);
  for (int32_t draft = 0; draft < 3; ++draft) std::fill_n(scores.At(0, 0, draft), 65, 1.0f);
  ScoredRow row = ScoredAt(62, 3);
  row.accepted = 2;
  EXPECT_THAT(session.Audit({row}, scores), ElementsAre(AuditResult{8, 0}));
  EXPECT_EQ(session.Counters(0).audited_rows, 2);
}

TEST_P(AuditTest, RowsThatUsedTheirListAndPaddingAreSkipped) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Select({RowAt(63)}, Skip(0));
  ScoreTensor scores(1, 1, 1, 64);
  std::fill_n(scores.At(0, 0), 64, 1.0f);
  ScoredRow kept = ScoredAt(63);
  kept.coverage = Coverage::kKept;
  ScoredRow padding = ScoredAt(63);
  padding.request = kPaddingRow;
  EXPECT_THAT(session.Audit({kept, padding}, scores),
              ElementsAre(AuditResult{0, 0}, AuditResult{0, 0}));
  EXPECT_EQ(session.Counters(0).audited_rows, 0);
}

TEST_P(AuditTest, LeavesTheStateAlone) {
  TestSession session(device_, {});
  session.Open(0, 100);
  session.Select({RowAt(63)}, Skip(0));
  ScoreTensor scores(1, 1, 1, 64);
  std::fill_n(scores.At(0, 0), 64, 1.0f);
  session.Audit({ScoredAt(63)}, scores);
  EXPECT_THAT(session.V(0, 0), ::testing::Each(reference::kCold));
}

TEST_P(AuditTest, CountersAddUpOverCalls) {
  TestSession session(device_, {.geometry = {1, 16, 4, 1, Dtype::kF32}});
  session.Open(0, 100);
  session.SelectFrom({0, 1, 0, 0}, RowAt(63), Skip(0.5));  // keeps 1 and 3
  ScoreTensor scores(1, 1, 1, 64);
  std::fill_n(scores.At(0, 0), 64, -5.0f);
  session.Audit({ScoredAt(63)}, scores);
  session.Audit({ScoredAt(63)}, scores);
  EXPECT_EQ(session.Counters(0).audited_rows, 2);
  EXPECT_EQ(session.Counters(0).audit_topk_slots, 8);
  EXPECT_EQ(session.Counters(0).audit_missed_slots, 8);
}

TEST_P(AuditTest, EqualsAFullSort) {
  std::mt19937_64 random(1);
  for (const Dtype element : {Dtype::kF32, Dtype::kBF16}) {
    for (const int distinct : {2, 50, 1 << 24}) {  // few values: the K-th ties with many
      const Geometry g = {2, 32, 200, 1, Dtype::kF32};
      TestSession session(device_, {.geometry = g, .max_slots = 9000});
      session.Open(0, 9000);
      const Row row = RowAt(8998);
      Policy policy = Skip(0.6);
      policy.exploration = 0.3;
      session.Predict({row});
      session.Select({row}, policy);
      ScoreTensor scores(2, 1, 1, 8999, element);
      std::vector<AuditResult> expected;
      for (const int32_t layer : {0, 1}) {
        std::vector<float> one(8999);
        for (float& score : one) {
          const float value = static_cast<float>(random() % distinct) - 5;
          score = random() % 100 == 0 ? kNan : reference::RoundToBf16(value);
        }
        std::copy(one.begin(), one.end(), scores.At(layer, 0));
        expected.push_back(reference::Audit(one, session.List(0, 0, layer).blocks, g));
      }
      EXPECT_EQ(session.Audit({ScoredAt(8998)}, scores), expected);
    }
  }
}

}  // namespace
}  // namespace spin::kernels
