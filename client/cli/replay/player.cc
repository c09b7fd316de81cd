// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/player.h"

#include <algorithm>

#include "client/cli/interrupt.h"
#include "client/cli/replay/judge.h"

namespace spin::cli {
namespace {

void AddTimes(const StepTimes& step, StepTimes* sum) {
  sum->spin += step.spin;
  sum->score += step.score;
  sum->topk += step.topk;
}

void Divide(double steps, StepTimes* sum) {
  sum->spin /= steps;
  sum->score /= steps;
  sum->topk /= steps;
}

// The mean over two sets of steps, from the mean over each.
StepTimes Join(double steps, const StepTimes& mean, double others, const StepTimes& of_others) {
  const auto join = [&](double one, double other) {
    return (steps * one + others * other) / (steps + others);
  };
  return {join(mean.spin, of_others.spin), join(mean.score, of_others.score),
          join(mean.topk, of_others.topk)};
}

}  // namespace

void PlayResult::Add(const PlayResult& other) {
  const double mine = steps - static_cast<double>(requests.size());
  const double theirs = other.steps - static_cast<double>(other.requests.size());
  mean = Join(mine, mean, theirs, other.mean);
  mean_full = Join(mine, mean_full, theirs, other.mean_full);
  layers.resize(std::max(layers.size(), other.layers.size()));
  for (size_t layer = 0; layer < other.layers.size(); ++layer) {
    layers[layer].Add(other.layers[layer]);
  }
  steps += other.steps;
  requests.insert(requests.end(), other.requests.begin(), other.requests.end());
  exact &= other.exact;
}

absl::StatusOr<PlayResult> Play(const trace::Scorer& scorer, const std::string& name,
                                const ReplayFlags& flags, int steps, Engine* engine,
                                const Request& request, const std::function<void(int)>& progress) {
  Judge judge(&scorer, steps, flags.topk, flags.block);
  PlayResult result;
  result.steps = steps;
  result.layers.resize(scorer.layers());
  for (int step = 0; step < steps; ++step) {
    if (absl::Status status = CheckInterrupt(); !status.ok()) return status;
    const absl::StatusOr<StepTimes> times = engine->Decode(request, step);
    if (!times.ok()) return times.status();
    if (step > 0) AddTimes(*times, &result.mean);
    for (int layer = 0; layer < scorer.layers(); ++layer) {
      const Verdict verdict = judge.Check(layer, step, engine->output(layer));
      result.exact &= verdict.exact;
      if (step == 0) continue;  // cold: scans everything
      result.layers[layer].Add(verdict);
      AddTimes(verdict.full, &result.mean_full);
    }
    progress(step + 1);
  }
  Divide(steps - 1, &result.mean);
  Divide(steps - 1, &result.mean_full);
  QualityMeter total;
  for (const QualityMeter& layer : result.layers) total.Add(layer);
  const Quality quality = total.Read();
  result.requests.push_back({name, quality.miss_mean, quality.realized_sparsity});
  return result;
}

}  // namespace spin::cli
