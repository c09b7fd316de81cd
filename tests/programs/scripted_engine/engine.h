// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "spin/recorder.h"
#include "spin/session.h"
#include "tests/programs/scripted_engine/flags.h"
#include "tests/programs/scripted_engine/indexer.h"

// A decode loop over a spin::Session that checks, in every step, what Spin's answer did to the top
// K.
namespace spin::scripted {

// What one step did; vectors have an element for each open request, in the order of opening.
struct StepReport {
  std::vector<Reason> reasons;
  std::vector<int64_t> kept;        // blocks scored, over all layers
  std::vector<int64_t> considered;  // blocks of the contexts, over all layers
  std::vector<bool> equal;          // the top K are those of a full scan, in every layer
  uint64_t lists = 0;               // hash of all lists
  double seconds = 0;               // spent in the library
};

class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Flags& flags);

  Session& session() { return *session_; }
  Indexer& indexer() { return indexer_; }

  // Null if there is no such sequence.
  struct Sequence {
    std::string key;
    Request request;
    int64_t position;  // of the newest token
  };
  Sequence* Find(const std::string& key);

  Sequence& Open(const std::string& key, int64_t slots, int64_t position);
  Sequence& Fork(const Sequence& parent, const std::string& key, int64_t slots);
  void Close(const std::string& key);

  // One decode step of all sequences; each moves on by the tokens that were accepted.
  StepReport Run();

  // A step up to its last call: its scores are handed over, End() is the caller's.
  Step RunUpToEnd(StepReport* report);

 private:
  Engine(const Flags& flags, std::unique_ptr<Session> session);

  size_t RowOf(size_t sequence) const;
  std::vector<StepRow> Rows() const;
  int Accepted(const Sequence& sequence) const;
  void ScoreLayer(int layer, const Step& step, StepReport* report);
  void ScoreRow(int layer, size_t index, const KeptBlocks& kept, StepReport* report);
  void Record();
  void Advance(Step& step);

  const Flags flags_;
  const std::unique_ptr<Session> session_;
  Indexer indexer_;
  Recorder recorder_;
  std::string recorded_;  // key of the sequence that is being recorded
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<float> scores_;  // [rows][max_next_n][max_slots] of one layer
  uint64_t step_number_ = 0;
};

}  // namespace spin::scripted
