// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <type_traits>

#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_observed.cuh"
#include "kernels/internal/cuda_scan.h"
#include "kernels/internal/cuda_scan_run.cuh"
#include "kernels/internal/cuda_start.h"
#include "kernels/internal/observe_pass.h"

// Observe for bf16 state in blocks of 64, the fast form. One pass over a row moves the averages of
// the scored blocks and leaves the block scores of the next step in the pages' summaries:
//
// - A warp takes a run of chunks of 4 blocks = 256 slots, 8 neighbours a lane. V, D and scores of
//   the next chunks are copied into shared memory while the warp works on the ones before.
// - V, scores and summary of those slots are aligned; D is not: the same slots lie at distances
//   q - slot, so 8 slots of a lane cover two vectors of 8 elements, shifted by the same
//   s = (7 - q) mod 8 for every lane. They become whole vectors again by a turn through the lane
//   before, and go back through shared memory, too, so that memory sees whole sectors. The vectors
//   at the two ends of a run are shared with other warps: lane 0 stores those elements of them that
//   are the run's.
// - Blocks that were not scored do not read V: its maximum is in the summary. They read D, for its
//   maximum, if D has moved against them since the summary was made; else theirs stands as it is.
//   Lanes leave their maxima in shared memory; the run's end makes summaries of them.
// - Two verifier rows that look at the same slot share a pass (observe_pass.h): both scores move an
//   entry before it is stored.
//
// Arithmetic is ema.h's: fp32, one rounding to bf16. Where the weight of the past is a power of
// two, as its default is, its product is exact, and a fused multiply-add gives the same bits. One
// packed sum over the results tells whether any is NaN or infinite: a score to be ignored, or an
// entry that was never observed. Those lanes, and the last one of the context, go element by
// element.
namespace spin::kernels::internal {
namespace {

constexpr int kThreads = 32;  // a run each: nothing waits for the slowest of several
template <int kRows>
constexpr int kCtasPerSm = kRows == 1 ? 20 : 19;  // of two rows shared memory holds no more
constexpr int kVectorsPerPage = kPageSlots / kSlotsPerLane;

// Verifier rows that enter the state.
__device__ uint32_t AcceptedOf(const ObserveParams& p, const ScoredRow& row) {
  return min(row.accepted, static_cast<uint32_t>(p.max_next_n));
}

template <int kRows>
__device__ ObservePass PassOfRow(const ObserveParams& p, const ScoredRow& row, uint32_t pass) {
  if (kRows == 1) return {pass, false};
  ObservePass out =
      PassOf(ReachOf(p, row, 0).token, static_cast<uint32_t>(p.geometry.tokens_per_slot), pass);
  out.pair &= out.first + 1 < AcceptedOf(p, row);
  return out;
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
  if (!SummaryStands(summary->settled, observed.query)) summary->settled = kUnsettled;
}

// Grid: (1 + runs, rows, layers). The first thread block of a row and layer keeps the books.
// kRows: verifier rows that a pass may have. `hurry`: all runs are under way at once, so that
// waiting costs more than reading too much.
template <typename S, int kRows>
__global__ void __launch_bounds__(kThreads, kCtasPerSm<kRows>)
    ScanKernel(const __grid_constant__ ObserveParams params, uint32_t pass, int chunks_per_run,
               bool aligned, bool hurry) {
  __shared__ RunShared<S, kRows> shared;
  const ObserveParams p = BoundToObserve(params);
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  if (blockIdx.x == 0) {
    WaitForKernelBefore();
    if (threadIdx.x == 0) {
      const ScoredRow row = p.rows[blockIdx.y];
      const ObservePass of_row = PassOfRow<kRows>(p, row, pass);
      if (pass == 0 || of_row.first < AcceptedOf(p, row)) KeepBooks(p, row, layer, of_row.first);
      if (of_row.pair) KeepBooks(p, row, layer, of_row.first + 1);
    }
    return;
  }
  const int lane = threadIdx.x;
  const int32_t first_chunk = static_cast<int32_t>(blockIdx.x - 1) * chunks_per_run;
  const int32_t first_slot = first_chunk * kSlotsPerChunk;
  const int32_t first_block = first_chunk * kBlocksPerChunk;

  // What the row leads to, in one go each, because waiting is what this part costs; pages before
  // the kernel before has ended.
  const ScoredRow row = p.rows[blockIdx.y];
  if (__any_sync(~0u, row.request == kPaddingRow)) return;  // there may be no slab at all
  const ObservePass of_row = PassOfRow<kRows>(p, row, pass);
  const uint32_t draft = of_row.first;
  const bool pair = kRows > 1 && of_row.pair;
  if (kRows > 1 && __any_sync(~0u, draft >= AcceptedOf(p, row))) return;  // as the last pass often
  const Reach reach = ReachOf(p, row, draft);
  const int32_t slots = pair ? ReachOf(p, row, draft + 1).slots : reach.slots;
  const RequestRecord& record = p.state.records[row.request];
  const auto distance = static_cast<uint32_t>(reach.query - first_slot);
  const uint32_t d_page = min(distance / kPageSlots, kMaxPages - 1u);
  const uint32_t v_unit = record.pages[static_cast<uint32_t>(first_slot) / kPageSlots];
  const uint32_t d_unit = record.pages[d_page];
  const uint32_t d_next_unit = record.pages[max(d_page, 1u) - 1];
  constexpr uint32_t kNoPage = UINT32_MAX;
  const int32_t end_slot = slots - first_slot;
  const int32_t first_end = reach.slots - first_slot;
  const bool has_pages = max(max(v_unit, d_unit), d_next_unit) != kNoPage;
  if (__any_sync(~0u, end_slot <= 0 || !has_pages)) return;
  ScanRun run;
  // The same for all lanes, and the compiler may know.
  run.chunks =
      __reduce_min_sync(~0u, min(chunks_per_run, (end_slot + kSlotsPerChunk - 1) / kSlotsPerChunk));
  std::byte* const slab = p.state.slab + layer * LayerBytes(p.geometry);
  const auto page_at = [&](uint32_t unit) { return slab + uint64_t{unit} * kPageOffsetUnit; };
  constexpr int32_t kBytesOfV = kPageSlots * sizeof(uint16_t);

  // Past the first distance there is nothing: lanes that point there read anything and store
  // nothing.
  const auto element = static_cast<int32_t>(kPageSlots - 1 - distance % kPageSlots);
  std::byte* const d_first = page_at(d_unit) + kBytesOfV;
  const int64_t jump = page_at(d_next_unit) - page_at(d_unit) - kBytesOfV;
  const auto vector_at = [&](int32_t vector) {
    return d_first + vector * int32_t{sizeof(uint4)} + (vector >= kVectorsPerPage ? jump : 0);
  };
  const int32_t first_vector = element / kSlotsPerLane;
  const int32_t end_vector = (d_page > 0 ? 2 : 1) * kVectorsPerPage;
  const int32_t vector = first_vector / kLineVectors * kLineVectors + lane;
  const auto pieces_to = [&](int32_t of) { return (of - vector + 31) / 32; };  // of > vector - 32
  run.offset = static_cast<uint32_t>(first_vector % kLineVectors);
  run.d = d_first + vector * int32_t{sizeof(uint4)};
  run.d_after = run.d + jump;
  run.d_jumps = pieces_to(kVectorsPerPage);
  run.d_pieces = pieces_to(end_vector);
  if (lane == 0) {
    const int32_t last_vector = first_vector + run.chunks * 32;
    shared.d_start = vector_at(first_vector);
    shared.d_end = last_vector < end_vector ? vector_at(last_vector) : nullptr;
    shared.end_slot = end_slot;
    shared.first_end = first_end;
  }
  __syncwarp();
  const auto summary_of = [&](std::byte* page) {
    return reinterpret_cast<PageSummary*>(page + 2 * kBytesOfV);
  };
  const int64_t& settled = summary_of(page_at(record.pages[0]))->settled;

  WaitForKernelBefore();
  const bool dropped = p.rows[blockIdx.y].request == kPaddingRow;  // meanwhile
  const ListMask word = ScoredBlocksOf(p, row, layer).Word(first_block / 32);
  const Observed observed = ObservedRow(p, row, layer, draft);
  // What the verifier row before left of the same slot stands, too: it was accepted and had this
  // list, as the row itself, and its launch has ended.
  const bool stands = (draft > 0 && reach.token > 0) || SummaryStands(settled, reach.query);
  run.d_whole = stands ? 0 : ~0u;
  if (hurry) FetchFirstOfD(run, shared, /*all=*/true);  // whatever list and summary say
  if (__any_sync(~0u, dropped || !observed.any || static_cast<int32_t>(word.rank) < 0)) {
    CommitCopies();
    WaitForCopies<0>();
    return;
  }

  std::byte* const v_page = page_at(v_unit);
  PageSummary* const summary = summary_of(v_page);
  const int32_t half = first_block % 64 / 32 * 32;  // of the page's summary
  FetchMaxima(run.d_whole != 0, &summary->v_max[half], shared);
  const int32_t first_place = first_block % 32;  // of the run's blocks in the word
  run.v = v_page + sizeof(uint16_t) * (first_slot % kPageSlots + lane * kSlotsPerLane);

  // The blocks from the run's first one on: which were scored, and where their scores are.
  const int32_t blocks = min(BlocksOf(end_slot, kScanBlock), run.chunks * kBlocksPerChunk);
  uint32_t kept = word.kept >> first_place;
  if (blocks < 32) kept &= (1u << blocks) - 1;
  uint32_t rank = word.rank + __popc(word.kept & ((1u << first_place) - 1));
  while (static_cast<int32_t>(rank) + __popc(kept) > observed.blocks.max_blocks && kept != 0) {
    kept &= ~(0x80000000u >> __clz(kept));
  }
  if (lane == 0) {
    shared.summary = summary;
    shared.kept = kept;
  }
  FindChanged(kept, run.offset, shared);
  __syncwarp();
  if (!hurry) FetchFirstOfD(run, shared, /*all=*/false);
  const int group = lane / 8;  // the lane's block in each chunk
  rank += __popc(kept & ((1u << group) - 1));
  run.kept = kept >> group;
  run.scores = reinterpret_cast<const std::byte*>(ScoresOf<S>(p.scores, row, layer, draft)) +
               int64_t{rank} * int32_t{kScanBlock * sizeof(S)} + lane % 8 * 16;
  run.pair = pair;
  run.second = p.scores.draft_stride * int32_t{sizeof(S)};
  run.whole =
      aligned ? (first_end - (group + 1) * kScanBlock + kSlotsPerChunk) / kSlotsPerChunk : 0;

  const auto scan = [&](auto word) {
    return Scan<decltype(word)::value>(run, shared, p.weights, element % 2 != 0);
  };
  int ignored = 0;
  switch (element % kSlotsPerLane / 2) {
    case 0:
      ignored = scan(std::integral_constant<int, 0>());
      break;
    case 1:
      ignored = scan(std::integral_constant<int, 1>());
      break;
    case 2:
      ignored = scan(std::integral_constant<int, 2>());
      break;
    default:
      ignored = scan(std::integral_constant<int, 3>());
  }

  __syncwarp();
  StoreSummaries(shared, run.chunks, first_block, run.d_whole != 0);
  // Looked up again: registers are dear.
  if (ignored != 0) CountOn(BoundToCount(params).counters[layer].nonfinite_scores, ignored);
}

using Kernel = void (*)(ObserveParams, uint32_t, int, bool, bool);

// Runs that are under way at once on a GPU of 132 multiprocessors.
template <int kRows>
constexpr int64_t kRunsAtOnce = 132 * kCtasPerSm<kRows>;

template <int kRows>
cudaError_t LaunchPasses(const ObserveParams& p, int32_t passes, cudaStream_t stream) {
  // Chunks share the cost of finding out what a run is about; but every multiprocessor needs some.
  const int32_t chunks = (p.max_blocks + kBlocksPerChunk - 1) / kBlocksPerChunk;
  const int64_t all_chunks = int64_t{chunks} * p.row_count * p.layers.count;
  int per_run = 1;
  while (per_run < kChunksPerRun && all_chunks > kRunsAtOnce<kRows> * per_run) per_run *= 2;
  const dim3 grid(static_cast<uint32_t>(1 + (chunks + per_run - 1) / per_run),
                  static_cast<uint32_t>(p.row_count), static_cast<uint32_t>(p.layers.count));
  const int64_t elements = p.scores.layer_stride | p.scores.row_stride | p.scores.draft_stride;
  const bool aligned = ((reinterpret_cast<uintptr_t>(p.scores.data) |
                         static_cast<uintptr_t>(elements * DtypeBytes(p.scores.dtype))) %
                        16) == 0;
  const Kernel kernel =
      p.scores.dtype == Dtype::kF32 ? ScanKernel<float, kRows> : ScanKernel<Bf16, kRows>;
  for (int32_t pass = 0; pass < passes; ++pass) {
    const cudaError_t error = LaunchEarly(kernel, grid, kThreads, 0, stream, p, pass, per_run,
                                          aligned, all_chunks <= kRunsAtOnce<kRows> * per_run);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t ScanCuda(const ObserveParams& p, cudaStream_t stream) {
  const int32_t tokens_per_slot = p.geometry.tokens_per_slot;
  if (p.max_next_n == 1 || tokens_per_slot == 1) return LaunchPasses<1>(p, p.max_next_n, stream);
  return LaunchPasses<2>(p, PassesFor(p.max_next_n, tokens_per_slot), stream);
}

cudaError_t LoadScanCuda() {
  return Load(ScanKernel<float, 1>, ScanKernel<Bf16, 1>, ScanKernel<float, 2>, ScanKernel<Bf16, 2>);
}

}  // namespace spin::kernels::internal
