// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <random>

#include "tests/client/session_fixture.h"

namespace spin {
namespace {

// Both executors, any number of times, with drafts, exploration and audits: the same lists, to the
// block.
class ExecutorsTest : public SessionFixture {
 protected:
  using Lists = std::vector<std::vector<std::vector<int32_t>>>;

  struct Run {
    std::vector<Lists> lists;
    std::vector<std::vector<Reason>> reasons;
  };

  Run Play(const SessionOptions& options, uint64_t seed) {
    const auto session = Open(options);
    ToyEngine engine = Engine();
    std::mt19937_64 random(seed);
    const Request a = session->OpenRequest("a", 6000);
    const Request b = session->OpenRequest("b", 6000);
    std::vector<StepRow> rows = {{&a, 4050, 1}, {&b, 2000, 1}};
    Run run;
    for (int step = 0; step < 60; ++step) {
      std::vector<int> accepted, next_n;
      for (const StepRow& row : rows) {
        accepted.push_back(1 + static_cast<int>(random() % row.next_n));
        next_n.push_back(1 + static_cast<int>(random() % max_next_n_));
      }
      run.lists.push_back(engine.RunStep(*session, rows, {.accepted = accepted, .next_n = next_n}));
      run.reasons.push_back(engine.reasons());
      for (size_t r = 0; r < rows.size(); ++r) {
        rows[r].position += accepted[r];
        rows[r].next_n = next_n[r];
      }
      if (random() % 4 == 0) std::swap(rows[0], rows[1]);  // engines re-sort their batch
    }
    return run;
  }

  void ExpectAgreement() {
    StartSpind();
    SessionOptions options = Options(Executor::kInline);
    options.policy.exploration = 0.1;
    options.policy.audit_every = 5;
    options.policy.seed = 99;
    const Run inline_run = Play(options, 3);
    const Run again = Play(options, 3);
    options.executor = Executor::kSidecar;
    const Run sidecar = Play(options, 3);
    EXPECT_EQ(inline_run.lists, again.lists);
    EXPECT_EQ(inline_run.lists, sidecar.lists);
    EXPECT_EQ(inline_run.reasons, sidecar.reasons);
    options.policy.seed = 100;
    EXPECT_NE(Play(options, 3).lists, sidecar.lists);
  }
};

TEST_F(ExecutorsTest, AgreeWithoutDrafts) { ExpectAgreement(); }

TEST_F(ExecutorsTest, AgreeWithDrafts) {
  max_next_n_ = 4;
  ExpectAgreement();
}

}  // namespace
}  // namespace spin
