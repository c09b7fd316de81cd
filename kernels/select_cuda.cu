// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/exploration.h"
#include "kernels/internal/cuda_choice.cuh"
#include "kernels/internal/cuda_compact.cuh"
#include "kernels/internal/cuda_early.h"
#include "kernels/internal/cuda_largest.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_summaries.cuh"
#include "kernels/internal/cuda_tile_score.cuh"
#include "kernels/internal/cuda_tiles.cuh"
#include "kernels/internal/order_key.h"
#include "kernels/internal/sound_list.h"

// Select: a thread block for each (layer, row). A warp owns a contiguous range of tiles of 32
// blocks and a lane one block of each, so that only thresholds and counts cross warps, and ranks
// follow the index. Keys lie in registers; for long contexts in shared memory, or in the workspace
// where that is too small. Barriers and waits are what the time goes into, so there are few of
// both, and where rows are many few warps for each:
//
//   draws, pages | keys | histogram | threshold | ties | choose, histogram of draws | threshold |
//   counts | list, table
//
// What comes before the first bar does not depend on the kernel before this one, and runs while
// that one ends. The threshold is looked for near that of the list before first: then keys need no
// range, and one histogram is enough.
namespace spin::kernels {
namespace {

constexpr int32_t kSharedBlocks = 32768;  // keys of so many blocks fit into shared memory

// Keys of blocks that the choice is not free about; those of scores and draws are smaller.
constexpr uint32_t kChosen = UINT32_MAX;
constexpr uint32_t kNone = UINT32_MAX - 1;   // of lanes past the last block
constexpr uint32_t kNoKey = UINT32_MAX - 2;  // of no block at all

constexpr uint32_t kDraws = 1u << kExplorationKeyBits;
static_assert(kDraws == internal::kBins);

__host__ __device__ constexpr int32_t RoundedUp(int32_t blocks) { return (blocks + 31) / 32 * 32; }

__host__ __device__ constexpr int64_t DrawBytes(int32_t max_blocks) {
  return RoundedUp(max_blocks) * int64_t{sizeof(uint16_t)};
}

// A key and a draw for each block.
__host__ __device__ constexpr int64_t KeyBytes(int32_t max_blocks) {
  return RoundedUp(max_blocks) * int64_t{sizeof(uint32_t)} + DrawBytes(max_blocks);
}

template <int kThreads>
struct SelectShared {
  static constexpr int kWarps = kThreads / 32;
  internal::LargestShared<kThreads> scores;
  internal::LargestShared<kThreads> draws;
  uint32_t ties[kWarps];
  uint32_t draw_ties[kWarps];
  uint32_t sure[kWarps];
  internal::Choice choice;
  uint32_t cut_before;  // the list's, before
};

// The sum over the warps before this one, after a barrier.
template <int kWarps>
__device__ uint32_t SumBefore(const uint32_t (&warps)[kWarps]) {
  const int lane = threadIdx.x % 32;
  return __reduce_add_sync(~0u, lane < static_cast<int>(threadIdx.x / 32) ? warps[lane] : 0u);
}

// What one thread wrote before is seen by the device before what it writes, or any thread of the
// block after a barrier.
__device__ void Fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Whether Compact would use the list that is made here.
__device__ bool Serves(const Row& row, uint32_t generation, const Row& compacted) {
  return internal::SameList(compacted, row) && compacted.generation == generation;
}

// Grid: (rows, layers). `compact` has a table if rows are to be compacted, too.
template <typename T, typename Keys, int kThreads, int kCtasPerSm, bool kShared>
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    SelectKernel(const __grid_constant__ SelectParams params,
                 const __grid_constant__ CompactParams compact) {
  const SelectParams p = Bound(params);
  constexpr int kWarps = kThreads / 32;
  constexpr int kGroup = Keys::kGroup;
  extern __shared__ std::byte dynamic[];
  __shared__ SelectShared<kThreads> shared;
  const auto index = static_cast<int32_t>(blockIdx.x);
  const Row row = p.rows[index];
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.y);
  if (row.request == kPaddingRow) {
    // Also if there is nothing to do: the launch must not end before the one before it.
    internal::WaitForKernelBefore();
    if (compact.kept_table) {
      internal::CompactedRow(compact, index, layer).template Finish<kThreads>(0);
    }
    return;
  }
  const RequestRecord& record = p.state.records[row.request];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;

