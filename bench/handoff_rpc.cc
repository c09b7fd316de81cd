// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "bench/handoff.h"
#include "client/cli/health.h"
#include "spin/session.h"

namespace spin::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 2000;
constexpr int kWarmCalls = 200;
constexpr int kLayers = 21;
constexpr uint64_t kSlots = 4096;

double Microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

v1::OpenSessionRequest SessionFor(int rows) {
  v1::OpenSessionRequest open;
  open.set_model_name("handoff-bench");
  v1::Geometry& geometry = *open.mutable_geometry();
  geometry.set_layers(kLayers);
  geometry.set_block_slots(64);
  geometry.set_topk(512);
  geometry.set_tokens_per_slot(1);
  geometry.set_max_slots(kSlots);
  geometry.set_max_requests(static_cast<uint32_t>(rows));
  geometry.set_max_next_n(2);
  open.set_executor(v1::EXECUTOR_SIDECAR);
  return open;
}

// Rows whose drafts wait for a verdict: spind does with them all that it does in a step, but
// launches no kernel. The same step can be asked for again and again.
absl::StatusOr<v1::StepRequest> StepFor(const cli::Connection& connection, int rows) {
  const auto session = connection.Call(&v1::SpinService::Stub::OpenSession, SessionFor(rows));
  if (!session.ok()) return session.status();
  v1::OpenRequestsRequest open;
  open.set_session_id(session->session_id());
  for (int r = 0; r < rows; ++r) {
    v1::OpenRequestItem& item = *open.add_items();
    item.set_key(absl::StrCat("request ", r));
    item.set_slots(kSlots);
  }
  const auto opened = connection.Call(&v1::SpinService::Stub::OpenRequests, open);
  if (!opened.ok()) return opened.status();
  v1::StepRequest step;
  step.set_session_id(session->session_id());
  for (const v1::RequestResult& request : opened->results()) {
    v1::StepRow& row = *step.add_rows();
    *row.mutable_handle() = request.handle();
    row.set_position(kSlots / 2);
    row.set_next_n(2);
    row.set_coverage(v1::COVERAGE_ALL);
    row.set_next_position(kSlots / 2 + 2);
    row.set_next_next_n(2);
  }
  return step;
}

}  // namespace

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::StatusOr<RpcTimes> MeasureRpcs(const cli::Connection& connection, int rows) {
  const auto step = StepFor(connection, rows);
  if (!step.ok()) return step.status();
  std::vector<double> empty;
  std::vector<double> steps;
  for (int call = 0; call < kCalls + kWarmCalls; ++call) {  // in turn, so that both meet the same
    const auto start = Clock::now();
    if (absl::Status status = cli::CheckHealth(connection); !status.ok()) return status;
    const auto between = Clock::now();
    const auto answer = connection.Call(&v1::SpinService::Stub::Step, *step);
    const auto end = Clock::now();
    if (!answer.ok()) return answer.status();
    if (answer->results(0).has_error()) {
      return absl::InternalError(answer->results(0).error().message());
    }
    if (call < kWarmCalls) continue;
    empty.push_back(Microseconds(between - start));
    steps.push_back(Microseconds(end - between));
  }
  return RpcTimes{Median(std::move(empty)), Median(std::move(steps))};
}

absl::StatusOr<OpenTimes> MeasureOpens(const std::string& socket, const std::string& device_uuid) {
  SessionOptions options;
  options.socket = socket;
  options.model = {.name = "handoff-bench", .layers = kLayers, .topk = 512, .max_slots = kSlots};
  options.device_uuid = device_uuid;
  options.control_timeout = absl::Seconds(20);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<double> times;
  for (int i = 0; i < 2; ++i) {
    const auto start = Clock::now();
    auto session = Session::Create(options);
    if (!session.ok()) return session.status();
    const absl::Status ready = (*session)->WaitUntilReady(absl::Seconds(60));
    if (!ready.ok()) return ready;
    times.push_back(Microseconds(Clock::now() - start) / 1000);
    sessions.push_back(*std::move(session));
  }
  return OpenTimes{times[0], times[1]};
}

}  // namespace spin::bench
