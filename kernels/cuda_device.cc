// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_device.h"

#include <cuda_runtime_api.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda_launch.h"
#include "kernels/internal/cuda_load.h"
#include "kernels/use_cuda_device.h"

namespace spin::kernels {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorDevicesUnavailable:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string UuidOf(const cudaUUID_t& uuid) {
  std::string out = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    absl::StrAppendFormat(&out, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return out;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, std::string uuid, uint32_t* timed_out)
      : ordinal_(ordinal), uuid_(std::move(uuid)), timed_out_(timed_out) {}
  ~CudaDevice() override {
    for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
    (void)cudaFreeHost(timed_out_);
  }

  absl::string_view uuid() const override { return uuid_; }

  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) override {
    void* memory = nullptr;
    absl::Status status =
        On("cudaMalloc", [&] { return cudaMalloc(&memory, static_cast<size_t>(bytes)); });
    if (!status.ok()) return status;
    return DeviceMemory(static_cast<std::byte*>(memory), [this](std::byte* gone) {
      (void)On("cudaFree", [&] { return cudaFree(gone); });
    });
  }
  absl::StatusOr<DeviceMemory> AllocateHost(int64_t bytes) override {
    void* memory = nullptr;
    absl::Status status = On("cudaHostAlloc", [&] {
      return cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable);
    });
    if (!status.ok()) return status;
    return DeviceMemory(static_cast<std::byte*>(memory), [this](std::byte* gone) {
      (void)On("cudaFreeHost", [&] { return cudaFreeHost(gone); });
    });
  }
  absl::StatusOr<Marker> MakeMarker() override {
    cudaEvent_t event = nullptr;
    absl::Status status =
        On("a new event", [&] { return cudaEventCreateWithFlags(&event, cudaEventDisableTiming); });
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    events_.push_back(event);
    return Marker{event};
  }
  absl::Status Mark(Marker marker, Stream stream) override {
    return On("Mark", [&] {
      return cudaEventRecord(static_cast<cudaEvent_t>(marker.handle), Handle(stream));
    });
  }
  bool Passed(Marker marker) override {
    return cudaEventQuery(static_cast<cudaEvent_t>(marker.handle)) != cudaErrorNotReady;
  }
  absl::StatusOr<Stream> MakeStream() override {
    cudaStream_t stream = nullptr;
    absl::Status status = On(
        "a new stream", [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    streams_.push_back(stream);
    return Stream{stream};
  }

  int64_t SelectWorkspaceBytes(int32_t layers, int32_t rows, int32_t max_blocks) const override {
    return SelectWorkspaceBytesCuda(layers, rows, max_blocks);
  }
  int64_t AuditWorkspaceBytes(int32_t layers, int32_t rows, int32_t max_blocks) const override {
    return AuditWorkspaceBytesCuda(layers, rows, max_blocks);
  }
  absl::Status Predict(const PredictParams& params, Stream stream) override {
    return On("Predict", [&] { return PredictCuda(params, Handle(stream)); });
  }
  absl::Status Select(const SelectParams& params, Stream stream) override {
    return On("Select", [&] { return SelectCuda(params, Handle(stream)); });
  }
  absl::Status Compact(const CompactParams& params, Stream stream) override {
    return On("Compact", [&] { return CompactCuda(params, Handle(stream)); });
  }
  absl::Status Remap(const RemapParams& params, Stream stream) override {
    return On("Remap", [&] { return RemapCuda(params, Handle(stream)); });
  }
  absl::Status Observe(const ObserveParams& params, Stream stream) override {
    return On("Observe", [&] { return ObserveCuda(params, Handle(stream)); });
  }
  absl::Status Audit(const AuditParams& params, Stream stream) override {
    return On("Audit", [&] { return AuditCuda(params, Handle(stream)); });
  }
  absl::Status Fill(const FillParams& params, Stream stream) override {
    return On("Fill", [&] { return FillCuda(params, Handle(stream)); });
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream stream) override {
    return On("Copy", [&] {
      return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                             Handle(stream));
    });
  }
  absl::Status Zero(void* to, int64_t bytes, Stream stream) override {
    return On("Zero",
              [&] { return cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), Handle(stream)); });
  }
  absl::Status WriteWord(uint64_t* word, uint64_t value, Stream stream) override {
    return On("WriteWord", [&] { return WriteWordCuda(word, value, Handle(stream)); });
  }
  absl::Status WaitWord(uint64_t* word, uint64_t value, absl::Duration limit,
                        Stream stream) override {
    const auto limit_ns =
        static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(limit), 0));
    return On("WaitWord",
              [&] { return WaitWordCuda(word, value, limit_ns, timed_out_, Handle(stream)); });
  }
  absl::Status Synchronize(Stream stream) override {
    absl::Status status = On("Synchronize", [&] { return cudaStreamSynchronize(Handle(stream)); });
    if (!status.ok()) return status;
    if (std::atomic_ref<uint32_t>(*timed_out_).exchange(0) == 0) return absl::OkStatus();
    return absl::DeadlineExceededError("a timeline word was not reached in time");
  }

 private:
  static cudaStream_t Handle(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

  // Launches with this device current, and leaves the caller's as it was.
  template <typename Launch>
  absl::Status On(absl::string_view what, Launch launch) const {
    const UseCudaDevice use(ordinal_);
    const cudaError_t error = use.error() == cudaSuccess ? launch() : use.error();
    if (error == cudaSuccess) return absl::OkStatus();
    (void)cudaGetLastError();  // it is told here, not by the caller's next call
    return CudaError(what, error);
  }

  const int ordinal_;
  const std::string uuid_;
  uint32_t* const timed_out_;  // pinned: a wait that gave up sets it
  absl::Mutex mutex_;
  std::vector<cudaStream_t> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<cudaEvent_t> events_ ABSL_GUARDED_BY(mutex_);
};

