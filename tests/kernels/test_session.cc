// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/test_session.h"

#include <algorithm>
#include <random>

#include "kernels/ema.h"

namespace spin::kernels {
namespace {

constexpr int64_t kGap = kPageOffsetUnit;  // bytes before, between and after pages
constexpr std::byte kGapByte{0xa5};

int32_t MostRows(const std::vector<ScoredRow>& rows) {
  uint32_t most = 1;
  for (const ScoredRow& row : rows) most = std::max(most, row.next_n);
  return static_cast<int32_t>(most);
}

int64_t PageCount(const SessionOptions& options) {
  return options.max_requests * int64_t{PagesFor(options.max_slots)};
}

int64_t WorkspaceBytes(const TestDevice& device, const SessionOptions& options, int32_t blocks) {
  const int32_t layers = options.geometry.layers;
  // One more row than requests: padding.
  const int32_t rows = options.max_requests + 1;
  return std::max(device->SelectWorkspaceBytes(layers, rows, blocks),
                  device->AuditWorkspaceBytes(layers, rows, blocks));
}

}  // namespace

TestSession::TestSession(const TestDevice& device, const SessionOptions& options)
    : device_(device),
      options_(options),
      max_blocks_(BlocksOf(options.max_slots, options.geometry.block)),
      pages_(options.max_requests),
      host_records_(options.max_requests),
      slab_(device, PageCount(options) * (PageBytes(options.geometry) + kGap) + kGap),
      records_(device, host_records_),
      headers_(device, std::vector<ListHeader>(2 * options.max_requests * options.geometry.layers)),
      blocks_(device, headers_.size() * max_blocks_),
      masks_(device, headers_.size() * MaskWords(max_blocks_)),
      block_scores_(device,
                    size_t{1} * options.geometry.layers * options.max_requests * max_blocks_),
      workspace_(device, WorkspaceBytes(device, options, max_blocks_)),
      counters_(device, std::vector<LayerCounters>(options.geometry.layers)),
      audits_(device, std::vector<LayerAudits>(2 * options.geometry.layers)),
      binding_(device, 1) {
  slab_.Upload(std::vector<std::byte>(slab_.size(), kGapByte));
  const int64_t stride = PageBytes(options.geometry) + kGap;
  for (int64_t page = 0; page < PageCount(options); ++page) {
    free_pages_.push_back(static_cast<uint32_t>((kGap + page * stride) / kPageOffsetUnit));
  }
  std::shuffle(free_pages_.begin(), free_pages_.end(), std::mt19937_64(options.page_seed));
}

TestSession::~TestSession() {
  const std::vector<std::byte> bytes = slab_.Download();
  const int64_t stride = PageBytes(options_.geometry) + kGap;
  for (int64_t gap = 0; gap + kGap <= static_cast<int64_t>(bytes.size()); gap += stride) {
    EXPECT_EQ(std::count(bytes.begin() + gap, bytes.begin() + gap + kGap, kGapByte), kGap)
        << "written between the pages, at byte " << gap << " of the slab";
  }
}

void TestSession::Open(uint32_t request, int64_t slots, uint64_t key_hash) {
  host_records_[request] = {.generation = 1, .page_count = 0, .key_hash = key_hash, .pages = {}};
  free_pages_.insert(free_pages_.end(), pages_[request].begin(), pages_[request].end());
  pages_[request].clear();
  Grow(request, slots);
}

void TestSession::Grow(uint32_t request, int64_t slots) {
  std::vector<uint32_t> fresh;
  while (capacity(request) < slots) {
    ASSERT_FALSE(free_pages_.empty());
    fresh.push_back(free_pages_.back());
    pages_[request].push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  device_.Finish(device_->Fill({.geometry = geometry(),
                                .slab = slab_.data(),
                                .pages = fresh.data(),
                                .page_count = static_cast<int32_t>(fresh.size()),
                                .zero_init = options_.zero_init},
                               {}));
  WriteRecord(request);
}

void TestSession::SetGeneration(uint32_t request, uint32_t generation) {
  host_records_[request].generation = generation;
  WriteRecord(request);
}

void TestSession::WriteRecord(uint32_t request) {
  RequestRecord& record = host_records_[request];
  record.page_count = static_cast<uint32_t>(pages_[request].size());
  std::fill(std::begin(record.pages), std::end(record.pages), UINT32_MAX);  // not to be followed
  std::copy(pages_[request].begin(), pages_[request].end(), record.pages);
  records_.Upload({record}, request);
}

StateView TestSession::launch_state() const { return options_.bound ? StateView{} : state(); }

ListTable TestSession::launch_lists() const {
  if (!options_.bound) return lists();
  return {nullptr, nullptr, nullptr, options_.max_requests, geometry().layers, max_blocks_};
}

const Binding* TestSession::LaunchBinding(EmaWeights weights) {
  if (!options_.bound) return nullptr;
  binding_.Upload({{.slab = slab_.data(),
                    .records = records_.data(),
                    .counters = counters_.data(),
                    .audits = audits_.data(),
                    .headers = headers_.data(),
                    .blocks = blocks_.data(),
                    .masks = masks_.data(),
                    .epoch = kEpoch,
                    .weights = weights}});
  return binding_.data();
}

ListTable TestSession::lists() const {
  return {headers_.data(),       blocks_.data(),    masks_.data(),
          options_.max_requests, geometry().layers, max_blocks_};
}

void TestSession::Predict(const std::vector<Row>& rows) { Predict(rows, all_layers()); }

void TestSession::Predict(const std::vector<Row>& rows, LayerRange layers) {
  const DeviceArray<Row> device_rows(device_, rows);
  device_.Finish(device_->Predict({.geometry = geometry(),
                                   .state = state(),
                                   .layers = layers,
                                   .rows = device_rows.data(),
                                   .row_count = static_cast<int32_t>(rows.size()),
                                   .max_blocks = max_blocks_,
                                   .layer_stride = static_cast<int64_t>(rows.size()) * max_blocks_,
                                   .block_scores = block_scores_.data()},
                                  {}));
}

void TestSession::Select(const std::vector<Row>& rows, const Policy& policy) {
  Select(rows, policy, all_layers());
}

void TestSession::Select(const std::vector<Row>& rows, const Policy& policy, LayerRange layers) {
  Select(rows, policy, layers, block_scores_.data());
}

void TestSession::SelectFromState(const std::vector<Row>& rows, const Policy& policy) {
  Select(rows, policy, all_layers(), nullptr);
}

void TestSession::Select(const std::vector<Row>& rows, const Policy& policy, LayerRange layers,
                         const float* block_scores) {
  const DeviceArray<Row> device_rows(device_, rows);
  const DeviceArray<Policy> device_policy(device_, std::vector<Policy>{policy});
  device_.Finish(device_->Select({.geometry = geometry(),
                                  .state = launch_state(),
                                  .layers = layers,
                                  .rows = device_rows.data(),
                                  .row_count = static_cast<int32_t>(rows.size()),
                                  .max_blocks = max_blocks_,
                                  .layer_stride = static_cast<int64_t>(rows.size()) * max_blocks_,
                                  .block_scores = block_scores,
                                  .policy = device_policy.data(),
                                  .epoch = launch_epoch(),
                                  .lists = launch_lists(),
                                  .workspace = workspace_.data(),
                                  .binding = LaunchBinding()},
                                 {}));
}

void TestSession::Observe(const std::vector<ScoredRow>& rows, const ScoreTensor& scores,
                          double decay) {
  Observe(rows, scores, decay, all_layers());
}

void TestSession::Observe(const std::vector<ScoredRow>& rows, const ScoreTensor& scores,
                          double decay, LayerRange layers) {
  const DeviceArray<ScoredRow> device_rows(device_, rows);
  const DeviceArray<std::byte> data(device_, Pack(scores.values, scores.dtype));
  device_.Finish(device_->Observe({.geometry = geometry(),
                                   .state = launch_state(),
                                   .layers = layers,
                                   .rows = device_rows.data(),
                                   .row_count = static_cast<int32_t>(rows.size()),
                                   .max_next_n = options_.bound ? kMaxNextN : MostRows(rows),
                                   .max_blocks = max_blocks_,
                                   .epoch = launch_epoch(),
                                   .lists = launch_lists(),
                                   .scores = {data.data(), scores.dtype, scores.layer_stride,
                                              scores.row_stride, scores.draft_stride},
                                   .weights = options_.bound ? EmaWeights{} : WeightsOf(decay),
                                   .counters = launch_counters(),
                                   .binding = LaunchBinding(WeightsOf(decay))},
                                  {}));
}

std::vector<AuditResult> TestSession::Audit(const std::vector<ScoredRow>& rows,
                                            const ScoreTensor& scores) {
  const DeviceArray<ScoredRow> device_rows(device_, rows);
  const DeviceArray<std::byte> data(device_, Pack(scores.values, scores.dtype));
  const DeviceArray<AuditResult> results(device_, geometry().layers * rows.size());
  device_.Finish(device_->Audit({.geometry = geometry(),
                                 .state = launch_state(),
                                 .layers = all_layers(),
                                 .rows = device_rows.data(),
                                 .row_count = static_cast<int32_t>(rows.size()),
                                 .epoch = launch_epoch(),
                                 .lists = launch_lists(),
                                 .scores = {data.data(), scores.dtype, scores.layer_stride,
                                            scores.row_stride, scores.draft_stride},
                                 .counters = launch_counters(),
                                 .audits = launch_audits(),
                                 .workspace = workspace_.data(),
                                 .results = results.data(),
                                 .binding = LaunchBinding()},
                                {}));
  return results.Download();
}

std::vector<float> TestSession::BlockScores(int32_t layer, int32_t row, int32_t row_count,
                                            int32_t blocks) {
  return block_scores_.Download((size_t{1} * layer * row_count + row) * max_blocks_, blocks);
}

void TestSession::SetBlockScores(int32_t layer, int32_t row, int32_t row_count,
                                 const std::vector<float>& scores) {
  block_scores_.Upload(scores, (size_t{1} * layer * row_count + row) * max_blocks_);
}

StoredList TestSession::SelectFrom(const std::vector<float>& scores, const Row& row,
                                   const Policy& policy) {
  SetBlockScores(0, 0, 1, scores);
  Select({row}, policy, {0, 1});
  return List(row.buffer, row.request, 0);
}

StoredList TestSession::List(uint32_t buffer, uint32_t request, int32_t layer) {
  const int64_t index = lists().Index(buffer, request, layer);
  const ListHeader header = headers_.Download(index, 1)[0];
  const int32_t count = std::clamp(header.count, 0, max_blocks_);
  return {header, blocks_.Download(index * max_blocks_, count)};
}

std::vector<int32_t> TestSession::MaskedBlocks(uint32_t buffer, uint32_t request, int32_t layer,
                                               int32_t blocks) {
  const int64_t at = lists().Index(buffer, request, layer) * MaskWords(max_blocks_);
  const std::vector<ListMask> masks = masks_.Download(at, MaskWords(blocks));
  std::vector<int32_t> out;
  for (size_t word = 0; word < masks.size(); ++word) {
    EXPECT_EQ(masks[word].rank, out.size());
    for (int32_t bit = 0; bit < 32; ++bit) {
      if (masks[word].kept >> bit & 1) out.push_back(static_cast<int32_t>(word) * 32 + bit);
    }
  }
  return out;
}

void TestSession::SetList(uint32_t buffer, uint32_t request, int32_t layer,
                          const std::vector<int32_t>& blocks) {
  blocks_.Upload(blocks, lists().Index(buffer, request, layer) * max_blocks_);
}

void TestSession::SetHeader(uint32_t buffer, uint32_t request, int32_t layer,
                            const ListHeader& header) {
  headers_.Upload({header}, lists().Index(buffer, request, layer));
}

std::vector<float> TestSession::Average(uint32_t request, int32_t layer, bool by_distance) {
  const int64_t bytes = kPageSlots * DtypeBytes(geometry().state);
  const int64_t offset = layer * LayerBytes(geometry()) + (by_distance ? bytes : 0);
  std::vector<float> out;
  for (const uint32_t page : pages_[request]) {
    const int64_t at = int64_t{page} * kPageOffsetUnit + offset;
    std::vector<float> values = Unpack(slab_.Download(at, bytes), geometry().state);
    if (by_distance) std::reverse(values.begin(), values.end());
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

void TestSession::SetAverage(uint32_t request, int32_t layer, bool by_distance,
                             std::vector<float> values) {
  const int64_t bytes = kPageSlots * DtypeBytes(geometry().state);
  const int64_t offset = layer * LayerBytes(geometry()) + (by_distance ? bytes : 0);
  values.resize(capacity(request), kUnobserved);
  auto page_values = values.begin();
  for (const uint32_t page : pages_[request]) {
    std::vector<float> part(page_values, page_values + kPageSlots);
    page_values += kPageSlots;
    if (by_distance) std::reverse(part.begin(), part.end());
    const int64_t at = int64_t{page} * kPageOffsetUnit + offset;
    slab_.Upload(Pack(part, geometry().state), at);
  }
}

std::vector<float> TestSession::V(uint32_t request, int32_t layer) {
  return Average(request, layer, false);
}
std::vector<float> TestSession::D(uint32_t request, int32_t layer) {
  return Average(request, layer, true);
}
void TestSession::SetV(uint32_t request, int32_t layer, const std::vector<float>& values) {
  SetAverage(request, layer, false, values);
}
void TestSession::SetD(uint32_t request, int32_t layer, const std::vector<float>& values) {
  SetAverage(request, layer, true, values);
}

}  // namespace spin::kernels
