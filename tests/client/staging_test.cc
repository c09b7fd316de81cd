// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/staging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/ema.h"
#include "tests/client/session_fixture.h"

namespace spin {
namespace {

// Scores that the engine has in one type and the session stages in another.
class StagingTest : public SessionFixture,
                    public ::testing::WithParamInterface<std::pair<ElementType, ElementType>> {};

INSTANTIATE_TEST_SUITE_P(Types, StagingTest,
                         ::testing::Values(std::pair(ElementType::kFloat32, ElementType::kFloat32),
                                           std::pair(ElementType::kFloat32, ElementType::kBFloat16),
                                           std::pair(ElementType::kBFloat16, ElementType::kFloat32),
                                           std::pair(ElementType::kBFloat16,
                                                     ElementType::kBFloat16)));

TEST_P(StagingTest, AStepRunsAndCountsItsScores) {
  const auto [engine_type, staged_type] = GetParam();
  StartSpind();
  SessionOptions options = Options(Executor::kSidecar);
  options.staged_scores = staged_type;
  const auto session = Open(options);
  const Request request = session->OpenRequest("a", 2000);
  std::vector<float> wide(kMaxSlots, -0.5f);
  wide[3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<kernels::Bf16> narrow(kMaxSlots, kernels::FromFloat<kernels::Bf16>(-0.5f));
  narrow[3] = {0x7fff};
  const void* data =
      engine_type == ElementType::kFloat32 ? static_cast<const void*>(wide.data()) : narrow.data();
  for (int64_t position : {1000, 1001}) {
    Step step = session->BeginStep({{&request, position}});
    for (int layer = 0; layer < kLayers; ++layer) step.PutScores(layer, {data, engine_type});
    step.End();
  }
  Step step = session->BeginStep({{&request, 1002}});
  EXPECT_EQ(step.Kept(0, 0).reason, Reason::kNone);
}

}  // namespace
}  // namespace spin
