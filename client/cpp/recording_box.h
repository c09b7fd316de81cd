// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "spin/recording.h"
#include "spin/v1/session.pb.h"

namespace spin::internal {

// Between the liveness stream and the engine: what spind wants recorded, and how far that is.
// Thread-safe.
class RecordingBox {
 public:
  // The recording that is wanted; 0 if none is. For the decode loop: no lock.
  uint64_t wanted_id() const { return wanted_id_.load(std::memory_order_acquire); }
  Recording wanted() const;

  // Of a recording that is not the newest: ignored.
  void SetProgress(uint64_t id, const RecordingProgress& progress);

  // For the stream.
  void SetOrder(const v1::RecordingOrder& order);
  void Clear();  // the session is over, and its recording with it
  void AddTo(v1::ClientReport* report) const;

 private:
  bool Ended() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  std::atomic<uint64_t> wanted_id_ = 0;
  mutable absl::Mutex mutex_;
  Recording recording_ ABSL_GUARDED_BY(mutex_);  // the newest, wanted or not
  bool has_progress_ ABSL_GUARDED_BY(mutex_) = false;
  RecordingProgress progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::internal
