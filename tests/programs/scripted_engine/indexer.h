// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

// A made-up indexer: scores that any process computes alike, mostly negative, with a few slots and
// a few distances that stay hot from step to step, as in recorded traces.
namespace spin::scripted {

// Scores to spoil on purpose: one slot in 97.
enum class Poison { kNone, kNan, kInf, kHuge };

class Indexer {
 public:
  Indexer(int block_slots, int topk, int tokens_per_slot)
      : block_slots_(block_slots), topk_(topk), tokens_per_slot_(tokens_per_slot) {}

  void set_poison(Poison poison) { poison_ = poison; }

  // Slots that the query at this token position sees.
  int64_t VisibleSlots(int64_t position) const { return (position + 1) / tokens_per_slot_; }
  int64_t BlocksAt(int64_t position) const {
    return (VisibleSlots(position) + block_slots_ - 1) / block_slots_;
  }

  // Scores the slots of `blocks` that the query sees into `out`, compacted. Returns how many there
  // are.
  int64_t ScoreBlocks(uint64_t request, int layer, int64_t position,
                      absl::Span<const int32_t> blocks, float* out) const;

  // Whether the top K of the kept blocks, at the scores given, are those of a full scan.
  bool TopSlotsAreThose(uint64_t request, int layer, int64_t position,
                        absl::Span<const int32_t> blocks, const float* scores) const;

 private:
  float Score(uint64_t request, int layer, int64_t position, int64_t slot) const;
  std::vector<int64_t> TopSlots(absl::Span<const int32_t> blocks, const float* scores,
                                int64_t count) const;

  const int block_slots_;
  const int topk_;
  const int tokens_per_slot_;
  Poison poison_ = Poison::kNone;
};

}  // namespace spin::scripted
