// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/scenario.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace spin::kernels {
namespace {

constexpr int64_t kMaxContext = 9000;  // slots; reaches into the third page

template <typename Totals>
std::vector<uint64_t> Values(const Totals& counters) {
  std::vector<uint64_t> out(sizeof counters / sizeof(uint64_t));
  std::memcpy(out.data(), &counters, sizeof counters);
  return out;
}

std::vector<int32_t> AllBlocks(int32_t count) {
  std::vector<int32_t> blocks(count);
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

}  // namespace

Scenario::Scenario(const TestDevice& device, uint64_t seed, Kind kind)
    : random_(seed),
      kind_(kind),
      few_drafts_(Below(2) == 0),
      score_dtype_(OneOf({Dtype::kF32, Dtype::kBF16})),
      score_kind_(static_cast<int>(Below(4))),
      decay_(OneOf({0.0, 0.3, 0.5, 0.7, 0.9})),
      options_(DrawOptions()),
      policy_(DrawPolicy()),
      session_(device, options_),
      counted_(options_.geometry.layers),
      audits_(options_.geometry.layers) {
  const Geometry& g = options_.geometry;
  for (int32_t i = 0; i < options_.max_requests; ++i) {
    const int64_t slots = OneOf<int64_t>({Below(40), Below(600), 4080 + Below(20), Below(8000)});
    requests_.push_back({.position = slots * g.tokens_per_slot,
                         .key_hash = random_(),
                         .layers = {static_cast<size_t>(g.layers), {g, options_.zero_init}}});
    session_.Open(i, 1, requests_.back().key_hash);
  }
}

SessionOptions Scenario::DrawOptions() {
  return {.geometry = {.layers = static_cast<int32_t>(1 + Below(3)),
                       .block = kind_ == Kind::kDecode ? 64 : OneOf({16, 32, 64, 128}),
                       .topk = OneOf({1, 30, 64, 100, 2048}),
                       .tokens_per_slot = OneOf({1, 1, 3, 4}),
                       .state = kind_ == Kind::kDecode ? Dtype::kBF16
                                                       : OneOf({Dtype::kF32, Dtype::kBF16})},
          .max_requests = static_cast<int32_t>(1 + Below(3)),
          .max_slots = kMaxContext,
          .zero_init = Below(6) == 0,
          .page_seed = random_(),
          .bound = Below(2) == 0};
}

Policy Scenario::DrawPolicy() {
  Policy policy = {};
  for (double& rho : policy.sparsity) rho = OneOf({0.0, 0.29, 0.4, 0.6, 0.7, 0.9, 0.999});
  policy.exploration = OneOf({0.0, 0.05, 0.3, 1.0});
  policy.seed = random_();
  policy.pin_first_block = static_cast<uint32_t>(Below(2));
  return policy;
}

float Scenario::DrawScore() {
  float score = 0;
  if (score_kind_ == 0) score = std::normal_distribution<float>(-2, 1)(random_);
  if (score_kind_ == 1) score = static_cast<float>(Below(3)) - 2;            // ties everywhere
  if (score_kind_ == 2) score = FromBits(static_cast<uint32_t>(random_()));  // NaN and Inf too
  if (score_kind_ == 3) score = std::ldexp(static_cast<float>(Below(200) - 150), Below(40) - 20);
  return score_dtype_ == Dtype::kF32 ? score : FromBits(BitsOf(score) & 0xffff0000u);
}

void Scenario::Step() {
  DrawRows();
  session_.Predict(rows_);
  CheckBlockScores();
  if (Below(2) == 0) {
    session_.Select(rows_, policy_);
  } else {
    session_.SelectFromState(rows_, policy_);
  }
  CheckLists();
  DrawVerdictsAndScores();
  CheckAudit();
  session_.Observe(scored_, scores_, decay_);
  ObserveInModel();
  CheckStateAndCounters();
}

// Some of the requests, each once and in any order, and at times a row of padding.
void Scenario::DrawRows() {
  rows_.clear();
  for (uint32_t i = 0; i < requests_.size(); ++i) {
    if (Below(4) == 0) continue;
    Row row = RowAt(0, static_cast<uint32_t>(1 + Below(kMaxNextN)));
    if (kind_ == Kind::kDecode && few_drafts_ && Below(8) > 0) row.next_n = 1;
    if (kind_ == Kind::kAny || Below(16) == 0) Advance(requests_[i], row.next_n);
    session_.Grow(i, (requests_[i].position + row.next_n) / options_.geometry.tokens_per_slot + 1);
    row.request = i;
    row.position = requests_[i].position;
    row.buffer = static_cast<uint32_t>(Below(2));
    rows_.push_back(row);
  }
  if (rows_.size() < requests_.size()) {
    rows_.push_back(RowAt(5));
    rows_.back().request = kPaddingRow;
  }
  std::shuffle(rows_.begin(), rows_.end(), random_);
}

// Now and then tokens were decoded without Spin.
void Scenario::Advance(Request& request, uint32_t next_n) {
  const int64_t jump = OneOf<int64_t>({0, 0, 0, Below(10), Below(700)});
  const int64_t limit = (kMaxContext - 1) * options_.geometry.tokens_per_slot - next_n;
  request.position = std::min(request.position + jump, limit);
}

void Scenario::CheckBlockScores() {
  const auto row_count = static_cast<int32_t>(rows_.size());
  for (int32_t r = 0; r < row_count; ++r) {
    const Row& row = rows_[r];
    if (row.request == kPaddingRow) continue;
    for (int32_t layer = 0; layer < options_.geometry.layers; ++layer) {
      const std::vector<float> expected =
          requests_[row.request].layers[layer].Predict(row.position, row.next_n);
      ASSERT_EQ(session_.BlockScores(layer, r, row_count, expected.size()), expected)
          << "position " << row.position << ", next_n " << row.next_n << ", layer " << layer;
    }
  }
}

void Scenario::CheckLists() {
  for (const Row& row : rows_) {
    if (row.request == kPaddingRow) continue;
    const Request& request = requests_[row.request];
    for (int32_t layer = 0; layer < options_.geometry.layers; ++layer) {
      const std::vector<float> scores = request.layers[layer].Predict(row.position, row.next_n);
      const reference::Kept expected = reference::Select(
          scores, {request.key_hash, layer, row.position, static_cast<int32_t>(row.next_n)},
          options_.geometry, policy_);
      const StoredList list = session_.List(row.buffer, row.request, layer);
      ASSERT_EQ(list.blocks, expected.blocks) << "position " << row.position << ", layer " << layer;
      ASSERT_EQ(session_.MaskedBlocks(row.buffer, row.request, layer, list.header.blocks),
                expected.blocks);
      ASSERT_EQ(list.header.blocks, static_cast<int32_t>(scores.size()));
      ASSERT_EQ(list.header.pinned, expected.pinned);
      ASSERT_EQ(list.header.predicted, expected.predicted);
      ASSERT_EQ(list.header.explored, expected.explored);
      ASSERT_TRUE(SameStamp(list.header.stamp, {TestSession::kEpoch, 1, row.next_n, row.position}));
    }
  }
}

// Score rows lie in another order than the rows of the step, and hold NaN past their end.
void Scenario::DrawVerdictsAndScores() {
  const Geometry& g = options_.geometry;
  const auto row_count = static_cast<int32_t>(rows_.size());
  int64_t longest = 0;
  uint32_t drafts = 1;
  for (const Row& row : rows_) {
    longest = std::max(longest, reference::SlotsAt(row.position + row.next_n - 1, g));
    drafts = std::max(drafts, row.next_n);
  }
  scores_ = ScoreTensor(g.layers, row_count, drafts, longest, score_dtype_);
  scored_.clear();
  for (int32_t r = 0; r < row_count; ++r) {
    ScoredRow row = ScoredAt(rows_[r].position, rows_[r].next_n);
    row.request = rows_[r].request;
    row.buffer = rows_[r].buffer;
    row.accepted = static_cast<uint32_t>(Below(row.next_n + 1));
    row.coverage = OneOf({Coverage::kAll, Coverage::kKept, Coverage::kKept});
    row.score_row = static_cast<uint32_t>(row_count - 1 - r);
    scored_.push_back(row);
    if (row.request == kPaddingRow) continue;
    for (int32_t layer = 0; layer < g.layers; ++layer) {
      const ListHeader header = session_.List(row.buffer, row.request, layer).header;
      const int64_t dropped = row.coverage == Coverage::kAll ? 0 : header.blocks - header.count;
      for (uint32_t draft = 0; draft < row.next_n; ++draft) {
        const int64_t slots = reference::SlotsAt(row.position + draft, g) - dropped * g.block;
        std::generate_n(scores_.At(layer, static_cast<int32_t>(row.score_row), draft), slots,
                        [this] { return DrawScore(); });
      }
    }
  }
}

AuditResult Scenario::AuditInModel(const ScoredRow& row, int32_t layer) {
  const Geometry& g = options_.geometry;
  const StoredList list = session_.List(row.buffer, row.request, layer);
  const std::vector<float> block_scores =
      requests_[row.request].layers[layer].Predict(row.position, static_cast<int32_t>(row.next_n));
  const std::vector<int32_t> ranks =
      reference::Ranks(block_scores, row.position, static_cast<int32_t>(row.next_n), g,
                       policy_.pin_first_block != 0);
  AuditResult sum = {0, 0};
  for (uint32_t draft = 0; draft < row.accepted; ++draft) {
    const float* at = scores_.At(layer, static_cast<int32_t>(row.score_row), draft);
    const std::vector<float> one(at, at + reference::SlotsAt(row.position + draft, g));
    const AuditResult result = reference::Audit(one, list.blocks, g);
    sum = {sum.topk + result.topk, sum.missed + result.missed};
    for (const int64_t slot : reference::TrueTopk(one, g)) {
      const auto bin = static_cast<size_t>(ranks[slot / g.block]) * kRankBins / ranks.size();
      ++audits_[layer].rank_slots[bin];
    }
  }
  if (sum.topk == 0) return sum;
  audits_[layer].blocks += block_scores.size();
  audits_[layer].list_blocks += list.blocks.size();
  constexpr int kBounds[] = {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
  const auto* const bucket = std::find_if(
      kBounds, std::end(kBounds), [&](int bound) { return sum.missed * 1000 <= bound * sum.topk; });
  ++audits_[layer].miss_rows[bucket - kBounds];
  return sum;
}

void Scenario::CheckAudit() {
  const Geometry& g = options_.geometry;
  const std::vector<AuditResult> results = session_.Audit(scored_, scores_);
  for (int32_t layer = 0; layer < g.layers; ++layer) {
    for (size_t r = 0; r < scored_.size(); ++r) {
      const ScoredRow& row = scored_[r];
      AuditResult expected = {0, 0};
      if (row.request != kPaddingRow && row.coverage == Coverage::kAll) {
        expected = AuditInModel(row, layer);
        counted_[layer].audited_rows += row.accepted;
      }
      counted_[layer].audit_topk_slots += expected.topk;
      counted_[layer].audit_missed_slots += expected.missed;
      const AuditResult& result = results[layer * scored_.size() + r];
      ASSERT_EQ(result.topk, expected.topk);
      ASSERT_EQ(result.missed, expected.missed);
    }
  }
}

void Scenario::ObserveInModel() {
  for (const ScoredRow& row : scored_) {
    if (row.request == kPaddingRow) continue;
    Request& request = requests_[row.request];
    for (int32_t layer = 0; layer < options_.geometry.layers; ++layer) {
      const StoredList list = session_.List(row.buffer, row.request, layer);
      const bool all = row.coverage == Coverage::kAll;
      for (uint32_t draft = 0; draft < row.accepted; ++draft) {
        request.layers[layer].Observe(
            row.position + draft, all ? AllBlocks(list.header.blocks) : list.blocks,
            scores_.At(layer, static_cast<int32_t>(row.score_row), draft), decay_);
      }
      LayerCounters& counted = counted_[layer];
      counted.considered_blocks += list.header.blocks;
      counted.full_blocks += all ? list.header.blocks : 0;
      counted.pinned_blocks += all ? 0 : list.header.pinned;
      counted.predicted_blocks += all ? 0 : list.header.predicted;
      counted.explored_blocks += all ? 0 : list.header.explored;
    }
    request.position += row.accepted;
  }
}

void Scenario::CheckStateAndCounters() {
  for (int32_t layer = 0; layer < options_.geometry.layers; ++layer) {
    LayerCounters expected = counted_[layer];
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      const reference::LayerModel& model = requests_[i].layers[layer];
      const size_t capacity = session_.capacity(i);
      ASSERT_TRUE(SameBits(session_.V(i, layer), model.V(capacity))) << "V, layer " << layer;
      ASSERT_TRUE(SameBits(session_.D(i, layer), model.D(capacity))) << "D, layer " << layer;
      expected.scored_slots += model.scored();
      expected.nonfinite_scores += model.ignored();
    }
    ASSERT_EQ(Values(session_.Counters(layer)), Values(expected)) << "layer " << layer;
    ASSERT_EQ(Values(session_.Audits(layer)), Values(audits_[layer])) << "layer " << layer;
  }
}

}  // namespace spin::kernels