  const int64_t mine = (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * KeyBytes(p.max_blocks);
  std::byte* const room = kShared ? dynamic : p.workspace + mine;
  auto* const draws = reinterpret_cast<uint16_t*>(room);
  Keys keys(room + DrawBytes(p.max_blocks));

  internal::Prepare(shared.scores);
  internal::Prepare(shared.draws);
  ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  if (warp == 0) {
    // May change under our hands. It is a guess anyway, as long as all threads have the same.
    const uint32_t cut_before = header.cut;
    const internal::Choice made = internal::ChoiceFor(p, row, layer);
    if (lane == 0) {
      shared.choice = made;
      shared.cut_before = cut_before;
    }
  }
  __syncthreads();
  const internal::Choice choice = shared.choice;
  const internal::Tiles tiles = internal::TilesOf<kWarps>(choice.extent.blocks);
  const int32_t groups = choice.explored > 0 ? (choice.extent.blocks + 7) / 8 : 0;
  for (int32_t group = threadIdx.x; group < groups; group += kThreads) {
    const ExplorationDraw draw =
        DrawBlocks(p.policy->seed, record.key_hash, row.position, layer, group);
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = draw.Key(2 * i) | draw.Key(2 * i + 1) << 16;
    *reinterpret_cast<uint4*>(&draws[group * kBlocksPerDraw]) = {pairs[0], pairs[1], pairs[2],
                                                                 pairs[3]};
  }
  const int64_t query = QuerySlot(row.position, p.geometry.tokens_per_slot);
  const bool may_serve =
      HasSummary(p.geometry) && !p.block_scores && row.next_n == 1 && choice.end_free > 0;
  internal::SummaryReader summaries(p.state, record, p.geometry, layer, may_serve ? query : 0,
                                    tiles, choice.extent.blocks);
  internal::WaitForKernelBefore();
  // Nobody may take the list while it changes.
  if (threadIdx.x == 0) header.stamp.generation = 0;

  uint32_t low = UINT32_MAX;
  uint32_t high = 0;
  const int32_t first_block = tiles.first * 32 + lane;
  const int32_t end_block = min(choice.extent.blocks, tiles.end * 32);
  const int32_t end_free = min(choice.end_free, tiles.end * 32);
  const auto key_of = [&](int32_t block, uint32_t order) {
    const bool free = block >= choice.first_free && block < end_free;
    low = min(low, free ? order : UINT32_MAX);
    high = max(high, free ? order : 0);
    return free ? order : block < end_block ? kChosen : kNone;
  };
  bool served = false;
  if (may_serve) {
    summaries.Start();
    // bf16 scores differ in the upper half of their keys only.
    keys.MakeEach(tiles, [&](int i, uint32_t(&out)[kGroup]) {
      summaries.Read(i, out, [&] {
        if (i == 0 && threadIdx.x == 0) Fence();
      });
#pragma unroll
      for (int k = 0; k < kGroup; ++k) out[k] = key_of(first_block + (i + k) * 32, out[k]);
    });
    served = summaries.Serves(choice.extent, row.next_n);
  }
  if (!served) {
    if (threadIdx.x == 0) Fence();
    low = UINT32_MAX;
    high = 0;
    const float* const given = p.block_scores ? p.block_scores + layer * p.layer_stride +
                                                    int64_t{blockIdx.x} * p.max_blocks
                                              : nullptr;
    keys.MakeEach(tiles, [&](int first, uint32_t(&out)[kGroup]) {
#pragma unroll 1
      for (int i = 0; i < kGroup; ++i) {
        const int32_t block = first_block + (first + i) * 32;
        float score = kUnobserved;
        if (!given) {
          score = internal::ScanTile<T>(params, row, layer, choice.end_free, block / 32);
        } else if (block < choice.end_free) {
          score = given[block];
        }
        const uint32_t key = key_of(block, internal::OrderKey(score));
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          if (k == i) out[k] = key;
        }
      }
    });
  }

