// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>

#include "kernels/internal/cuda_bf16.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_observed.cuh"
#include "kernels/internal/cuda_scan.h"
#include "kernels/internal/cuda_shift.cuh"

// Observe for bf16 state in blocks of 64, the fast form. One pass over a row moves the averages of
// the scored blocks and leaves the block scores of the next step in the pages' summaries:
//
// - A warp takes a run of chunks of 4 blocks = 256 slots, 8 neighbours a lane. V, D and scores of
//   the next chunk are copied into shared memory while the warp works on the one before.
// - V, scores and summary of those slots are aligned; D is not: the same slots lie at distances
//   q - slot, so 8 slots of a lane cover two vectors of 8 elements, shifted by the same
//   s = (7 - q) mod 8 for every lane. They are stored as whole vectors again, after a turn by s
//   through the lane before. The vectors at the two ends of a chunk are shared with other warps:
//   lane 0 stores those elements of them that are the chunk's.
// - Blocks that were not scored read D (it is only needed for its maximum), but not V: its maximum
//   is in the summary.
//
// Arithmetic is ema.h's: fp32, no FMA, one rounding to bf16. One packed sum over the results tells
// whether any is NaN or infinite: a score to be ignored, or an entry that was never observed. Those
// lanes, and the last one of the context, go element by element.
namespace spin::kernels::internal {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlock = 64;
constexpr int kBlocksPerChunk = 4;
constexpr int kSlotsPerLane = 8;
constexpr int kSlotsPerChunk = kBlock * kBlocksPerChunk;
constexpr int kCtasPerSm = 8;
constexpr int kStages = 3;
constexpr int kAhead = kStages - 1;   // chunks whose copies are under way
constexpr int kMaxChunksPerWarp = 8;  // their blocks lie in one page and one word of the masks
constexpr int kVectorsPerPage = kPageSlots / kSlotsPerLane;
constexpr uint32_t kColdHigh = 0xff800000u;  // -infinity in the high half

// What a chunk is worked on from. Each block of 64 scores is kPieces pieces of 16 bytes; those of
// fp32 are swizzled, because a lane reads two neighbours.
template <typename S>
struct alignas(32) Stage {
  static constexpr int kPieces = kBlock * sizeof(S) / 16;
  uint4 v[32];
  uint4 scores[kBlocksPerChunk * kPieces];
  uint4 d[33];  // from the vector on that the chunk's first distance lies in
};

// The lane's part of a Stage, as addresses in shared memory.
template <typename S>
struct LaneStage {
  static constexpr uint32_t kD = offsetof(Stage<S>, d);
  static constexpr uint32_t kScores = offsetof(Stage<S>, scores);
  static constexpr uint32_t kEnd = kD + 32 * sizeof(uint4);
  uint32_t vector;  // v and, kD bytes on, d
  uint32_t to;      // where the lane's first piece of scores goes
  uint32_t from;    // where its scores are

  __device__ explicit LaneStage(const Stage<S>& stage) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t block = kScores + lane / 8 * (Stage<S>::kPieces * 16);
    const uint32_t lane8 = lane % 8;
    auto at = static_cast<uint32_t>(__cvta_generic_to_shared(&stage));
    vector = at + lane * 16;
    to = at + block + lane8 * 16;
    from = at + block + (sizeof(S) == 2 ? lane8 : 2 * lane8 ^ lane8 >> 2) * 16;
    // Or nvcc would compute them anew all the time.
    asm volatile("" : "+r"(vector), "+r"(to), "+r"(from));
  }
  __device__ void FetchScores(uint32_t stage, const std::byte* scores) const {
    CopyAsync16(to + stage, scores);
    // The second half of the block is swizzled by one piece.
    if (sizeof(S) == 4) CopyAsync16((to + stage ^ 16) + 128, scores + 128);
  }
  // Four of a lane's eight scores.
  __device__ void ReadScores(uint32_t stage, int half, float out[4]) const {
    if (sizeof(S) == 2) {
      uint32_t words[2];
      LoadShared8(from + stage + 8 * half, words);
      out[0] = LowHalf(words[0]);
      out[1] = HighHalf(words[0]);
      out[2] = LowHalf(words[1]);
      out[3] = HighHalf(words[1]);
    } else {
      uint32_t words[4];
      LoadShared16(from + stage ^ 16 * half, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) out[i] = __uint_as_float(words[i]);
    }
  }
};

