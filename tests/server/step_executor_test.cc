// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/step_executor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dataplane/timeline.h"
#include "kernels/word.h"
#include "server/refusal.h"
#include "tests/server/session_fixture.h"

namespace spin::server {
namespace {

// Steps of one session without gRPC: what each row may and may not do.
class StepExecutorTest : public SessionFixture {
 protected:
  static constexpr int64_t kPrompt = 1000;

  void SetUp() override {
    v1::Policy policy;
    policy.set_sparsity(0.5);
    policy.set_exploration(0);
    policy.set_audit_every(0);
    session_->UpdatePolicy(policy);
    request_ = *session_->requests().Open("a", 2000, nullptr);
  }

  // A row that was scored in full at `position` and goes on with the next.
  v1::StepRow FullRow(const Request& request, int64_t position) {
    v1::StepRow row;
    row.mutable_handle()->set_index(request.index());
    row.mutable_handle()->set_generation(request.generation());
    row.set_position(position);
    row.set_next_n(1);
    row.set_coverage(v1::COVERAGE_ALL);
    row.set_next_position(position + 1);
    row.set_next_next_n(1);
    return row;
  }

  v1::StepRowResult RunRow(const v1::StepRow& row) {
    v1::StepRequest step;
    *step.add_rows() = row;
    v1::StepResponse response;
    const absl::Status status = executor_->Step(*session_, step, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response.results(0);
  }

  v1::ErrorReason ErrorOf(const v1::StepRow& row) { return RunRow(row).error().reason(); }

  // Stages scores that depend on layer and slot.
  void Stage(int row, int draft, int64_t slots) {
    for (int layer = 0; layer < 2; ++layer) {
      auto* scores =
          reinterpret_cast<float*>(session_->runner().view().StagedRow(layer, row, draft));
      for (int64_t slot = 0; slot < slots; ++slot) {
        scores[slot] = std::sin(static_cast<float>(slot + 17 * layer + draft));
      }
    }
  }

  const kernels::ListHeader& Header(int buffer, int layer = 0) {
    return *session_->runner().view().lists.Header(buffer, request_->index(), layer);
  }
  uint64_t Scored() { return session_->Totals().layers[0].scored_slots; }

  std::shared_ptr<Session> session_ = MakeSession();
  std::shared_ptr<Request> request_;
  const std::unique_ptr<StepExecutor> executor_ =
      *StepExecutor::Create(device_.get(), absl::Milliseconds(1));
};

TEST_F(StepExecutorTest, AFirstStepMakesTheNextList) {
  Stage(0, 0, kPrompt);
  const v1::StepRowResult result = RunRow(FullRow(*request_, kPrompt - 1));
  EXPECT_FALSE(result.has_error());
  EXPECT_TRUE(result.observed());
  EXPECT_EQ(Header(1).stamp.position, kPrompt);
  EXPECT_EQ(Header(1).stamp.generation, request_->generation());
  EXPECT_EQ(Header(1).blocks, 16);
  EXPECT_EQ(Header(1).count, 8);
  EXPECT_EQ(Scored(), static_cast<uint64_t>(kPrompt));
}

TEST_F(StepExecutorTest, KeptRowsNeedTheListOfThatStepInThatBuffer) {
  RunRow(FullRow(*request_, kPrompt - 1));
  v1::StepRow row = FullRow(*request_, kPrompt);
  row.set_coverage(v1::COVERAGE_KEPT);
  row.set_buffer(0);
  EXPECT_EQ(ErrorOf(row), v1::ERROR_REASON_STALE_LIST);
  row.set_buffer(1);
  EXPECT_FALSE(RunRow(row).has_error());
  EXPECT_EQ(ErrorOf(row), v1::ERROR_REASON_POSITION);  // the same position twice
}

TEST_F(StepExecutorTest, AColdRequestHasNoList) {
  v1::StepRow row = FullRow(*request_, kPrompt);
  row.set_coverage(v1::COVERAGE_KEPT);
  EXPECT_EQ(ErrorOf(row), v1::ERROR_REASON_STALE_LIST);
}

TEST_F(StepExecutorTest, PositionsGoForwardWithoutGaps) {
  RunRow(FullRow(*request_, kPrompt));
  EXPECT_EQ(ErrorOf(FullRow(*request_, kPrompt - 1)), v1::ERROR_REASON_POSITION);
  v1::StepRow jump = FullRow(*request_, kPrompt + 5);
  const v1::StepRowResult refused = RunRow(jump);
  EXPECT_EQ(refused.error().reason(), v1::ERROR_REASON_POSITION);
  EXPECT_EQ(refused.error().field(), "rows[0].position");
  EXPECT_FALSE(refused.observed());
  jump.set_resync(true);
  EXPECT_TRUE(RunRow(jump).observed());
}

TEST_F(StepExecutorTest, ResyncDoesNotExcuseAPartialScan) {
  RunRow(FullRow(*request_, kPrompt));
  v1::StepRow jump = FullRow(*request_, kPrompt + 5);
  jump.set_resync(true);
  jump.set_coverage(v1::COVERAGE_KEPT);
  EXPECT_EQ(ErrorOf(jump), v1::ERROR_REASON_POSITION);
}

TEST_F(StepExecutorTest, TheNextPositionMustFollow) {
  v1::StepRow row = FullRow(*request_, kPrompt);
  row.set_next_position(kPrompt + 7);
  const v1::StepRowResult result = RunRow(row);
  EXPECT_TRUE(result.observed());
  EXPECT_EQ(result.error().field(), "rows[0].next_position");
}

TEST_F(StepExecutorTest, MoreContextThanStateIsRefusedAndGrowthCures) {
  v1::StepRow row = FullRow(*request_, 4095);
  const v1::StepRowResult result = RunRow(row);  // 4096 slots fit, the next one does not
  EXPECT_TRUE(result.observed());
  EXPECT_EQ(result.error().reason(), v1::ERROR_REASON_CAPACITY);
  EXPECT_EQ(ErrorOf(FullRow(*request_, 4096)), v1::ERROR_REASON_CAPACITY);
  ASSERT_TRUE(session_->requests().Grow(request_.get(), 5000).ok());
  EXPECT_FALSE(RunRow(FullRow(*request_, 4096)).has_error());
}

TEST_F(StepExecutorTest, RangesAreChecked) {
  const auto field_of = [this](auto spoil) {
    v1::StepRow row = FullRow(*request_, kPrompt);
    spoil(row);
    return RunRow(row).error().field();
  };
  EXPECT_EQ(field_of([](auto& r) { r.set_next_n(0); }), "rows[0].next_n");
  EXPECT_EQ(field_of([](auto& r) { r.set_next_n(4); }), "rows[0].next_n");
  EXPECT_EQ(field_of([](auto& r) { r.set_buffer(2); }), "rows[0].buffer");
  EXPECT_EQ(field_of([](auto& r) { r.set_coverage(v1::Coverage(9)); }), "rows[0].coverage");
  EXPECT_EQ(field_of([](auto& r) { r.set_accepted(2); }), "rows[0].accepted");
  EXPECT_EQ(field_of([](auto& r) { r.set_position(UINT64_MAX); }), "rows[0].position");
  EXPECT_EQ(field_of([](auto& r) { r.set_next_next_n(0); }), "rows[0].next_next_n");
  EXPECT_EQ(field_of([](auto& r) { r.mutable_handle()->set_index(77); }), "rows[0].handle");
}

TEST_F(StepExecutorTest, ABadRowDoesNotTouchTheOthers) {
  v1::StepRequest step;
  *step.add_rows() = FullRow(*request_, kPrompt);
  step.mutable_rows(0)->mutable_handle()->set_generation(99);
  *step.add_rows() = FullRow(*request_, kPrompt);
  *step.add_rows() = FullRow(*request_, kPrompt);  // twice
  v1::StepResponse response;
  ASSERT_TRUE(executor_->Step(*session_, step, &response).ok());
  EXPECT_EQ(response.results(0).error().reason(), v1::ERROR_REASON_UNKNOWN_REQUEST);
  EXPECT_FALSE(response.results(1).has_error());
  EXPECT_EQ(response.results(2).error().field(), "rows[2].handle");
}

TEST_F(StepExecutorTest, ARowWithoutScoresOnlyPredicts) {
  RunRow(FullRow(*request_, kPrompt));
  v1::StepRow row = FullRow(*request_, kPrompt + 1);
  row.set_coverage(v1::COVERAGE_UNSPECIFIED);
  row.set_next_position(kPrompt + 1);
  row.set_next_next_n(2);
  const v1::StepRowResult result = RunRow(row);
  EXPECT_FALSE(result.has_error());
  EXPECT_FALSE(result.observed());
  EXPECT_EQ(Header(1).stamp.next_n, 2u);
}

TEST_F(StepExecutorTest, DraftsWaitForTheVerdict) {
  Stage(0, 0, kPrompt + 1);
  Stage(0, 1, kPrompt + 2);
  Stage(0, 2, kPrompt + 3);
  v1::StepRow row = FullRow(*request_, kPrompt);
  row.set_next_n(3);
  EXPECT_TRUE(RunRow(row).observed());
  EXPECT_EQ(Scored(), 0u);
  EXPECT_EQ(Header(1).stamp.generation, 0u);  // nothing predicted yet

  v1::CommitDraftsRequest commit;
  v1::CommitRow& verdict = *commit.add_rows();
  *verdict.mutable_handle() = row.handle();
  verdict.set_position(kPrompt);
  verdict.set_accepted(2);
  verdict.set_next_position(kPrompt + 2);
  verdict.set_next_next_n(3);
  v1::CommitDraftsResponse response;
  ASSERT_TRUE(executor_->CommitDrafts(*session_, commit, &response).ok());
  EXPECT_FALSE(response.results(0).has_error()) << response.results(0).error().message();
  EXPECT_EQ(Scored(), static_cast<uint64_t>(kPrompt + 1 + kPrompt + 2));  // two of the three rows
  EXPECT_EQ(Header(1).stamp.position, kPrompt + 2);

  response.Clear();
  ASSERT_TRUE(executor_->CommitDrafts(*session_, commit, &response).ok());
  EXPECT_EQ(response.results(0).error().reason(),
            v1::ERROR_REASON_POSITION);  // nothing waits any more
}

TEST_F(StepExecutorTest, AVerdictGivenWithTheStepNeedsNoCommit) {
  v1::StepRow row = FullRow(*request_, kPrompt);
  row.set_next_n(3);
  row.set_accepted(2);
  row.set_next_position(kPrompt + 2);
  EXPECT_FALSE(RunRow(row).has_error());
  EXPECT_EQ(Header(1).stamp.position, kPrompt + 2);
}

TEST_F(StepExecutorTest, AnAuditStepComparesTheFullScanWithTheList) {
  v1::Policy policy;
  policy.set_audit_every(1);
  session_->UpdatePolicy(policy);
  Stage(0, 0, kPrompt + 1);
  const v1::StepRowResult first = RunRow(FullRow(*request_, kPrompt));
  EXPECT_TRUE(first.audit());
  EXPECT_EQ(session_->Totals().layers[0].audit_topk_slots, 0u);
  v1::StepRow audited = FullRow(*request_, kPrompt + 1);
  audited.set_buffer(1);
  RunRow(audited);
  EXPECT_EQ(session_->Totals().layers[0].audit_topk_slots, 64u);
  EXPECT_EQ(session_->Totals().layers[0].audited_rows, 1u);
}

TEST_F(StepExecutorTest, AnEngineWordThatNeverComesEndsTheWaitAndObservesNothing) {
  v1::StepRequest step;
  *step.add_rows() = FullRow(*request_, kPrompt);
  step.set_wait_timeline(5);
  v1::StepResponse response;
  EXPECT_EQ(executor_->Step(*session_, step, &response).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Scored(), 0u);
  kernels::Raise(session_->runner().view().timeline->engine_done, 5);
  step.set_done_timeline(9);
  EXPECT_TRUE(executor_->Step(*session_, step, &response).ok());
  EXPECT_TRUE(kernels::Reached(session_->runner().view().timeline->spin_done, 9));
}

// The engine went on without waiting for the step before, and so left the staging area alone.
TEST_F(StepExecutorTest, AStepThatTheEngineSkippedDidNotHappen) {
  Stage(0, 0, kPrompt + 1);
  RunRow(FullRow(*request_, kPrompt - 1));
  const uint64_t scored = Scored();
  const kernels::ListStamp stamp = Header(1).stamp;
  dataplane::Timeline& timeline = *session_->runner().view().timeline;
  kernels::Raise(timeline.engine_skipped, 5);
  kernels::Raise(timeline.engine_done, 5);
  v1::StepRequest step;
  *step.add_rows() = FullRow(*request_, kPrompt);
  step.mutable_rows(0)->set_buffer(1);
  step.set_wait_timeline(5);
  step.set_done_timeline(5);
  v1::StepResponse response;
  EXPECT_EQ(executor_->Step(*session_, step, &response).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Scored(), scored);
  EXPECT_TRUE(kernels::Reached(timeline.spin_done, 5));  // the engine need not wait for it
  EXPECT_TRUE(kernels::SameStamp(Header(1).stamp, stamp));
  EXPECT_NE(Header(0).stamp.position, kPrompt + 1);

  step.set_wait_timeline(6);
  kernels::Raise(timeline.engine_done, 6);
  step.mutable_rows(0)->set_coverage(v1::COVERAGE_KEPT);  // the list is still good
  response.Clear();
  ASSERT_TRUE(executor_->Step(*session_, step, &response).ok());
  EXPECT_TRUE(response.results(0).observed());
}

TEST_F(StepExecutorTest, AClosedSessionsStepIsAborted) {
  session_->End(absl::OkStatus());
  v1::StepRequest step;
  *step.add_rows() = FullRow(*request_, kPrompt);
  v1::StepResponse response;
  const absl::Status status = executor_->Step(*session_, step, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_CLOSED);
}

}  // namespace
}  // namespace spin::server
