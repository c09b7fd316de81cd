// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_block_score.cuh"
#include "kernels/internal/cuda_load.h"
#include "kernels/internal/cuda_start.h"

namespace spin::kernels {
namespace {

constexpr int kWarps = 8;

// Grid: (blocks / kWarps, rows, layers); a warp for each block.
template <typename T>
__global__ void __launch_bounds__(32 * kWarps)
    PredictKernel(const __grid_constant__ PredictParams p) {
  const Row row = p.rows[blockIdx.y];
  if (row.request == kPaddingRow) return;
  const Geometry& g = p.geometry;
  const int32_t layer = p.layers.first + static_cast<int32_t>(blockIdx.z);
  const RowExtent extent = ExtentOf(row.position, row.next_n, g);
  const auto block = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (block >= extent.blocks) return;
  const RequestRecord& record = p.state.records[row.request];
  const float score = internal::ScanBlock<T>(p.state, record, g, row, layer, block);
  if (threadIdx.x % 32 == 0) {
    p.block_scores[layer * p.layer_stride + int64_t{blockIdx.y} * p.max_blocks + block] = score;
  }
}

}  // namespace

cudaError_t PredictCuda(const PredictParams& p, cudaStream_t stream) {
  if (p.row_count == 0 || p.layers.count == 0 || p.max_blocks == 0) return cudaSuccess;
  const dim3 grid((p.max_blocks + kWarps - 1) / kWarps, p.row_count, p.layers.count);
  const auto kernel = p.geometry.state == Dtype::kF32 ? PredictKernel<float> : PredictKernel<Bf16>;
  return internal::Launch(kernel, grid, 32 * kWarps, stream, p);
}

cudaError_t internal::LoadPredictCuda() { return Load(PredictKernel<float>, PredictKernel<Bf16>); }

}  // namespace spin::kernels