  // The best by score; of the others, at once, the histogram of their draws.
  internal::Threshold last = {kNoKey, 0};
  if (choice.best > 0) {
    const auto each = [&](const auto& use) {
      keys.ForEach(tiles, [&](int, uint32_t key) { use(key); });
    };
    if (!served || !internal::FindNear(shared.scores, choice.best, shared.cut_before, each, last)) {
      last = internal::FindThreshold(shared.scores, choice.best, low, high, each);
    }
  }
  using Bits = internal::TileBits<Keys::kMostTiles>;
  Bits tied;
  keys.ForEach(tiles,
               [&](int i, uint32_t key) { tied.Set(i, __ballot_sync(~0u, key == last.key)); });
  const uint32_t ties = tied.Count();
  if (lane == 0) shared.ties[warp] = ties;
  __syncthreads();
  tied.KeepFirst(SumBefore(shared.ties), last.ties);
  const uint32_t draw_bins = internal::BinsOf(shared.draws);
  const bool explores = choice.explored > 0;
  const uint32_t enough = choice.best > 0 ? last.key : kNoKey;  // keys above are chosen
  keys.ForEach(tiles, [&](int i, uint32_t& key) {
    const uint32_t taken = tied.Get(i);
    if (key < kNone) {
      const bool chosen = key > enough || (taken >> lane & 1);
      // The smallest draw is the largest key.
      const uint32_t draw = explores ? kDraws - 1 - draws[first_block + i * 32] : 0;
      key = chosen ? kChosen : draw;
    }
    internal::CountIf(explores && key < kDraws, draw_bins, key);
  });

