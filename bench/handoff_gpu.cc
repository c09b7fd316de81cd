// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime_api.h>

#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "bench/gpu_bed.h"
#include "bench/handoff.h"
#include "spin/device_loop.h"

namespace spin::bench {
namespace {

constexpr int kWarmSteps = 20;
constexpr size_t kWorkBytes = size_t{512} << 20;  // copied back and forth as the engine's own work
constexpr int kWorkCopies = 6;                    // more than a millisecond

double Microseconds(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  Check(cudaEventElapsedTime(&ms, from, to));
  return ms * 1e3;
}

// An engine whose forward pass is a copy, and whose scores are always the same.
class Engine {
 public:
  Engine(const HandoffShape& shape)
      : shape_(shape),
        blocks_(static_cast<int32_t>((shape.slots + 63) / 64)),
        table_(static_cast<size_t>(shape.requests) * blocks_ * sizeof(int32_t)),
        kept_table_(shape.layers * table_bytes()),
        kept_slots_(static_cast<size_t>(shape.layers) * shape.requests * sizeof(int32_t)),
        scores_(shape.layers * shape.requests * shape.slots * sizeof(float)),
        work_(2 * kWorkBytes) {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    Check(cudaMemset(table_.data(), 0, table_bytes()));
    std::mt19937 random(2);
    std::normal_distribution<float> normal(-3, 1);
    std::vector<float> layer(shape.requests * shape.slots);
    float mean = 0;
    for (size_t i = 0; i < layer.size(); ++i) {
      if (i % 64 == 0) mean = normal(random);
      layer[i] = mean + 0.25f * static_cast<float>(random() % 1024) / 1024;
    }
    for (int l = 0; l < shape.layers; ++l) {
      Check(cudaMemcpy(scores_.data() + l * layer.size() * sizeof(float), layer.data(),
                       layer.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
  }
  ~Engine() { (void)cudaStreamDestroy(stream_); }

  cudaStream_t stream() const { return stream_; }
  DeviceBuffers buffers() const {
    return {.block_table = reinterpret_cast<const int32_t*>(table_.data()),
            .table_stride = blocks_,
            .kept_table = reinterpret_cast<int32_t*>(kept_table_.data()),
            .kept_slots = reinterpret_cast<int32_t*>(kept_slots_.data())};
  }
  DeviceScores scores() const {
    return {.data = scores_.data(),
            .type = ElementType::kFloat32,
            .layer_stride = shape_.requests * shape_.slots,
            .row_stride = shape_.slots,
            .draft_stride = shape_.slots};
  }
  void Work() {
    for (int i = 0; i < kWorkCopies; ++i) {
      Check(cudaMemcpyAsync(work_.data(), work_.data() + kWorkBytes, kWorkBytes,
                            cudaMemcpyDeviceToDevice, stream_));
    }
  }

 private:
  size_t table_bytes() const {
    return static_cast<size_t>(shape_.requests) * blocks_ * sizeof(int32_t);
  }

  const HandoffShape shape_;
  const int32_t blocks_;
  const DeviceMemory table_;
  const DeviceMemory kept_table_;
  const DeviceMemory kept_slots_;
  const DeviceMemory scores_;
  const DeviceMemory work_;
  cudaStream_t stream_ = nullptr;
};

// Points on the stream in each step.
struct StepEvents {
  cudaEvent_t begun;
  cudaEvent_t scored;
  cudaEvent_t over;  // the launches: after Select, or after Stage
};

struct LoopTimes {
  double launches_us;  // after the scores: Observe and Select, or Stage
  double between_us;   // from there to the next step
  double sparse_share;
};

absl::StatusOr<LoopTimes> RunLoop(Engine& engine, const std::string& socket,
                                  const std::string& device_uuid, Executor executor,
                                  const HandoffShape& shape) {
  SessionOptions options;
  options.socket = socket;
  options.model = {
      .name = "handoff-bench", .layers = shape.layers, .topk = 512, .max_slots = shape.slots};
  options.max_requests = shape.requests;
  options.executor = executor;
  options.state = ElementType::kBFloat16;
  options.device_uuid = device_uuid;
  options.policy = {.sparsity = shape.sparsity, .audit_every = 0};
  options.control_timeout = absl::Seconds(20);
  auto session = Session::Create(options);
  if (!session.ok()) return session.status();
  if (absl::Status ready = (*session)->WaitUntilReady(absl::Seconds(60)); !ready.ok()) return ready;
  auto loop = DeviceLoop::Create(session->get(), engine.buffers());
  if (!loop.ok()) return loop.status();
  std::vector<Request> requests;
  for (int r = 0; r < shape.requests; ++r) {
    requests.push_back((*session)->OpenRequest(absl::StrCat("request ", r), shape.slots));
    if (!requests.back().status().ok()) return requests.back().status();
  }

  const int steps = kWarmSteps + shape.steps;
  std::vector<StepEvents> events(steps);
  const Layers all = {0, shape.layers};
  void* const stream = engine.stream();
  absl::Status status;
  int64_t sparse = 0;
  for (int step = 0; step < steps && status.ok(); ++step) {
    StepEvents& at = events[step];
    for (cudaEvent_t* event : {&at.begun, &at.scored, &at.over}) Check(cudaEventCreate(event));
    // As an engine does, which has to know the tokens of a step before it plans the next one.
    if (step > 0) Check(cudaEventSynchronize(events[step - 1].scored));
    std::vector<StepRow> rows;
    for (const Request& request : requests)
      rows.push_back({&request, shape.slots - steps + step - 1});
    status.Update((*loop)->BeginStep(rows, stream));
    for (int r = 0; r < shape.requests; ++r) {
      if (step >= kWarmSteps && (*loop)->plan(r).sparse) ++sparse;
    }
    Check(cudaEventRecord(at.begun, engine.stream()));
    status.Update((*loop)->Compact(shape.requests, stream));
    engine.Work();
    Check(cudaEventRecord(at.scored, engine.stream()));
    status.Update((*loop)->Stage(all, engine.scores(), shape.requests, stream));
    status.Update((*loop)->Observe(all, engine.scores(), shape.requests, stream));
    status.Update((*loop)->Select(shape.requests, stream));
    Check(cudaEventRecord(at.over, engine.stream()));
    status.Update((*loop)->EndStep(stream));
  }
  Check(cudaStreamSynchronize(engine.stream()));
  if (!status.ok()) return status;
  sparse -=
      static_cast<int64_t>((*session)->stats().rows_by_reason[static_cast<int>(Reason::kStale)]);
  std::vector<double> launches;
  std::vector<double> between;
  for (int step = kWarmSteps; step + 1 < steps; ++step) {
    launches.push_back(Microseconds(events[step].scored, events[step].over));
    between.push_back(Microseconds(events[step].over, events[step + 1].begun));
  }
  for (const StepEvents& at : events) {
    for (cudaEvent_t event : {at.begun, at.scored, at.over}) Check(cudaEventDestroy(event));
  }
  return LoopTimes{Median(std::move(launches)), Median(std::move(between)),
                   static_cast<double>(sparse) / (int64_t{shape.steps} * shape.requests)};
}

}  // namespace

absl::StatusOr<HandoffTimes> MeasureHandoff(const std::string& socket,
                                            const std::string& device_uuid,
                                            const HandoffShape& shape) {
  Engine engine(shape);
  const auto in_line = RunLoop(engine, socket, device_uuid, Executor::kInline, shape);
  if (!in_line.ok()) return in_line.status();
  const auto sidecar = RunLoop(engine, socket, device_uuid, Executor::kSidecar, shape);
  if (!sidecar.ok()) return sidecar.status();
  return HandoffTimes{.kernels_us = in_line->launches_us,
                      .between_inline_us = in_line->between_us,
                      .stage_us = sidecar->launches_us,
                      .between_us = sidecar->between_us,
                      .sparse_share = sidecar->sparse_share};
}

}  // namespace spin::bench
