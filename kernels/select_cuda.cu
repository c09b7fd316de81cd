// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/budget.h"
#include "kernels/cuda_launch.h"
#include "kernels/exploration.h"
#include "kernels/internal/cuda_block_score.cuh"
#include "kernels/internal/cuda_largest.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_summaries.cuh"
#include "kernels/internal/order_key.h"

// Select: a thread block for each (layer, row). A warp owns a contiguous range of tiles of 32
// blocks and a lane one block of each, so that only thresholds and counts cross warps, and ranks
// follow the index. Keys and draws lie in shared memory, or in the workspace where contexts are too
// long. Barriers and waits are what the time goes into, so there are few of both:
//
//   draws, pages | keys | histogram | threshold | ties | choose, histogram of draws | threshold |
//   counts | list
//
// What comes before the first bar does not depend on the kernel before this one, and runs while
// that one ends.
namespace spin::kernels {
namespace {

constexpr int32_t kSharedBlocks = 32768;  // keys of so many blocks fit into shared memory
constexpr int32_t kSmallBlocks = 4096;    // longer contexts get twice the threads
constexpr int kSmallThreads = 512;
constexpr int kLargeThreads = 1024;

// Keys of blocks that the choice is not free about; those of scores and draws are smaller.
constexpr uint32_t kChosen = UINT32_MAX;
constexpr uint32_t kNone = UINT32_MAX - 1;   // of lanes past the last block
constexpr uint32_t kNoKey = UINT32_MAX - 2;  // of no block at all

constexpr uint32_t kDraws = 1u << kExplorationKeyBits;
static_assert(kDraws == internal::kBins);

__host__ __device__ constexpr int32_t RoundedUp(int32_t blocks) { return (blocks + 31) / 32 * 32; }

// A key and a draw for each block.
__host__ __device__ constexpr int64_t KeyBytes(int32_t max_blocks) {
  return RoundedUp(max_blocks) * int64_t{sizeof(uint32_t) + sizeof(uint16_t)};
}

template <int kThreads>
struct SelectShared {
  static constexpr int kWarps = kThreads / 32;
  internal::LargestShared<kThreads> scores;
  internal::LargestShared<kThreads> draws;
  uint32_t ties[kWarps];
  uint32_t draw_ties[kWarps];
  uint32_t sure[kWarps];
};

// The sum over the warps before this one, after a barrier.
template <int kWarps>
__device__ uint32_t SumBefore(const uint32_t (&warps)[kWarps]) {
  const int lane = threadIdx.x % 32;
  return __reduce_add_sync(~0u, lane < static_cast<int>(threadIdx.x / 32) ? warps[lane] : 0u);
}

// Blocks the choice is free about, and how many of them are chosen how.
struct Choice {
  int32_t blocks;
  int32_t first_free;
  int32_t end_free;
  int32_t keep;
  uint32_t best;
  uint32_t explored;
};

__device__ Choice ChoiceFor(const SelectParams& p, const Row& row, const RowExtent& extent,
                            int32_t layer) {
  const Geometry& g = p.geometry;
  const BlockBudget budget =
      BudgetOf(extent, row.next_n, g.topk, g.block, p.policy->sparsity[layer],
               p.policy->exploration, p.policy->pin_first_block != 0);
  Choice choice;
  choice.blocks = extent.blocks;
  choice.first_free = budget.pinned - extent.tail_blocks;
  choice.end_free = extent.blocks - extent.tail_blocks;
  choice.keep = budget.keep;
  choice.best = static_cast<uint32_t>(budget.keep - budget.pinned - budget.explored);
  choice.explored = static_cast<uint32_t>(budget.explored);
  return choice;
}

// Block scores straight from V and D, where no summary serves: the rare or the slow case.
template <typename T>
__device__ __noinline__ void ScanScores(const SelectParams& params, const Row& row, int32_t layer,
                                        int32_t end, internal::Tiles tiles, float* out) {
  const SelectParams p = Bound(params);
  const RequestRecord& record = p.state.records[row.request];
  __syncwarp();  // `out` may hold what the lanes wrote when they tried the summaries
  for (int32_t block = tiles.first * 32; block < min(tiles.end * 32, end); ++block) {
    const float score = internal::ScanBlock<T>(p.state, record, p.geometry, row, layer, block);
    if (threadIdx.x % 32 == 0) out[block] = score;
  }
  __syncwarp();
}

// Grid: (rows, layers).
template <typename T, bool kShared, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == kSmallThreads ? 2 : 1)
    SelectKernel(const __grid_constant__ SelectParams params) {
  const SelectParams p = Bound(params);
  constexpr int kWarps = kThreads / 32;
  extern __shared__ std::byte dynamic[];
  __shared__ SelectShared<kThreads> shared;
  const Row row = p.rows[blockIdx.x];
  if (row.request == kPaddingRow) return;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.y);
  const RequestRecord& record = p.state.records[row.request];
  const RowExtent extent = ExtentOf(row.position, row.next_n, p.geometry);
  const Choice choice = ChoiceFor(p, row, extent, layer);
  const internal::Tiles tiles = internal::TilesOf<kWarps>(choice.blocks);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const uint32_t lower_lanes = (1u << lane) - 1;

