// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Why spind does not serve: the status of a start that failed, which also names the part at fault.
namespace spin::server {

// Values of the label `reason` of spin_start_failed.
enum class StartPart { kConfig, kPolicy, kSocket, kDevice, kSlab };

absl::string_view NameOf(StartPart part);

// The same status, marked with the part. An OK status stays OK.
absl::Status FailedStart(StartPart part, absl::Status status);

// kConfig where nothing was marked.
StartPart PartOf(const absl::Status& failure);

// Whether the same start may work later: others may give memory, a device or the socket's lock
// back, but what this process was told, and what it was built with, stays.
bool MayPass(const absl::Status& failure);

// spin_start_failed for each reason: 1 for that of `failure`, 0 for the others, and for all of them
// if it is OK.
class StartMetrics final : public prometheus::Collectable {
 public:
  explicit StartMetrics(absl::Status failure) : failure_(std::move(failure)) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const absl::Status failure_;
};

}  // namespace spin::server
