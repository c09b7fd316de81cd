// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/share_fault.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace spin::dataplane {
namespace {

constexpr char kPayload[] = "spin.dev/share-fault";

}  // namespace

absl::Status WithFault(ShareFault fault, absl::Status status) {
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(static_cast<int>(fault))));
  return status;
}

ShareFault ShareFaultOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int fault = 0;
  const bool known = payload.has_value() && absl::SimpleAtoi(std::string(*payload), &fault);
  return known ? static_cast<ShareFault>(fault) : ShareFault::kNone;
}

int64_t ProcessId() { return getpid(); }

uint64_t PidNamespace() {
  struct stat info = {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace spin::dataplane
