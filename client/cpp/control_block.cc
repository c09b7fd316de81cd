// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/control_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace spin::internal {
namespace {

constexpr kernels::Row kNoRow = {.request = kernels::kPaddingRow};
constexpr kernels::ScoredRow kNoScores = {.request = kernels::kPaddingRow};

constexpr int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

ControlBlock::Parts ControlBlock::PartsAt(std::byte* base, int max_rows) {
  const auto take = [&base](int64_t bytes) { return std::exchange(base, base + Aligned(bytes)); };
  Parts parts;
  parts.binding = reinterpret_cast<kernels::Binding*>(take(sizeof *parts.binding));
  parts.policy = reinterpret_cast<kernels::Policy*>(take(sizeof *parts.policy));
  parts.rows = reinterpret_cast<kernels::Row*>(take(max_rows * sizeof *parts.rows));
  parts.listed = reinterpret_cast<kernels::Row*>(take(max_rows * sizeof *parts.listed));
  parts.scored = reinterpret_cast<kernels::ScoredRow*>(take(max_rows * sizeof *parts.scored));
  parts.audited = reinterpret_cast<kernels::ScoredRow*>(take(max_rows * sizeof *parts.audited));
  parts.next = reinterpret_cast<kernels::Row*>(take(max_rows * sizeof *parts.next));
  return parts;
}

int64_t ControlBlock::BytesFor(int max_rows) {
  return Aligned(sizeof(kernels::Binding)) + Aligned(sizeof(kernels::Policy)) +
         3 * Aligned(max_rows * int64_t{sizeof(kernels::Row)}) +
         2 * Aligned(max_rows * int64_t{sizeof(kernels::ScoredRow)});
}

absl::StatusOr<ControlBlock> ControlBlock::Create(kernels::Device* device, int max_rows,
                                                  kernels::Stream stream) {
  ControlBlock block;
  block.device_ = device;
  block.max_rows_ = max_rows;
  block.bytes_ = BytesFor(max_rows);
  auto on_device = device->Allocate(block.bytes_);
  if (!on_device.ok()) return on_device.status();
  auto on_host = device->AllocateHost(kCopies * block.bytes_);
  if (!on_host.ok()) return on_host.status();
  block.device_memory_ = *std::move(on_device);
  block.host_memory_ = *std::move(on_host);
  for (kernels::Marker& marker : block.sent_) {
    const auto made = device->MakeMarker();
    if (!made.ok()) return made.status();
    marker = *made;
  }
  std::memset(block.host_memory_.get(), 0, static_cast<size_t>(kCopies * block.bytes_));
  block.on_device_ = PartsAt(block.device_memory_.get(), max_rows);
  block.DropRows(PartsAt(block.host_memory_.get(), max_rows));
  if (absl::Status status = block.Send(stream); !status.ok()) return status;
  return block;
}

void ControlBlock::DropRows(const Parts& parts) const {
  std::fill_n(parts.rows, max_rows_, kNoRow);
  std::fill_n(parts.listed, max_rows_, kNoRow);
  DropEndRows(parts);
}

void ControlBlock::DropEndRows(const Parts& parts) const {
  std::fill_n(parts.scored, max_rows_, kNoScores);
  std::fill_n(parts.audited, max_rows_, kNoScores);
  std::fill_n(parts.next, max_rows_, kNoRow);
}

absl::StatusOr<ControlBlock::Parts> ControlBlock::Edit(kernels::Stream stream) {
  const int last = current_;
  const int next = (current_ + 1) % kCopies;
  if (!device_->Passed(sent_[next])) {
    absl::Status drained = device_->Synchronize(stream);
    if (!drained.ok()) return drained;
  }
  current_ = next;
  std::byte* const to = host_memory_.get() + current_ * bytes_;
  std::memcpy(to, host_memory_.get() + last * bytes_, static_cast<size_t>(bytes_));
  return PartsAt(to, max_rows_);
}

absl::Status ControlBlock::Send(kernels::Stream stream) {
  absl::Status status =
      device_->Copy(device_memory_.get(), host_memory_.get() + current_ * bytes_, bytes_, stream);
  if (status.ok()) status = device_->Mark(sent_[current_], stream);
  return status;
}

}  // namespace spin::internal
