// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/sound_list.h"

namespace spin::kernels {
namespace {

constexpr int kThreads = 256;  // of Remap
constexpr int kRemapCtas = 4;  // per row and layer

constexpr int kRowThreads = 512;
constexpr int kEntries = 4;  // of the list, that a thread has in flight

// Where the rows of Compact's output begin.
struct KeptRow {
  int32_t* table;
  int32_t* blocks;  // or null

  __device__ void Write(int32_t j, int32_t block, int32_t physical) const {
    table[j] = physical;
    if (blocks) blocks[j] = block;
  }
};

// Writes the row of a list. False if the list is not ascending within the context, or does not end
// with its last block: then what was written is void. All threads ask.
__device__ bool WriteList(const KeptRow& to, const int32_t* __restrict__ kept, int32_t count,
                          const int32_t* __restrict__ table, int32_t blocks) {
  bool sound = true;
  for (int32_t first = 0; first < count; first += kRowThreads * kEntries) {
    int32_t block[kEntries];
    int32_t before[kEntries];
    int32_t physical[kEntries];
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      const int32_t j = first + i * kRowThreads + static_cast<int32_t>(threadIdx.x);
      block[i] = j < count ? kept[j] : -1;
      before[i] = j < count && j > 0 ? kept[j - 1] : -1;
    }
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      physical[i] = block[i] >= 0 && block[i] < blocks ? table[block[i]] : 0;
    }
#pragma unroll
    for (int i = 0; i < kEntries; ++i) {
      const int32_t j = first + i * kRowThreads + static_cast<int32_t>(threadIdx.x);
      if (j >= count) continue;
      const int32_t last = blocks - 1;
      sound &= block[i] > before[i] && (j == count - 1 ? block[i] == last : block[i] < last);
      to.Write(j, block[i], physical[i]);
    }
  }
  return __syncthreads_and(sound) != 0;
}

__device__ void WriteAllBlocks(const KeptRow& to, const int32_t* table, int32_t blocks) {
  for (auto j = static_cast<int32_t>(threadIdx.x); j < blocks; j += kRowThreads) {
    to.Write(j, j, table[j]);
  }
}

// Grid: (rows, layers).
__global__ void __launch_bounds__(kRowThreads)
    CompactKernel(const __grid_constant__ CompactParams params) {
  const CompactParams p = BoundLists(params);
  const Row row = p.rows[blockIdx.x];
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.y);
  const int64_t at = int64_t{layer} * p.row_count + blockIdx.x;
  const int32_t blocks =
      row.next_n == 0 ? 0
                      : ExtentOf(row.position, static_cast<int32_t>(row.next_n), p.geometry).blocks;
  const int32_t* const table = p.block_table + int64_t{blockIdx.x} * p.table_stride;
  const KeptRow to = {p.kept_table + at * p.table_stride,
                      p.kept_blocks ? p.kept_blocks + at * p.table_stride : nullptr};
  int32_t count = blocks;
  if (row.request != kPaddingRow && blocks > 0) {
    const ListHeader header = *p.lists.Header(row.buffer, row.request, layer);
    const int32_t* const list = p.lists.Blocks(row.buffer, row.request, layer);
    if (internal::IsListOf(header, p.epoch, row, blocks) &&
        WriteList(to, list, header.count, table, blocks)) {
      count = header.count;
    } else {
      if (p.unserved && threadIdx.x == 0) atomicAdd(p.unserved, 1);
      WriteAllBlocks(to, table, blocks);
    }
  } else {
    WriteAllBlocks(to, table, blocks);
  }
  const auto draft = static_cast<int32_t>(threadIdx.x);
  if (draft < p.next_n_stride) {
    const int64_t slots = VisibleSlots(row.position + draft, p.geometry.tokens_per_slot);
    const int64_t dropped = int64_t{blocks - count} * p.geometry.block;
    p.kept_slots[at * p.next_n_stride + draft] =
        draft < static_cast<int32_t>(row.next_n) ? static_cast<int32_t>(slots - dropped) : 0;
  }
}

// Grid: (kRemapCtas, rows, layers).
__global__ void __launch_bounds__(kThreads) RemapKernel(const __grid_constant__ RemapParams p) {
  const uint32_t next_n = p.rows[blockIdx.y].next_n;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const int32_t block = p.geometry.block;
  const int64_t at = int64_t{layer} * p.row_count + blockIdx.y;
  const int32_t* const kept = p.kept_blocks + at * p.table_stride;
  int32_t* const topk = p.topk + at * p.next_n_stride * p.topk_stride;
  const int64_t entries = int64_t{next_n} * p.topk_stride;
  for (int64_t k = int64_t{blockIdx.x} * kThreads + threadIdx.x; k < entries;
       k += kRemapCtas * kThreads) {
    const int32_t index = topk[k];
    if (index >= 0) topk[k] = kept[index / block] * block + index % block;
  }
}

}  // namespace

cudaError_t CompactCuda(const CompactParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  CompactKernel<<<dim3(p.row_count, p.layers.count), kRowThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t RemapCuda(const RemapParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0) return cudaSuccess;
  RemapKernel<<<dim3(kRemapCtas, p.row_count, p.layers.count), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t internal::LoadCompactCuda() { return Load(CompactKernel, RemapKernel); }

}  // namespace spin::kernels