// The common path: eight entries that were observed before, and finite scores. Returns 0, or
// another number if it was not so; then v and d are worthless.
template <typename S>
__device__ uint32_t ObserveAll(const LaneStage<S>& lane, uint32_t stage, EmaWeights weights,
                               uint32_t v[4], uint32_t d[4]) {
  uint32_t zero = 0;  // NaN once a result is not finite
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float scores[4];
    lane.ReadScores(stage, half, scores);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = weights.now * scores[2 * i];
      const float high = weights.now * scores[2 * i + 1];
      uint32_t& v_pair = v[2 * half + i];
      uint32_t& d_pair = d[2 * half + i];
      v_pair = Pack(weights.past * LowHalf(v_pair) + low, weights.past * HighHalf(v_pair) + high);
      d_pair = Pack(weights.past * LowHalf(d_pair) + low, weights.past * HighHalf(d_pair) + high);
      zero = AddZeroTimes(v_pair, AddZeroTimes(d_pair, zero));
    }
  }
  return zero & 0x7fff7fffu;
}

// Entries by the rule, element by element; of the lane's eight the first `count`. Returns how many
// scores were ignored.
template <typename S>
__device__ __noinline__ int ObserveEach(const S* scores, int32_t count, EmaWeights weights, Bf16* v,
                                        Bf16* d) {
  float all[kSlotsPerLane];  // loaded at once: the last warp of a row must wait for them
#pragma unroll
  for (int k = 0; k < kSlotsPerLane; ++k) all[k] = k < count ? ToFloat(scores[k]) : 0;
  int ignored_scores = 0;
#pragma unroll
  for (int k = 0; k < kSlotsPerLane; ++k) {
    if (k >= count) break;
    const float share = weights.now * all[k];
    bool ignored = false;
    v[k] = NextEntry(v[k], all[k], share, weights.past, ignored);
    d[k] = NextEntry(d[k], all[k], share, weights.past, ignored);
    ignored_scores += ignored ? 1 : 0;
  }
  return ignored_scores;
}

// Walks through D in slot order, a chunk at a time: the lane's vectors lie in one page and perhaps
// on in the page before it.
struct DistanceWalk {
  std::byte* at;   // the lane's vector of this chunk
  int32_t vector;  // which one it is in the first page; at or past kVectorsPerPage: in the other
  int64_t jump;    // from the end of the first page to the start of the other

  // The lane's vector of the next chunk, or of the one after.
  __device__ std::byte* Next(int chunks = 1) const {
    const bool jumps = vector < kVectorsPerPage && vector >= kVectorsPerPage - 32 * chunks;
    return at + 32 * chunks * int32_t{sizeof(uint4)} + (jumps ? jump : 0);
  }
};

// What is done once for a row: counting, and dating the summaries.
__device__ void KeepBooks(const ObserveParams& p, const ScoredRow& row, int32_t layer,
                          uint32_t draft) {
  const Observed observed = ObservedRow(p, row, layer, draft);
  if (!observed.taken) return;
  CountObserved(p, row, layer, draft, observed);
  if (!observed.any || observed.slots == 0) return;
  PageSummary* summary = SummaryAt(p.state, p.state.records[row.request], p.geometry, layer, 0);
  summary->query = observed.query;
  summary->slots = observed.slots;
}

