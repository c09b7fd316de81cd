// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Holds the header of the C ABI to the structs and limits that the kernels read.
#include <cstddef>
#include <type_traits>

#include "dataplane/cuda_memory.h"
#include "kernels/audit.h"
#include "kernels/binding.h"
#include "kernels/policy.h"
#include "kernels/rows.h"
#include "kernels/state.h"
#include "spin/kernels.h"

namespace spin::kernels {

#define SAME_FIELD(c_struct, c_field, cc_struct, cc_field)                      \
  static_assert(offsetof(c_struct, c_field) == offsetof(cc_struct, cc_field) && \
                sizeof(c_struct::c_field) == sizeof(cc_struct::cc_field))
#define SAME(c_struct, cc_struct, last)                                                            \
  static_assert(sizeof(c_struct) == sizeof(cc_struct) && alignof(c_struct) == alignof(cc_struct)); \
  SAME_FIELD(c_struct, last, cc_struct, last)

SAME(spin_request_record, RequestRecord, pages);
SAME_FIELD(spin_request_record, key_hash, RequestRecord, key_hash);
SAME(spin_row, Row, generation);
SAME_FIELD(spin_row, position, Row, position);
SAME_FIELD(spin_row, buffer, Row, buffer);
SAME(spin_scored_row, ScoredRow, score_row);
SAME_FIELD(spin_scored_row, position, ScoredRow, position);
SAME_FIELD(spin_scored_row, accepted, ScoredRow, accepted);
SAME_FIELD(spin_scored_row, buffer, ScoredRow, buffer);
SAME_FIELD(spin_scored_row, coverage, ScoredRow, coverage);
SAME(spin_ema_weights, EmaWeights, now);
SAME(spin_policy, Policy, pin_first_block);
SAME_FIELD(spin_policy, exploration, Policy, exploration);
SAME_FIELD(spin_policy, decay, Policy, decay);
SAME_FIELD(spin_policy, seed, Policy, seed);
SAME(spin_list_header, ListHeader, cut);
SAME_FIELD(spin_list_header, count, ListHeader, count);
SAME_FIELD(spin_list_header, epoch, ListHeader, stamp.epoch);
SAME_FIELD(spin_list_header, generation, ListHeader, stamp.generation);
SAME_FIELD(spin_list_header, next_n, ListHeader, stamp.next_n);
SAME_FIELD(spin_list_header, position, ListHeader, stamp.position);
SAME(spin_list_mask, ListMask, rank);
SAME(spin_layer_counters, LayerCounters, audit_missed_slots);
SAME(spin_layer_audits, LayerAudits, rank_slots);
SAME_FIELD(spin_layer_audits, miss_rows, LayerAudits, miss_rows);
SAME(spin_audit_result, AuditResult, missed);
SAME(spin_binding, Binding, staging);
SAME_FIELD(spin_binding, audits, Binding, audits);
SAME_FIELD(spin_binding, records, Binding, records);
SAME_FIELD(spin_binding, counters, Binding, counters);
SAME_FIELD(spin_binding, audits, Binding, audits);
SAME_FIELD(spin_binding, headers, Binding, headers);
SAME_FIELD(spin_binding, blocks, Binding, blocks);
SAME_FIELD(spin_binding, masks, Binding, masks);
SAME_FIELD(spin_binding, epoch, Binding, epoch);
SAME_FIELD(spin_binding, weights, Binding, weights);

static_assert(SPIN_PAGE_SLOTS == kPageSlots && SPIN_MAX_LAYERS == kMaxLayers);
static_assert(SPIN_MAX_TOPK == kMaxTopk && SPIN_MAX_NEXT_N == kMaxNextN);
static_assert(SPIN_MISS_BUCKETS == kMissBuckets && SPIN_RANK_BINS == kRankBins);
static_assert(SPIN_MAX_PAGES == kMaxPages && SPIN_PADDING_ROW == kPaddingRow);
static_assert(SPIN_COVERS_ALL == static_cast<int>(Coverage::kAll));
static_assert(SPIN_COVERS_KEPT == static_cast<int>(Coverage::kKept));
static_assert(SPIN_SHARE_OK == static_cast<int>(dataplane::ShareFault::kNone));
static_assert(SPIN_SHARE_NO_DEVICE == static_cast<int>(dataplane::ShareFault::kNoDevice));
static_assert(SPIN_SHARE_SAME_PID == static_cast<int>(dataplane::ShareFault::kSamePid));
static_assert(SPIN_SHARE_NOT_SHAREABLE == static_cast<int>(dataplane::ShareFault::kNotShareable));
static_assert(SPIN_SHARE_INVALID_HANDLE == static_cast<int>(dataplane::ShareFault::kInvalidHandle));
static_assert(SPIN_SHARE_DRIVER == static_cast<int>(dataplane::ShareFault::kDriver));

#undef SAME
#undef SAME_FIELD

}  // namespace spin::kernels
