// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "calibration/budget_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace spin::calibration {
namespace {

using kernels::kRankBins;
using ::testing::HasSubstr;

constexpr int kTopk = 256;

// Layers whose true top-K slots thin out exponentially with the rank: what a model might be, known
// exactly. Audits are drawn from it; in each, all layers are harder or easier at once.
class Model {
 public:
  Model(std::vector<double> steepness, uint64_t seed)
      : steepness_(std::move(steepness)), random_(seed) {}

  void Become(std::vector<double> steepness) { steepness_ = std::move(steepness); }

  std::vector<LayerSample> Audit(const std::vector<double>& sparsity) {
    std::vector<LayerSample> samples(steepness_.size());
    const double mood = std::exp(0.3 * std::normal_distribution<double>()(random_));
    for (size_t layer = 0; layer < samples.size(); ++layer) {
      std::exponential_distribution<double> rank(steepness_[layer] * mood);
      for (int i = 0; i < kTopk; ++i) {
        const double share = std::min(rank(random_), 1 - 1e-9);
        ++samples[layer].rank_slots[static_cast<size_t>(share * kRankBins)];
        samples[layer].missed_slots += share >= 1 - sparsity[layer] ? 1 : 0;
      }
      samples[layer].topk_slots = kTopk;
      samples[layer].blocks = 500;
    }
    return samples;
  }

  // Of very many audits, at these budgets.
  double Miss(const std::vector<double>& sparsity) const {
    double sum = 0;
    for (size_t layer = 0; layer < sparsity.size(); ++layer) {
      for (int i = -30; i <= 30; ++i) {  // over the moods
        const double weight = std::exp(-i * i / 200.0);
        const double steepness = steepness_[layer] * std::exp(0.03 * i);
        sum += weight * std::exp(-steepness * (1 - sparsity[layer]));
      }
    }
    double weights = 0;
    for (int i = -30; i <= 30; ++i) weights += std::exp(-i * i / 200.0);
    return sum / weights / static_cast<double>(sparsity.size());
  }

 private:
  std::vector<double> steepness_;
  std::mt19937_64 random_;
};

const std::vector<double> kMixed = {6, 9, 12, 14, 18, 24, 40, 80};
const std::vector<double> kHarder = {5, 7, 8, 9, 10, 11, 12, 13};

BudgetOptions Holding(double target) {
  return {.goal = BudgetGoal::kTargetMiss, .target_miss = target, .topk_blocks = 10};
}

TEST(BudgetControllerTest, CalibrationNearsTheBestBudgetsAndIsNeverMuchWorseThanUniform) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Model model(kMixed, seed);
    const std::vector<double> uniform(8, 0.6);
    BudgetController controller(uniform, {.topk_blocks = 10});
    for (int audit = 0; audit < 200; ++audit) {
      controller.Take(model.Audit(controller.sparsity()), 1);
      EXPECT_NEAR(controller.total_sparsity(), 0.6, 1e-9);
      EXPECT_LT(model.Miss(controller.sparsity()), 1.1 * model.Miss(uniform)) << seed;
    }
    std::vector<MissCurve> exact(8);
    for (int i = 0; i < 2000; ++i) {
      const std::vector<LayerSample> samples = model.Audit(uniform);
      for (size_t layer = 0; layer < 8; ++layer) exact[layer].Add(samples[layer].rank_slots);
    }
    const auto best = AllocateAtSparsity(exact, 0.6, {.min_keep = 0.02});
    ASSERT_TRUE(best.ok());
    EXPECT_LT(model.Miss(controller.sparsity()), 1.1 * model.Miss(best->sparsity)) << seed;
    EXPECT_LT(model.Miss(controller.sparsity()), 0.8 * model.Miss(uniform)) << seed;
  }
}

// Contexts of hardly more than K slots keep most blocks under any budgets.
TEST(BudgetControllerTest, ShortContextsDoNotLowerTheTotalForTheLongOnesAfterThem) {
  BudgetController controller({0.6, 0.6, 0.6, 0.6}, {.exploration = 0.05, .topk_blocks = 4});
  Model model({4, 8, 16, 32}, 3);
  for (int audit = 0; audit < 60; ++audit) {
    std::vector<LayerSample> samples = model.Audit(controller.sparsity());
    for (LayerSample& sample : samples) sample.blocks = audit < 30 ? 5 : 500;
    (void)controller.Take(samples, 1);
    EXPECT_NEAR(controller.total_sparsity(), 0.6, 0.01) << audit;
  }
  EXPECT_GT(controller.sparsity()[3], controller.sparsity()[0] + 0.05);
}

TEST(BudgetControllerTest, WhatMissesNothingIsLeftAlone) {
  BudgetController controller({0.6, 0.6}, {.exploration = 0.05, .topk_blocks = 4});
  std::vector<LayerSample> samples(2);
  for (LayerSample& sample : samples) {
    sample.topk_slots = sample.rank_slots[0] = kTopk;
    sample.blocks = 500;
  }
  for (int audit = 0; audit < 100; ++audit) {
    EXPECT_FALSE(controller.Take(samples, 1).has_value()) << audit;
  }
}