  const int32_t rounded = RoundedUp(p.max_blocks);
  const int64_t mine = (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * KeyBytes(p.max_blocks);
  auto* const keys = reinterpret_cast<uint32_t*>(kShared ? dynamic : p.workspace + mine);
  auto* const draws = reinterpret_cast<uint16_t*>(keys + rounded);

  internal::Prepare(shared.scores);
  internal::Prepare(shared.draws);
  const int32_t groups = choice.explored > 0 ? (choice.blocks + 7) / 8 : 0;
  for (int32_t group = threadIdx.x; group < groups; group += kThreads) {
    const ExplorationDraw draw =
        DrawBlocks(p.policy->seed, record.key_hash, row.position, layer, group);
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = draw.Key(2 * i) | draw.Key(2 * i + 1) << 16;
    *reinterpret_cast<uint4*>(&draws[group * kBlocksPerDraw]) = {pairs[0], pairs[1], pairs[2],
                                                                 pairs[3]};
  }
  const internal::Summaries summaries(p.state, record, p.geometry, layer);
  const int64_t query = QuerySlot(row.position, p.geometry.tokens_per_slot);
  const bool may_serve =
      HasSummary(p.geometry) && !p.block_scores && row.next_n == 1 && choice.end_free > 0;
  const Bf16* farthest =
      may_serve ? internal::DAt<Bf16>(p.state, record, p.geometry, layer, query) : nullptr;
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  if (threadIdx.x == 0) {
    header.stamp.generation = 0;  // nobody may take the list while it changes
    __threadfence();
  }

  uint32_t low = UINT32_MAX;
  uint32_t high = 0;
  const auto take = [&](int32_t block, uint32_t order) {
    uint32_t key = block < choice.blocks ? kChosen : kNone;
    if (block >= choice.first_free && block < choice.end_free) {
      key = order;
      low = min(low, key);
      high = max(high, key);
    }
    keys[block] = key;
  };
  bool served = false;
  if (may_serve) {
    // bf16 scores differ in the upper half of their keys only.
    served = internal::ForEachSummarised(
        summaries, row, extent, query, farthest, choice.end_free, tiles,
        [&](int32_t block, float score) { take(block, internal::OrderKey(score) >> 16); });
  }
  if (!served) {
    low = UINT32_MAX;
    high = 0;
    const float* scores = reinterpret_cast<const float*>(keys);
    if (p.block_scores) {
      scores = p.block_scores + layer * p.layer_stride + int64_t{blockIdx.x} * p.max_blocks;
    } else {
      ScanScores<T>(params, row, layer, choice.end_free, tiles, reinterpret_cast<float*>(keys));
    }
    for (int32_t tile = tiles.first; tile < tiles.end; ++tile) {
      const int32_t block = tile * 32 + lane;
      take(block, block < choice.end_free ? internal::OrderKey(scores[block]) : 0);
    }
  }

  // The best by score; of the others, at once, the histogram of their draws.
  internal::Threshold last = {kNoKey, 0};
  if (choice.best > 0) {
    last = internal::FindThreshold(shared.scores, choice.best, low, high, [&](const auto& use) {
      for (int32_t tile = tiles.first; tile < tiles.end; ++tile) {
        const uint32_t key = keys[tile * 32 + lane];
        if (key < kNone) use(key);
      }
    });
  }
  uint32_t ties = 0;
  for (int32_t tile = tiles.first; tile < tiles.end; ++tile) {
    ties += keys[tile * 32 + lane] == last.key ? 1 : 0;
  }
  ties = __reduce_add_sync(~0u, ties);
  if (lane == 0) shared.ties[warp] = ties;
  __syncthreads();
  uint32_t before = SumBefore(shared.ties);
  for (int32_t tile = tiles.first; tile < tiles.end; ++tile) {
    const int32_t block = tile * 32 + lane;
    uint32_t key = keys[block];
    const uint32_t tied = __ballot_sync(~0u, key == last.key);
    const bool taken = key == last.key && before + __popc(tied & lower_lanes) < last.ties;
    before += __popc(tied);
    if (key < kNone) {
      if (choice.best > 0 && (key > last.key || taken)) {
        key = kChosen;
      } else if (choice.explored > 0) {
        key = kDraws - 1 - draws[block];  // the smallest draw is the largest key
        atomicAdd(&shared.draws.histogram[key], 1u);
      } else {
        key = 0;
      }
      keys[block] = key;
    }
  }

  // The explored ones, and everything's place in the list.
  internal::Threshold last_draw = {kNoKey, 0};
  if (choice.explored > 0) {
    __syncthreads();
    internal::FindBin(shared.draws, choice.explored);
    last_draw = {shared.draws.bin, shared.draws.rest};
  }
  const auto is_sure = [&](uint32_t key) {
    return key == kChosen || (key < kNoKey && key > last_draw.key);
  };
  uint32_t sure = 0;
  ties = 0;
  for (int32_t tile = tiles.first; tile < tiles.end; ++tile) {
    const uint32_t key = keys[tile * 32 + lane];
    sure += is_sure(key) ? 1 : 0;
    ties += key == last_draw.key ? 1 : 0;
  }
  sure = __reduce_add_sync(~0u, sure);
  ties = __reduce_add_sync(~0u, ties);
  if (lane == 0) {
    shared.sure[warp] = sure;
    shared.draw_ties[warp] = ties;
  }
  __syncthreads();
  before = SumBefore(shared.draw_ties);
  uint32_t rank = SumBefore(shared.sure) + min(before, last_draw.ties);
  int32_t* const list = p.lists.Blocks(row.buffer, row.request, layer);
  ListMask* const masks = p.lists.Masks(row.buffer, row.request, layer);
  for (int32_t tile = tiles.first; tile < tiles.end; ++tile) {
    const int32_t block = tile * 32 + lane;
    const uint32_t key = keys[block];
    const uint32_t tied = __ballot_sync(~0u, key == last_draw.key);
    const bool taken = key == last_draw.key && before + __popc(tied & lower_lanes) < last_draw.ties;
    before += __popc(tied);
    const uint32_t kept = __ballot_sync(~0u, is_sure(key) || taken);
    if (kept >> lane & 1) list[rank + __popc(kept & lower_lanes)] = block;
    if (lane == 0) masks[tile] = {kept, rank};
    rank += __popc(kept);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    header.count = choice.keep;
    header.blocks = choice.blocks;
    header.pinned = choice.keep - static_cast<int32_t>(choice.best + choice.explored);
    header.predicted = static_cast<int32_t>(choice.best);
    header.explored = static_cast<int32_t>(choice.explored);
    header.reserved = 0;
    __threadfence();
    header.stamp = {p.epoch, record.generation, row.next_n, row.position};
  }
}

template <typename T, bool kShared, int kThreads>
cudaError_t LaunchAs(const SelectParams& p, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(p.row_count, p.layers.count);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kShared ? KeyBytes(p.max_blocks) : 0;
  config.stream = stream;
  // Lets the kernel start, and draw, while the one before it ends.
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, SelectKernel<T, kShared, kThreads>, p);
}

