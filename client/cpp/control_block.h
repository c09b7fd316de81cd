// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/binding.h"
#include "kernels/device.h"
#include "kernels/policy.h"
#include "kernels/rows.h"

namespace spin::internal {

// What launches of a DeviceLoop read: memory of the engine's device at an address that never
// changes, rewritten by one copy on the engine's stream.
class ControlBlock {
 public:
  // The parts, on the device or in the host's copy. Row arrays are [max_rows].
  struct Parts {
    kernels::Binding* binding;
    kernels::Policy* policy;
    kernels::Row* rows;    // whose lists are compacted
    kernels::Row* listed;  // those whose lists SelectAndCompact makes, at the same index
    kernels::ScoredRow* scored;
    kernels::ScoredRow* audited;
    kernels::Row* next;  // whose lists Select makes
  };

  // Without rows, once the stream has passed: an engine may warm its launches up before it has any.
  static absl::StatusOr<ControlBlock> Create(kernels::Device* device, int max_rows,
                                             kernels::Stream stream);

  // Takes rows out of contents that are edited, all of them or those of the step's end: launches
  // then find nothing to do.
  void DropRows(const Parts& parts) const;
  void DropEndRows(const Parts& parts) const;

  // What the launches are told.
  const Parts& on_device() const { return on_device_; }

  // Begins new contents: those of the last ones. Waits for the device only if many contents are
  // still on their way to it.
  absl::StatusOr<Parts> Edit(kernels::Stream stream);
  // Sends the contents last edited, in the stream's order.
  absl::Status Send(kernels::Stream stream);

 private:
  static constexpr int kCopies = 4;  // steps that the host may be ahead of the device

  static int64_t BytesFor(int max_rows);
  static Parts PartsAt(std::byte* base, int max_rows);

  kernels::Device* device_ = nullptr;
  int max_rows_ = 0;
  int64_t bytes_ = 0;
  kernels::DeviceMemory device_memory_;
  kernels::DeviceMemory host_memory_;  // kCopies of it
  std::array<kernels::Marker, kCopies> sent_;
  int current_ = 0;
  Parts on_device_ = {};
};

}  // namespace spin::internal
