// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/cuda_bf16.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_observed.cuh"
#include "kernels/internal/cuda_scan.h"

// Observe for bf16 state in blocks of 64, the fast form. One pass over a row moves the averages of
// the scored blocks and leaves the block scores of the next step in the pages' summaries:
//
// - A warp takes chunks of 4 blocks = 256 slots, 8 neighbours a lane, one after the other. V,
// scores
//   and summary of those slots are aligned; D is not: the same slots lie at distances q - slot, so
//   8 slots of a lane cover two aligned vectors of 8 elements, shifted by the same s = (7 - q) mod
//   8 for every lane.
// - D is loaded in words of two elements from the first word at or before the lane's, and stored as
//   whole vectors after a rotation by s through the lane before. The first and last vector of a
//   chunk are shared with other chunks: their elements are stored one by one.
// - Scores go through shared memory, so that the copies are coalesced.
// - Blocks that were not scored read D (it is only needed for its maximum), but not V: its maximum
//   is in the summary.
//
// Arithmetic is ema.h's: fp32, no FMA, one rounding to bf16. Packed minima and maxima of the
// results tell whether any is NaN or infinite: a score to be ignored, or an entry that was never
// observed. Those lanes, and the last one of the context, go element by element.
namespace spin::kernels::internal {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlock = 64;
constexpr int kBlocksPerChunk = 4;
constexpr int kSlotsPerLane = 8;
constexpr int kSlotsPerChunk = kBlock * kBlocksPerChunk;
constexpr int kCtasPerSm = 12;
constexpr int kMaxChunksPerWarp = 4;  // their blocks lie in one page and one word of the masks
constexpr uint32_t kColdHigh = 0xff800000u;  // -infinity in the high half
constexpr uint32_t kColdLow = 0x0000ff80u;

// nvcc would split it.
__device__ void StoreVector(void* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ void CopyAsync16(void* shared, const void* global) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

__device__ void WaitForCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// D around a lane's 8 slots: pages hold distances in falling order, so slots in ascending order run
// through one page and perhaps on into the page before it.
struct DistanceRun {
  uint16_t* page;         // D of the page with the lane's first slot's distance
  uint16_t* const* next;  // ... and of the page that follows in slot order; points to null there is
                          // none. In shared memory: it is rarely needed, and registers are dear
  int32_t element;        // of the lane's first slot in `page`; past its end only without a next

  __device__ uint16_t* At(int32_t offset) const {
    const int32_t e = element + offset;
    return e < kPageSlots ? page + e : *next + (e - kPageSlots);
  }
  __device__ bool Holds(int32_t offset) const { return element + offset < kPageSlots || *next; }
};

// The lane's eight distances.
__device__ void LoadDistances(const DistanceRun& run, uint32_t d[4]) {
  uint32_t words[5];  // from the even element at or before the first
  const int32_t first = -(run.element & 1);
  if (run.element + 10 <= kPageSlots) {
    const auto* at = reinterpret_cast<const uint32_t*>(run.page + run.element + first);
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = at[i];
  } else {
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      words[i] = run.Holds(first + 2 * i)
                     ? *reinterpret_cast<const uint32_t*>(run.At(first + 2 * i))
                     : kColdHigh | kColdLow;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    d[i] = __funnelshift_r(words[i], words[i + 1], 16 * (run.element & 1));
  }
}

__device__ void LoadVector(const void* at, uint32_t out[4]) {
  const uint4 loaded = *static_cast<const uint4*>(at);
  out[0] = loaded.x;
  out[1] = loaded.y;
  out[2] = loaded.z;
  out[3] = loaded.w;
}

// Where a warp's scores wait in shared memory: 256 elements in pieces of 16 bytes, of which each
// block of 64 holds kPieces. fp32 pieces are swizzled: a lane reads two neighbours.
template <typename S>
struct Stage {
  static constexpr int kPieces = kBlock * sizeof(S) / 16;
  uint4 pieces[kBlocksPerChunk * kPieces];

  __device__ static int Slot(int block, int piece) {
    if (sizeof(S) == 2) return block * kPieces + piece;
    return block * kPieces + (piece ^ (piece >> 3));
  }
  __device__ void Fetch(int block, int lane8, const S* scores) {
    const auto* from = reinterpret_cast<const uint4*>(scores);
    CopyAsync16(&pieces[Slot(block, lane8)], from + lane8);
    if (sizeof(S) == 4) CopyAsync16(&pieces[Slot(block, lane8 + 8)], from + lane8 + 8);
  }
  // Four of a lane's eight scores.
  __device__ void Read(int block, int lane8, int half, float out[4]) const {
    if (sizeof(S) == 2) {
      const auto* words = reinterpret_cast<const uint2*>(&pieces[Slot(block, lane8)]);
      const uint2 pair = words[half];
      out[0] = LowHalf(pair.x);
      out[1] = HighHalf(pair.x);
      out[2] = LowHalf(pair.y);
      out[3] = HighHalf(pair.y);
    } else {
      const uint4 words = pieces[Slot(block, 2 * lane8 + half)];
      out[0] = __uint_as_float(words.x);
      out[1] = __uint_as_float(words.y);
      out[2] = __uint_as_float(words.z);
      out[3] = __uint_as_float(words.w);
    }
  }
};

// The common path: eight entries that were observed before, and finite scores. Returns false if it
// was not so; then v and d are worthless.
template <typename S>
__device__ bool ObserveAll(const Stage<S>& stage, int block, int lane8, EmaWeights weights,
                           uint32_t v[4], uint32_t d[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float scores[4];
    stage.Read(block, lane8, half, scores);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = weights.now * scores[2 * i];
      const float high = weights.now * scores[2 * i + 1];
      uint32_t& v_pair = v[2 * half + i];
      uint32_t& d_pair = d[2 * half + i];
      v_pair = Pack(weights.past * LowHalf(v_pair) + low, weights.past * HighHalf(v_pair) + high);
      d_pair = Pack(weights.past * LowHalf(d_pair) + low, weights.past * HighHalf(d_pair) + high);
    }
  }
  uint32_t most = MaxNan(MaxNan(v[0], v[1]), MaxNan(v[2], v[3]));
  uint32_t least = MinOf(MinOf(v[0], v[1]), MinOf(v[2], v[3]));
  most = MaxNan(most, MaxNan(MaxNan(d[0], d[1]), MaxNan(d[2], d[3])));
  least = MinOf(least, MinOf(MinOf(d[0], d[1]), MinOf(d[2], d[3])));
  return !HasNonfinite(most) && !HasNonfinite(least);
}

// Entries by the rule, element by element; of the lane's eight the first `valid`. Returns how many
// scores were ignored.
template <typename S>
__device__ int ObserveEach(const S* scores, int32_t valid, EmaWeights weights, uint32_t v[4],
                           uint32_t d[4]) {
  int ignored_scores = 0;
#pragma unroll
  for (int k = 0; k < kSlotsPerLane; ++k) {
    if (k >= valid) break;
    const int shift = 16 * (k & 1);
    const float score = ToFloat(scores[k]);
    const float share = weights.now * score;
    bool ignored = false;
    const Bf16 old_v = {static_cast<uint16_t>(v[k / 2] >> shift)};
    const Bf16 old_d = {static_cast<uint16_t>(d[k / 2] >> shift)};
    const Bf16 new_v = NextEntry(old_v, score, share, weights.past, ignored);
    const Bf16 new_d = NextEntry(old_d, score, share, weights.past, ignored);
    ignored_scores += ignored ? 1 : 0;
    v[k / 2] = (v[k / 2] & ~(0xffffu << shift)) | uint32_t{new_v.bits} << shift;
    d[k / 2] = (d[k / 2] & ~(0xffffu << shift)) | uint32_t{new_d.bits} << shift;
  }
  return ignored_scores;
}

// Stores the lanes' distances as whole vectors. `kept`: this lane's entries have changed.
__device__ void StoreDistances(const DistanceRun& run, int lane, bool kept, int valid,
                               const uint32_t d[4]) {
  const int s = run.element & 7;
  if (s == 0) {
    if (kept) StoreVector(run.At(0), d[0], d[1], d[2], d[3]);
    return;
  }
  // The vector that this lane's first element lies in: the last s elements of the lane before, then
  // this lane's first 8 - s.
  const bool kept_before = __shfl_up_sync(~0u, kept ? 1 : 0, 1) != 0;
  uint32_t t[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    t[i] = __shfl_up_sync(~0u, d[i], 1);
    t[4 + i] = d[i];
  }
  const int skip = 8 - s;  // of the elements in t
#pragma unroll
  for (int i = 0; i < 6; ++i) t[i] = skip & 4 ? t[i + 2] : t[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) t[i] = skip & 2 ? t[i + 1] : t[i];
  const int odd = 16 * (skip & 1);
  if (lane > 0 && (kept || kept_before) && run.Holds(-s)) {
    StoreVector(run.At(-s), __funnelshift_r(t[0], t[1], odd), __funnelshift_r(t[1], t[2], odd),
                __funnelshift_r(t[2], t[3], odd), __funnelshift_r(t[3], t[4], odd));
  }
  if (kept && (lane == 0 || lane == 31)) {
    const int first = lane == 0 ? 0 : 8 - s;
    const int end = min(lane == 0 ? 8 - s : 8, valid);
#pragma unroll
    for (int k = 0; k < kSlotsPerLane; ++k) {
      if (k >= first && k < end) *run.At(k) = static_cast<uint16_t>(d[k / 2] >> 16 * (k & 1));
    }
  }
}

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
    ScanKernel(const __grid_constant__ ObserveParams p, uint32_t draft, int chunks_per_warp) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // Select may get ready: it waits for the results
#endif
  __shared__ Stage<S> stages[kWarps];
  __shared__ uint16_t* nexts[kWarps];
  const ScoredRow& row = p.rows[blockIdx.y];
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) KeepBooks(p, row, layer, draft);
    return;
  }
  const Observed observed = ObservedRow(p, row, layer, draft);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int lane8 = lane % 8;
  const int32_t first_chunk =
      (static_cast<int32_t>(blockIdx.x - 1) * kWarps + warp) * chunks_per_warp;
  const int32_t first_slot = first_chunk * kSlotsPerChunk;
  if (!observed.any || first_slot >= observed.slots) return;

  // The warp's piece of the list and of the state.
  const RequestRecord& record = p.state.records[row.request];
  const auto distance = static_cast<uint32_t>(observed.query - first_slot);
  const uint32_t d_page = distance / kPageSlots;
  const ListMask word = observed.blocks.Word(first_chunk * kBlocksPerChunk / 32);
  std::byte* const slab = p.state.slab + layer * LayerBytes(p.geometry);
  const auto page_at = [&](uint32_t page) {
    return reinterpret_cast<uint16_t*>(slab + uint64_t{record.pages[page]} * kPageOffsetUnit);
  };
  uint16_t* const v_page = page_at(static_cast<uint32_t>(first_slot) / kPageSlots);
  auto* const summary = reinterpret_cast<PageSummary*>(v_page + 2 * kPageSlots);
  DistanceRun run;
  run.page = page_at(d_page) + kPageSlots;
  run.next = &nexts[warp];
  if (lane == 0) nexts[warp] = d_page == 0 ? nullptr : page_at(d_page - 1) + kPageSlots;
  __syncwarp();
  run.element = static_cast<int32_t>(kPageSlots - 1 - distance % kPageSlots) + lane * kSlotsPerLane;
  const S* const row_scores = ScoresOf<S>(p.scores, row, layer, draft) + lane8 * kSlotsPerLane;
  const bool aligned = reinterpret_cast<uintptr_t>(row_scores) % 16 == 0;

  int32_t block = first_chunk * kBlocksPerChunk + lane / 8;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks_per_warp; ++chunk) {
    const int32_t slot = first_slot + chunk * kSlotsPerChunk + lane * kSlotsPerLane;
    if (first_slot + chunk * kSlotsPerChunk >= observed.slots) return;
    const int32_t valid = min(max(observed.slots - slot, 0), kSlotsPerLane);
    const uint32_t bit = 1u << (block & 31);
    const bool in_list = (word.kept & bit) != 0;
    const auto place = static_cast<int32_t>(word.rank + __popc(word.kept & (bit - 1)));
    const bool kept = in_list && valid > 0 && place < observed.blocks.max_blocks;
    if (run.element >= kPageSlots && *run.next) {
      run.page = *run.next;
      run.element -= kPageSlots;
    }
    uint16_t* const v_at = v_page + (slot & (kPageSlots - 1));

    // All loads at once.
    const S* const scores = row_scores + place * kBlock;
    const bool staged = kept && aligned && (block + 1) * kBlock <= observed.slots;
    if (staged) stages[warp].Fetch(lane / 8, lane8, scores - lane8 * kSlotsPerLane);
    uint32_t d[4];
    LoadDistances(run, d);
    uint32_t v[4] = {};
    uint32_t best_v = kColdHigh | kColdLow;  // of the slots beyond the context, in a scored block
    if (kept) {
      LoadVector(v_at, v);
    } else if (!in_list) {
      best_v = kColdHigh | summary->v_max[block & 63];
    }
    WaitForCopies();
    __syncwarp();
    if (kept) {
      if (!staged || !ObserveAll(stages[warp], lane / 8, lane8, p.weights, v, d)) {
        LoadVector(v_at, v);
        LoadDistances(run, d);
        const int ignored = ObserveEach(scores, valid, p.weights, v, d);
        CountOn(p.counters[layer].nonfinite_scores, ignored);
      }
      StoreVector(v_at, v[0], v[1], v[2], v[3]);
      best_v = MaxOf(MaxOf(v[0], v[1]), MaxOf(v[2], v[3]));
    }

    // Maxima of the block, which eight lanes share: V in the low half, D in the high one.
    const uint32_t last = lane8 == 7 ? (d[3] & 0xffffu) | kColdHigh : d[3];
    const uint32_t best_d = MaxOf(MaxOf(d[0], d[1]), MaxOf(d[2], last));
    uint32_t best = __byte_perm(MaxOf(best_v, __funnelshift_l(best_v, best_v, 16)),
                                MaxOf(best_d, __funnelshift_l(best_d, best_d, 16)), 0x5410);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) best = MaxOf(best, __shfl_xor_sync(~0u, best, step));
    if (lane8 == 7 && block * kBlock < observed.slots) {
      const uint32_t inner = MaxOf(best, best >> 16) & 0xffffu;
      *reinterpret_cast<uint32_t*>(&summary->blocks[block & 63]) = inner | (d[3] & 0xffff0000u);
      if (in_list) summary->v_max[block & 63] = static_cast<uint16_t>(best);
    }
    StoreDistances(run, lane, kept, valid, d);
    block += kBlocksPerChunk;
    run.element += kSlotsPerChunk;
  }
}

using Kernel = void (*)(ObserveParams, uint32_t, int);

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
  const dim3 grid(1 + (chunks + chunks_per_cta - 1) / chunks_per_cta, p.row_count, p.layers.count);
  KernelFor(p.scores.dtype)<<<grid, kThreads, 0, stream>>>(p, draft, chunks_per_warp);
  return cudaGetLastError();
}

cudaError_t LoadScanCuda() { return Load(ScanKernel<float>, ScanKernel<Bf16>); }

}  // namespace spin::kernels::internal
