// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/cuda_scan_lane.cuh"

// What a warp of Observe's fast form does with its run of chunks; see scan_cuda.cu. The loop is
// bound by instructions before it is by memory, so: what a lane needs lies behind pointers that
// move on by constants, and loads and stores are predicated rather than branched around.
namespace spin::kernels::internal {

// D of a run comes and goes in pieces of a chunk's size that start at a line of memory, wherever
// the chunks start in it: pieces c and c + 1 hold chunk c. Memory is read and written by whole
// sectors, which saves more than the way through shared memory costs.
constexpr int kLineVectors = 8;
constexpr int kPieces = kStages + 1;  // that are held at once, in a ring
constexpr uint32_t kRingBytes = kPieces * kBytesPerChunk;

// The address of a place in the ring, the way around it.
__device__ inline uint32_t InRing(uint32_t ring, uint32_t place) {
  static_assert((kRingBytes & (kRingBytes - 1)) == 0);
  return ring + place % kRingBytes;
}

// A warp's run of chunks. What the loop needs now and then only lies in shared memory: in the loop
// registers are dear.
template <typename S, int kRows>
struct RunShared {
  uint4 ring[kPieces][32];
  Stage<S, kRows> stages[kStages];
  // Vectors of D, in each piece, that windows of scored blocks lie in.
  uint32_t changed[kChunksPerRun + kPieces];
  // Of each lane's slots: the maximum of V in the low half (if they were scored), that of D but for
  // the block's last slot in the high one.
  uint32_t maxima[kChunksPerRun][32];
  uint32_t last[kChunksPerRun][kBlocksPerChunk];  // D at a block's last slot, in the high half
  std::byte* d_start;  // the vector that the run's first window starts in
  std::byte* d_end;    // the one that its last window ends in, or null
  int32_t end_slot;    // of what the pass's last verifier row sees, from the run's first slot on
  int32_t first_end;   // of what its first one sees
  uint32_t kept;       // of the run's blocks: which were scored
  PageSummary* summary;
  uint16_t v_max[32];  // of the half page's blocks, before the run
};

// The run as one lane sees it.
struct ScanRun {
  int32_t chunks;
  uint32_t kept;            // bit 4 * c: the lane's block of chunk c was scored
  int32_t whole;            // chunks before the one whose block the context cuts off
  const std::byte* scores;  // the lane's first piece of its block in the first chunk, if scored
  int64_t second;  // bytes from there to those of the second verifier row, if the pass is a pair
  bool pair;
  std::byte* v;        // its vector of V there
  uint32_t offset;     // vectors of the first piece that come before the first window's
  std::byte* d;        // its vector of the first piece of D ...
  std::byte* d_after;  // ... counted back from the other page, the one before that of the first
  int32_t d_jumps;     // the piece from which on it is in the other page
  int32_t d_pieces;    // there is none from this piece on
  uint32_t d_whole;    // all bits, or none: D of blocks that were not scored is needed, too
};

// The lane's vector in a piece of D that starts so many bytes after the first.
__device__ inline std::byte* VectorOfD(const ScanRun& run, int32_t piece, int32_t bytes) {
  return (piece < run.d_jumps ? run.d : run.d_after) + bytes;
}

// Copies the lane's vector of a piece into the ring if it is needed. After the last chunk a line is
// enough.
__device__ inline void FetchOfD(const ScanRun& run, uint32_t needed, uint32_t to, int32_t piece,
                                const std::byte* from) {
  const int32_t lane = threadIdx.x % 32;
  const bool there = piece < run.chunks + (lane < kLineVectors ? 1 : 0);
  CopyAsync16If((needed >> lane & 1) && there, to, from);
}

// Starts the copies of the first chunks' D: all of it, or what is needed. They belong to the first
// copies that Scan commits.
template <typename Shared>
__device__ inline void FetchFirstOfD(const ScanRun& run, Shared& shared, bool all) {
  const auto ring = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.ring));
#pragma unroll
  for (int piece = 0; piece <= kAhead; ++piece) {
    const int32_t bytes = piece * kBytesPerChunk;
    FetchOfD(run, all ? ~0u : shared.changed[piece] | run.d_whole,
             ring + threadIdx.x % 32 * uint32_t{sizeof(uint4)} + bytes, piece,
             VectorOfD(run, piece, bytes));
  }
}

// Finds RunShared::changed: lane l that of piece l, by whole sectors. `kept` has the run's blocks.
template <typename Shared>
__device__ inline void FindChanged(uint32_t kept, uint32_t offset, Shared& shared) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  if (lane >= kChunksPerRun + kPieces) return;
  // The windows of the chunk and of the one before, which end in the piece: 8 for each block.
  const auto windows = [&](uint64_t blocks) {
    const auto four = static_cast<uint32_t>(blocks >> kBlocksPerChunk * lane);
    return ((four & 1) | (four & 2) << 7 | (four & 4) << 14 | (four & 8) << 21) * 0xffu;
  };
  const uint64_t both = uint64_t{windows(kept)} << 32 | windows(uint64_t{kept} << kBlocksPerChunk);
  const auto vectors = static_cast<uint32_t>((both | both << 1) >> (32 - offset));
  shared.changed[lane] = vectors | (vectors & 0x55555555u) << 1 | (vectors >> 1 & 0x55555555u);
}

