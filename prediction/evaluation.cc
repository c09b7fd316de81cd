// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/evaluation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "prediction/predictor.h"
#include "prediction/trial.h"

namespace spin::prediction {
namespace {

constexpr int kHistory = 2;  // of a walk without drafts
constexpr const char* kSpin = "spin";

// One trial of a table, until it is read.
struct Entry {
  Measured measured;
  std::unique_ptr<Trial> trial;
};

class Evaluator {
 public:
  Evaluator(const trace::Trace& trace, const EvaluationOptions& options,
            const std::function<absl::Status(int64_t)>& after_step)
      : options_(options), after_step_(after_step), scorer_(trace), means_(trace) {
    evaluation_.steps = options.steps == 0 ? trace.steps : options.steps;
    evaluation_.slots = trace.Context(evaluation_.steps - 1);
    geometry_ = {trace.layers, options.block, options.topk, 1, kernels::Dtype::kF32};
  }

  absl::StatusOr<Evaluation> Run() {
    absl::Status status = Compare(Predictors(), &evaluation_.predictors);
    const Studies& studies = options_.studies;
    if (status.ok() && studies.pooling) status = Compare(Poolings(), &evaluation_.pooling);
    if (status.ok() && studies.exploration) {
      status = Turn(&kernels::Policy::exploration, options_.explorations, &evaluation_.exploration);
    }
    if (status.ok() && studies.audits) {
      status = Turn(&kernels::Policy::audit_every, options_.audits, &evaluation_.audits);
    }
    if (status.ok() && studies.decay) {
      status = Turn(&kernels::Policy::decay, options_.decays, &evaluation_.decay);
    }
    for (int drafts = 1; status.ok() && studies.drafts && drafts < kernels::kMaxNextN; ++drafts) {
      status = Draft(drafts);
    }
    if (!status.ok()) return status;
    return std::move(evaluation_);
  }

 private:
  static constexpr double kPerLayer = std::numeric_limits<double>::quiet_NaN();

  kernels::Policy PolicyAt(double sparsity) const {
    kernels::Policy policy = {};
    if (std::isnan(sparsity)) {
      std::copy(options_.layer_sparsity.begin(), options_.layer_sparsity.end(), policy.sparsity);
    } else {
      std::fill(std::begin(policy.sparsity), std::end(policy.sparsity), sparsity);
    }
    policy.exploration = options_.exploration;
    policy.decay = options_.decay;
    policy.seed = options_.seed;
    policy.pin_first_block = options_.pin_first_block;
    return policy;
  }

  std::unique_ptr<Trial> MakeTrial(MakePredictor make, const kernels::Policy& policy) const {
    return std::make_unique<Trial>(make, TrialOptions{geometry_, evaluation_.slots, policy});
  }

  absl::Status WalkWith(const std::vector<LayerVisitor*>& visitors, const SubBlockMeans* means,
                        int history) {
    WalkOptions walk = {history, options_.threads, nullptr};
    if (after_step_) walk.after_step = [this](int) { return after_step_(++steps_done_); };
    return Walk({&scorer_, means, evaluation_.steps, options_.topk, options_.block}, visitors,
                walk);
  }

  // Walks with the trials of a table, reads them and files them in the table.
  absl::Status WalkTable(std::vector<Entry> entries, std::vector<LayerVisitor*> others,
                         std::vector<Measured>* table) {
    std::vector<LayerVisitor*> visitors;
    for (const Entry& entry : entries) visitors.push_back(entry.trial.get());
    visitors.insert(visitors.end(), others.begin(), others.end());
    if (absl::Status status = WalkWith(visitors, &means_, kHistory); !status.ok()) return status;
    for (Entry& entry : entries) {
      entry.measured.miss = entry.trial->Read();
      table->push_back(std::move(entry.measured));
    }
    return absl::OkStatus();
  }

  // The main table also brings signals and heat map, which need no walk of their own.
  absl::Status Compare(absl::Span<const NamedPredictor> predictors, std::vector<Measured>* table) {
    std::vector<double> targets = options_.sparsities;
    if (!options_.layer_sparsity.empty()) targets.push_back(kPerLayer);
    std::vector<Entry> entries;
    for (const double target : targets) {
      for (const NamedPredictor& predictor : predictors) {
        entries.push_back(
            {{predictor.name, 0, target, {}}, MakeTrial(predictor.make, PolicyAt(target))});
      }
    }
    if (table != &evaluation_.predictors) return WalkTable(std::move(entries), {}, table);
    std::vector<LayerVisitor*> others;
    std::unique_ptr<SignalMeter> signals;
    if (options_.studies.signals) {
      signals = std::make_unique<SignalMeter>(geometry_, evaluation_.slots, options_.decay,
                                              options_.seed);
      others.push_back(signals.get());
    }
    std::unique_ptr<Trial> drawn;
    std::unique_ptr<HeatMap> heat_map;
    if (options_.heat_map) {
      drawn = MakeTrial(FindPredictor(kSpin)->make, PolicyAt(options_.heat_map_sparsity));
      heat_map = std::make_unique<HeatMap>(*drawn, geometry_.layers, evaluation_.steps,
                                           evaluation_.slots, options_.block);
      others.insert(others.end(), {drawn.get(), heat_map.get()});
    }
    absl::Status status = WalkTable(std::move(entries), others, table);
    for (int kind = 0; signals != nullptr && kind < kSignalKinds; ++kind) {
      const auto signal = static_cast<SignalKind>(kind);
      evaluation_.signals.push_back({signal, signals->Read(signal)});
    }
    if (heat_map != nullptr) evaluation_.heat_map = heat_map->Take();
    return status;
  }

