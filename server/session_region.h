// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "dataplane/layout.h"
#include "dataplane/session_view.h"
#include "kernels/device.h"
#include "server/slab.h"

// A session's fixed region of the slab, and who has which request record in it. Shared by the
// session and by each of its requests: whoever may still write there keeps it alive, and the last
// one gives it back.
namespace spin::server {

class SessionRegion {
 public:
  // RESOURCE_EXHAUSTED if the slab has no room for a region of this shape.
  static absl::StatusOr<std::shared_ptr<SessionRegion>> Create(
      Slab* slab, const dataplane::SessionShape& shape);

  const dataplane::SessionShape& shape() const { return view_.shape; }
  // spind's own view, for its device: the request records are private, so that a client that spoils
  // those in the slab misleads only itself.
  const dataplane::SessionView& view() const { return view_; }
  const dataplane::SessionLayout& layout() const { return layout_; }
  uint64_t bytes() const { return extent_.bytes(); }
  Slab& slab() const { return *slab_; }
  kernels::Device& device() const { return slab_->device(); }
  // Memory of the device for the session's StepRunner.
  std::byte* step_scratch() const { return scratch_base_ + records_bytes(); }

  // A free request record, with a generation it never had before; nothing if all are taken.
  struct Slot {
    uint32_t index;
    uint32_t generation;
  };
  std::optional<Slot> TakeRecord();
  void ReturnRecord(uint32_t index);

  // The record as the host keeps it; PublishRecord shows a change to kernels and to the client.
  kernels::RequestRecord& record(uint32_t index) { return records_[index]; }
  absl::Status PublishRecord(uint32_t index);

 private:
  SessionRegion(Slab* slab, Extent extent, Extent scratch, const dataplane::SessionShape& shape);
  absl::Status Clear();
  int64_t records_bytes() const;

  Slab* const slab_;
  const Extent extent_;
  const Extent scratch_;
  std::byte* const scratch_base_;
  const dataplane::SessionLayout layout_;
  std::vector<kernels::RequestRecord> records_;
  const dataplane::SessionView view_;
  absl::Mutex mutex_;
  std::vector<uint32_t> free_records_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> generations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::server
