// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/device_loop.h"

#include <utility>

#include "client/cpp/bad_argument.h"
#include "client/cpp/device_loop_impl.h"

namespace spin {
namespace {

kernels::Stream On(void* stream) { return {stream}; }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceLoop>> DeviceLoop::Create(Session* session,
                                                               const DeviceBuffers& buffers) {
  if (session == nullptr) return internal::BadArgument("session", "is null");
  auto impl = internal::DeviceLoopImpl::Create(session->impl_.get(), buffers);
  if (!impl.ok()) return impl.status();
  return std::unique_ptr<DeviceLoop>(new DeviceLoop(*std::move(impl)));
}

DeviceLoop::DeviceLoop(std::unique_ptr<internal::DeviceLoopImpl> impl) : impl_(std::move(impl)) {}
DeviceLoop::~DeviceLoop() = default;

absl::Status DeviceLoop::BeginStep(absl::Span<const StepRow> rows, void* stream) {
  return impl_->BeginStep(rows, On(stream));
}
RowPlan DeviceLoop::plan(int row) const { return impl_->plan(row); }
bool DeviceLoop::audit_due() const { return impl_->audit_due(); }
absl::Status DeviceLoop::Accept(const EndOptions& verdict, void* stream) {
  return impl_->Accept(verdict, On(stream));
}
absl::Status DeviceLoop::EndStep(void* stream) { return impl_->EndStep(On(stream)); }

absl::Status DeviceLoop::SelectAndCompact(int rows, void* stream) {
  return impl_->SelectAndCompact(rows, On(stream));
}
absl::Status DeviceLoop::Compact(int rows, void* stream) {
  return impl_->Compact(rows, On(stream));
}
absl::Status DeviceLoop::Remap(int layer, int32_t* topk, int32_t topk_stride, int rows,
                               void* stream) {
  return impl_->Remap(layer, topk, topk_stride, rows, On(stream));
}
absl::Status DeviceLoop::Stage(Layers layers, const DeviceScores& scores, int rows, void* stream) {
  return impl_->Stage(layers, scores, rows, {stream});
}
absl::Status DeviceLoop::Audit(Layers layers, const DeviceScores& scores, int rows, void* stream) {
  return impl_->Audit(layers, scores, rows, On(stream));
}
absl::Status DeviceLoop::Observe(Layers layers, const DeviceScores& scores, int rows,
                                 void* stream) {
  return impl_->Observe(layers, scores, rows, On(stream));
}
absl::Status DeviceLoop::Select(int rows, void* stream) { return impl_->Select(rows, On(stream)); }

}  // namespace spin