  // Spin with one knob of the policy turned.
  template <typename Value>
  absl::Status Turn(Value kernels::Policy::*knob, const std::vector<Value>& values,
                    std::vector<Measured>* table) {
    std::vector<Entry> entries;
    for (const double target : options_.sparsities) {
      for (const Value value : values) {
        kernels::Policy policy = PolicyAt(target);
        policy.*knob = value;
        entries.push_back({{"", static_cast<double>(value), target, {}},
                           MakeTrial(FindPredictor(kSpin)->make, policy)});
      }
    }
    return WalkTable(std::move(entries), {}, table);
  }

  absl::Status Draft(int drafts) {
    struct Round {
      MeasuredDrafts measured;
      DraftTrial exact_union, shared, shared_first_row;
    };
    std::vector<std::unique_ptr<Round>> rounds;
    std::vector<LayerVisitor*> visitors;
    for (const double target : options_.draft_sparsities) {
      for (const double acceptance : options_.acceptances) {
        const auto with = [&](DraftList list, DraftUpdate update) {
          return DraftTrial(
              {geometry_, evaluation_.slots, PolicyAt(target), drafts, acceptance, list, update});
        };
        rounds.push_back(
            std::make_unique<Round>(Round{{target, drafts, acceptance, 0, {}, {}, {}},
                                          with(DraftList::kUnion, DraftUpdate::kReplay),
                                          with(DraftList::kShared, DraftUpdate::kReplay),
                                          with(DraftList::kShared, DraftUpdate::kFirstRow)}));
        Round& round = *rounds.back();
        visitors.insert(visitors.end(),
                        {&round.exact_union, &round.shared, &round.shared_first_row});
      }
    }
    if (absl::Status status = WalkWith(visitors, nullptr, drafts + 1); !status.ok()) return status;
    for (const auto& round : rounds) {
      MeasuredDrafts& measured = round->measured;
      measured.tokens_per_round = round->shared.MeanAccepted();
      measured.exact_union = round->exact_union.Read();
      measured.shared = round->shared.Read();
      measured.shared_first_row = round->shared_first_row.Read();
      evaluation_.drafts.push_back(std::move(measured));
    }
    return absl::OkStatus();
  }

  const EvaluationOptions& options_;
  const std::function<absl::Status(int64_t)>& after_step_;
  const trace::Scorer scorer_;
  const SubBlockMeans means_;
  kernels::Geometry geometry_;
  int64_t steps_done_ = 0;
  Evaluation evaluation_;
};

absl::Status CheckOptions(const trace::Trace& trace, const EvaluationOptions& options) {
  const int steps = options.steps == 0 ? trace.steps : options.steps;
  const auto invalid = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (steps > trace.steps) return invalid("steps: ", steps, ", but the trace has ", trace.steps);
  if (steps < 2) {
    return invalid(
        "steps: 1 is too few; the first step scans everything, so there is nothing to "
        "measure before the second");
  }
  if (trace.layers > kernels::kMaxLayers) {
    return invalid("layers: ", trace.layers, " are more than Spin takes, ", kernels::kMaxLayers);
  }
  if (trace.Context(steps - 1) > kernels::kMaxSlots) {
    return invalid("slots: a context of ", trace.Context(steps - 1), " is longer than Spin takes, ",
                   kernels::kMaxSlots);
  }
  if (!options.layer_sparsity.empty() &&
      options.layer_sparsity.size() != static_cast<size_t>(trace.layers)) {
    return invalid("layer sparsity: ", options.layer_sparsity.size(), " values for ", trace.layers,
                   " layers; give one for each");
  }
  return absl::OkStatus();
}

}  // namespace

int EvaluationWalks(const EvaluationOptions& options) {
  const Studies& studies = options.studies;
  return 1 + studies.pooling + studies.exploration + studies.audits + studies.decay +
         (studies.drafts ? kernels::kMaxNextN - 1 : 0);
}

absl::StatusOr<Evaluation> Evaluate(const trace::Trace& trace, const EvaluationOptions& options,
                                    const std::function<absl::Status(int64_t)>& after_step) {
  if (absl::Status status = CheckOptions(trace, options); !status.ok()) return status;
  return Evaluator(trace, options, after_step).Run();
}

}  // namespace spin::prediction
