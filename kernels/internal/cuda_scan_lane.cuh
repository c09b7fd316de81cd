// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>

#include "kernels/internal/cuda_bf16.cuh"
#include "kernels/internal/cuda_observed.cuh"
#include "kernels/internal/cuda_shift.cuh"

// A lane's part of a chunk in Observe's fast form: eight slots of V and D, and their scores, which
// are copied into shared memory ahead.
namespace spin::kernels::internal {

constexpr int kScanBlock = 64;
constexpr int kBlocksPerChunk = 4;
constexpr int kSlotsPerChunk = kScanBlock * kBlocksPerChunk;
constexpr int kChunksPerRun = 32 / kBlocksPerChunk;  // at most: a run's blocks lie in one mask word
constexpr int kSlotsPerLane = 8;
constexpr int kStages = 3;
constexpr int kAhead = kStages - 1;  // chunks whose copies are under way
constexpr int kBytesPerChunk = kSlotsPerChunk * int{sizeof(uint16_t)};  // of V or D
constexpr uint32_t kColdHigh = 0xff800000u;  // -infinity in the high half

// What a chunk is worked on from, but for D: by one verifier row or two. Each block of 64 scores is
// kPieces pieces of 16 bytes; those of fp32 are swizzled, because a lane reads two neighbours.
template <typename S, int kRows>
struct alignas(32) Stage {
  static constexpr int kPieces = kScanBlock * sizeof(S) / 16;
  uint4 v[32];
  uint4 scores[kRows][kBlocksPerChunk * kPieces];
};

// The lane's part of a Stage, as addresses in shared memory.
template <typename S, int kRows>
struct LaneStage {
  using Whole = Stage<S, kRows>;
  static constexpr uint32_t kScores = offsetof(Whole, scores);
  static constexpr uint32_t kRowBytes = sizeof(Whole::scores) / kRows;
  uint32_t vector;  // v
  uint32_t to;      // where the lane's first piece of scores goes
  uint32_t from;    // where its scores are

  __device__ explicit LaneStage(const Whole& stage) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t block = kScores + lane / 8 * (Whole::kPieces * 16);
    const uint32_t lane8 = lane % 8;
    auto at = static_cast<uint32_t>(__cvta_generic_to_shared(&stage));
    vector = at + lane * 16;
    to = at + block + lane8 * 16;
    from = at + block + (sizeof(S) == 2 ? lane8 : 2 * lane8 ^ lane8 >> 2) * 16;
    // Or nvcc would compute them anew all the time.
    asm volatile("" : "+r"(vector), "+r"(to), "+r"(from));
  }
  __device__ void FetchScores(bool wanted, uint32_t stage, const std::byte* scores) const {
    CopyAsync16If(wanted, to + stage, scores);
    // The second half of the block is swizzled by one piece.
    if (sizeof(S) == 4) CopyAsync16If(wanted, (to + stage ^ 16) + 128, scores + 128);
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

// Whether a * old is exact for every bf16 `old`, so that a fused multiply-add rounds as the rule of
// ema.h does: a power of two that does not push `old` out of fp32's subnormal numbers.
__device__ inline bool IsExactPast(float past) {
  return (__float_as_uint(past) & 0x7fffffu) == 0 && past >= 0x1p-16f;
}

template <bool kExactPast>
__device__ inline float Moved(float past, float old, float share) {
  return kExactPast ? __fmaf_rn(past, old, share) : past * old + share;
}

// The common path: eight entries that were observed before, and finite scores. Returns 0, or
// another number if it was not so; then v and d are worthless.
template <bool kExactPast, typename Lane>
__device__ uint32_t ObserveAll(const Lane& lane, uint32_t stage, EmaWeights weights, uint32_t v[4],
                               uint32_t d[4]) {
  const auto moved = [&](float old, float share) {
    return Moved<kExactPast>(weights.past, old, share);
  };
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
      v_pair = Pack(moved(LowHalf(v_pair), low), moved(HighHalf(v_pair), high));
      d_pair = Pack(moved(LowHalf(d_pair), low), moved(HighHalf(d_pair), high));
      zero = AddZeroTimes(v_pair, AddZeroTimes(d_pair, zero));
    }
  }
  return zero & 0x7fff7fffu;
}

// Where a lane's eight entries are, in shared memory.
struct LaneEntries {
  uint32_t v;
  uint32_t d;        // the vector that D's window starts in
  uint32_t d_after;  // the one that it ends in
  bool odd;
};

// Scores of the lane's eight slots, of which each verifier row sees the first few.
template <typename S>
struct LaneScores {
  const S* first;
  const S* second;  // null: there is one verifier row
  int32_t first_count;
  int32_t second_count;
};

// Entries by the rule, element by element. It reads them again, so that its caller need not keep
// them. Returns how many scores were ignored.
template <int kWord, int kRows, typename S>
__device__ __noinline__ int ObserveEach(LaneScores<S> scores, EmaWeights weights, LaneEntries from,
                                        uint32_t* v_words, uint32_t* d_words) {
  uint32_t entries[4];
  LoadShared16(from.v, entries);
#pragma unroll
  for (int i = 0; i < 4; ++i) v_words[i] = entries[i];
  Window<kWord>(from.d, from.d_after, from.odd, entries);
#pragma unroll
  for (int i = 0; i < 4; ++i) d_words[i] = entries[i];
  auto* const v = reinterpret_cast<Bf16*>(v_words);
  auto* const d = reinterpret_cast<Bf16*>(d_words);
  int ignored_scores = 0;
  const auto observe = [&](const S* row, int32_t count) {
    float all[kSlotsPerLane];  // loaded at once: the last warp of a row must wait for them
#pragma unroll
    for (int k = 0; k < kSlotsPerLane; ++k) all[k] = k < count ? ToFloat(row[k]) : 0;
#pragma unroll
    for (int k = 0; k < kSlotsPerLane; ++k) {
      if (k >= count) break;
      const float share = weights.now * all[k];
      bool ignored = false;
      v[k] = NextEntry(v[k], all[k], share, weights.past, ignored);
      d[k] = NextEntry(d[k], all[k], share, weights.past, ignored);
      ignored_scores += ignored ? 1 : 0;
    }
  };
  observe(scores.first, scores.first_count);
  if (kRows > 1 && scores.second) observe(scores.second, scores.second_count);
  return ignored_scores;
}

}  // namespace spin::kernels::internal