// Works through the run; D's windows start 2 * kWord elements into their vectors and perhaps one
// more. Returns how many scores of the lane's were ignored.
template <int kWord, typename S, int kRows>
__device__ __forceinline__ int Scan(const ScanRun& run, RunShared<S, kRows>& shared,
                                    EmaWeights weights, bool odd) {
  constexpr auto kStageBytes = static_cast<uint32_t>(sizeof(Stage<S, kRows>));
  const int lane = threadIdx.x % 32;
  const LaneStage<S, kRows> lane_stage(shared.stages[0]);
  const bool pair = kRows > 1 && run.pair;
  const bool exact = IsExactPast(weights.past);
  // Addresses that nvcc takes as they are: it would compute them anew all the time.
  auto ring = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.ring));
  auto changed = static_cast<uint32_t>(__cvta_generic_to_shared(&shared.changed));
  std::byte* v = run.v;
  asm volatile("" : "+l"(v), "+r"(ring), "+r"(changed));
  int32_t bytes = 0;         // of D or V before the chunk
  int32_t scores_ahead = 0;  // bytes of scores before those of the next chunk to fetch
  uint32_t kept = run.kept;
  uint32_t* maximum = &shared.maxima[0][lane];
  uint32_t* last = &shared.last[0][lane / 8];
  int ignored = 0;

  // Copies V and scores of the chunk `later` ones after the one that `kept` begins with, to which
  // scores_ahead points; it moves on.
  const auto fetch = [&](uint32_t stage, int32_t chunk, int later) {
    const uint32_t bits = kept >> kBlocksPerChunk * later;
    const bool mine = bits & 1;
    CopyAsync16If(mine, lane_stage.vector + stage, v + later * kBytesPerChunk);
    const bool staged = mine && chunk < run.whole;
    lane_stage.FetchScores(staged, stage, run.scores + scores_ahead);
    if (kRows > 1) {
      lane_stage.FetchScores(staged && pair, stage + lane_stage.kRowBytes,
                             run.scores + scores_ahead + run.second);
    }
    CommitCopies();
    scores_ahead += __popc(bits & 15) * int32_t{kScanBlock * sizeof(S)};
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) fetch(i * kStageBytes, i, i);

  uint32_t place = lane * sizeof(uint4);  // of the lane's vector in the chunk's piece, in the ring
  uint32_t now = 0;                       // offset of the chunk's stage
  uint32_t own = ~0u << run.offset << 1;  // vectors of the piece that are the warp's own
  WindowTurn<kWord> turn(odd);
