// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_block_score.cuh"
#include "kernels/internal/cuda_largest.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_rows.cuh"
#include "kernels/internal/cuda_start.h"
#include "kernels/internal/order_key.h"
#include "kernels/internal/pinned_blocks.h"

// Audit: a thread block takes (layer, row) after (layer, row), and of each its verifier rows one
// after the other. Rare, so it is written for plainness: the scores are read again for every
// histogram, and a block's rank is found by counting the blocks before it.
namespace spin::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kMaxThreadBlocks = 128;  // what the workspace is sized for

struct AuditShared {
  internal::LargestShared<kThreads> largest;
  uint32_t warp_counts[kWarps];
  int32_t missed;
};

// Of one (layer, row), in the workspace; null where no ranks are asked for.
struct BlockRanks {
  uint32_t* slots;  // [max_blocks] true top-K slots in each block
  uint32_t* keys;   // [max_blocks] order of the block scores
};

// Adds the lanes in `taken`, of a warp whose lanes hold 32 consecutive slots, to their blocks.
__device__ inline void CountTopk(uint32_t* slots, uint32_t taken, int64_t tile, int32_t block) {
  const int lane = threadIdx.x % 32;
  const int width = min(block, 32);
  if (lane % width != 0) return;
  const uint32_t mine = (width == 32 ? ~0u : (1u << width) - 1) << lane;
  const int count = __popc(taken & mine);
  if (count > 0) atomicAdd(&slots[(tile + lane) / block], static_cast<uint32_t>(count));
}

// Top-K slots of one verifier row that lie outside the list. A warp owns a contiguous range of
// slots, so that of equal scores the lower slots count.
template <typename S>
__device__ int32_t MissedOf(AuditShared& shared, const S* scores, int64_t slots, int32_t k,
                            const Geometry& g, const internal::ScoredBlocks& kept,
                            const BlockRanks& ranks) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int64_t share = ((slots + kWarps - 1) / kWarps + 31) / 32 * 32;
  const int64_t first = warp * share;
  const int64_t end = min(first + share, slots);  // may lie before `first`
  const auto each = [&](const auto& use) {
    for (int64_t i = first + lane; i < end; i += 32) use(internal::OrderKey(ToFloat(scores[i])));
  };
  internal::Prepare(shared.largest);
  __syncthreads();
  const internal::Threshold last =
      internal::FindThreshold(shared.largest, static_cast<uint32_t>(k), each);
  uint32_t ties = 0;
  for (int64_t i = first + lane; i < end; i += 32) {
    ties += internal::OrderKey(ToFloat(scores[i])) == last.key ? 1 : 0;
  }
  ties = __reduce_add_sync(~0u, ties);
  if (lane == 0) shared.warp_counts[warp] = ties;
  if (threadIdx.x == 0) shared.missed = 0;
  __syncthreads();
  uint32_t before = __reduce_add_sync(~0u, lane < warp ? shared.warp_counts[lane] : 0u);
  int32_t missed = 0;
  for (int64_t tile = first; tile < end; tile += 32) {
    const int64_t i = tile + lane;
    const uint32_t key = i < end ? internal::OrderKey(ToFloat(scores[i])) : 0;
    const uint32_t tied = __ballot_sync(~0u, i < end && key == last.key);
    const bool taken = key == last.key && before + __popc(tied & ((1u << lane) - 1)) < last.ties;
    before += __popc(tied);
    const bool top = i < end && (key > last.key || taken);
    if (top) missed += kept.Place(static_cast<int32_t>(i / g.block)) < 0 ? 1 : 0;
    if (ranks.slots) CountTopk(ranks.slots, __ballot_sync(~0u, top), tile, g.block);
  }
  atomicAdd(&shared.missed, missed);
  __syncthreads();
  missed = shared.missed;
  __syncthreads();
  return missed;
}

// Order keys of the scores that Predict would give the blocks. All threads; barriers are the
// caller's.
template <typename T>
__device__ void KeyBlocks(const AuditParams& p, const ScoredRow& scored, int32_t layer,
                          int32_t blocks, uint32_t* keys) {
  const Row row = {scored.request, scored.next_n, scored.position, scored.buffer, 0};
  const RequestRecord& record = p.state.records[row.request];
  for (int32_t block = threadIdx.x / 32; block < blocks; block += kWarps) {
    const float score = internal::ScanBlock<T>(p.state, record, p.geometry, row, layer, block);
    if (threadIdx.x % 32 == 0) keys[block] = internal::OrderKey(score);
  }
}

