// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "prediction/block_choice.h"

#include "kernels/select.h"

namespace spin::prediction {

BlockChoice::BlockChoice(const kernels::Geometry& geometry, int64_t max_slots,
                         const kernels::Policy& policy, uint64_t key_hash)
    : geometry_(geometry),
      max_blocks_(kernels::BlocksOf(max_slots, geometry.block)),
      policy_(policy),
      records_(1),
      headers_(geometry.layers),
      blocks_(static_cast<size_t>(geometry.layers) * max_blocks_),
      masks_(static_cast<size_t>(geometry.layers) * kernels::MaskWords(max_blocks_)),
      workspace_(static_cast<size_t>(geometry.layers) * max_blocks_) {
  static_assert(kernels::SelectWorkspaceBytesCpu(1) == sizeof(uint64_t));
  records_[0].generation = 1;
  records_[0].key_hash = key_hash;
}

absl::Span<const int32_t> BlockChoice::Choose(int layer, int64_t position, int next_n,
                                              double sparsity, absl::Span<const float> worth) {
  policy_.sparsity[layer] = sparsity;
  const kernels::Row row = {0, static_cast<uint32_t>(next_n), position, 0, 0};
  uint64_t* const workspace = workspace_.data() + static_cast<size_t>(layer) * max_blocks_;
  const kernels::ListTable lists = {headers_.data(),  blocks_.data(), masks_.data(), 1,
                                    geometry_.layers, max_blocks_};
  kernels::SelectCpu({.geometry = geometry_,
                      .state = {nullptr, records_.data()},
                      .layers = {layer, 1},
                      .rows = &row,
                      .row_count = 1,
                      .max_blocks = max_blocks_,
                      .layer_stride = 0,
                      .block_scores = worth.data(),
                      .policy = &policy_,
                      .epoch = 1,
                      .lists = lists,
                      .workspace = reinterpret_cast<std::byte*>(workspace)});
  return {lists.Blocks(0, 0, layer), static_cast<size_t>(headers_[layer].count)};
}

}  // namespace spin::prediction