#pragma unroll 1
  for (int32_t chunk = 0;; ++chunk) {
    __syncwarp();
    // Into the stage before: it is free again.
    constexpr int32_t kLater = kPieces - 1;
    FetchOfD(run, LoadShared4(changed + kLater * 4) | run.d_whole,
             InRing(ring, place - kBytesPerChunk), chunk + kLater,
             VectorOfD(run, chunk + kLater, bytes + kLater * kBytesPerChunk));
    fetch(now == 0 ? kAhead * kStageBytes : now - kStageBytes, chunk + kAhead, kAhead);
    WaitForCopies<kAhead>();
    __syncwarp();

    uint32_t v_now[4];
    uint32_t d_now[4];
    const uint32_t start = InRing(ring, place + run.offset * uint32_t{sizeof(uint4)});
    const uint32_t after = InRing(ring, place + (run.offset + 1) * uint32_t{sizeof(uint4)});
    Window<kWord>(start, after, odd, d_now);
    LoadShared16(lane_stage.vector + now, v_now);
    const bool mine = kept & 1;
    uint32_t wrong = 0;
    if (mine) {
      const auto observe = [&](uint32_t stage) {
        return exact ? ObserveAll<true>(lane_stage, stage, weights, v_now, d_now)
                     : ObserveAll<false>(lane_stage, stage, weights, v_now, d_now);
      };
      wrong = observe(now);
      if (pair) wrong |= observe(now + lane_stage.kRowBytes);
      if (chunk >= run.whole) wrong = 1;
    }
    if (__any_sync(~0u, wrong)) {
      if (wrong != 0) {
        constexpr uint32_t kFetched = (1u << kBlocksPerChunk * kStages) - 1;
        const auto* from = reinterpret_cast<const S*>(
            run.scores + scores_ahead - __popc(kept & kFetched) * int32_t{kScanBlock * sizeof(S)});
        const int lane8 = lane % 8;
        from += lane8 * (kSlotsPerLane - 16 / int32_t{sizeof(S)});  // from the piece to the scores
        const int32_t slot = chunk * kSlotsPerChunk + lane * kSlotsPerLane;
        uint32_t each_v[4];
        uint32_t each_d[4];
        const auto* const second =
            reinterpret_cast<const S*>(reinterpret_cast<const std::byte*>(from) + run.second);
        ignored += ObserveEach<kWord, kRows, S>(
            {from, pair ? second : nullptr, min(shared.first_end - slot, kSlotsPerLane),
             min(shared.end_slot - slot, kSlotsPerLane)},
            weights, {lane_stage.vector + now, start, after, odd}, each_v, each_d);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          v_now[i] = each_v[i];
          d_now[i] = each_d[i];
        }
      }
      __syncwarp();
    }

    StoreVectorIf(mine, v, v_now);
    const bool ends_block = lane % 8 == 7;
    const uint32_t inner_end = ends_block ? d_now[3] | kColdHigh : d_now[3];
    const uint32_t best_v = MaxOf(MaxOf(v_now[0], v_now[1]), MaxOf(v_now[2], v_now[3]));
    const uint32_t best_d = MaxOf(MaxOf(d_now[0], d_now[1]), MaxOf(d_now[2], inner_end));
    *maximum = MaxOf(__byte_perm(best_v, best_d, 0x5410), __byte_perm(best_v, best_d, 0x7632));
    if (ends_block) *last = d_now[3];

    // Vectors again, in the ring; then those of the piece that the chunk ends, to memory.
    uint32_t vector[4];
    turn.Vector(d_now, vector);
    __syncwarp();  // all lanes have their windows
    StoreShared16(start, vector);
    if (chunk == 0 && lane == 0 && mine) turn.StoreStart(vector, shared.d_start);
    __syncwarp();
    LoadShared16(InRing(ring, place), vector);
    StoreVectorIf(((LoadShared4(changed) & own) >> lane & 1) && chunk < run.d_pieces,
                  VectorOfD(run, chunk, bytes), vector);
    place += kBytesPerChunk;
    bytes += kBytesPerChunk;
    changed += 4;
    if (chunk + 1 == run.chunks) {
      // What is left of the piece after it.
      LoadShared16(InRing(ring, place), vector);
      const uint32_t rest = LoadShared4(changed) & ~(~0u << run.offset);
      StoreVectorIf((rest >> lane & 1) && chunk + 1 < run.d_pieces,
                    VectorOfD(run, chunk + 1, bytes), vector);
      const bool end_changed = __ballot_sync(~0u, mine) >> 31;
      if (lane == 0 && end_changed && shared.d_end) turn.StoreEnd(shared.d_end);
      return ignored;
    }
    own = ~0u;
    v += kBytesPerChunk;
    asm volatile("" : "+l"(v));
    kept >>= kBlocksPerChunk;
    maximum += 32;
    last += kBlocksPerChunk;
    now = now == kAhead * kStageBytes ? 0 : now + kStageBytes;
  }
}

// Starts the copy of the maxima of V over half a page; they are there after the first chunk.
template <typename Shared>
__device__ inline void FetchMaxima(bool wanted, const uint16_t* from, Shared& shared) {
  const int lane = threadIdx.x % 32;
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared.v_max));
  CopyAsyncIf<4>(wanted && lane < 16, to + lane % 16 * 4, from + lane % 16 * 2);
}

// Leaves the summaries of the run's blocks, the first of which is `first_block`, from what its
// lanes left: of all of them, or of those that were scored. Whole warps.
template <typename Shared>
__device__ inline void StoreSummaries(const Shared& shared, int32_t chunks, int32_t first_block,
                                      bool all) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x % 32);
  const int32_t block = lane - first_block % 32;
  const int32_t blocks = min(BlocksOf(shared.end_slot, kScanBlock), chunks * kBlocksPerChunk);
  if (block < 0 || block >= blocks) return;
  const bool scored = shared.kept >> block & 1;
  if (!all && !scored) return;
  const uint32_t* const lanes =
      &shared.maxima[block / kBlocksPerChunk][block % kBlocksPerChunk * 8];
  uint32_t best = lanes[0];
#pragma unroll
  for (int i = 1; i < 8; ++i) best = MaxOf(best, lanes[i]);
  const auto v_max = static_cast<uint16_t>(scored ? best : shared.v_max[lane]);
  const uint32_t inner = MaxOf(v_max, best >> 16);
  const uint32_t last = (&shared.last[0][0])[block];
  const int32_t place = first_block % 64 / 32 * 32 + lane;
  reinterpret_cast<uint32_t*>(shared.summary->blocks)[place] = __byte_perm(inner, last, 0x7610);
  shared.summary->v_max[place] = v_max;
}

}  // namespace spin::kernels::internal
