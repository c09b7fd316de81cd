// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/c/outcome.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/string_view.h"

namespace spin::c_abi {
namespace {

thread_local char last_error[1024] = "";

}  // namespace

spin_code Outcome(const absl::Status& status) noexcept {
  if (status.ok()) return SPIN_OK;
  absl::string_view message = status.message();
  if (message.empty()) message = "out of memory or another failure inside the library";
  const size_t length = std::min(message.size(), sizeof last_error - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return static_cast<spin_code>(status.code());
}

}  // namespace spin::c_abi

extern "C" const char* spin_last_error(void) { return spin::c_abi::last_error; }