// Adds the top-K slots of every block that has some to the bin of its rank. All threads.
__device__ void CountRanks(const BlockRanks& ranks, const internal::PinnedBlocks& pinned,
                           LayerAudits& audits) {
  const int lane = threadIdx.x % 32;
  for (int32_t block = threadIdx.x / 32; block < pinned.end; block += kWarps) {
    const uint32_t slots = ranks.slots[block];
    if (slots == 0) continue;
    int32_t rank = pinned.Rank(block);
    if (!pinned.Has(block)) {
      const uint32_t key = ranks.keys[block];
      uint32_t before = 0;
      for (int32_t other = pinned.sink + lane; other < pinned.tail; other += 32) {
        const uint32_t their = ranks.keys[other];
        before += their > key || (their == key && other < block) ? 1 : 0;
      }
      rank = pinned.count() + static_cast<int32_t>(__reduce_add_sync(~0u, before));
    }
    if (lane == 0) internal::CountOn(audits.rank_slots[RankBin(rank, pinned.end)], slots);
  }
}

// All threads; `shared` and `ranks` are free again after it.
template <typename S>
__device__ void AuditRow(AuditShared& shared, const AuditParams& p, int32_t r, int32_t layer,
                         const BlockRanks& ranks) {
  const ScoredRow row = p.rows[r];
  AuditResult result = {0, 0};
  bool audited = false;
  if (row.request != kPaddingRow && row.coverage == Coverage::kAll) {
    const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
    audited = internal::HasStamp(header, p.epoch, p.state.records[row.request].generation, row);
  }
  if (audited) {
    const internal::ScoredBlocks kept = {p.lists.Masks(row.buffer, row.request, layer),
                                         p.lists.max_blocks};
    const RowExtent extent = ExtentOf(row.position, row.next_n, p.geometry);
    if (ranks.slots) {
      for (int32_t i = threadIdx.x; i < extent.blocks; i += kThreads) ranks.slots[i] = 0;
      if (p.geometry.state == Dtype::kF32) {
        KeyBlocks<float>(p, row, layer, extent.blocks, ranks.keys);
      } else {
        KeyBlocks<Bf16>(p, row, layer, extent.blocks, ranks.keys);
      }
      __syncthreads();
    }
    for (uint32_t draft = 0; draft < row.accepted; ++draft) {
      const int64_t slots = VisibleSlots(row.position + draft, p.geometry.tokens_per_slot);
      const auto k = static_cast<int32_t>(min(int64_t{p.geometry.topk}, slots));
      if (k == 0) continue;
      result.topk += k;
      result.missed += MissedOf<S>(shared, internal::ScoresOf<S>(p.scores, row, layer, draft),
                                   slots, k, p.geometry, kept, ranks);
    }
    if (ranks.slots) {
      const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
      CountRanks(ranks, internal::PinnedOf(extent, header), p.audits[layer]);
      if (threadIdx.x == 0 && result.topk > 0) {
        internal::CountOn(p.audits[layer].blocks, extent.blocks);
        internal::CountOn(p.audits[layer].list_blocks, header.count);
        internal::CountOn(p.audits[layer].miss_rows[MissBucket(result.missed, result.topk)], 1);
      }
      __syncthreads();
    }
  }
  if (threadIdx.x != 0) return;
  if (audited) {
    internal::CountOn(p.counters[layer].audited_rows, row.accepted);
    internal::CountOn(p.counters[layer].audit_topk_slots, result.topk);
    internal::CountOn(p.counters[layer].audit_missed_slots, result.missed);
  }
  if (p.results) p.results[int64_t{layer} * p.row_count + r] = result;
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    AuditKernel(const __grid_constant__ AuditParams params) {
  const AuditParams p = BoundToAudit(params);
  __shared__ AuditShared shared;
  BlockRanks ranks = {nullptr, nullptr};
  if (p.audits) {
    auto* const workspace = reinterpret_cast<uint32_t*>(p.workspace);
    ranks.slots = workspace + int64_t{2} * blockIdx.x * p.lists.max_blocks;
    ranks.keys = ranks.slots + p.lists.max_blocks;
  }
  for (int32_t item = blockIdx.x; item < p.row_count * p.layers.count; item += gridDim.x) {
    AuditRow<S>(shared, p, item % p.row_count, p.layers.first + item / p.row_count, ranks);
  }
}

int64_t ThreadBlocks(int32_t layers, int32_t rows) {
  return std::min(int64_t{layers} * rows, kMaxThreadBlocks);
}

}  // namespace

cudaError_t AuditCuda(const AuditParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(ThreadBlocks(p.layers.count, p.row_count));
  const auto kernel = p.scores.dtype == Dtype::kF32 ? AuditKernel<float> : AuditKernel<Bf16>;
  return internal::Launch(kernel, grid, kThreads, stream, p);
}

int64_t AuditWorkspaceBytesCuda(int32_t layers, int32_t rows, int32_t max_blocks) {
  return ThreadBlocks(layers, rows) * 2 * int64_t{max_blocks} * int64_t{sizeof(uint32_t)};
}

cudaError_t internal::LoadAuditCuda() { return Load(AuditKernel<float>, AuditKernel<Bf16>); }

}  // namespace spin::kernels