// Grid: (1 + slots, rows, layers). The first thread block keeps the books.
template <typename S>
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    ScanKernel(const __grid_constant__ ObserveParams params, uint32_t draft, int chunks_per_warp,
               bool aligned) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();  // Select may get ready: it waits for the results
#endif
  __shared__ Stage<S> stages[kWarps][kStages];
  const ObserveParams p = BoundToObserve(params);
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) KeepBooks(p, p.rows[blockIdx.y], layer, draft);
    return;
  }
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int lane8 = lane % 8;
  const int32_t first_chunk =
      (static_cast<int32_t>(blockIdx.x - 1) * kWarps + warp) * chunks_per_warp;
  const int32_t first_slot = first_chunk * kSlotsPerChunk;
  const int32_t first_block = first_chunk * kBlocksPerChunk;

  // The row, and everything that it leads to, in one go each: waiting is what this part costs.
  const ScoredRow row = p.rows[blockIdx.y];
  if (row.request == kPaddingRow) return;  // there may be no slab at all
  const Reach reach = ReachOf(p, row, draft);
  const RequestRecord& record = p.state.records[row.request];
  const auto distance = static_cast<uint32_t>(reach.query - first_slot);
  const uint32_t d_page = min(distance / kPageSlots, kMaxPages - 1u);
  const uint32_t v_unit = record.pages[static_cast<uint32_t>(first_slot) / kPageSlots];
  const uint32_t d_unit = record.pages[d_page];
  const uint32_t d_next_unit = record.pages[max(d_page, 1u) - 1];
  const ListMask word = ScoredBlocksOf(p, row, layer).Word(first_block / 32);
  const Observed observed = ObservedRow(p, row, layer, draft);
  // No page lies there, but the loads must not wait for the others' verdict.
  constexpr uint32_t kNoPage = UINT32_MAX;
  const bool sound =
      max(max(v_unit, d_unit), d_next_unit) != kNoPage && static_cast<int32_t>(word.rank) >= 0;
  if (!observed.any || first_slot >= observed.slots || !sound) return;
  int chunks =
      min(chunks_per_warp, (observed.slots - first_slot + kSlotsPerChunk - 1) / kSlotsPerChunk);

  // The blocks from the warp's first one on: which were scored, and where their scores are.
  const int32_t blocks = BlocksOf(observed.slots, kBlock) - first_block;  // that the row sees
  uint32_t kept = word.kept >> first_block % 32;
  if (blocks < 32) kept &= (1u << blocks) - 1;
  uint32_t rank = word.rank + __popc(word.kept & ((1u << first_block % 32) - 1));
  while (static_cast<int32_t>(rank) + __popc(kept) > observed.blocks.max_blocks && kept != 0) {
    kept &= ~(0x80000000u >> __clz(kept));
  }
  const auto* scores =
      reinterpret_cast<const std::byte*>(ScoresOf<S>(p.scores, row, layer, draft)) + lane8 * 16;
  asm volatile("" : "+l"(scores));  // or nvcc would compute it anew all the time

  std::byte* const slab = p.state.slab + layer * LayerBytes(p.geometry);
  const auto page_at = [&](uint32_t unit) { return slab + uint64_t{unit} * kPageOffsetUnit; };
  constexpr int32_t kBytesOfV = kPageSlots * sizeof(uint16_t);
  std::byte* const v_page = page_at(v_unit);
  int32_t slot = first_slot % kPageSlots + lane * kSlotsPerLane;  // the lane's first, in the page
  const int32_t end_slot = observed.slots - first_slot / kPageSlots * kPageSlots;
  const auto summary = [&] { return reinterpret_cast<PageSummary*>(v_page + 2 * kBytesOfV); };
  const uint32_t v_max = summary()->v_max[first_block % 64 / 32 * 32 + lane];

  const auto element = static_cast<int32_t>(kPageSlots - 1 - distance % kPageSlots);
  const int shift = element % kSlotsPerLane;
  DistanceWalk walk;
  std::byte* const d_first = page_at(d_unit) + kBytesOfV;
  // Past the first distance there is nothing: lanes that point there read anything and store
  // nothing.
  std::byte* const d_next = page_at(d_next_unit) + kBytesOfV;
  walk.jump = d_next - d_first - kBytesOfV;
  walk.vector = element / kSlotsPerLane + lane;
  walk.at = d_first + walk.vector * int32_t{sizeof(uint4)};
  if (walk.vector >= kVectorsPerPage) walk.at += walk.jump;
  const int32_t end_vector = (d_page > 0 ? 2 : 1) * kVectorsPerPage;

  const LaneStage<S> lane_stage(stages[warp][0]);
  const uint32_t group = 1u << lane / 8;
  const auto whole = [&](int32_t of) { return aligned && (of | (kBlock - 1)) < end_slot; };
  const auto fetch = [&](uint32_t stage, int later, uint32_t kept_then, uint32_t rank_then,
                         const std::byte* d) {
    CopyAsync16(lane_stage.vector + stage + LaneStage<S>::kD, d);
    if (lane == 0) {
      CopyAsync16(lane_stage.vector + stage + LaneStage<S>::kEnd, walk.Next(later + 1));
    }
    if (kept_then & group) {
      CopyAsync16(lane_stage.vector + stage, v_page + 2 * slot + later * 32 * sizeof(uint4));
      if (whole(slot + later * kSlotsPerChunk)) {
        const uint32_t place = rank_then + __popc(kept_then & (group - 1));
        lane_stage.FetchScores(stage, scores + int64_t{place} * int32_t{kBlock * sizeof(S)});
      }
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (i < chunks) {
      const uint32_t before = (1u << kBlocksPerChunk * i) - 1;
      fetch(i * sizeof(Stage<S>), i, kept >> kBlocksPerChunk * i, rank + __popc(kept & before),
            walk.Next(i));
    }
    CommitCopies();
  }
  uint32_t now = 0;  // offset of the chunk's stage
#pragma unroll 1
  for (;;) {
    __syncwarp();
    if (chunks > kAhead) {
      constexpr uint32_t kBefore = (1u << kBlocksPerChunk * kAhead) - 1;
      // Into the stage before: it is free again.
      const uint32_t to = now == 0 ? kAhead * sizeof(Stage<S>) : now - sizeof(Stage<S>);
      fetch(to, kAhead, kept >> kBlocksPerChunk * kAhead, rank + __popc(kept & kBefore),
            walk.Next(kAhead));
    }
    CommitCopies();
    WaitForCopies<kAhead>();
    __syncwarp();

    uint32_t v[4];
    uint32_t d[4];
    Window(lane_stage.vector + now + LaneStage<S>::kD, shift, d);
    LoadShared16(lane_stage.vector + now, v);
    uint32_t best_v = __shfl_sync(~0u, v_max, slot / kBlock) | kColdHigh;
    uint32_t wrong = 0;
    if (kept & group) {
      wrong = ObserveAll(lane_stage, now, p.weights, v, d);
      if (!whole(slot)) wrong = 1;
    }
    if (__any_sync(~0u, wrong)) {
      if (wrong != 0) {
        const int64_t place = rank + __popc(kept & (group - 1));
        const S* const from = reinterpret_cast<const S*>(scores - lane8 * 16);
        auto* const old = reinterpret_cast<std::byte*>(stages[warp]) + now + lane * 16;
        const int ignored = ObserveEach(from + place * kBlock + lane8 * kSlotsPerLane,
                                        min(end_slot - slot, kSlotsPerLane), p.weights,
                                        reinterpret_cast<Bf16*>(old),
                                        reinterpret_cast<Bf16*>(old + LaneStage<S>::kD) + shift);
        // Looked up again: in the loop registers are dear.
        CountOn(BoundToCount(params).counters[layer].nonfinite_scores, ignored);
      }
      __syncwarp();
      if (wrong != 0) {
        LoadShared16(lane_stage.vector + now, v);
        Window(lane_stage.vector + now + LaneStage<S>::kD, shift, d);
      }
    }

    // Maxima of the block, which eight lanes share: V in the low half, D in the high one.
    if (kept & group) {
      StoreVector(v_page + 2 * slot, v[0], v[1], v[2], v[3]);
      best_v = MaxOf(MaxOf(v[0], v[1]), MaxOf(v[2], v[3]));
    }
    const uint32_t last = lane8 == 7 ? d[3] | kColdHigh : d[3];
    const uint32_t best_d = MaxOf(MaxOf(d[0], d[1]), MaxOf(d[2], last));
    uint32_t best = MaxOf(__byte_perm(best_v, best_d, 0x5410), __byte_perm(best_v, best_d, 0x7632));
#pragma unroll
    for (int step = 1; step < 8; step *= 2) best = MaxOf(best, __shfl_xor_sync(~0u, best, step));
    if (lane8 == 7 && slot - 7 * kSlotsPerLane < end_slot) {
      const uint32_t inner = MaxOf(best, best >> 16);
      *reinterpret_cast<uint32_t*>(&summary()->blocks[slot / kBlock]) =
          __byte_perm(inner, d[3], 0x7610);
      if (kept & group) summary()->v_max[slot / kBlock] = static_cast<uint16_t>(best);
    }

    // Back to whole vectors. Lane 0 has the end of the warp's last one.
    const uint32_t changed = __ballot_sync(~0u, kept & group);
    const bool store = (changed | changed << 1) >> lane & 1 && walk.vector < end_vector;
    std::byte* const next = walk.Next();
    StoreWindows(d, shift, walk.at, next, store, changed & 1,
                 changed >> 31 && walk.vector < end_vector - 32);
    if (--chunks == 0) return;
    rank += __popc(kept & 15);
    kept >>= kBlocksPerChunk;
    slot += kSlotsPerChunk;
    walk.at = next;
    walk.vector += 32;
    now = now == kAhead * sizeof(Stage<S>) ? 0 : now + sizeof(Stage<S>);
  }
}

