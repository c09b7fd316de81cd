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

void TakeMeans(PlayResult* result) {
  const double measured = result->steps - 1;
  result->mean.spin /= measured;
  result->mean.score /= measured;
  result->mean.topk /= measured;
  result->mean_scan_seconds /= measured;
}

}  // namespace

void PlayResult::Add(const PlayResult& other) {
  const double mine = steps - static_cast<double>(requests.size());
  const double theirs = other.steps - static_cast<double>(other.requests.size());
  const auto join = [&](double& mean_of_mine, double mean_of_theirs) {
    mean_of_mine = (mine * mean_of_mine + theirs * mean_of_theirs) / (mine + theirs);
  };
  join(mean.spin, other.mean.spin);
  join(mean.score, other.mean.score);
  join(mean.topk, other.mean.topk);
  join(mean_scan_seconds, other.mean_scan_seconds);
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
      result.mean_scan_seconds += verdict.scan_seconds;
    }
    progress(step + 1);
  }
  TakeMeans(&result);
  QualityMeter total;
  for (const QualityMeter& layer : result.layers) total.Add(layer);
  const Quality quality = total.Read();
  result.requests.push_back({name, quality.miss_mean, quality.realized_sparsity});
  return result;
}

}  // namespace spin::cli
