// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/rpc_metrics.h"

#include <string>

namespace spin::server {
namespace {

constexpr std::array<const char*, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

const prometheus::Histogram::BucketBoundaries kLatencyBounds = {
    5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1};

bool IsStream(Method method) { return method == Method::kAttach || method == Method::kWatchStats; }

}  // namespace

RpcMetrics::RpcMetrics(prometheus::Registry& registry) {
  auto& calls = prometheus::BuildCounter()
                    .Name("spin_rpcs_total")
                    .Help("Finished calls of the control plane")
                    .Register(registry);
  auto& latency = prometheus::BuildHistogram()
                      .Name("spin_rpc_duration_seconds")
                      .Help("Time from the arrival of a unary call to its answer")
                      .Register(registry);
  for (size_t method = 0; method < kMethodNames.size(); ++method) {
    const std::string name(kMethodNames[method]);
    for (size_t code = 0; code < kCodes; ++code) {
      calls_[method][code] = &calls.Add({{"method", name}, {"code", kCodeNames[code]}});
    }
    latency_[method] = IsStream(static_cast<Method>(method))
                           ? nullptr
                           : &latency.Add({{"method", name}}, kLatencyBounds);
  }
}

void RpcMetrics::CountUnary(Method method, grpc::StatusCode code, absl::Duration latency) {
  CountStream(method, code);
  latency_[static_cast<size_t>(method)]->Observe(absl::ToDoubleSeconds(latency));
}

void RpcMetrics::CountStream(Method method, grpc::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  calls_[static_cast<size_t>(method)][index < kCodes ? index : 2]->Increment();
}

}  // namespace spin::server
