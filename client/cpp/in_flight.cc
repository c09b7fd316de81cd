// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/in_flight.h"

#include <utility>

namespace spin::internal {

absl::StatusOr<std::unique_ptr<InFlight>> InFlight::Create(kernels::Device* device) {
  const auto older = device->MakeMarker();
  if (!older.ok()) return older.status();
  const auto newer = device->MakeMarker();
  if (!newer.ok()) return newer.status();
  return std::unique_ptr<InFlight>(new InFlight(device, *older, *newer));
}

// A session that has ended goes to the link, which unmaps it.
void InFlight::Empty(Held& held) {
  if (held.session != nullptr && held.session->ended()) {
    passed_.push_back(std::move(held.session));
  }
  held.session = nullptr;
  held.requests.clear();
  held.observed.clear();
}

absl::Status InFlight::Add(const StepState& step, kernels::Stream stream) {
  if (step.session == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (device_->Passed(older_.until)) {
    Empty(older_);
    std::swap(older_, newer_);
  } else if (newer_.session != nullptr && newer_.session != step.session) {
    // Rare: a session anew while steps of two others are on their way. Waits for them.
    absl::Status drained = device_->Synchronize(stream);
    if (!drained.ok()) return drained;
    Empty(older_);
    Empty(newer_);
  }
  newer_.session = step.session;
  for (int r = 0; r < step.row_count; ++r) {
    const StepRowState& row = step.rows[r];
    if (row.request != nullptr) newer_.requests.insert(row.request);
    if (row.observe) newer_.observed.insert(row.request.get());
  }
  return device_->Mark(newer_.until, stream);
}

void InFlight::EmptyPassed() {
  if (device_->Passed(older_.until)) Empty(older_);
  if (device_->Passed(newer_.until)) Empty(newer_);
}

bool InFlight::Release() {
  std::vector<std::shared_ptr<OpenedSession>> passed;  // let go after the lock
  absl::MutexLock lock(&mutex_);
  EmptyPassed();
  passed.swap(passed_);
  return older_.session == nullptr && newer_.session == nullptr;
}

bool InFlight::MayWrite(const RequestState& request) {
  absl::MutexLock lock(&mutex_);
  EmptyPassed();
  return older_.observed.contains(&request) || newer_.observed.contains(&request);
}

}  // namespace spin::internal
