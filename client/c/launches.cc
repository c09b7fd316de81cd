// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "absl/status/status.h"
#include "client/c/arguments.h"
#include "client/c/device.h"
#include "client/c/outcome.h"
#include "kernels/device.h"
#include "spin/kernels.h"

namespace spin::c_abi {
namespace {

const kernels::Row* RowsOf(const spin_row* rows) {
  return reinterpret_cast<const kernels::Row*>(rows);
}
const kernels::ScoredRow* RowsOf(const spin_scored_row* rows) {
  return reinterpret_cast<const kernels::ScoredRow*>(rows);
}
kernels::LayerCounters* CountersOf(spin_layer_counters* counters) {
  return reinterpret_cast<kernels::LayerCounters*>(counters);
}

absl::Status Predict(kernels::Device& device, const spin_predict_params& params,
                     kernels::Stream stream) {
  auto launch = LaunchOf(params.launch, 0);
  if (!launch.ok()) return launch.status();
  absl::Status status = CheckPointer("launch.slab", params.launch.slab);
  status.Update(CheckPointer("launch.records", params.launch.records));
  status.Update(CheckPointer("block_scores", params.block_scores));
  if (params.layer_stride < 0) status.Update(Bad("layer_stride", "is negative"));
  if (!status.ok()) return status;
  return device.Predict({.geometry = launch->geometry,
                         .state = launch->state,
                         .layers = launch->layers,
                         .rows = RowsOf(params.rows),
                         .row_count = launch->row_count,
                         .max_blocks = launch->max_blocks,
                         .layer_stride = params.layer_stride,
                         .block_scores = params.block_scores},
                        stream);
}

absl::StatusOr<kernels::SelectParams> SelectOf(const kernels::Device& device,
                                               const spin_select_params& params) {
  auto launch = LaunchOf(params.launch, kState | kLists);
  if (!launch.ok()) return launch.status();
  absl::Status status = CheckPointer("policy", params.policy);
  const int32_t rows = std::max(launch->row_count, 1);
  if (device.SelectWorkspaceBytes(launch->layers.count, rows, launch->max_blocks) > 0) {
    status.Update(CheckPointer("workspace", params.workspace));
  }
  if (reinterpret_cast<uintptr_t>(params.workspace) % 16 != 0) {
    status.Update(Bad("workspace", "is not 16-byte aligned"));
  }
  if (params.layer_stride < 0) status.Update(Bad("layer_stride", "is negative"));
  if (!status.ok()) return status;
  return kernels::SelectParams{.geometry = launch->geometry,
                               .state = launch->state,
                               .layers = launch->layers,
                               .rows = RowsOf(params.rows),
                               .row_count = launch->row_count,
                               .max_blocks = launch->max_blocks,
                               .layer_stride = params.layer_stride,
                               .block_scores = params.block_scores,
                               .policy = reinterpret_cast<const kernels::Policy*>(params.policy),
                               .epoch = launch->epoch,
                               .lists = launch->lists,
                               .workspace = static_cast<std::byte*>(params.workspace),
                               .binding = launch->binding};
}

absl::StatusOr<kernels::CompactParams> CompactOf(const spin_compact_params& params) {
  auto launch = LaunchOf(params.launch, kLists);
  if (!launch.ok()) return launch.status();
  absl::Status status = CheckPointer("block_table", params.block_table);
  status.Update(CheckPointer("kept_table", params.kept_table));
  status.Update(CheckPointer("kept_slots", params.kept_slots));
  if (params.table_stride < 1) status.Update(Bad("table_stride", "is not positive"));
  status.Update(CheckRange("next_n_stride", params.next_n_stride, 1, kMostVerifierRows));
  if (!status.ok()) return status;
  return kernels::CompactParams{.geometry = launch->geometry,
                                .layers = launch->layers,
                                .rows = RowsOf(params.rows),
                                .row_count = launch->row_count,
                                .epoch = launch->epoch,
                                .lists = launch->lists,
                                .block_table = params.block_table,
                                .table_stride = params.table_stride,
                                .next_n_stride = params.next_n_stride,
                                .kept_table = params.kept_table,
                                .kept_slots = params.kept_slots,
                                .kept_blocks = params.kept_blocks,
                                .unserved = params.unserved,
                                .binding = launch->binding};
}

absl::Status Select(kernels::Device& device, const spin_select_params& params,
                    kernels::Stream stream) {
  const auto select = SelectOf(device, params);
  return select.ok() ? device.Select(*select, stream) : select.status();
}

absl::Status Compact(kernels::Device& device, const spin_compact_params& params,
                     kernels::Stream stream) {
  const auto compact = CompactOf(params);
  return compact.ok() ? device.Compact(*compact, stream) : compact.status();
}

absl::Status SelectAndCompact(kernels::Device& device, const spin_select_params& select,
                              const spin_compact_params& compact, kernels::Stream stream) {
  const auto made = SelectOf(device, select);
  if (!made.ok()) return Within("select", made.status());
  const auto used = CompactOf(compact);
  if (!used.ok()) return Within("compact", used.status());
  absl::Status status = CheckPointer("select.rows", select.rows);
  status.Update(CheckPointer("compact.rows", compact.rows));
  status.Update(CheckSameLaunch(select.launch, compact.launch));
  return status.ok() ? device.SelectAndCompact(*made, *used, stream) : status;
}

absl::Status Remap(kernels::Device& device, const spin_remap_params& params,
                   kernels::Stream stream) {
  const auto geometry = GeometryOf(params.geometry);
  if (!geometry.ok()) return geometry.status();
  const auto layers = LayersOf(*geometry, params.layer_first, params.layer_count);
  absl::Status status = layers.status();
  status.Update(CheckPointer("kept_blocks", params.kept_blocks));
  status.Update(CheckPointer("topk", params.topk));
  status.Update(CheckRange("row_count", params.row_count, 0, kMostRows));
  if (params.table_stride < 1) status.Update(Bad("table_stride", "is not positive"));
  if (params.next_n_stride < 1) status.Update(Bad("next_n_stride", "is not positive"));
  if (params.topk_stride < 1) status.Update(Bad("topk_stride", "is not positive"));
  if (!status.ok()) return status;
  // The kernel steps over all layers from layer 0; the caller has those of the launch.
  const int64_t layer_entries =
      int64_t{params.row_count} * params.next_n_stride * params.topk_stride;
  return device.Remap({.geometry = *geometry,
                       .layers = *layers,
                       .rows = RowsOf(params.rows),
                       .row_count = params.row_count,
                       .kept_blocks = params.kept_blocks,
                       .table_stride = params.table_stride,
                       .next_n_stride = params.next_n_stride,
                       .topk_stride = params.topk_stride,
                       .topk = params.topk - layers->first * layer_entries},
                      stream);
}

absl::Status Observe(kernels::Device& device, const spin_observe_params& params,
                     kernels::Stream stream) {
  auto launch = LaunchOf(params.launch, kState | kLists);
  if (!launch.ok()) return launch.status();
  const auto scores = ScoresOf(params.scores);
  absl::Status status = scores.status();
  if (params.max_next_n < 1 || params.max_next_n > kernels::kMaxNextN) {
    status.Update(Bad("max_next_n", absl::StrCat(params.max_next_n, " is not in 1 to 8")));
  }
  if (launch->binding == nullptr) status.Update(CheckPointer("counters", params.counters));
  if (!status.ok()) return status;
  return device.Observe({.geometry = launch->geometry,
                         .state = launch->state,
                         .layers = launch->layers,
                         .rows = RowsOf(params.rows),
                         .row_count = launch->row_count,
                         .max_next_n = params.max_next_n,
                         .max_blocks = launch->max_blocks,
                         .epoch = launch->epoch,
                         .lists = launch->lists,
                         .scores = *scores,
                         .weights = {params.weights.past, params.weights.now},
                         .counters = CountersOf(params.counters),
                         .binding = launch->binding},
                        stream);
}

absl::Status Audit(kernels::Device& device, const spin_audit_params& params,
                   kernels::Stream stream) {
  auto launch = LaunchOf(params.launch, kState | kLists);
  if (!launch.ok()) return launch.status();
  const auto scores = ScoresOf(params.scores);
  absl::Status status = scores.status();
  if (launch->binding == nullptr) status.Update(CheckPointer("counters", params.counters));
  if (params.audits != nullptr) status.Update(CheckPointer("workspace", params.workspace));
  if (!status.ok()) return status;
  return device.Audit({.geometry = launch->geometry,
                       .state = launch->state,
                       .layers = launch->layers,
                       .rows = RowsOf(params.rows),
                       .row_count = launch->row_count,
                       .epoch = launch->epoch,
                       .lists = launch->lists,
                       .scores = *scores,
                       .counters = CountersOf(params.counters),
                       .audits = reinterpret_cast<kernels::LayerAudits*>(params.audits),
                       .workspace = static_cast<std::byte*>(params.workspace),
                       .results = reinterpret_cast<kernels::AuditResult*>(params.results),
                       .binding = launch->binding},
                      stream);
}

// What all launches begin with.
template <typename Params, typename Run>
spin_code Launched(spin_device* device, const Params* given, void* stream, Run run) {
  return Guarded([&] {
    if (device == nullptr) return Bad("device", "is null");
    const auto params = Taken("params", given, sizeof(Params));
    if (!params.ok()) return params.status();
    if (params->rows == nullptr) return Bad("rows", "is null");
    return run(*device->device, *params, kernels::Stream{stream});
  });
}

}  // namespace
}  // namespace spin::c_abi