using Kernel = void (*)(ObserveParams, uint32_t, int, bool);

Kernel KernelFor(Dtype scores) {
  return scores == Dtype::kF32 ? ScanKernel<float> : ScanKernel<Bf16>;
}

}  // namespace

cudaError_t ScanDraft(const ObserveParams& p, uint32_t draft, cudaStream_t stream) {
  // Chunks share the cost of finding out what a warp is to do; but every multiprocessor needs some.
  constexpr int64_t kEnoughWarps = 132 * kCtasPerSm * kWarps;
  const int32_t chunks = (p.max_blocks + kBlocksPerChunk - 1) / kBlocksPerChunk;
  const int64_t all_chunks = int64_t{chunks} * p.row_count * p.layers.count;
  int chunks_per_warp = kMaxChunksPerWarp;
  while (chunks_per_warp > 1 && all_chunks < kEnoughWarps * chunks_per_warp) chunks_per_warp /= 2;
  const int32_t chunks_per_cta = kWarps * chunks_per_warp;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(1 + (chunks + chunks_per_cta - 1) / chunks_per_cta, p.row_count, p.layers.count);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = 1;
  const int64_t elements = p.scores.layer_stride | p.scores.row_stride | p.scores.draft_stride;
  const bool aligned = ((reinterpret_cast<uintptr_t>(p.scores.data) |
                         static_cast<uintptr_t>(elements * DtypeBytes(p.scores.dtype))) %
                        16) == 0;
  return cudaLaunchKernelEx(&config, KernelFor(p.scores.dtype), p, draft, chunks_per_warp, aligned);
}

cudaError_t LoadScanCuda() { return Load(ScanKernel<float>, ScanKernel<Bf16>); }

}  // namespace spin::kernels::internal