TEST(BudgetControllerTest, HoldsTheTargetAboveTheBestUniformTotal) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Model model(kMixed, seed);
    BudgetController controller(std::vector<double>(8, 0.4), Holding(0.01));
    double miss = 0, total = 0;
    int changes = 0, fallbacks = 0;
    for (int audit = 0; audit < 400; ++audit) {
      const auto decision = controller.Take(model.Audit(controller.sparsity()), 1);
      if (audit < 100) continue;
      miss += model.Miss(controller.sparsity()) / 300;
      total += controller.total_sparsity() / 300;
      changes += decision.has_value() ? 1 : 0;
      fallbacks += decision.has_value() && decision->fallback ? 1 : 0;
    }
    EXPECT_GT(miss, 0.006) << seed;
    EXPECT_LT(miss, 0.012) << seed;
    EXPECT_GT(
        total, 0.04 +
                   [&] {
                     double uniform = 0;
                     while (model.Miss(std::vector<double>(8, uniform)) < miss) uniform += 0.001;
                     return uniform;
                   }())
        << seed;
    EXPECT_LT(changes, 20) << seed;  // in 300 audits: it has settled
    EXPECT_LE(fallbacks, 1) << seed;
  }
}

TEST(BudgetControllerTest, FallsBackAtOnceWhenMissesJumpAndRecovers) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Model model(kMixed, seed);
    BudgetController controller(std::vector<double>(8, 0.4), Holding(0.01));
    for (int audit = 0; audit < 200; ++audit) {
      controller.Take(model.Audit(controller.sparsity()), 1);
    }
    const double before = controller.total_sparsity();
    model.Become(kHarder);
    ASSERT_GT(model.Miss(controller.sparsity()), 0.03);
    int audits_to_fall = 0;
    bool fallback = false;
    while (!fallback && audits_to_fall < 50) {
      const auto decision = controller.Take(model.Audit(controller.sparsity()), 1);
      fallback = decision.has_value() && decision->fallback;
      ++audits_to_fall;
    }
    EXPECT_LE(audits_to_fall, 16) << seed;
    EXPECT_LT(controller.total_sparsity(), before - 0.1) << seed;
    double miss = 0;
    for (int audit = 0; audit < 200; ++audit) {
      controller.Take(model.Audit(controller.sparsity()), 1);
      if (audit >= 50) miss += model.Miss(controller.sparsity()) / 150;
    }
    EXPECT_GT(miss, 0.005) << seed;
    EXPECT_LT(miss, 0.012) << seed;
  }
}

TEST(BudgetControllerTest, StaysWithinItsBounds) {
  for (const auto& [low, high] : {std::pair(0.3, 0.5), std::pair(0.7, 0.8)}) {
    Model model(kMixed, 7);
    BudgetOptions options = Holding(0.01);
    options.min_sparsity = low;
    options.max_sparsity = high;
    BudgetController controller(std::vector<double>(8, 0.4), options);
    for (int audit = 0; audit < 200; ++audit) {
      controller.Take(model.Audit(controller.sparsity()), 1);
      if (audit > 100) {
        EXPECT_GE(controller.total_sparsity(), low - 1e-9);
        EXPECT_LE(controller.total_sparsity(), high + 1e-9);
      }
    }
    EXPECT_NEAR(controller.total_sparsity(), high == 0.5 ? high : low, 0.011);
  }
}

TEST(BudgetControllerTest, AuditsThatComeInBunchesCountAlike) {
  Model model(kMixed, 3);
  BudgetController controller(std::vector<double>(8, 0.4), Holding(0.01));
  for (int bunch = 0; bunch < 60; ++bunch) {
    std::vector<LayerSample> sum(8);
    for (int i = 0; i < 7; ++i) {
      const std::vector<LayerSample> one = model.Audit(controller.sparsity());
      for (size_t layer = 0; layer < 8; ++layer) {
        sum[layer].topk_slots += one[layer].topk_slots;
        sum[layer].missed_slots += one[layer].missed_slots;
        sum[layer].blocks += one[layer].blocks;
        for (int bin = 0; bin < kRankBins; ++bin) {
          sum[layer].rank_slots[bin] += one[layer].rank_slots[bin];
        }
      }
    }
    controller.Take(sum, 7);
  }
  EXPECT_EQ(controller.audited_rows(), 420u);
  EXPECT_GT(model.Miss(controller.sparsity()), 0.005);
  EXPECT_LT(model.Miss(controller.sparsity()), 0.013);
}

TEST(BudgetControllerTest, ReasonsSayWhatWasSeen) {
  Model model(kMixed, 5);
  BudgetController controller(std::vector<double>(8, 0.9), Holding(0.01));
  std::optional<BudgetDecision> decision;
  while (!decision.has_value()) decision = controller.Take(model.Audit(controller.sparsity()), 1);
  EXPECT_TRUE(decision->fallback);
  EXPECT_THAT(decision->reason, HasSubstr("target is 1.000 %"));
  EXPECT_EQ(decision->sparsity, controller.sparsity());
}

TEST(BudgetControllerTest, WhatIsNoAuditChangesNothing) {
  BudgetController controller(std::vector<double>(2, 0.5), Holding(0.01));
  EXPECT_FALSE(controller.Take({}, 0).has_value());
  EXPECT_FALSE(controller.Take(std::vector<LayerSample>(3), 5).has_value());
  EXPECT_EQ(controller.audited_rows(), 0u);
  EXPECT_EQ(controller.recent_miss(), 0);
  EXPECT_EQ(controller.expected_miss(), 0);
}

}  // namespace
}  // namespace spin::calibration
