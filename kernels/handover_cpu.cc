// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/handover.h"
#include "kernels/word.h"

namespace spin::kernels {
namespace {

template <typename Row>
void Drop(Row* rows, int32_t count) {
  for (int32_t r = 0; r < count; ++r) rows[r].request = kPaddingRow;
}

}  // namespace

void ExpectCpu(const ExpectParams& p) {
  if (WaitReached(*p.word, p.value, absl::Nanoseconds(p.limit_ns))) return;
  p.binding->epoch = 0;  // no list has this stamp
  p.binding->staging = nullptr;
  Raise(*p.skipped, p.step);
  ++*p.late;
}

void AdmitCpu(const AdmitParams& p) {
  *p.admission = LoadWord(*p.given_up) == p.ticket ? Admission::kGivenUp
                 : Reached(*p.skipped, p.step)     ? Admission::kSkipped
                                                   : Admission::kAdmitted;
  if (*p.admission == Admission::kAdmitted) return;
  Drop(p.scored, p.scored_count);
  Drop(p.audited, p.audited_count);
  Drop(p.next, p.next_count);
}

}  // namespace spin::kernels
