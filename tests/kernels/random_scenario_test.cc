// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/scenario.h"

namespace spin::kernels {
namespace {

class RandomScenarioTest : public DeviceTest {
 protected:
  void Run(uint64_t first_seed, int scenarios, int steps,
           Scenario::Kind kind = Scenario::Kind::kAny) {
    for (uint64_t seed = first_seed; seed < first_seed + scenarios; ++seed) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed);
      Scenario scenario(device_, seed, kind);
      for (int step = 0; step < steps; ++step) {
        scenario.Step();
        if (HasFatalFailure()) return;
      }
    }
  }
};
SPIN_TEST_ON_EVERY_DEVICE(RandomScenarioTest);

TEST_P(RandomScenarioTest, ListsStateAuditsAndCountersEqualTheModelAtEveryStep) { Run(1, 300, 4); }

TEST_P(RandomScenarioTest, DecodingEqualsTheModelAtEveryStep) {
  Run(200001, 90, 12, Scenario::Kind::kDecode);
}

TEST_P(RandomScenarioTest, LongLivesEqualTheModelAtEveryStep) { Run(100001, 15, 30); }

}  // namespace
}  // namespace spin::kernels