  // The explored ones, and everything's place in the list.
  internal::Threshold last_draw = {kNoKey, 0};
  if (choice.explored > 0) {
    __syncthreads();
    internal::FindBin(shared.draws, choice.explored);
    last_draw = {shared.draws.bin, shared.draws.rest};
  }
  Bits kept;
  Bits drawn;
  keys.ForEach(tiles, [&](int i, uint32_t key) {
    kept.Set(i, __ballot_sync(~0u, key == kChosen || (key < kNoKey && key > last_draw.key)));
    drawn.Set(i, __ballot_sync(~0u, key == last_draw.key));
  });
  const uint32_t sure = kept.Count();
  const uint32_t draw_ties = drawn.Count();
  if (lane == 0) {
    shared.sure[warp] = sure;
    shared.draw_ties[warp] = draw_ties;
  }
  // The pages that a table needs are on their way meanwhile, in the place of the keys.
  const bool serves =
      compact.kept_table && choice.keep > 0 && Serves(row, record.generation, compact.rows[index]);
  if (serves) {
    const int32_t* const pages = compact.block_table + int64_t{index} * compact.table_stride;
    keys.ForEach(tiles, [&](int i, uint32_t& page) {
      page = static_cast<uint32_t>(pages[min(first_block + i * 32, choice.extent.blocks - 1)]);
    });
  }
  __syncthreads();
  const uint32_t before = SumBefore(shared.draw_ties);
  drawn.KeepFirst(before, last_draw.ties);
  kept.Add(drawn);
  uint32_t ranks[Bits::kWords];
  kept.Ranks(SumBefore(shared.sure) + min(before, last_draw.ties), ranks);
  ListMask* const masks = p.lists.Masks(row.buffer, row.request, layer);
#pragma unroll
  for (int k = 0; k < Bits::kWords; ++k) {
    const int32_t tile = tiles.first + 32 * k + lane;
    if (tile < tiles.end) masks[tile] = {kept.Word(k), ranks[k]};
  }
  int32_t* const list = p.lists.Blocks(row.buffer, row.request, layer);
  const auto write_list = [&](const auto& also) {
    keys.ForEach(tiles, [&](int i, uint32_t page) {
      const uint32_t bits = kept.Get(i);
      const uint32_t rank = __shfl_sync(~0u, ranks[Bits::kWords == 1 || i < 32 ? 0 : 1], i);
      if (bits >> lane & 1) {
        const auto j = static_cast<int32_t>(rank + __popc(bits & ((1u << lane) - 1)));
        const int32_t block = first_block + i * 32;
        list[j] = block;
        also(j, block, static_cast<int32_t>(page));
      }
    });
  };
  if (serves) {
    const internal::CompactedRow to(compact, index, layer);
    write_list([&](int32_t j, int32_t block, int32_t page) { to.Write(j, block, page); });
    to.Finish<kThreads>(choice.keep);
  } else {
    write_list([](int32_t, int32_t, int32_t) {});
    if (compact.kept_table)
      internal::CompactedRow(compact, index, layer).template Finish<kThreads>(0);
  }
  if (threadIdx.x == 0) {
    header.count = choice.keep;
    header.blocks = choice.extent.blocks;
    header.pinned = choice.keep - static_cast<int32_t>(choice.best + choice.explored);
    header.predicted = static_cast<int32_t>(choice.best);
    header.explored = static_cast<int32_t>(choice.explored);
    header.cut = served ? last.key : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    Fence();
    header.stamp = {p.epoch, record.generation, row.next_n, row.position};
  }
}

// One way to launch Select.
struct Variant {
  void (*kernel)(SelectParams, CompactParams);
  int threads;
  int32_t max_blocks;  // that it is able to choose from
  int32_t max_rows;    // of all layers, up to which it is fastest
  bool keys_in_registers;
  bool shared;
};

constexpr int32_t kMultiprocessors = 132;  // of the GPU that this is tuned for

template <typename T, int kThreads, int kEach, int kCtasPerSm>
constexpr Variant InRegisters(int32_t max_rows) {
  return {SelectKernel<T, internal::RegisterKeys<kEach>, kThreads, kCtasPerSm, true>,
          kThreads,
          kThreads * kEach,
          max_rows,
          true,
          true};
}

// In the order of preference: as long as all rows find room at once, many threads shorten the wait
// for each.
template <typename T>
constexpr Variant kVariants[] = {InRegisters<T, 512, 4, 1>(kMultiprocessors),
                                 InRegisters<T, 512, 4, 2>(2 * kMultiprocessors),
                                 InRegisters<T, 256, 8, 4>(4 * kMultiprocessors),
                                 InRegisters<T, 128, 16, 6>(INT32_MAX),
                                 InRegisters<T, 1024, 8, 1>(kMultiprocessors),
                                 InRegisters<T, 512, 16, 2>(INT32_MAX),
                                 {SelectKernel<T, internal::MemoryKeys, 1024, 1, true>, 1024,
                                  kSharedBlocks, INT32_MAX, false, true},
                                 {SelectKernel<T, internal::MemoryKeys, 1024, 1, false>, 1024,
                                  INT32_MAX, INT32_MAX, false, false}};

int64_t SharedBytes(const Variant& variant, int32_t max_blocks) {
  if (!variant.shared) return 0;
  return variant.keys_in_registers ? DrawBytes(max_blocks) : KeyBytes(max_blocks);
}

template <typename T>
cudaError_t Launch(const SelectParams& p, const CompactParams& compact, cudaStream_t stream) {
  // Where all of V and D must be read, each row has work for many threads.
  const int32_t rows = HasSummary(p.geometry) ? p.row_count * p.layers.count : 0;
  const Variant* variant = kVariants<T>;
  while (variant->max_blocks < p.max_blocks || variant->max_rows < rows) ++variant;
  const dim3 grid(static_cast<uint32_t>(p.row_count), static_cast<uint32_t>(p.layers.count));
  return internal::LaunchEarly(variant->kernel, grid, variant->threads,
                               static_cast<size_t>(SharedBytes(*variant, p.max_blocks)), stream, p,
                               compact);
}

// How much shared memory launches may ask for. Loads the kernels, too.
template <typename T>
cudaError_t SetRooms() {
  for (const Variant& variant : kVariants<T>) {
    const cudaError_t error = cudaFuncSetAttribute(
        reinterpret_cast<const void*>(variant.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(SharedBytes(variant, variant.max_blocks)));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

int64_t SelectWorkspaceBytesCuda(int32_t layers, int32_t rows, int32_t max_blocks) {
  return max_blocks <= kSharedBlocks ? 0 : int64_t{layers} * rows * KeyBytes(max_blocks);
}

cudaError_t SelectAndCompactCuda(const SelectParams& p, const CompactParams& compact,
                                 cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  return p.geometry.state == Dtype::kF32 ? Launch<float>(p, compact, stream)
                                         : Launch<Bf16>(p, compact, stream);
}

cudaError_t SelectCuda(const SelectParams& p, cudaStream_t stream) {
  return SelectAndCompactCuda(p, {}, stream);
}

cudaError_t internal::LoadSelectCuda() {
  const cudaError_t error = SetRooms<float>();
  return error != cudaSuccess ? error : SetRooms<Bf16>();
}

}  // namespace spin::kernels
