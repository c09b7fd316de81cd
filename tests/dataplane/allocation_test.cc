// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>

#include "dataplane/step_runner.h"
#include "tests/count_allocations.h"
#include "tests/dataplane/tiny_session.h"

namespace spin::dataplane {
namespace {

using kernels::Coverage;

TEST(AllocationTest, AllocationsAreCounted) {
  const int before = AllocationsOfAllThreads();
  int* volatile kept = new int;  // or the compiler leaves both out
  delete kept;
  EXPECT_EQ(AllocationsOfAllThreads(), before + 1);
}

TEST(AllocationTest, DecodeStepAllocatesNothing) {
  TinySession session;
  StepRunner runner = session.Runner(session.device());
  const kernels::ScoreView staged = session.view().staged_scores();
  const kernels::Policy policy = HalfSparsity();
  const std::array<kernels::Row, 2> first = {RowAt(319, 0), RowAt(300, 1)};
  const std::array<kernels::Row, 2> next = {RowAt(320, 0), RowAt(301, 1)};
  const std::array<kernels::ScoredRow, 2> rows = {ScoredAt(319, Coverage::kAll, 0),
                                                  ScoredAt(300, Coverage::kKept, 1)};
  ASSERT_TRUE(runner.Predict(first, policy, runner.all_layers(), {}).ok());

  const int before = AllocationsOfAllThreads();
  const absl::Status audited = runner.Audit(rows, staged, runner.all_layers(), {});
  const absl::Status observed = runner.Observe(rows, staged, runner.all_layers(), 0.5, {});
  const absl::Status predicted = runner.Predict(next, policy, runner.all_layers(), {});
  EXPECT_EQ(AllocationsOfAllThreads(), before);

  EXPECT_TRUE(audited.ok() && observed.ok() && predicted.ok());
  EXPECT_EQ(session.view().counters[0].audited_rows, 1);      // so all of it
  EXPECT_EQ(session.view().counters[0].predicted_blocks, 9);  // did run
}

}  // namespace
}  // namespace spin::dataplane
