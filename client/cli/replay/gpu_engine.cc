// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/gpu_engine.h"

#include <numeric>
#include <utility>

#include "kernels/cuda_device.h"
#include "kernels/geometry.h"

namespace spin::cli {

absl::StatusOr<std::unique_ptr<GpuEngine>> GpuEngine::Create(Session* session,
                                                             const std::string& device_uuid,
                                                             const trace::Trace& trace,
                                                             int64_t max_slots, int topk,
                                                             int block) {
  auto device = kernels::MakeCudaDevice(device_uuid);
  if (!device.ok()) return device.status();
  std::unique_ptr<GpuEngine> engine(
      new GpuEngine(*std::move(device), trace, kernels::BlocksOf(max_slots, block), topk, block));
  if (absl::Status status = engine->Prepare(session, trace); !status.ok()) return status;
  return engine;
}

GpuEngine::GpuEngine(std::unique_ptr<kernels::Device> device, const trace::Trace& trace,
                     int32_t max_blocks, int topk, int block)
    : device_(std::move(device)),
      layer_count_(trace.layers),
      first_query_(trace.first_query),
      max_blocks_(max_blocks),
      block_(block),
      layers_(trace.layers, LayerBuffers(max_blocks, block, topk)) {}

template <typename T>
absl::Status GpuEngine::Allocate(int64_t count, T** out) {
  auto memory = device_->Allocate(count * int64_t{sizeof(T)});
  if (!memory.ok()) return memory.status();
  *out = reinterpret_cast<T*>(memory->get());
  memory_.push_back(*std::move(memory));
  return absl::OkStatus();
}

absl::Status GpuEngine::Prepare(Session* session, const trace::Trace& trace) {
  const auto stream = device_->MakeStream();
  if (!stream.ok()) return stream.status();
  stream_ = *stream;
  const int64_t lists = int64_t{layer_count_} * max_blocks_;
  absl::Status status = Allocate(max_blocks_, &table_);
  status.Update(Allocate(lists, &kept_table_));
  status.Update(Allocate(lists, &kept_blocks_));
  status.Update(Allocate(layer_count_, &kept_slots_));
  status.Update(Allocate(lists * block_, &scores_));
  if (!status.ok()) return status;
  std::vector<int32_t> identity(max_blocks_);  // a cache whose pages lie in order
  std::iota(identity.begin(), identity.end(), 0);
  status = device_->Copy(table_, identity.data(), max_blocks_ * int64_t{sizeof(int32_t)}, stream_);
  status.Update(device_->Synchronize(stream_));
  if (!status.ok()) return status;
  auto scorer = MakeCudaScorer(trace, device_.get());
  if (!scorer.ok()) return scorer.status();
  scorer_ = *std::move(scorer);
  auto loop = DeviceLoop::Create(session, {.block_table = table_,
                                           .table_stride = max_blocks_,
                                           .kept_table = kept_table_,
                                           .kept_slots = kept_slots_,
                                           .kept_blocks = kept_blocks_});
  if (!loop.ok()) return loop.status();
  loop_ = *std::move(loop);
  return absl::OkStatus();
}

absl::Status GpuEngine::Finish(double* lap, double* seconds) {
  absl::Status status = device_->Synchronize(stream_);
  *seconds += Lap(lap);
  return status;
}

absl::StatusOr<StepTimes> GpuEngine::Decode(const Request& request, int step) {
  StepTimes times;
  double lap = 0;
  Lap(&lap);
  void* const stream = stream_.handle;
  const int32_t context = first_query_ + step + 1;
  const StepRow row = {&request, context - 1, /*next_n=*/1};
  absl::Status status = loop_->BeginStep({&row, 1}, stream);
  status.Update(loop_->SelectAndCompact(1, stream));
  status.Update(Finish(&lap, &times.spin));
  const int64_t stride = int64_t{max_blocks_} * block_;
  for (int layer = 0; layer < layer_count_; ++layer) {
    status.Update(scorer_->Score(layer, step, kept_table_ + int64_t{layer} * max_blocks_,
                                 kept_slots_ + layer, block_, context, scores_ + layer * stride,
                                 stream_));
  }
  status.Update(Finish(&lap, &times.score));
  const DeviceScores scores = {.data = scores_,
                               .type = ElementType::kFloat32,
                               .layer_stride = stride,
                               .row_stride = stride,
                               .draft_stride = stride};
  status.Update(loop_->Audit({0, layer_count_}, scores, 1, stream));
  status.Update(loop_->Observe({0, layer_count_}, scores, 1, stream));
  status.Update(loop_->EndStep(stream));
  status.Update(Finish(&lap, &times.spin));
  status.Update(Fetch());
  if (!status.ok()) return status;
  Lap(&lap);  // the copies are only for the judge
  for (LayerBuffers& layer : layers_) layer.TakeTopK();
  times.topk = Lap(&lap);
  return times;
}

absl::Status GpuEngine::Fetch() {
  std::vector<int32_t> slots(layer_count_);
  absl::Status status =
      device_->Copy(slots.data(), kept_slots_, layer_count_ * int64_t{sizeof(int32_t)}, stream_);
  status.Update(device_->Synchronize(stream_));
  for (int index = 0; status.ok() && index < layer_count_; ++index) {
    LayerBuffers& layer = layers_[index];
    layer.score_count = slots[index];
    layer.kept_count = kernels::BlocksOf(slots[index], block_);
    const int64_t first = int64_t{index} * max_blocks_;
    status.Update(device_->Copy(layer.kept.data(), kept_blocks_ + first,
                                layer.kept_count * int64_t{sizeof(int32_t)}, stream_));
    status.Update(device_->Copy(layer.scores.data(), scores_ + first * block_,
                                layer.score_count * int64_t{sizeof(float)}, stream_));
  }
  status.Update(device_->Synchronize(stream_));
  return status;
}

}  // namespace spin::cli
