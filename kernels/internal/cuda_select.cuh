// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/exploration.h"
#include "kernels/internal/cuda_choice.cuh"
#include "kernels/internal/cuda_compact.cuh"
#include "kernels/internal/cuda_largest.cuh"
#include "kernels/internal/cuda_start.h"
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
// range, and one histogram is enough. Instructions count where rows are many: so nothing in the
// loops over a lane's blocks branches, and keys are such that one comparison says most.
namespace spin::kernels::internal {

// Keys of blocks that the choice is not free about; those of scores and draws lie between them.
constexpr uint32_t kChosen = UINT32_MAX;
constexpr uint32_t kNone = 0;                // of lanes past the last block
constexpr uint32_t kNoKey = UINT32_MAX - 1;  // nobody's; all but kChosen are below

// The key of a draw is kDraws less the draw: the smallest draw is the largest key.
constexpr uint32_t kDraws = 1u << kExplorationKeyBits;
static_assert(kDraws == kBins);

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
  LargestShared<kThreads> scores;
  LargestShared<kThreads> draws;
  uint32_t ties[kWarps];
  uint32_t draw_ties[kWarps];
  uint32_t sure[kWarps];
  Choice choice;
  uint32_t cut_before;  // the list's, before
  // If rows are compacted: where to, and whether through the list that is made here.
  CompactedRow to;
  bool serves;
};

// The sum over the warps before this one, after a barrier.
template <int kWarps>
__device__ inline uint32_t SumBefore(const uint32_t (&warps)[kWarps]) {
  const int lane = threadIdx.x % 32;
  return __reduce_add_sync(~0u, lane < static_cast<int>(threadIdx.x / 32) ? warps[lane] : 0u);
}

// What one thread wrote before is seen by the device before what it writes, or any thread of the
// block after a barrier.
__device__ inline void Fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Whether Compact would use the list that is made here.
__device__ inline bool Serves(const Row& row, uint32_t generation, const Row& compacted) {
  return SameList(compacted, row) && compacted.generation == generation;
}

