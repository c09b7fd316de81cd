// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/request.h"
#include "spin/v1/request.pb.h"

// The open requests of one session, by key and by record.
namespace spin::server {

// Thread-safe. Slow work (making room, filling it) is done without the lock.
class RequestTable {
 public:
  RequestTable(std::shared_ptr<SessionRegion> region, bool zero_init);

  // Opens a request; with `parent`, as its copy. DUPLICATE_REQUEST, CAPACITY.
  absl::StatusOr<std::shared_ptr<Request>> Open(const std::string& key, int64_t slots,
                                                const Request* parent);

  // The open request with this handle, or null.
  std::shared_ptr<Request> Find(const v1::RequestHandle& handle) const;

  // Takes a request out, by handle or by key; null if it is not open. The caller decides when to
  // let go.
  std::shared_ptr<Request> Remove(const v1::RequestHandle& handle);
  std::shared_ptr<Request> Remove(const std::string& key);

  // Takes all of them out.
  std::vector<std::shared_ptr<Request>> RemoveAll();

  absl::Status Grow(Request* request, int64_t slots) { return request->Grow(slots, zero_init_); }

  size_t size() const;
  uint64_t state_bytes() const;

 private:
  std::shared_ptr<Request> FindLocked(const v1::RequestHandle& handle) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Request> RemoveLocked(std::shared_ptr<Request> request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<SessionRegion> region_;
  const bool zero_init_;
  mutable absl::Mutex mutex_;
  // A key whose request is still being made maps to null.
  absl::flat_hash_map<std::string, std::shared_ptr<Request>> by_key_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Request>> by_index_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::server
