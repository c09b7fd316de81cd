// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "spin/v1/recording.pb.h"

namespace spin::server {

// The recording of a session: what was asked for, and what the client says of it. One at a time;
// the last one stays to be looked at. Not thread-safe.
class Recording {
 public:
  // ALREADY_EXISTS if one is in progress. One whose time is long over does not count: whoever asked
  // for it is gone, or the engine is.
  absl::Status Start(uint64_t id, const v1::RecordingOptions& options, absl::Time now);

  // NOT_FOUND if the recording is another one. Fails what the engine has not begun.
  absl::Status Stop(uint64_t id);

  // What the client reports. Nothing changes once a recording has ended.
  void Take(const v1::RecordingStatus& report);

  // recording_id 0: none so far.
  const v1::RecordingStatus& status() const { return status_; }
  const v1::RecordingOrder& order() const { return order_; }

 private:
  v1::RecordingOrder order_;
  v1::RecordingStatus status_;
  absl::Time expires_ = absl::InfinitePast();
};

}  // namespace spin::server
