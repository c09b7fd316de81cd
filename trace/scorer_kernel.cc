// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Compiled with -O3 and FMA contraction (CMakeLists.txt). Vector types of GCC and Clang instead of
// intrinsics: one text becomes AVX-512, AVX2, SSE2 and NEON.

#include "trace/scorer_kernel.h"

namespace spin::trace {
namespace {

// Register blocking: accumulators of kHeads heads x kVectors vectors of kWidth floats stay in
// registers over all dimensions. Per dimension kVectors keys and kHeads broadcast query elements
// feed kHeads * kVectors FMAs. Everything is inlined into functions compiled for one target each.
template <int kWidth, int kVectors, int kHeads>
struct Blocking {
  using Vec [[gnu::vector_size(4 * kWidth), gnu::may_alias]] = float;
  using Bits [[gnu::vector_size(4 * kWidth), gnu::may_alias]] = uint32_t;
  static constexpr int kTileVectors = kTileSlots / kWidth;

  [[gnu::always_inline]] static void AddProducts(const Vec* k, const float* q,
                                                 Vec (*acc)[kVectors]) {
#pragma GCC unroll 16
    for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) acc[h][v] += k[v] * q[h];
    }
  }

  // acc[h][v] = q_h . k for the vectors from `first` on.
  [[gnu::always_inline]] static void Dot(const ScoreArgs& args, int first, const float* q,
                                         Vec (*acc)[kVectors]) {
    for (int d = 0; d < args.dim_pairs; ++d, q += 2 * kHeadGroup) {
      Vec even[kVectors], odd[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const int tile = (first + v) / kTileVectors;
        const int part = (first + v) % kTileVectors;
        const Bits pair = reinterpret_cast<const Bits*>(args.k[tile][d].pair)[part];
        even[v] = reinterpret_cast<Vec>(pair << 16);
        odd[v] = reinterpret_cast<Vec>(pair & 0xffff0000u);
        if (v % kTileVectors == 0) __builtin_prefetch(args.next[tile] + d);
      }
      AddProducts(even, q, acc);
      AddProducts(odd, q + kHeadGroup, acc);
    }
  }

  // sum += w_h * relu(acc[h]), heads ascending. The comparison is false for a NaN, which stays.
  [[gnu::always_inline]] static void AddHeads(const float* w, const Vec (*acc)[kVectors],
                                              Vec* sum) {
#pragma GCC unroll 16
    for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[v] += w[h] * (acc[h][v] < 0.0f ? Vec{} : acc[h][v]);
    }
  }

  [[gnu::always_inline]] static void Store(const ScoreArgs& args, int first, const Vec* sum,
                                           Lanes* z) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const int tile = (first + v) / kTileVectors;
      const int part = (first + v) % kTileVectors;
      const Vec scale = reinterpret_cast<const Vec*>(args.scale[tile]->lane)[part];
      reinterpret_cast<Vec*>(z[tile].lane)[part] = sum[v] * scale;
    }
  }

  [[gnu::always_inline]] static void Score(const ScoreArgs& args, Lanes* z) {
    for (int first = 0; first < 2 * kTileVectors; first += kVectors) {
      Vec sum[kVectors] = {};
      for (int h = 0; h < args.head_groups * kHeadGroup; h += kHeads) {
        const int group = h - h % kHeadGroup;  // its first head
        Vec acc[kHeads][kVectors] = {};
        Dot(args, first, args.q + int64_t{group} * 2 * args.dim_pairs + h % kHeadGroup, acc);
        AddHeads(args.w + h, acc, sum);
      }
      Store(args, first, sum, z);
    }
  }
};

#if defined(__x86_64__)
[[gnu::target("avx512f,fma")]] void ScoreAvx512(const ScoreArgs& args, Lanes* z) {
  Blocking<16, 2, 8>::Score(args, z);
}

[[gnu::target("avx2,fma")]] void ScoreAvx2(const ScoreArgs& args, Lanes* z) {
  Blocking<8, 2, 4>::Score(args, z);
}
#endif

#if defined(__aarch64__)
constexpr int kBaseVectors = 4;  // 32 registers of 4 floats
#else
constexpr int kBaseVectors = 2;  // 16 registers of 4 floats
#endif

void ScoreBaseline(const ScoreArgs& args, Lanes* z) {
  Blocking<4, kBaseVectors, 4>::Score(args, z);
}

}  // namespace

std::vector<NamedScoreKernel> RunnableScoreKernels() {
  std::vector<NamedScoreKernel> kernels;
#if defined(__x86_64__)
  const bool fma = __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f")) kernels.push_back({"avx512", ScoreAvx512});
  if (fma && __builtin_cpu_supports("avx2")) kernels.push_back({"avx2", ScoreAvx2});
#endif
  kernels.push_back({"baseline", ScoreBaseline});
  return kernels;
}

}  // namespace spin::trace
