// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_device.h"

#include <cuda_runtime_api.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda_launch.h"
#include "kernels/cuda_words.h"
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
    absl::StrAppend(&out, absl::Hex(static_cast<unsigned char>(uuid.bytes[i]), absl::kZeroPad2));
  }
  return out;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, std::string uuid, std::unique_ptr<CudaWords> words)
      : ordinal_(ordinal), uuid_(std::move(uuid)), words_(std::move(words)) {}
  ~CudaDevice() override {
    const UseCudaDevice use(ordinal_);
    for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }

  absl::string_view uuid() const override { return uuid_; }
  bool runs_ahead() const override { return true; }

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
  absl::StatusOr<Marker> MakeMarker() override { return MakeEvent(cudaEventDisableTiming); }
  absl::StatusOr<Marker> MakeTimedMarker() override { return MakeEvent(cudaEventDefault); }
  absl::StatusOr<absl::Duration> Between(Marker from, Marker to) override {
    float ms = 0;
    absl::Status status = On("Between", [&] {
      return cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(from.handle),
                                  static_cast<cudaEvent_t>(to.handle));
    });
    if (!status.ok()) return status;
    return absl::Milliseconds(double{ms});
  }
  absl::Status Mark(Marker marker, Stream stream) override {
    return On("Mark", [&] {
      return cudaEventRecord(static_cast<cudaEvent_t>(marker.handle), Handle(stream));
    });
  }
  bool Passed(Marker marker) override {
    // Or the question would break a graph that another thread is capturing, and be answered wrong.
    const UseCudaDevice use(ordinal_);
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
  absl::Status SelectAndCompact(const SelectParams& select, const CompactParams& compact,
                                Stream stream) override {
    return On("SelectAndCompact",
              [&] { return SelectAndCompactCuda(select, compact, Handle(stream)); });
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
  absl::Status Stage(const StageParams& params, Stream stream) override {
    return On("Stage", [&] { return StageCuda(params, Handle(stream)); });
  }
  absl::Status Expect(const ExpectParams& params, Stream stream) override {
    return On("Expect", [&] { return ExpectCuda(params, Handle(stream)); });
  }
  absl::Status Admit(const AdmitParams& params, Stream stream) override {
    return On("Admit", [&] { return AdmitCuda(params, Handle(stream)); });
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
    return On("WriteWord", [&] { return words_->Write(word, value, Handle(stream)); });
  }
  absl::Status WaitWord(const WordWait& wait, Stream stream) override {
    return On("WaitWord", [&] { return words_->Wait(wait, Handle(stream)); });
  }
  absl::Status GiveUp(const WordWait& wait) override {
    return On("GiveUp", [&] { return words_->GiveUp(wait); });
  }
  absl::Status Synchronize(Stream stream) override {
    return On("Synchronize", [&] { return cudaStreamSynchronize(Handle(stream)); });
  }

 private:
  static cudaStream_t Handle(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

  absl::StatusOr<Marker> MakeEvent(unsigned flags) {
    cudaEvent_t event = nullptr;
    absl::Status status =
        On("a new event", [&] { return cudaEventCreateWithFlags(&event, flags); });
    if (!status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    events_.push_back(event);
    return Marker{event};
  }

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
  const std::unique_ptr<CudaWords> words_;
  absl::Mutex mutex_;
  std::vector<cudaStream_t> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<cudaEvent_t> events_ ABSL_GUARDED_BY(mutex_);
};

struct Found {
  int ordinal;
  CudaDeviceInfo info;
  size_t shared_bytes;
};

struct Visible {
  std::vector<Found> found;
  absl::Status failed;  // of one that can't be asked, which the others need not suffer for
};

absl::StatusOr<Visible> FindDevices() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) count = 0;
  if (error != cudaSuccess || count == 0) {
    if (error == cudaSuccess) error = cudaErrorNoDevice;
    return CudaError("there is no GPU that this process can see", error);
  }
  Visible out;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties;
    error = cudaGetDeviceProperties(&properties, ordinal);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();  // it is told here, if it matters
      out.failed = CudaError(absl::StrCat("GPU ", ordinal, " can't be asked"), error);
      continue;
    }
    out.found.push_back({ordinal,
                         {UuidOf(properties.uuid), properties.name,
                          static_cast<int64_t>(properties.totalGlobalMem)},
                         properties.sharedMemPerBlockOptin});
  }
  if (out.found.empty()) return out.failed;
  return out;
}

absl::Status MigIsNotSupported(absl::string_view instance) {
  return absl::UnimplementedError(absl::StrCat(
      instance,
      " is a MIG instance, which is not supported: give spind and the engine a whole GPU"));
}

absl::StatusOr<Found> WholeGpu(const Found& found) {
  // What the driver calls an instance: "NVIDIA H200 MIG 1g.18gb".
  if (absl::StrContains(found.info.name, " MIG ")) {
    return MigIsNotSupported(absl::StrCat(found.info.uuid, " (", found.info.name, ")"));
  }
  return found;
}

absl::StatusOr<Found> FindDevice(absl::string_view uuid) {
  const absl::StatusOr<Visible> visible = FindDevices();
  if (!visible.ok()) return visible.status();
  const std::vector<Found>& found = visible->found;
  if (uuid.empty() && found.size() == 1 && visible->failed.ok()) return WholeGpu(found.front());
  if (absl::StartsWithIgnoreCase(uuid, "MIG-")) return MigIsNotSupported(uuid);
  for (const Found& one : found) {
    if (absl::EqualsIgnoreCase(one.info.uuid, uuid)) return WholeGpu(one);
  }
  std::string there = absl::StrJoin(
      found, ", ", [](std::string* out, const Found& one) { out->append(one.info.uuid); });
  if (!visible->failed.ok()) absl::StrAppend(&there, "; ", visible->failed.message());
  if (uuid.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("several GPUs are visible; name one of ", there));
  }
  return absl::NotFoundError(
      absl::StrCat("no visible GPU has the UUID ", uuid, "; there is ", there));
}

}  // namespace

cudaError_t LoadKernelsCuda() {
  for (const auto load :
       {internal::LoadObserveCuda, internal::LoadScanCuda, internal::LoadPredictCuda,
        internal::LoadSelectCuda, internal::LoadCompactCuda, internal::LoadAuditCuda,
        internal::LoadFillCuda, internal::LoadStageCuda, internal::LoadHandoverCuda}) {
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
  absl::StatusOr<Visible> visible = FindDevices();
  if (!visible.ok()) return visible.status();
  std::vector<CudaDeviceInfo> out;
  for (Found& one : visible->found) out.push_back(std::move(one.info));
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
  if (found->shared_bytes < kSharedBytes) {
    return absl::UnimplementedError(absl::StrCat(
        "GPU ", found->info.uuid, " (", found->info.name, ") has ", found->shared_bytes >> 10,
        " KiB of shared memory for a thread block; the kernels need ", kSharedBytes >> 10,
        ", as data center GPUs of compute capability 9.0 and 10.0 have"));
  }
  const UseCudaDevice use(found->ordinal);
  cudaError_t error = use.error();
  if (error == cudaSuccess) error = LoadKernelsCuda();
  std::unique_ptr<CudaWords> words;
  if (error == cudaSuccess) error = CudaWords::Create(found->ordinal, &words);
  if (error != cudaSuccess) {
    return CudaError(absl::StrCat("GPU ", found->info.uuid, " can't be used"), error);
  }
  return std::make_unique<CudaDevice>(found->ordinal, found->info.uuid, std::move(words));
}

}  // namespace spin::kernels
