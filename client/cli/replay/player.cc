// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/player.h"

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

absl::StatusOr<PlayResult> Play(const trace::Scorer& scorer, const ReplayFlags& flags, int steps,
                                Session* session, const Request& request,
                                const std::function<void(int)>& progress) {
  Engine engine(&scorer, steps, flags.topk, flags.block);
  Judge judge(&scorer, steps, flags.topk, flags.block);
  PlayResult result;
  result.steps = steps;
  result.layers.resize(scorer.layers());
  for (int step = 0; step < steps; ++step) {
    if (absl::Status status = CheckInterrupt(); !status.ok()) return status;
    const StepTimes times = engine.Decode(session, request, step);
    if (step > 0) AddTimes(times, &result.mean);
    for (int layer = 0; layer < scorer.layers(); ++layer) {
      const Verdict verdict = judge.Check(layer, step, engine.output(layer));
      result.exact &= verdict.exact;
      if (step == 0) continue;  // cold: scans everything
      result.layers[layer].Add(verdict);
      result.mean_scan_seconds += verdict.scan_seconds;
    }
    progress(step + 1);
  }
  TakeMeans(&result);
  return result;
}

}  // namespace spin::cli
