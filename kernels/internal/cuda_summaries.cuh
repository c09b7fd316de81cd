// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/cuda_bf16.cuh"
#include "kernels/internal/cuda_rows.cuh"
#include "kernels/internal/cuda_tiles.cuh"
#include "kernels/internal/order_key.h"

// How Select reads block scores out of the summaries that Observe left in the pages.
namespace spin::kernels::internal {

// The queries that the verifier rows of a row look at: all from the first to the last.
struct Queries {
  int64_t first;
  int64_t last;
};

// Block scores of a row out of the summaries, for the tiles of a warp in ascending order: at most
// 32 pages of them.
class SummaryReader {
 public:
  // Reads nothing but the record, which no kernel writes.
  __device__ SummaryReader(const StateView& state, const RequestRecord& record, const Geometry& g,
                           int32_t layer, const Queries& queries, Tiles tiles, int32_t blocks)
      : base_(state.slab + SummaryOffset(g, layer) + threadIdx.x % 32 * sizeof(BlockSummary)),
        farthest_(DAt<Bf16>(state, record, g, layer, queries.first)),
        queries_(queries) {
    asm volatile("" : "+l"(base_));  // or nvcc would compute it anew all the time
    // Of blocks of 64: in other geometries what comes of it means nothing, and is not looked at.
    const int32_t first = min(tiles.first / 2, kMaxPages - 1);
    const int32_t page = min(first + static_cast<int32_t>(threadIdx.x % 32), kMaxPages - 1);
    page_ = record.pages[page * 64 < blocks ? page : 0];
    first_page_ = record.pages[0];
    page_before_ = first > 0 && tiles.first * 32 <= blocks ? record.pages[first - 1] : kNoPage;
  }

  // Has the summaries of the tiles come closer, whatever they are now.
  __device__ void Prefetch(Tiles tiles) const {
    if (static_cast<int32_t>(threadIdx.x % 32) * 2 >= tiles.end - tiles.first) return;
    const std::byte* const at = Page(page_) - threadIdx.x % 32 * sizeof(BlockSummary);
    PrefetchToL2(at);
    PrefetchToL2(at + 32 * sizeof(BlockSummary));
    PrefetchToL2(&FirstPage()->query);
  }

  // Once the summaries are there; whole warps.
  __device__ void Start(const StateView& state, const RequestRecord& record, const Geometry& g,
                        int32_t layer) {
    const PageSummary* const first_page = FirstPage();
    summary_query_ = first_page->query;
    summary_slots_ = first_page->slots;
    next_ = queries_.last != summary_query_;
    if (next_ && queries_.first == summary_query_) {
      farthest_ = DAt<Bf16>(state, record, g, layer, queries_.first + 1);
    }
    before_ = uint32_t{farthest_->bits} << 16;
    if (page_before_ != kNoPage) before_ = Load(Page(page_before_) + 32 * sizeof(BlockSummary));
  }

  // The order keys (OrderKeys) of the scores of the lane's blocks in kCount tiles, from the i-th
  // of the warp on, the next ones each time; without what MoreOf adds. Those of blocks that are not
  // free are anything. meanwhile() is called while they are on their way. Whole warps.
  template <int kCount, typename Meanwhile>
  __device__ void Read(int i, uint32_t (&keys)[kCount], const Meanwhile& meanwhile) {
    static_assert(kCount % 2 == 0, "whole pages");
    uint32_t own[kCount];
#pragma unroll
    for (int k = 0; k < kCount; k += 2) {
      const std::byte* const at = Page(__shfl_sync(~0u, page_, (i + k) / 2));
      own[k] = Load(at);
      own[k + 1] = Load(at + 32 * sizeof(BlockSummary));
    }
    meanwhile();
    // Two tiles at a time, one in each half.
#pragma unroll
    for (int k = 0; k < kCount; k += 2) {
      const uint32_t inner = __byte_perm(own[k], own[k + 1], 0x5410);
      const uint32_t last = __byte_perm(own[k], own[k + 1], 0x7632);
      // Of the block before: of the lane before, or of the last lane in the tile before.
      const bool ends_tile = threadIdx.x % 32 == 31;
      const uint32_t handed_on = ends_tile ? __byte_perm(before_, last, 0x5432) : last;
      const uint32_t before = __shfl_sync(~0u, handed_on, (threadIdx.x + 31) % 32);
      before_ = last;
      const uint32_t pair = OrderKeys(MaxOf(inner, next_ ? before : last));
      keys[k] = pair & 0xffffu;
      keys[k + 1] = pair >> 16;
    }
  }

  // Whether there is more to a block's score than Read has found: the row has several queries.
  __device__ bool HasMore() const { return queries_.first != queries_.last; }

  // The order key of that more, of a free block; if the summaries serve.
  __device__ uint32_t MoreOf(const StateView& state, const RequestRecord& record, const Geometry& g,
                             int32_t layer, int32_t block) const {
    const int64_t first_slot = int64_t{block} * 64;
    const auto d = [&](int64_t distance) {
      return ToFloat(*DAt<Bf16>(state, record, g, layer, distance));
    };
    float best = kUnobserved;
    if (queries_.first == summary_query_) best = d(queries_.first - (first_slot + 63));
    for (int64_t query = summary_query_ + 2; query <= queries_.last; ++query) {
      best = fmaxf(best, d(query - first_slot));
    }
    return OrderKey(best) >> 16;
  }

  // Says that the summaries were seen as they are: see PageSummary. One thread, after Start.
  __device__ void Settle() const { FirstPage()->settled = summary_query_; }

  // Whether the scores are right.
  __device__ bool Serves(const RowExtent& extent) const {
    return SummaryServes(summary_query_, summary_slots_, queries_.first, extent);
  }

 private:
  static constexpr uint32_t kNoPage = UINT32_MAX;

  __device__ PageSummary* FirstPage() const {
    return reinterpret_cast<PageSummary*>(Page(first_page_) -
                                          threadIdx.x % 32 * sizeof(BlockSummary));
  }
  // The lane's part of a page's summary.
  __device__ std::byte* Page(uint32_t unit) const {
    return base_ + uint64_t{unit} * kPageOffsetUnit;
  }
  // Both halves of a block's summary; see BlockSummary.
  __device__ static uint32_t Load(const std::byte* at) {
    return *reinterpret_cast<const uint32_t*>(at);
  }

  std::byte* base_;
  const Bf16* farthest_;
  Queries queries_;
  uint32_t page_;  // of lane l: the l-th page of the warp's tiles
  uint32_t first_page_;
  uint32_t page_before_;  // the one before the warp's
  int64_t summary_query_;
  int64_t summary_slots_;
  bool next_;
  uint32_t before_;  // of lane 31, in the high half: `last` of the last block of the tile before
};

}  // namespace spin::kernels::internal
