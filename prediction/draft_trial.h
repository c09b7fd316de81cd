// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Spin with draft tokens (multi-token prediction): one list of blocks serves all verifier rows of a
// request, and only rows whose token was accepted enter the averages.
//
// A trace holds the queries of the tokens that were really decoded. They stand in for those of
// rejected drafts, too: what a round scores is that of a recorded token, whatever the verdict.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/geometry.h"
#include "kernels/policy.h"
#include "prediction/block_choice.h"
#include "prediction/spin_state.h"
#include "prediction/tally.h"
#include "prediction/walk.h"

namespace spin::prediction {

enum class DraftList {
  kUnion,   // of the rows' own lists, m blocks each: exact, and of varying length
  kShared,  // one list by the maximum over the rows, of m + d ceil(B / 256) blocks, as spind has it
};

enum class DraftUpdate {
  kReplay,    // wait for the verdict, then the accepted rows in order, as spind does it
  kFirstRow,  // the first row alone, which needs no verdict
};

struct DraftOptions {
  kernels::Geometry geometry;  // layers: those of the trace
  int64_t max_slots;
  kernels::Policy policy;
  int drafts = 1;         // d: 1 to kMaxNextN - 1; next_n = d + 1
  double acceptance = 1;  // probability that a draft is accepted if those before it were
  DraftList list = DraftList::kShared;
  DraftUpdate update = DraftUpdate::kReplay;
};

// Needs a walk whose history is at least drafts + 1 steps.
class DraftTrial : public LayerVisitor {
 public:
  explicit DraftTrial(const DraftOptions& options);

  void Visit(const LayerStep& at) override;

  // Misses of accepted rows; blocks of whole rounds.
  MissSummary Read() const { return Summarize(tallies_); }

  // Tokens a round.
  double MeanAccepted() const;

 private:
  struct Layer {
    SpinState state;
    int next = 1;  // step of the next round's first row
    int rounds = 0;
    std::vector<float> worth;
    std::vector<int32_t> kept;  // of the round, ascending
  };
  void Choose(int layer, int64_t position);
  void ChooseUnion(int layer, int64_t position);
  int Accepted(int64_t position) const;
  void Judge(const LayerStep& at, int first, int accepted);
  void Observe(const LayerStep& at, int first, int accepted);

  DraftOptions options_;
  BlockChoice choice_;
  std::vector<int32_t> all_blocks_;
  std::vector<Layer> layers_;
  std::vector<LayerTally> tallies_;
};

}  // namespace spin::prediction