extern "C" {

spin_code spin_predict(spin_device* device, const spin_predict_params* params, void* stream) {
  return spin::c_abi::Launched(device, params, stream, spin::c_abi::Predict);
}
spin_code spin_select(spin_device* device, const spin_select_params* params, void* stream) {
  return spin::c_abi::Launched(device, params, stream, spin::c_abi::Select);
}
spin_code spin_compact(spin_device* device, const spin_compact_params* params, void* stream) {
  return spin::c_abi::Launched(device, params, stream, spin::c_abi::Compact);
}
spin_code spin_select_and_compact(spin_device* device, const spin_select_params* select,
                                  const spin_compact_params* compact, void* stream) {
  using namespace spin::c_abi;
  return Guarded([&] {
    if (device == nullptr) return Bad("device", "is null");
    const auto made = Taken("select", select, sizeof *select);
    if (!made.ok()) return made.status();
    const auto used = Taken("compact", compact, sizeof *compact);
    if (!used.ok()) return used.status();
    return SelectAndCompact(*device->device, *made, *used, spin::kernels::Stream{stream});
  });
}
spin_code spin_remap(spin_device* device, const spin_remap_params* params, void* stream) {
  return spin::c_abi::Launched(device, params, stream, spin::c_abi::Remap);
}
spin_code spin_observe(spin_device* device, const spin_observe_params* params, void* stream) {
  return spin::c_abi::Launched(device, params, stream, spin::c_abi::Observe);
}
spin_code spin_audit(spin_device* device, const spin_audit_params* params, void* stream) {
  return spin::c_abi::Launched(device, params, stream, spin::c_abi::Audit);
}

}  // extern "C"