struct Found {
  int ordinal;
  CudaDeviceInfo info;
};

absl::StatusOr<std::vector<Found>> FindDevices() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) count = 0;
  if (error != cudaSuccess || count == 0) {
    if (error == cudaSuccess) error = cudaErrorNoDevice;
    return CudaError("there is no GPU that this process can see", error);
  }
  std::vector<Found> found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    error = cudaGetDeviceProperties(&properties, ordinal);
    if (error != cudaSuccess) return CudaError(absl::StrCat("GPU ", ordinal), error);
    found.push_back({ordinal,
                     {UuidOf(properties.uuid), properties.name,
                      static_cast<int64_t>(properties.totalGlobalMem)}});
  }
  return found;
}

absl::StatusOr<Found> FindDevice(absl::string_view uuid) {
  absl::StatusOr<std::vector<Found>> found = FindDevices();
  if (!found.ok()) return found.status();
  if (uuid.empty() && found->size() == 1) return found->front();
  if (absl::StartsWithIgnoreCase(uuid, "MIG-")) {
    return absl::UnimplementedError(
        absl::StrCat(uuid,
                     " is a MIG instance, which is not supported: give spind and the engine a "
                     "whole GPU"));
  }
  for (const Found& one : *found) {
    if (absl::EqualsIgnoreCase(one.info.uuid, uuid)) return one;
  }
  const std::string visible = absl::StrJoin(
      *found, ", ", [](std::string* out, const Found& one) { out->append(one.info.uuid); });
  if (uuid.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("several GPUs are visible; name one of ", visible));
  }
  return absl::NotFoundError(
      absl::StrCat("no visible GPU has the UUID ", uuid, "; there is ", visible));
}

}  // namespace

cudaError_t LoadKernelsCuda() {
  for (const auto load :
       {internal::LoadObserveCuda, internal::LoadScanCuda, internal::LoadPredictCuda,
        internal::LoadSelectCuda, internal::LoadCompactCuda, internal::LoadAuditCuda,
        internal::LoadFillCuda, internal::LoadWordCuda}) {
    const cudaError_t error = load();
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

absl::Status CudaError(absl::string_view what, int error) {
  const auto code = static_cast<cudaError_t>(error);
  return absl::Status(CodeOf(code), absl::StrCat(what, ": ", cudaGetErrorName(code), ": ",
                                                 cudaGetErrorString(code)));
}

absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices() {
  absl::StatusOr<std::vector<Found>> found = FindDevices();
  if (!found.ok()) return found.status();
  std::vector<CudaDeviceInfo> out;
  for (Found& one : *found) out.push_back(std::move(one.info));
  return out;
}

absl::StatusOr<int> CudaOrdinal(absl::string_view uuid) {
  const absl::StatusOr<Found> found = FindDevice(uuid);
  if (!found.ok()) return found.status();
  return found->ordinal;
}

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(absl::string_view uuid) {
  const absl::StatusOr<Found> found = FindDevice(uuid);
  if (!found.ok()) return found.status();
  const UseCudaDevice use(found->ordinal);
  cudaError_t error = use.error();
  uint32_t* timed_out = nullptr;
  if (error == cudaSuccess) {
    error =
        cudaHostAlloc(reinterpret_cast<void**>(&timed_out), sizeof *timed_out, cudaHostAllocMapped);
  }
  if (error == cudaSuccess) *timed_out = 0;
  if (error == cudaSuccess) error = LoadKernelsCuda();
  if (error != cudaSuccess) {
    if (timed_out) (void)cudaFreeHost(timed_out);
    return CudaError(absl::StrCat("GPU ", found->info.uuid, " can't be used"), error);
  }
  return std::make_unique<CudaDevice>(found->ordinal, found->info.uuid, timed_out);
}

}  // namespace spin::kernels
