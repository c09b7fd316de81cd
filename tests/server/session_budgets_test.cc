// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_budgets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/session_fixture.h"

namespace spin::server {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Lets the session's slab say that rows were audited in which layer 0 needs many of its blocks and
// layer 1 few.
class SessionBudgetsTest : public SessionFixture {
 protected:
  void Audit(int rows, uint64_t missed_of_layer_0 = 0, int layers = 2) {
    for (int layer = 0; layer < layers; ++layer) {
      kernels::LayerAudits& audits = session_->region().view().audits[layer];
      kernels::LayerCounters& counters = session_->region().view().counters[layer];
      const uint64_t missed = layer == 0 ? missed_of_layer_0 : 0;
      audits.blocks += 200 * rows;
      audits.list_blocks += 100 * rows;
      audits.miss_rows[kernels::MissBucket(static_cast<int32_t>(missed), 64)] += rows;
      for (int i = 0; i < 64; ++i) {
        audits.rank_slots[layer == 0 ? 3 * i : i / 4] += rows;
      }
      counters.audited_rows += rows;
      counters.audit_topk_slots += 64 * rows;
      counters.audit_missed_slots += missed * rows;
    }
  }
  void Ask(v1::BudgetMode mode, double sparsity) {
    v1::Policy change;
    change.set_budget_mode(mode);
    change.set_sparsity(sparsity);
    session_->UpdatePolicy(change);
  }
  const Policy& policy() {
    in_force_ = session_->policy();
    return in_force_->policy;
  }

  std::shared_ptr<Session> session_ = MakeSession();
  std::shared_ptr<const PolicyInForce> in_force_;
};

TEST_F(SessionBudgetsTest, FixedBudgetsStayWhateverAuditsSay) {
  Audit(100, 60);
  session_->ReviewBudgets();
  EXPECT_EQ(session_->policy()->epoch, 1u);
  const v1::BudgetStats stats = session_->Stats().budget();
  EXPECT_EQ(stats.mode(), v1::BUDGET_MODE_FIXED);
  EXPECT_NEAR(stats.recent_miss(), 60.0 / 64 / 2, 1e-9);
  EXPECT_EQ(stats.changes(), 0u);
}

TEST_F(SessionBudgetsTest, AuditsThatNobodyNeedsAreReadWhenSomeoneAsks) {
  Audit(10, 60);
  session_->ReviewBudgets();
  Audit(10, 60);
  Ask(v1::BUDGET_MODE_CALIBRATED, 0.5);  // what was audited before counts no longer
  EXPECT_EQ(session_->Stats().budget().recent_miss(), 0);
  session_->ReviewBudgets();
  EXPECT_EQ(session_->policy()->epoch, 2u);
  Audit(10, 60);
  session_->ReviewBudgets();
  EXPECT_EQ(session_->policy()->epoch, 3u);
}

TEST_F(SessionBudgetsTest, CalibrationGivesTheLayerMoreThatNeedsMoreAndKeepsTheTotal) {
  Ask(v1::BUDGET_MODE_CALIBRATED, 0.5);
  Audit(10, 20);
  session_->ReviewBudgets();
  ASSERT_THAT(policy().layer_sparsity, SizeIs(2));
  EXPECT_LT(policy().layer_sparsity[0], 0.3);
  EXPECT_GT(policy().layer_sparsity[1], 0.7);
  EXPECT_NEAR(policy().sparsity, 0.5, 1e-9);
  EXPECT_EQ(session_->policy()->epoch, 3u);  // opened, asked, calibrated
  EXPECT_EQ(session_->policy()->kernels.sparsity[0], policy().layer_sparsity[0]);
  const v1::SessionStats stats = session_->Stats();
  EXPECT_EQ(stats.budget().changes(), 1u);
  EXPECT_THAT(stats.budget().reason(), HasSubstr("calibrated on 10 audits"));
  EXPECT_EQ(stats.layers(0).target_sparsity(), policy().layer_sparsity[0]);
  EXPECT_THAT(session_->Info().policy_reason(), HasSubstr("calibrated"));
}

TEST_F(SessionBudgetsTest, AJumpOfTheMissIsAnsweredWithMoreBlocksAndSaid) {
  Ask(v1::BUDGET_MODE_TARGET_MISS, 0.7);
  Audit(4, 20);
  session_->ReviewBudgets();
  EXPECT_LT(policy().sparsity, 0.65);
  const v1::BudgetStats stats = session_->Stats().budget();
  EXPECT_EQ(stats.fallbacks(), 1u);
  EXPECT_EQ(stats.target_miss(), 0.01);
  EXPECT_THAT(stats.reason(), HasSubstr("more blocks"));
}

TEST_F(SessionBudgetsTest, NothingNewChangesNothing) {
  Ask(v1::BUDGET_MODE_CALIBRATED, 0.5);
  Audit(10);
  session_->ReviewBudgets();
  const uint64_t epoch = session_->policy()->epoch;
  for (int i = 0; i < 100; ++i) session_->ReviewBudgets();
  EXPECT_EQ(session_->policy()->epoch, epoch);
}

TEST_F(SessionBudgetsTest, AStepHalfAuditedIsWaitedForButNotForever) {
  Ask(v1::BUDGET_MODE_CALIBRATED, 0.5);
  Audit(10, 20, /*layers=*/1);
  session_->ReviewBudgets();
  EXPECT_EQ(session_->Stats().budget().recent_miss(), 0);
  for (int i = 0; i < 20; ++i) session_->ReviewBudgets();
  EXPECT_GT(session_->Stats().budget().recent_miss(), 0);
}

TEST_F(SessionBudgetsTest, OtherSettingsLeaveLearntBudgetsAlone) {
  Ask(v1::BUDGET_MODE_CALIBRATED, 0.5);
  Audit(10);
  session_->ReviewBudgets();
  const std::vector<double> learnt = policy().layer_sparsity;
  v1::Policy change;
  change.set_audit_every(8);
  session_->UpdatePolicy(change);
  EXPECT_EQ(policy().layer_sparsity, learnt);
  EXPECT_EQ(session_->policy()->reason, "set by a call");
  Ask(v1::BUDGET_MODE_FIXED, 0.4);
  EXPECT_TRUE(policy().layer_sparsity.empty());
  EXPECT_THAT(std::vector<double>({policy().SparsityOf(0), policy().SparsityOf(1)}), Each(0.4));
}

TEST_F(SessionBudgetsTest, CountersThatAClientSpoilsDoNoHarm) {
  Ask(v1::BUDGET_MODE_TARGET_MISS, 0.7);
  Audit(4, 20);
  for (int layer = 0; layer < 2; ++layer) {
    kernels::LayerAudits& audits = session_->region().view().audits[layer];
    for (uint64_t& slots : audits.rank_slots) slots = ~uint64_t{0};
    audits.miss_rows[0] = uint64_t{1} << 57;
    session_->region().view().counters[layer].audit_missed_slots = uint64_t{1} << 57;
  }
  for (int i = 0; i < 30; ++i) session_->ReviewBudgets();
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_GE(session_->policy()->kernels.sparsity[layer], 0);
    EXPECT_LT(session_->policy()->kernels.sparsity[layer], 1);
  }
}

}  // namespace
}  // namespace spin::server
