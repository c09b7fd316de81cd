// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/client/session_fixture.h"
#include "tests/count_allocations.h"

namespace spin {
namespace {

using AllocationTest = SessionFixture;

// The decode loop of the inline executor, client and kernels together.
TEST_F(AllocationTest, AWarmStepAllocatesNothing) {
  StartSpind();
  const auto session = Open(Options());
  const Request a = session->OpenRequest("a", 9000);
  const Request b = session->OpenRequest("b", 9000);
  std::vector<float> scores(4 * kMaxSlots, -1.0f);
  const auto run = [&](int64_t position) {
    const StepRow rows[] = {{&a, position}, {&b, position - 500}};
    Step step = session->BeginStep(rows);
    for (int layer = 0; layer < kLayers; ++layer) {
      step.PutScores(layer, {scores.data(), ElementType::kFloat32, kMaxSlots});
    }
    step.End();
  };
  for (int64_t position = 4000; position < 4003; ++position) run(position);
  const int before = AllocationsOfThisThread();
  for (int64_t position = 4003; position < 4100; ++position) run(position);
  EXPECT_EQ(AllocationsOfThisThread(), before);
}

}  // namespace
}  // namespace spin
