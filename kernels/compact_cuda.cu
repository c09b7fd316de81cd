// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_compact.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_start.h"
#include "kernels/internal/sound_list.h"

namespace spin::kernels {
namespace {

constexpr int kFewThreads = 256;
constexpr int kManyThreads = 1024;
constexpr int kEach = 8;  // blocks of a thread whose loads are under way at once
constexpr int kRemapThreads = 256;
constexpr int kRemapCtas = 4;  // per row and layer

// Writes the table of a list, and looks up what it names while its header is still on the way.
// Returns its length, or 0 if it does not serve: then the table is anything. All threads take part.
template <int kThreads>
__device__ int32_t WriteListed(const CompactParams& p, const internal::CompactedRow& to,
                               int32_t layer) {
  const Row& row = to.row();
  const int32_t blocks = to.context();
  const ListHeader header = *p.lists.Header(row.buffer, row.request, layer);
  const int32_t* const list = p.lists.Blocks(row.buffer, row.request, layer);
  const int32_t end = min(blocks, p.lists.max_blocks) - 1;
  int32_t count = 0;
  bool sound = true;
  const auto write = [&](int32_t first) {
    int32_t listed[kEach];
    int32_t next[kEach];
    int32_t page[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      listed[i] = list[min(first + i * kThreads, end)];
      next[i] = list[min(first + i * kThreads + 1, end)];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      page[i] =
          to.pages()[min(static_cast<uint32_t>(listed[i]), static_cast<uint32_t>(blocks - 1))];
    }
    count = internal::IsListOf(header, p.epoch, row, blocks) & (blocks <= p.lists.max_blocks)
                ? header.count
                : 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int32_t j = first + i * kThreads;
      if (j < count) {
        // Ascending within the context, and its last block at the end.
        sound &= listed[i] >= 0 && (j == count - 1 ? listed[i] == blocks - 1 : listed[i] < next[i]);
        to.Write(j, listed[i], page[i]);
      }
    }
  };
  const auto thread = static_cast<int32_t>(threadIdx.x);
  write(thread);
  for (int32_t first = thread + kThreads * kEach; first < count; first += kThreads * kEach) {
    write(first);
  }
  return __syncthreads_and(sound) != 0 ? count : 0;
}

// Grid: (rows, layers).
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    CompactKernel(const __grid_constant__ CompactParams params) {
  internal::WaitForKernelBefore();
  const CompactParams p = BoundLists(params);
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.y);
  const internal::CompactedRow to(p, static_cast<int32_t>(blockIdx.x), layer);
  const int32_t count = to.wants_list() ? WriteListed<kThreads>(p, to, layer) : 0;
  if (count > 0) {
    to.WriteSlots(count);
  } else {
    to.KeepAll<kThreads>();
  }
}

// Grid: (kRemapCtas, rows, layers).
__global__ void __launch_bounds__(kRemapThreads)
    RemapKernel(const __grid_constant__ RemapParams p) {
  const uint32_t next_n = p.rows[blockIdx.y].next_n;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const int32_t block = p.geometry.block;
  const int64_t at = int64_t{layer} * p.row_count + blockIdx.y;
  const int32_t* const kept = p.kept_blocks + at * p.table_stride;
  int32_t* const topk = p.topk + at * p.next_n_stride * p.topk_stride;
  const int64_t entries = int64_t{next_n} * p.topk_stride;
  for (int64_t k = int64_t{blockIdx.x} * kRemapThreads + threadIdx.x; k < entries;
       k += kRemapCtas * kRemapThreads) {
    const int32_t index = topk[k];
    if (index < 0 || index / block >= p.table_stride) continue;
    topk[k] = kept[index / block] * block + index % block;
  }
}

}  // namespace

cudaError_t CompactCuda(const CompactParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  const dim3 grid(static_cast<uint32_t>(p.row_count), static_cast<uint32_t>(p.layers.count));
  return p.lists.max_blocks <= kFewThreads * kEach
             ? internal::LaunchEarly(CompactKernel<kFewThreads>, grid, kFewThreads, 0, stream, p)
             : internal::LaunchEarly(CompactKernel<kManyThreads>, grid, kManyThreads, 0, stream, p);
}

cudaError_t RemapCuda(const RemapParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  const dim3 grid(kRemapCtas, p.row_count, p.layers.count);
  return internal::Launch(RemapKernel, grid, kRemapThreads, stream, p);
}

cudaError_t internal::LoadCompactCuda() {
  return Load(CompactKernel<kFewThreads>, CompactKernel<kManyThreads>, RemapKernel);
}

}  // namespace spin::kernels
