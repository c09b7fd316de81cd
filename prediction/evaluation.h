// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// All there is to measure on one trace: the tables of `spinctl eval`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prediction/draft_trial.h"
#include "prediction/heat_map.h"
#include "prediction/signal.h"
#include "prediction/tally.h"
#include "trace/trace.h"

namespace spin::prediction {

// What to measure beside the predictors; each is a walk, or several, through the trace.
struct Studies {
  bool signals = true;      // agreement of full-information signals
  bool pooling = true;      // A0, A1, A2
  bool exploration = true;  // shares drawn at random
  bool audits = true;       // steps that score everything
  bool decay = true;        // alpha
  bool drafts = true;       // multi-token prediction
};

struct EvaluationOptions {
  int topk = 0;  // K: 1 to kMaxTopk
  int block = 64;
  int steps = 0;  // the first so many; 0: all
  std::vector<double> sparsities = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8};
  // One budget for each layer: one more setting beside the uniform ones. Empty: none.
  std::vector<double> layer_sparsity;
  std::vector<double> explorations = {0, 0.02, 0.05, 0.1};
  std::vector<uint32_t> audits = {0, 128, 64, 32, 16};  // one step in so many; 0: none
  std::vector<double> decays = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  std::vector<double> draft_sparsities = {0.4, 0.6};
  std::vector<double> acceptances = {1, 0.7, 0};
  double exploration = 0;  // where it is not what is studied
  double decay = 0.5;
  bool pin_first_block = false;
  uint64_t seed = 0;
  double heat_map_sparsity = 0.6;
  bool heat_map = false;
  Studies studies;
  int threads = 1;
};

// One row of a table: a predictor, or Spin with one knob turned, at one target sparsity.
struct Measured {
  std::string name;   // of the predictor or pooling; empty for the knobs
  double knob = 0;    // exploration, audit_every or alpha
  double target = 0;  // sparsity; NaN: layer_sparsity
  MissSummary miss;
};

struct MeasuredDrafts {
  double target = 0;
  int drafts = 0;
  double acceptance = 0;
  double tokens_per_round = 0;
  MissSummary exact_union, shared, shared_first_row;  // draft_trial.h
};

struct MeasuredSignal {
  SignalKind kind;
  SignalSummary summary;
};

struct Evaluation {
  int steps = 0;
  int slots = 0;  // context of the last step
  std::vector<MeasuredSignal> signals;
  std::vector<Measured> predictors, pooling, exploration, audits, decay;
  std::vector<MeasuredDrafts> drafts;
  std::vector<HeatMapLayer> heat_map;  // [layers], if asked for
};

// Walks that Evaluate makes, for progress: each reports its steps.
int EvaluationWalks(const EvaluationOptions& options);

// `after_step` is called with the steps done, over all walks; another status than OK ends it.
// INVALID_ARGUMENT: the options do not fit the trace; the message names the option.
absl::StatusOr<Evaluation> Evaluate(const trace::Trace& trace, const EvaluationOptions& options,
                                    const std::function<absl::Status(int64_t)>& after_step);

}  // namespace spin::prediction
