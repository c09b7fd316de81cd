// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"

namespace spin::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kCtasPerRow = 4;

// Grid: (kCtasPerRow, rows, layers).
__global__ void __launch_bounds__(kThreads) CompactKernel(const __grid_constant__ CompactParams p) {
  const Row row = p.rows[blockIdx.y];
  if (row.request == kPaddingRow) return;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const ListHeader& header = *p.lists.Header(row.buffer, row.request, layer);
  const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
  const int64_t at = int64_t{layer} * p.row_count + blockIdx.y;
  const int32_t* table = p.block_table + int64_t{blockIdx.y} * p.table_stride;
  const auto thread = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  for (int32_t j = thread; j < header.count; j += kCtasPerRow * kThreads) {
    p.kept_table[at * p.table_stride + j] = table[kept[j]];
  }
  if (thread < kMaxNextN) {
    const int64_t slots = VisibleSlots(row.position + thread, p.geometry.tokens_per_slot);
    const int64_t dropped = header.blocks - header.count;
    p.kept_slots[at * kMaxNextN + thread] =
        thread < static_cast<int32_t>(row.next_n)
            ? static_cast<int32_t>(slots - dropped * p.geometry.block)
            : 0;
  }
}

// Grid: (kCtasPerRow, rows, layers).
__global__ void __launch_bounds__(kThreads) RemapKernel(const __grid_constant__ RemapParams p) {
  const Row row = p.rows[blockIdx.y];
  if (row.request == kPaddingRow) return;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const int32_t block = p.geometry.block;
  const int32_t* kept = p.lists.Blocks(row.buffer, row.request, layer);
  const int64_t at = (int64_t{layer} * p.row_count + blockIdx.y) * kMaxNextN * p.topk_stride;
  const int64_t entries = int64_t{row.next_n} * p.topk_stride;
  for (int64_t k = int64_t{blockIdx.x} * kThreads + threadIdx.x; k < entries;
       k += kCtasPerRow * kThreads) {
    int32_t& index = p.topk[at + k];
    if (index >= 0) index = kept[index / block] * block + index % block;
  }
}

}  // namespace

cudaError_t CompactCuda(const CompactParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  CompactKernel<<<dim3(kCtasPerRow, p.row_count, p.layers.count), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t RemapCuda(const RemapParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  RemapKernel<<<dim3(kCtasPerRow, p.row_count, p.layers.count), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t internal::LoadCompactCuda() { return Load(CompactKernel, RemapKernel); }

}  // namespace spin::kernels
