// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/programs/scripted_engine/engine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/time/clock.h"
#include "tests/programs/scripted_engine/toy_keys.h"

namespace spin::scripted {
namespace {

constexpr uint64_t kFnvBasis = 0xcbf29ce484222325;
constexpr uint64_t kFnvPrime = 0x100000001b3;

void Hash(uint64_t value, uint64_t* hash) { *hash = (*hash ^ value) * kFnvPrime; }

uint64_t HashOf(const std::string& text) {
  uint64_t hash = kFnvBasis;
  for (const char c : text) Hash(static_cast<unsigned char>(c), &hash);
  return hash;
}

// Adds the time that a call takes.
template <typename Call>
void Timed(double* seconds, Call call) {
  const absl::Time start = absl::Now();
  call();
  *seconds += absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const Flags& flags) {
  auto session = Session::Create(flags.session);
  if (!session.ok()) return session.status();
  return std::unique_ptr<Engine>(new Engine(flags, *std::move(session)));
}

Engine::Engine(const Flags& flags, std::unique_ptr<Session> session)
    : flags_(flags),
      session_(std::move(session)),
      indexer_(flags.session.model.block_slots, flags.session.model.topk,
               flags.session.model.tokens_per_slot),
      recorder_(session_.get(),
                ToyShape(flags.session.model.layers, flags.session.model.max_slots)) {}

Engine::Sequence* Engine::Find(const std::string& key) {
  const auto it = std::find_if(sequences_.begin(), sequences_.end(),
                               [&key](const auto& sequence) { return sequence->key == key; });
  return it == sequences_.end() ? nullptr : it->get();
}

Engine::Sequence& Engine::Open(const std::string& key, int64_t slots, int64_t position) {
  sequences_.push_back(
      std::make_unique<Sequence>(Sequence{key, session_->OpenRequest(key, slots), position}));
  return *sequences_.back();
}

Engine::Sequence& Engine::Fork(const Sequence& parent, const std::string& key, int64_t slots) {
  sequences_.push_back(std::make_unique<Sequence>(
      Sequence{key, session_->ForkRequest(parent.request, key, slots), parent.position}));
  return *sequences_.back();
}

void Engine::Close(const std::string& key) {
  if (recorder_.active() && recorded_ == key) recorder_.Stop();
  std::erase_if(sequences_, [&key](const auto& sequence) { return sequence->key == key; });
}

size_t Engine::RowOf(size_t sequence) const {
  const size_t shift = flags_.rotate_rows ? step_number_ : 0;
  return (sequence + shift) % sequences_.size();
}

std::vector<StepRow> Engine::Rows() const {
  std::vector<StepRow> rows(sequences_.size());
  for (size_t i = 0; i < sequences_.size(); ++i) {
    rows[RowOf(i)] = {&sequences_[i]->request, sequences_[i]->position, flags_.session.max_next_n};
  }
  return rows;
}

// A made-up verdict, the same in every run: 1 to max_next_n.
int Engine::Accepted(const Sequence& sequence) const {
  uint64_t hash = HashOf(sequence.key);
  Hash(static_cast<uint64_t>(sequence.position), &hash);
  return 1 + static_cast<int>((hash >> 32) % flags_.session.max_next_n);
}

void Engine::ScoreRow(int layer, size_t index, const KeptBlocks& kept, StepReport* report) {
  const Sequence& sequence = *sequences_[index];
  const int64_t max_slots = flags_.session.model.max_slots;
  const uint64_t request = HashOf(sequence.key);
  float* row = scores_.data() + RowOf(index) * flags_.session.max_next_n * max_slots;
  for (int draft = 0; draft < flags_.session.max_next_n; ++draft) {
    const int64_t position = sequence.position + draft;
    // A block that only a later verifier row sees holds nothing for this one.
    const auto seen = std::lower_bound(kept.blocks.begin(), kept.blocks.end(),
                                       static_cast<int32_t>(indexer_.BlocksAt(position)));
    const auto blocks = kept.blocks.first(seen - kept.blocks.begin());
    float* out = row + draft * max_slots;
    indexer_.ScoreBlocks(request, layer, position, blocks, out);
    if (!indexer_.TopSlotsAreThose(request, layer, position, blocks, out))
      report->equal[index] = false;
  }
  report->kept[index] += static_cast<int64_t>(kept.blocks.size());
  report->considered[index] += indexer_.BlocksAt(sequence.position + flags_.session.max_next_n - 1);
  Hash(kept.blocks.size(), &report->lists);
  for (const int32_t block : kept.blocks) Hash(static_cast<uint64_t>(block), &report->lists);
}

void Engine::ScoreLayer(int layer, const Step& step, StepReport* report) {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const KeptBlocks kept = step.Kept(layer, static_cast<int>(RowOf(i)));
    report->reasons[i] = kept.reason;
    ScoreRow(layer, i, kept, report);
  }
}

Step Engine::RunUpToEnd(StepReport* report) {
  const size_t count = sequences_.size();
  *report = {.reasons = std::vector<Reason>(count, Reason::kNone),
             .kept = std::vector<int64_t>(count, 0),
             .considered = std::vector<int64_t>(count, 0),
             .equal = std::vector<bool>(count, true),
             .lists = kFnvBasis};
  ++step_number_;
  scores_.resize(count * flags_.session.max_next_n * flags_.session.model.max_slots);
  const absl::Time start = absl::Now();
  Step step = session_->BeginStep(Rows());
  report->seconds += absl::ToDoubleSeconds(absl::Now() - start);
  const int64_t max_slots = flags_.session.model.max_slots;
  for (int layer = 0; layer < flags_.session.model.layers; ++layer) {
    ScoreLayer(layer, step, report);
    Timed(&report->seconds, [&] {
      step.PutScores(layer, {.data = scores_.data(),
                             .row_stride = flags_.session.max_next_n * max_slots,
                             .draft_stride = max_slots});
    });
  }
  return step;
}

// Where a step is a slot.
void Engine::Record() {
  if (!flags_.recorder) return;
  const int layers = flags_.session.model.layers;
  for (size_t i = 0; i < sequences_.size() && recorder_.Wanted(); ++i) {
    const auto slots = static_cast<int>(sequences_[i]->position);
    if (!recorder_.Begin(sequences_[i]->key, slots + 1)) continue;
    recorded_ = sequences_[i]->key;
    PutToyKeys(layers, 0, slots, &recorder_);
  }
  if (!recorder_.active()) return;
  const auto slot = static_cast<int>(Find(recorded_)->position);
  PutToyKeys(layers, slot, 1, &recorder_);
  PutToyStep(layers, slot, &recorder_);
  recorder_.EndStep();
}

void Engine::Advance(Step& step) {
  std::vector<int> accepted(sequences_.size());
  for (size_t i = 0; i < sequences_.size(); ++i) accepted[RowOf(i)] = Accepted(*sequences_[i]);
  step.End({.accepted = accepted, .next_n = {}});
  for (size_t i = 0; i < sequences_.size(); ++i) sequences_[i]->position += accepted[RowOf(i)];
}

StepReport Engine::Run() {
  StepReport report;
  Step step = RunUpToEnd(&report);
  Record();
  Timed(&report.seconds, [&] { Advance(step); });
  if (flags_.step_us > 0) absl::SleepFor(absl::Microseconds(flags_.step_us));
  return report;
}

}  // namespace spin::scripted
