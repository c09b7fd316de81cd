// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <new>

#include "absl/status/status.h"
#include "spin/kernels.h"

// How a Status leaves through the C ABI: as a code, and a message that the thread may ask for.
namespace spin::c_abi {

// Remembers the message of a failure for spin_last_error. Allocates nothing.
spin_code Outcome(const absl::Status& status) noexcept;

// Runs what an exported function does. No exception gets out.
template <typename Work>
spin_code Guarded(Work work) noexcept {
  try {
    return Outcome(work());
  } catch (const std::bad_alloc&) {
    return Outcome(absl::Status(absl::StatusCode::kResourceExhausted, {}));
  } catch (...) {
    return Outcome(absl::Status(absl::StatusCode::kInternal, {}));
  }
}

}  // namespace spin::c_abi
