// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/budget_bed.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "dataplane/layout.h"
#include "kernels/exploration.h"
#include "trace/scorer.h"
#include "trace/topk.h"

namespace spin::bench {
namespace {

constexpr int kBlock = 64;

dataplane::SessionShape ShapeOf(const RecordedScores& recorded) {
  return {.geometry = {.layers = recorded.layers(),
                       .block = kBlock,
                       .topk = recorded.topk(),
                       .tokens_per_slot = 1,
                       .state = kernels::Dtype::kF32},
          .max_slots = recorded.slots(),
          .max_requests = 1,
          .max_next_n = 1,
          .scores = kernels::Dtype::kF32,
          .staging = false};
}

}  // namespace

RecordedScores::RecordedScores(const trace::Trace& trace, int topk)
    : layers_(trace.layers),
      steps_(trace.steps),
      topk_(topk),
      first_query_(trace.first_query),
      scores_(static_cast<size_t>(steps_) * layers_ * slots()),
      blocks_(static_cast<size_t>(steps_) * layers_ * topk) {
  const trace::Scorer scorer(trace);
  std::vector<int32_t> workspace(slots()), top(topk);
  for (int step = 0; step < steps_; ++step) {
    for (int layer = 0; layer < layers_; ++layer) {
      float* const scores = scores_.data() + Index(layer, step) * slots();
      const int count = scorer.ScoreAll(layer, step, scores);
      trace::TopK({scores, static_cast<size_t>(count)}, topk, absl::MakeSpan(workspace),
                  absl::MakeSpan(top));
      std::transform(top.begin(), top.end(), blocks_.begin() + Index(layer, step) * topk,
                     [](int32_t slot) { return static_cast<uint16_t>(slot / kBlock); });
    }
  }
}

const float* RecordedScores::Scores(int layer, int step) const {
  return scores_.data() + Index(layer, step) * slots();
}

const uint16_t* RecordedScores::TopkBlocks(int layer, int step) const {
  return blocks_.data() + Index(layer, step) * topk_;
}

int RecordedScores::blocks() const { return kernels::BlocksOf(first_query_, kBlock); }

int RecordedScores::TopkBlocks() const { return kernels::BlocksOf(topk_, kBlock); }

Playback::Playback(const RecordedScores& recorded, double exploration, uint32_t audit_every,
                   uint64_t key)
    : recorded_(recorded),
      key_(key),
      device_(kernels::MakeCpuDevice()),
      kept_scores_(recorded.slots()),
      before_(recorded.layers()),
      counters_before_(recorded.layers()) {
  policy_.exploration = exploration;
  policy_.decay = 0.5;
  policy_.audit_every = audit_every;
  const dataplane::SessionShape shape = ShapeOf(recorded);
  const dataplane::SessionLayout layout = dataplane::LayoutAt(0, shape);
  const int64_t page_bytes = kernels::PageBytes(shape.geometry);
  const int pages = kernels::PagesFor(recorded.slots());
  const size_t bytes = (layout.end + pages * page_bytes + 4095) / 4096 * 4096;
  memory_ = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  std::memset(memory_, 0, layout.end);
  scratch_ = *device_->Allocate(dataplane::StepRunner::ScratchBytes(*device_, shape));
  runner_ = std::make_unique<dataplane::StepRunner>(
      device_.get(), dataplane::ViewOf(memory_, 1, shape, layout), scratch_.get());
  kernels::RequestRecord& record = runner_->view().records[0];
  record.generation = 1;
  record.key_hash = key * 0x9e3779b97f4a7c15u;
  record.page_count = static_cast<uint32_t>(pages);
  for (int page = 0; page < pages; ++page) {
    record.pages[page] =
        static_cast<uint32_t>((layout.end + page * page_bytes) / kernels::kPageOffsetUnit);
  }
  (void)device_->Fill({shape.geometry, memory_, record.pages, pages, false}, {});
}

Playback::~Playback() { std::free(memory_); }

void Playback::Judge(int step, int layer) {
  const kernels::ListTable& lists = runner_->view().lists;
  const int32_t* kept = lists.Blocks(buffer_, 0, layer);
  const int32_t* const end = kept + lists.Header(buffer_, 0, layer)->count;
  const uint16_t* const top = recorded_.TopkBlocks(layer, step);
  for (int i = 0; i < recorded_.topk(); ++i) {
    while (kept != end && *kept < top[i]) ++kept;
    missed_ += kept == end || *kept != top[i] ? 1 : 0;
  }
  judged_ += 1;
}

void Playback::Observe(int step, int layer, kernels::Coverage coverage) {
  const int64_t position = recorded_.Position(step);
  const float* scores = recorded_.Scores(layer, step);
  const kernels::ScoredRow row = {.request = 0,
                                  .next_n = 1,
                                  .position = position,
                                  .accepted = 1,
                                  .buffer = buffer_,
                                  .coverage = coverage,
                                  .score_row = 0};
  if (coverage == kernels::Coverage::kAll && step > 0) {
    const kernels::ScoreView all = {scores, kernels::Dtype::kF32, 0, 0, 0};
    (void)runner_->Audit({&row, 1}, all, {layer, 1}, {});
  }
  if (coverage == kernels::Coverage::kKept) {
    const kernels::ListTable& lists = runner_->view().lists;
    const int32_t* const kept = lists.Blocks(buffer_, 0, layer);
    float* out = kept_scores_.data();
    for (int32_t j = 0; j < lists.Header(buffer_, 0, layer)->count; ++j) {
      const int64_t first = int64_t{kept[j]} * kBlock;
      out = std::copy(scores + first, scores + std::min(first + kBlock, position + 1), out);
    }
    scores = kept_scores_.data();
  }
  const kernels::ScoreView view = {scores, kernels::Dtype::kF32, 0, 0, 0};
  (void)runner_->Observe({&row, 1}, view, {layer, 1}, policy_.decay, {});
}

std::vector<calibration::LayerSample> Playback::TakeAudits() {
  std::vector<calibration::LayerSample> samples(recorded_.layers());
  for (int layer = 0; layer < recorded_.layers(); ++layer) {
    const kernels::LayerCounters& counters = runner_->view().counters[layer];
    const kernels::LayerAudits& audits = runner_->view().audits[layer];
    samples[layer].topk_slots =
        counters.audit_topk_slots - counters_before_[layer].audit_topk_slots;
    samples[layer].missed_slots =
        counters.audit_missed_slots - counters_before_[layer].audit_missed_slots;
    samples[layer].blocks = audits.blocks - before_[layer].blocks;
    for (int bin = 0; bin < kernels::kRankBins; ++bin) {
      samples[layer].rank_slots[bin] = audits.rank_slots[bin] - before_[layer].rank_slots[bin];
    }
    before_[layer] = audits;
    counters_before_[layer] = counters;
  }
  return samples;
}

std::optional<std::vector<calibration::LayerSample>> Playback::Step(
    int step, const std::vector<double>& sparsity) {
  const bool measured = step > 0 && (audit_ || curves_ != nullptr);
  std::copy(sparsity.begin(), sparsity.end(), policy_.sparsity);
  const kernels::Row next = {.request = 0,
                             .next_n = 1,
                             .position = recorded_.Position(step) + 1,
                             .buffer = 1 - buffer_,
                             .generation = 0};
  for (int layer = 0; layer < recorded_.layers(); ++layer) {
    if (step > 0) Judge(step, layer);
    if (curves_ != nullptr && step > 0) {
      // Looks without touching the state: what is observed stays that of an unaudited step.
      const kernels::ScoredRow row = {.request = 0,
                                      .next_n = 1,
                                      .position = recorded_.Position(step),
                                      .accepted = 1,
                                      .buffer = buffer_,
                                      .coverage = kernels::Coverage::kAll,
                                      .score_row = 0};
      (void)runner_->Audit({&row, 1},
                           {recorded_.Scores(layer, step), kernels::Dtype::kF32, 0, 0, 0},
                           {layer, 1}, {});
    }
    Observe(step, layer, step == 0 || audit_ ? kernels::Coverage::kAll : kernels::Coverage::kKept);
    if (step + 1 < recorded_.steps()) {
      (void)runner_->Predict({&next, 1}, policy_, {layer, 1}, {});
    }
  }
  buffer_ = 1 - buffer_;
  audit_ = kernels::AuditDue(policy_.seed, runner_->view().records[0].key_hash, next.position,
                             policy_.audit_every);
  if (!measured) return std::nullopt;
  std::vector<calibration::LayerSample> samples = TakeAudits();
  if (curves_ != nullptr) {
    for (size_t layer = 0; layer < samples.size(); ++layer) {
      (*curves_)[layer].Add(samples[layer].rank_slots);
    }
  }
  return samples;
}

}  // namespace spin::bench
