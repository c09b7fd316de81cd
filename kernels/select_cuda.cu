// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_select.cuh"

// How Select is launched: with as many threads for a row as are fastest.
namespace spin::kernels {
namespace {

constexpr int32_t kSharedBlocks = 32768;  // keys of so many blocks fit into shared memory
static_assert(internal::KeyBytes(kSharedBlocks) + sizeof(internal::SelectShared<1024>) <=
              kSharedBytes);

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

template <typename T, bool kSummaries, int kThreads, int kEach, int kCtasPerSm>
constexpr Variant InRegisters(int32_t max_rows) {
  return {internal::SelectKernel<T, kSummaries, internal::RegisterKeys<kEach>, kThreads, kCtasPerSm,
                                 true>,
          kThreads,
          kThreads * kEach,
          max_rows,
          true,
          true};
}

template <typename T, bool kSummaries, int32_t kBlocks, bool kShared>
constexpr Variant InMemory() {
  constexpr int kThreads = 1024;
  return {internal::SelectKernel<T, kSummaries, internal::MemoryKeys<kBlocks / kThreads>, kThreads,
                                 1, kShared>,
          kThreads,
          kBlocks,
          INT32_MAX,
          false,
          kShared};
}

// In the order of preference, as measured: as long as all rows find room at once, many threads
// shorten the wait for each; but what every warp does beside its blocks counts, too.
template <typename T, bool kSummaries>
constexpr Variant kVariants[] = {InRegisters<T, kSummaries, 512, 4, 1>(kMultiprocessors),
                                 InRegisters<T, kSummaries, 256, 8, 2>(2 * kMultiprocessors),
                                 InRegisters<T, kSummaries, 128, 16, 4>(4 * kMultiprocessors),
                                 InRegisters<T, kSummaries, 128, 16, 6>(INT32_MAX),
                                 InRegisters<T, kSummaries, 1024, 8, 1>(kMultiprocessors),
                                 InRegisters<T, kSummaries, 256, 32, 2>(INT32_MAX),
                                 InMemory<T, kSummaries, kSharedBlocks, true>(),
                                 InMemory<T, kSummaries, 2 * kSharedBlocks, false>(),
                                 InMemory<T, kSummaries, kMaxBlocks, false>()};

int64_t SharedBytes(const Variant& variant, int32_t max_blocks) {
  if (!variant.shared) return 0;
  return variant.keys_in_registers ? internal::DrawBytes(max_blocks)
                                   : internal::KeyBytes(max_blocks);
}

template <typename T, bool kSummaries>
cudaError_t Launch(const SelectParams& p, const CompactParams& compact, cudaStream_t stream) {
  // Where all of V and D must be read, each row has work for many threads.
  const int32_t rows = kSummaries ? p.row_count * p.layers.count : 0;
  const Variant* variant = kVariants<T, kSummaries>;
  while (variant->max_blocks < p.max_blocks || variant->max_rows < rows) ++variant;
  const dim3 grid(static_cast<uint32_t>(p.row_count), static_cast<uint32_t>(p.layers.count));
  return internal::LaunchEarly(variant->kernel, grid, variant->threads,
                               static_cast<size_t>(SharedBytes(*variant, p.max_blocks)), stream, p,
                               compact);
}

// How much shared memory launches may ask for. Loads the kernels, too.
template <typename T, bool kSummaries>
cudaError_t SetRooms() {
  for (const Variant& variant : kVariants<T, kSummaries>) {
    const cudaError_t error = cudaFuncSetAttribute(
        reinterpret_cast<const void*>(variant.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(SharedBytes(variant, variant.max_blocks)));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

int64_t SelectWorkspaceBytesCuda(int32_t layers, int32_t rows, int32_t max_blocks) {
  return max_blocks <= kSharedBlocks ? 0 : int64_t{layers} * rows * internal::KeyBytes(max_blocks);
}

cudaError_t SelectAndCompactCuda(const SelectParams& p, const CompactParams& compact,
                                 cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  if (HasSummary(p.geometry)) return Launch<Bf16, true>(p, compact, stream);
  return p.geometry.state == Dtype::kF32 ? Launch<float, false>(p, compact, stream)
                                         : Launch<Bf16, false>(p, compact, stream);
}

cudaError_t SelectCuda(const SelectParams& p, cudaStream_t stream) {
  return SelectAndCompactCuda(p, {}, stream);
}

cudaError_t internal::LoadSelectCuda() {
  cudaError_t error = SetRooms<float, false>();
  if (error == cudaSuccess) error = SetRooms<Bf16, false>();
  return error == cudaSuccess ? SetRooms<Bf16, true>() : error;
}

}  // namespace spin::kernels
