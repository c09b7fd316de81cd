// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <deque>
#include <new>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "kernels/device.h"
#include "kernels/word.h"

namespace spin::kernels {
namespace {

class CpuDevice final : public Device {
 public:
  absl::string_view uuid() const override { return kCpuUuid; }
  bool runs_ahead() const override { return false; }

  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) override {
    constexpr std::align_val_t kAlignment{256};
    auto* memory = static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes), kAlignment, std::nothrow));
    if (memory == nullptr) return absl::ResourceExhaustedError("out of memory");
    return DeviceMemory(memory, [](std::byte* gone) { ::operator delete(gone, kAlignment); });
  }
  absl::StatusOr<DeviceMemory> AllocateHost(int64_t bytes) override { return Allocate(bytes); }
  absl::StatusOr<Stream> MakeStream() override { return Stream{}; }
  absl::StatusOr<Marker> MakeMarker() override { return Marker{}; }
  absl::Status Mark(Marker marker, Stream) override {
    if (marker.handle != nullptr) *static_cast<absl::Time*>(marker.handle) = absl::Now();
    return absl::OkStatus();
  }
  bool Passed(Marker) override { return true; }
  absl::StatusOr<Marker> MakeTimedMarker() override {
    absl::MutexLock lock(&mutex_);
    return Marker{&times_.emplace_back()};
  }
  absl::StatusOr<absl::Duration> Between(Marker from, Marker to) override {
    return *static_cast<absl::Time*>(to.handle) - *static_cast<absl::Time*>(from.handle);
  }

  int64_t SelectWorkspaceBytes(int32_t, int32_t, int32_t max_blocks) const override {
    return SelectWorkspaceBytesCpu(max_blocks);
  }
  int64_t AuditWorkspaceBytes(int32_t, int32_t, int32_t max_blocks) const override {
    return AuditWorkspaceBytesCpu(max_blocks);
  }

  absl::Status Predict(const PredictParams& params, Stream) override {
    PredictCpu(params);
    return absl::OkStatus();
  }
  absl::Status Select(const SelectParams& params, Stream) override {
    SelectCpu(params);
    return absl::OkStatus();
  }
  absl::Status Compact(const CompactParams& params, Stream) override {
    CompactCpu(params);
    return absl::OkStatus();
  }
  absl::Status SelectAndCompact(const SelectParams& select, const CompactParams& compact,
                                Stream) override {
    SelectAndCompactCpu(select, compact);
    return absl::OkStatus();
  }
  absl::Status Remap(const RemapParams& params, Stream) override {
    RemapCpu(params);
    return absl::OkStatus();
  }
  absl::Status Observe(const ObserveParams& params, Stream) override {
    ObserveCpu(params);
    return absl::OkStatus();
  }
  absl::Status Audit(const AuditParams& params, Stream) override {
    AuditCpu(params);
    return absl::OkStatus();
  }
  absl::Status Fill(const FillParams& params, Stream) override {
    FillCpu(params);
    return absl::OkStatus();
  }
  absl::Status Stage(const StageParams& params, Stream) override {
    StageCpu(params);
    return absl::OkStatus();
  }
  absl::Status Expect(const ExpectParams& params, Stream) override {
    ExpectCpu(params);
    return absl::OkStatus();
  }
  absl::Status Admit(const AdmitParams& params, Stream) override {
    AdmitCpu(params);
    return absl::OkStatus();
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Zero(void* to, int64_t bytes, Stream) override {
    std::memset(to, 0, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status WriteWord(uint64_t* word, uint64_t value, Stream) override {
    Raise(*word, value);
    return absl::OkStatus();
  }
  absl::Status WaitWord(const WordWait& wait, Stream) override {
    if (WaitReached(*wait.word, wait.value, wait.limit)) return absl::OkStatus();
    return GiveUp(wait);
  }
  absl::Status GiveUp(const WordWait& wait) override {
    Raise(*wait.given_up, wait.ticket);
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream) override { return absl::OkStatus(); }

 private:
  absl::Mutex mutex_;
  std::deque<absl::Time> times_ ABSL_GUARDED_BY(mutex_);  // of timed markers
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice() { return std::make_unique<CpuDevice>(); }

}  // namespace spin::kernels