template <typename T>
cudaError_t Launch(const SelectParams& p, cudaStream_t stream) {
  if (p.max_blocks <= kSmallBlocks) return LaunchAs<T, true, kSmallThreads>(p, stream);
  if (p.max_blocks <= kSharedBlocks) return LaunchAs<T, true, kLargeThreads>(p, stream);
  return LaunchAs<T, false, kLargeThreads>(p, stream);
}

// How much shared memory launches may ask for. Loads the kernel, too.
template <typename T, bool kShared, int kThreads>
cudaError_t SetRoom(int32_t max_blocks) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(SelectKernel<T, kShared, kThreads>),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(KeyBytes(max_blocks)));
}

template <typename T>
cudaError_t SetRooms() {
  cudaError_t error = SetRoom<T, true, kSmallThreads>(kSmallBlocks);
  if (error == cudaSuccess) error = SetRoom<T, true, kLargeThreads>(kSharedBlocks);
  if (error == cudaSuccess) error = SetRoom<T, false, kLargeThreads>(0);
  return error;
}

}  // namespace

int64_t SelectWorkspaceBytesCuda(int32_t layers, int32_t rows, int32_t max_blocks) {
  return max_blocks <= kSharedBlocks ? 0 : int64_t{layers} * rows * KeyBytes(max_blocks);
}

cudaError_t SelectCuda(const SelectParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  return p.geometry.state == Dtype::kF32 ? Launch<float>(p, stream) : Launch<Bf16>(p, stream);
}

cudaError_t internal::LoadSelectCuda() {
  const cudaError_t error = SetRooms<float>();
  return error != cudaSuccess ? error : SetRooms<Bf16>();
}

}  // namespace spin::kernels