// Grid: (rows, layers). `compact` has a table if rows are to be compacted, too. kSummaries: pages
// have them (HasSummary).
template <typename T, bool kSummaries, typename Keys, int kThreads, int kCtasPerSm, bool kShared>
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
    WaitForKernelBefore();
    if (compact.kept_table) {
      CompactedRow(compact, index, layer).template KeepAll<kThreads>();
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

  Prepare(shared.scores);
  Prepare(shared.draws);
  ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  if (warp == 0) {
    // May change under our hands. It is a guess anyway, as long as all threads have the same.
    const uint32_t cut_before = header.cut;
    const Choice made = ChoiceFor(p, row, layer);
    if (lane == 0) {
      shared.choice = made;
      shared.cut_before = cut_before;
    }
  } else if (warp == 1 && compact.kept_table) {
    const CompactedRow to(compact, index, layer);
    if (lane == 0) {
      shared.to = to;
      shared.serves = Serves(row, record.generation, to.row());
    }
  }
  __syncthreads();
  const Choice choice = shared.choice;
  const Tiles tiles = TilesOf<kWarps>(choice.extent.blocks);
  if (!kShared) WaitForKernelBefore();  // which may use the workspace
  const int32_t groups = choice.explored > 0 ? (choice.extent.blocks + 7) / 8 : 0;
  for (int32_t group = threadIdx.x; group < groups; group += kThreads) {
    const ExplorationDraw draw =
        DrawBlocks(p.policy->seed, record.key_hash, row.position, layer, group);
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = (kDraws - draw.Key(2 * i)) | (kDraws - draw.Key(2 * i + 1)) << 16;
    }
    *reinterpret_cast<uint4*>(&draws[group * kBlocksPerDraw]) = {pairs[0], pairs[1], pairs[2],
                                                                 pairs[3]};
  }
  const bool may_serve = kSummaries && !p.block_scores && choice.end_free > 0;
  const auto query_of = [&](int64_t position) {
    return may_serve ? QuerySlot(position, p.geometry.tokens_per_slot) : 0;
  };
  SummaryReader summaries(p.state, record, p.geometry, layer,
                          {query_of(row.position), query_of(row.position + row.next_n - 1)}, tiles,
                          choice.extent.blocks);
  const bool compacts = compact.kept_table != nullptr;
  const bool serves = compacts && choice.keep > 0 && shared.serves;
  if (may_serve) summaries.Prefetch(tiles);
  if (serves) shared.to.PrefetchPages(tiles);
  WaitForKernelBefore();
  // Nobody may take the list while it changes.
  if (threadIdx.x == 0) header.stamp.generation = 0;
  // While the scores are on their way.
  const auto meanwhile = [&] {
    if (!compacts) {
      if (threadIdx.x == 0) Fence();
    } else if (serves) {
      shared.to.WriteSlots(choice.keep);
    } else {
      shared.to.template KeepAll<kThreads>();
    }
  };

  const int32_t first_block = tiles.first * 32 + lane;
  const int32_t end_block = min(choice.extent.blocks, tiles.end * 32);
  bool served = false;
  if (may_serve) {
    summaries.Start(p.state, record, p.geometry, layer);
    // bf16 scores differ in the upper half of their keys only.
    keys.MakeEach(tiles, [&](int i, uint32_t(&out)[kGroup]) {
      summaries.Read(i, out, [&] {
        if (i == 0) meanwhile();
      });
    });
    if (Keys::Count(tiles) == 0) meanwhile();
    served = summaries.Serves(choice.extent);
    if (threadIdx.x == 0) summaries.Settle();
    if (served && summaries.HasMore()) {
      const int32_t end = min(choice.end_free, tiles.end * 32);
      keys.ForEach(tiles, [&](int i, uint32_t& key) {
        const int32_t block = first_block + i * 32;
        if (block < end) {
          key = max(key, summaries.MoreOf(p.state, record, p.geometry, layer, block));
        }
      });
    }
  }
  if (!served) {
    if (!may_serve) meanwhile();
    const float* const given = p.block_scores ? p.block_scores + layer * p.layer_stride +
                                                    int64_t{blockIdx.x} * p.max_blocks
                                              : nullptr;
    keys.MakeEach(tiles, [&](int first, uint32_t(&out)[kGroup]) {
#pragma unroll 1
      for (int i = 0; i < kGroup; ++i) {
        const int32_t block = first_block + (first + i) * 32;
        float score = kUnobserved;
        if (!given) {
          constexpr auto kScan = kSummaries ? ScanTileInTurn<T> : ScanTile<T>;
          score = kScan(params, row, layer, choice.end_free, block / 32);
        } else if (block < choice.end_free) {
          score = given[block];
        }
        const uint32_t key = OrderKey(score);
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          if (k == i) out[k] = key;
        }
      }
    });
  }

  // Most warps have as many tiles as keys, and are free to choose all of them.
  const int32_t end_free = min(choice.end_free, tiles.end * 32);
  if (tiles.first * 32 < choice.first_free || (tiles.first + Keys::Count(tiles)) * 32 > end_free) {
    keys.ForEach(tiles, [&](int i, uint32_t& key) {
      const int32_t block = first_block + i * 32;
      const bool free = block >= choice.first_free && block < end_free;
      key = free ? key : block < end_block ? kChosen : kNone;
    });
  }

  // The best by score; of the others, at once, the histogram of their draws.
  Threshold last = {kNoKey, 0};
  if (choice.best > 0) {
    const auto each = [&](const auto& use) {
      keys.ForEach(tiles, [&](int, uint32_t key) { use(key); });
    };
    const uint32_t near = served ? shared.cut_before & 0xffffu : 0;  // keys are 16 bits there
    if (near == 0 || !FindNear(shared.scores, choice.best, near, each, last)) {
      last = FindThreshold(shared.scores, choice.best, each);
    }
  }
  using Bits = TileBits<Keys::kMostTiles>;
  Bits tied;
  keys.ForEach(tiles,
               [&](int i, uint32_t key) { tied.Set(i, __ballot_sync(~0u, key == last.key)); });
  const uint32_t ties = tied.Count();
  if (lane == 0) shared.ties[warp] = ties;
  __syncthreads();
  tied.KeepFirst(SumBefore(shared.ties), last.ties);
  const uint32_t draw_bins = BinsOf(shared.draws);
  const bool explores = choice.explored > 0;
  const uint32_t enough = choice.best > 0 ? last.key : kNoKey;  // keys above are chosen
  keys.ForEach(tiles, [&](int i, uint32_t& key) {
    const bool tie = tied.Get(i) >> lane & 1;
    const uint32_t draw = explores && key != kNone ? draws[first_block + i * 32] : kNone;
    key = (key > enough) | tie ? kChosen : draw;
    Count(draw_bins, min(key - 1, uint32_t{kNoBin}));
  });

  // The explored ones, and everything's place in the list.
  Threshold last_draw = {kNoKey, 0};
  if (choice.explored > 0) {
    __syncthreads();
    FindBin(shared.draws, choice.explored);
    last_draw = {shared.draws.bin + 1, shared.draws.rest};
  }
  Bits kept;
  Bits drawn;
  keys.ForEach(tiles, [&](int i, uint32_t key) {
    kept.Set(i, __ballot_sync(~0u, key > last_draw.key));
    drawn.Set(i, __ballot_sync(~0u, key == last_draw.key));
  });
  const uint32_t sure = kept.Count();
  const uint32_t draw_ties = drawn.Count();
  if (lane == 0) {
    shared.sure[warp] = sure;
    shared.draw_ties[warp] = draw_ties;
  }
  // The pages that a table needs are on their way meanwhile, in the place of the keys.
  if (serves) {
    const int32_t* const pages = Opaque(shared.to.pages() + first_block);
    keys.ForEach(tiles, [&](int i, uint32_t& page) {
      page = first_block + i * 32 < end_block ? static_cast<uint32_t>(pages[i * 32]) : 0;
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
  int32_t* const list = Opaque(p.lists.Blocks(row.buffer, row.request, layer));
  const uint32_t lanes_before = (1u << lane) - 1;
  const auto write_list = [&](const auto& also) {
    keys.ForEach(tiles, [&](int i, uint32_t page) {
      const uint32_t bits = kept.Get(i);
      const uint32_t rank = Bits::OfTile(ranks, i);
      const bool listed = bits >> lane & 1;
      const auto j = static_cast<int32_t>(rank + __popc(bits & lanes_before));
      const int32_t block = first_block + i * 32;
      StoreIf(listed, list + j, block);
      also(listed, j, block, static_cast<int32_t>(page));
    });
  };
  if (serves) {
    const CompactedRow to = shared.to;
    write_list([&](bool listed, int32_t j, int32_t block, int32_t page) {
      to.WriteIf(listed, j, block, page);
    });
  } else {
    write_list([](bool, int32_t, int32_t, int32_t) {});
  }
  if (threadIdx.x == 0) {
    header.count = choice.keep;
    header.blocks = choice.extent.blocks;
    header.pinned = choice.keep - static_cast<int32_t>(choice.best + choice.explored);
    header.predicted = static_cast<int32_t>(choice.best);
    header.explored = static_cast<int32_t>(choice.explored);
    header.cut = served && choice.best > 0 ? last.key : 0;
  }
  // Lists that are compacted at once have no reader before this launch ends.
  if (!compacts) {
    __syncthreads();
    if (threadIdx.x == 0) Fence();
  }
  if (threadIdx.x == 0) {
    header.stamp = {p.epoch, record.generation, row.next_n, row.position};
  }
}

}  // namespace spin::kernels::internal
