// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/c/arguments.h"

namespace spin::c_abi {

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(field, absl::StrCat(value, " is not in ", low, " to ", high));
}

namespace {

absl::StatusOr<kernels::Dtype> DtypeOf(absl::string_view field, spin_dtype dtype) {
  if (dtype == SPIN_F32) return kernels::Dtype::kF32;
  if (dtype == SPIN_BF16) return kernels::Dtype::kBF16;
  return Bad(field, absl::StrCat(dtype, " is neither SPIN_F32 nor SPIN_BF16"));
}

kernels::ListTable ListsOf(const spin_lists& lists, int32_t layers) {
  return {reinterpret_cast<kernels::ListHeader*>(lists.headers),
          lists.blocks,
          reinterpret_cast<kernels::ListMask*>(lists.masks),
          lists.max_requests,
          layers,
          lists.max_blocks};
}

absl::Status CheckPointers(const spin_launch& launch, unsigned needs) {
  absl::Status status;
  if (needs & kState) {
    status.Update(CheckPointer("launch.slab", launch.slab));
    status.Update(CheckPointer("launch.records", launch.records));
  }
  if (needs & kLists) {
    status.Update(CheckPointer("launch.lists.headers", launch.lists.headers));
    status.Update(CheckPointer("launch.lists.blocks", launch.lists.blocks));
    status.Update(CheckPointer("launch.lists.masks", launch.lists.masks));
  }
  return status;
}

}  // namespace

absl::Status Bad(absl::string_view field, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", message));
}

absl::Status Within(absl::string_view what, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(what, ".", status.message()));
}

absl::Status CheckPointer(absl::string_view field, const void* pointer) {
  return pointer != nullptr ? absl::OkStatus() : Bad(field, "is null");
}

absl::StatusOr<kernels::Geometry> GeometryOf(const spin_geometry& geometry) {
  absl::Status status = CheckRange("geometry.layers", geometry.layers, 1, kernels::kMaxLayers);
  if (!kernels::IsBlockSize(geometry.block)) {
    status.Update(Bad("geometry.block", absl::StrCat(geometry.block, " is not 16, 32, 64 or 128")));
  }
  status.Update(CheckRange("geometry.topk", geometry.topk, 1, kernels::kMaxTopk));
  status.Update(CheckRange("geometry.tokens_per_slot", geometry.tokens_per_slot, 1,
                           kernels::kMaxTokensPerSlot));
  const auto state = DtypeOf("geometry.state", geometry.state);
  status.Update(state.status());
  if (!status.ok()) return status;
  return kernels::Geometry{geometry.layers, geometry.block, geometry.topk, geometry.tokens_per_slot,
                           *state};
}

absl::StatusOr<kernels::LayerRange> LayersOf(const kernels::Geometry& geometry, int32_t first,
                                             int32_t count) {
  if (first >= 0 && count >= 1 && count <= geometry.layers - first) {
    return kernels::LayerRange{first, count};
  }
  return Bad("layer_first, layer_count",
             absl::StrCat(first, " + ", count, " is not within ", geometry.layers, " layers"));
}

absl::StatusOr<kernels::ScoreView> ScoresOf(const spin_scores& scores) {
  absl::Status status = CheckPointer("scores.data", scores.data);
  const auto dtype = DtypeOf("scores.dtype", scores.dtype);
  status.Update(dtype.status());
  if (dtype.ok() && reinterpret_cast<uintptr_t>(scores.data) % kernels::DtypeBytes(*dtype) != 0) {
    status.Update(Bad("scores.data", "is not aligned to its elements"));
  }
  if (scores.layer_stride < 0 || scores.row_stride < 0 || scores.draft_stride < 0) {
    status.Update(Bad("scores", "a stride is negative"));
  }
  if (!status.ok()) return status;
  return kernels::ScoreView{scores.data, *dtype, scores.layer_stride, scores.row_stride,
                            scores.draft_stride};
}

absl::StatusOr<Launch> LaunchOf(const spin_launch& launch, unsigned needs) {
  const auto geometry = GeometryOf(launch.geometry);
  if (!geometry.ok()) return geometry.status();
  const auto layers = LayersOf(*geometry, launch.layer_first, launch.layer_count);
  absl::Status status = layers.status();
  status.Update(CheckRange("launch.row_count", launch.row_count, 0, kMostRows));
  status.Update(CheckRange("launch.lists.max_requests", launch.lists.max_requests, 1, INT32_MAX));
  status.Update(CheckRange("launch.lists.max_blocks", launch.lists.max_blocks, 1,
                           kernels::kMaxSlots / geometry->block));
  if (launch.binding == nullptr) status.Update(CheckPointers(launch, needs));
  if (!status.ok()) return status;
  return Launch{.geometry = *geometry,
                .layers = *layers,
                .row_count = launch.row_count,
                .max_blocks = launch.lists.max_blocks,
                .epoch = launch.epoch,
                .state = {static_cast<std::byte*>(launch.slab),
                          reinterpret_cast<const kernels::RequestRecord*>(launch.records)},
                .lists = ListsOf(launch.lists, geometry->layers),
                .binding = reinterpret_cast<const kernels::Binding*>(launch.binding)};
}

absl::Status CheckSameLaunch(const spin_launch& select, const spin_launch& compact) {
  absl::Status status;
  const auto check = [&status](absl::string_view field, const auto& a, const auto& b) {
    if (a != b) {
      status.Update(Bad(absl::StrCat("compact.launch.", field), "is not that of select.launch"));
    }
  };
  check("geometry.layers", select.geometry.layers, compact.geometry.layers);
  check("geometry.block", select.geometry.block, compact.geometry.block);
  check("geometry.topk", select.geometry.topk, compact.geometry.topk);
  check("geometry.tokens_per_slot", select.geometry.tokens_per_slot,
        compact.geometry.tokens_per_slot);
  check("geometry.state", select.geometry.state, compact.geometry.state);
  check("layer_first", select.layer_first, compact.layer_first);
  check("layer_count", select.layer_count, compact.layer_count);
  check("row_count", select.row_count, compact.row_count);
  check("binding", select.binding, compact.binding);
  check("lists.max_requests", select.lists.max_requests, compact.lists.max_requests);
  check("lists.max_blocks", select.lists.max_blocks, compact.lists.max_blocks);
  if (select.binding != nullptr) return status;  // which has the rest
  check("epoch", select.epoch, compact.epoch);
  check("lists.headers", select.lists.headers, compact.lists.headers);
  check("lists.blocks", select.lists.blocks, compact.lists.blocks);
  check("lists.masks", select.lists.masks, compact.lists.masks);
  return status;
}

}  // namespace spin::c_abi
