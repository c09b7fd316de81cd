// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/start_failure.h"

#include <prometheus/client_metric.h>

#include <string>
#include <utility>

#include "absl/strings/cord.h"

namespace spin::server {
namespace {

constexpr char kPartUrl[] = "spin/start-part";
constexpr StartPart kParts[] = {StartPart::kConfig, StartPart::kPolicy, StartPart::kSocket,
                                StartPart::kDevice, StartPart::kSlab};

}  // namespace

absl::string_view NameOf(StartPart part) {
  switch (part) {
    case StartPart::kConfig:
      return "config";
    case StartPart::kPolicy:
      return "policy";
    case StartPart::kSocket:
      return "socket";
    case StartPart::kDevice:
      return "device";
    case StartPart::kSlab:
      return "slab";
  }
  return "config";
}

absl::Status FailedStart(StartPart part, absl::Status status) {
  if (!status.ok()) status.SetPayload(kPartUrl, absl::Cord(NameOf(part)));
  return status;
}

StartPart PartOf(const absl::Status& failure) {
  const auto name = failure.GetPayload(kPartUrl);
  for (const StartPart part : kParts) {
    if (name.has_value() && *name == NameOf(part)) return part;
  }
  return StartPart::kConfig;
}

bool MayPass(const absl::Status& failure) {
  return !absl::IsInvalidArgument(failure) && !absl::IsUnimplemented(failure);
}

std::vector<prometheus::MetricFamily> StartMetrics::Collect() const {
  prometheus::MetricFamily family;
  family.name = "spin_start_failed";
  family.help = "1 while spind is up but cannot serve for this reason";
  family.type = prometheus::MetricType::Gauge;
  for (const StartPart part : kParts) {
    prometheus::ClientMetric metric;
    metric.label = {{"reason", std::string(NameOf(part))}};
    metric.gauge.value = !failure_.ok() && PartOf(failure_) == part ? 1 : 0;
    family.metric.push_back(std::move(metric));
  }
  return {std::move(family)};
}

}  // namespace spin::server
