// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/codec.h"

#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "dataplane/slab_header.h"

namespace spin::server {
namespace {

v1::Dtype ToProto(kernels::Dtype dtype) {
  return dtype == kernels::Dtype::kF32 ? v1::DTYPE_F32 : v1::DTYPE_BF16;
}

v1::ErrorReason ToProto(dataplane::RowFault fault) {
  switch (fault) {
    case dataplane::RowFault::kNone:
      return v1::ERROR_REASON_UNSPECIFIED;
    case dataplane::RowFault::kInvalidField:
      return v1::ERROR_REASON_INVALID_FIELD;
    case dataplane::RowFault::kPosition:
      return v1::ERROR_REASON_POSITION;
    case dataplane::RowFault::kStaleList:
      return v1::ERROR_REASON_STALE_LIST;
    case dataplane::RowFault::kCapacity:
      return v1::ERROR_REASON_CAPACITY;
    case dataplane::RowFault::kUnknownRequest:
      return v1::ERROR_REASON_UNKNOWN_REQUEST;
    case dataplane::RowFault::kClosed:
      return v1::ERROR_REASON_CLOSED;
    case dataplane::RowFault::kInternal:
      return v1::ERROR_REASON_INTERNAL;
  }
  return v1::ERROR_REASON_INTERNAL;
}

absl::string_view Advice(dataplane::RowFault fault) {
  switch (fault) {
    case dataplane::RowFault::kNone:
      return "";
    case dataplane::RowFault::kInvalidField:
      return "is out of its documented range";
    case dataplane::RowFault::kPosition:
      return "does not follow the last observed position; after steps without Spin score the row "
             "in "
             "full and set resync, after going back close and reopen the request";
    case dataplane::RowFault::kStaleList:
      return "names a list that was not made for this step; keep all blocks";
    case dataplane::RowFault::kCapacity:
      return "needs more state than the request has; keep all blocks and extend the request";
    case dataplane::RowFault::kUnknownRequest:
      return "names no open request";
    case dataplane::RowFault::kClosed:
      return "names a request that was closed";
    case dataplane::RowFault::kInternal:
      return "failed on the device; see the log of spind";
  }
  return "";
}

}  // namespace

google::protobuf::Timestamp ToProto(absl::Time time) {
  const int64_t nanos = absl::ToUnixNanos(time);
  google::protobuf::Timestamp out;
  out.set_seconds(nanos / 1000000000);
  out.set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return out;
}

v1::Geometry ToProto(const dataplane::SessionShape& shape) {
  v1::Geometry out;
  out.set_layers(shape.geometry.layers);
  out.set_block_slots(shape.geometry.block);
  out.set_topk(shape.geometry.topk);
  out.set_tokens_per_slot(shape.geometry.tokens_per_slot);
  out.set_max_slots(shape.max_slots);
  out.set_max_requests(shape.max_requests);
  out.set_max_next_n(shape.max_next_n);
  out.set_state_dtype(ToProto(shape.geometry.state));
  out.set_score_dtype(ToProto(shape.scores));
  return out;
}

v1::Layout ToProto(const dataplane::SessionLayout& layout, const dataplane::SessionShape& shape) {
  v1::Layout out;
  out.set_layout_version(dataplane::kLayoutVersion);
  out.set_max_blocks(shape.max_blocks());
  out.set_records(layout.records);
  out.set_counters(layout.counters);
  out.set_headers(layout.headers);
  out.set_lists(layout.lists);
  out.set_masks(layout.masks);
  out.set_audits(layout.audits);
  out.set_timeline(layout.timeline);
  out.set_staging(layout.staging);
  out.set_staging_stride(layout.staging_stride);
  return out;
}

v1::TimeHistogram ToProto(const TimeTotals& totals) {
  v1::TimeHistogram out;
  out.mutable_buckets()->Assign(totals.buckets.begin(), totals.buckets.end());
  out.set_sum_seconds(totals.sum_seconds);
  return out;
}

v1::SessionStats ToProto(const SessionTotals& totals) {
  v1::SessionStats out;
  out.set_steps(totals.steps);
  out.set_rows(totals.rows);
  for (size_t layer = 0; layer < totals.layers.size(); ++layer) {
    const kernels::LayerCounters& from = totals.layers[layer];
    v1::LayerStats& to = *out.add_layers();
    to.set_considered_blocks(from.considered_blocks);
    to.set_predicted_blocks(from.predicted_blocks);
    to.set_explored_blocks(from.explored_blocks);
    to.set_pinned_blocks(from.pinned_blocks);
    to.set_full_blocks(from.full_blocks);
    to.set_audit_topk_slots(from.audit_topk_slots);
    to.set_audit_missed_slots(from.audit_missed_slots);
    to.set_nonfinite_scores(from.nonfinite_scores);
    to.set_audited_rows(from.audited_rows);
    if (layer >= totals.audits.size()) continue;
    const kernels::LayerAudits& audits = totals.audits[layer];
    to.set_audit_blocks(audits.blocks);
    to.set_audit_list_blocks(audits.list_blocks);
    to.mutable_audit_miss_rows()->Assign(std::begin(audits.miss_rows), std::end(audits.miss_rows));
  }
  for (int reason = 1; reason < kFallbackReasons; ++reason) {
    v1::FallbackCount& count = *out.add_fallback_rows();
    count.set_reason(static_cast<v1::FallbackReason>(reason));
    count.set_rows(totals.fallback_rows[reason]);
  }
  *out.mutable_predict_time() = ToProto(totals.predict_time);
  *out.mutable_observe_time() = ToProto(totals.observe_time);
  return out;
}

v1::ErrorDetail ToProto(const dataplane::RowVerdict& verdict, absl::string_view path) {
  v1::ErrorDetail detail;
  detail.set_reason(ToProto(verdict.fault));
  detail.set_field(absl::StrCat(path, ".", verdict.field));
  detail.set_message(std::string(Advice(verdict.fault)));
  return detail;
}

}  // namespace spin::server
