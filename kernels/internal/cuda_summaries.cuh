// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/cuda_bf16.cuh"
#include "kernels/internal/cuda_rows.cuh"

// How Select reads block scores out of the summaries that Observe left in the pages.
namespace spin::kernels::internal {

// The tiles of one warp.
struct Tiles {
  int32_t first;
  int32_t end;
};

template <int kWarps>
__device__ inline Tiles TilesOf(int32_t blocks) {
  const int32_t tiles = (blocks + 31) / 32;
  const int32_t each = (tiles + kWarps - 1) / kWarps;
  const int32_t first = min(tiles, static_cast<int32_t>(threadIdx.x / 32) * each);
  return {first, min(tiles, first + each)};
}

// Where the pages' summaries of one layer are, for the blocks of a warp's tiles. A tile is half a
// page.
class Summaries {
 public:
  __device__ Summaries(const StateView& state, const RequestRecord& record, const Geometry& g,
                       int32_t layer)
      : base_(state.slab + SummaryOffset(g, layer)), pages_(record.pages) {}

  __device__ const PageSummary* Page(int32_t page) const {
    return reinterpret_cast<const PageSummary*>(base_ + uint64_t{pages_[page]} * kPageOffsetUnit);
  }
  // Both halves of a block's summary; see BlockSummary.
  __device__ uint32_t Block(int32_t block) const {
    return *reinterpret_cast<const uint32_t*>(&Page(block / 64)->blocks[block % 64]);
  }

 private:
  const std::byte* base_;
  const uint32_t* pages_;
};

// Calls use(block, score) for every lane of every tile of a row that the summaries may serve;
// scores of blocks that are not free are anything. Returns false if they do not serve: then the
// scores were wrong. `farthest` is D at the distance of slot 0.
template <typename Use>
__device__ inline bool ForEachSummarised(const Summaries& summaries, const Row& row,
                                         const RowExtent& extent, int64_t query,
                                         const Bf16* farthest, int32_t end, Tiles tiles,
                                         const Use& use) {
  constexpr int kAhead = 4;  // tiles whose loads are in flight together
  const int lane = threadIdx.x % 32;
  const PageSummary* first_page = summaries.Page(0);
  const int64_t summary_query = first_page->query;
  const int64_t summary_slots = first_page->slots;
  const uint32_t far = farthest->bits;
  // The block before the lane's: its neighbour's, or one more load for lane 0.
  uint32_t before = far << 16;
  if (lane == 0 && tiles.first > 0 && tiles.first * 32 <= end) {
    before = summaries.Block(tiles.first * 32 - 1);
  }
  const bool next = query != summary_query;
  for (int32_t first = tiles.first; first < tiles.end; first += kAhead) {
    uint32_t own[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t block = (first + i) * 32 + lane;
      own[i] = first + i < tiles.end && block < end ? summaries.Block(block) : 0;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= tiles.end) break;
      const uint32_t neighbour = __shfl_up_sync(~0u, own[i], 1);
      const uint32_t previous = lane == 0 ? before : neighbour;
      before = __shfl_sync(~0u, own[i], 31);
      use((first + i) * 32 + lane, fmaxf(LowHalf(own[i]), HighHalf(next ? previous : own[i])));
    }
  }
  return SummaryServes(summary_query, summary_slots, query, extent, row.next_n);
}

}  // namespace spin::kernels::internal
