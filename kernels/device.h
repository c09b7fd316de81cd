// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/audit.h"
#include "kernels/compact.h"
#include "kernels/fill.h"
#include "kernels/handover.h"
#include "kernels/observe.h"
#include "kernels/predict.h"
#include "kernels/select.h"
#include "kernels/stage.h"
#include "kernels/word_wait.h"

// Where the kernels run. Two implementations: the CPU reference, and CUDA.
namespace spin::kernels {

// An ordered queue of work on a device: a cudaStream_t on a GPU; the CPU has none and runs each
// call to its end before it returns.
struct Stream {
  void* handle = nullptr;
};

// A point on a stream; see Device::Mark. A cudaEvent_t on a GPU.
struct Marker {
  void* handle = nullptr;
};

// Memory that belongs to this process alone. Frees itself; must not outlive its device.
using DeviceMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

// All launches are asynchronous on the given stream, allocate nothing and check their launch;
// pointers in the parameters must be valid on the device until the stream has passed. Parameters
// are trusted: whoever fills them has checked them. Thread-safe as long as concurrent launches
// touch different requests.
class Device {
 public:
  virtual ~Device() = default;

  // "GPU-..." as the driver prints it; "CPU" for the reference.
  virtual absl::string_view uuid() const = 0;

  // Whether launches return before they have run. If not, every call runs to its end.
  virtual bool runs_ahead() const = 0;

  // Uninitialised memory, aligned to 256 bytes. RESOURCE_EXHAUSTED if there is no room.
  virtual absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) = 0;

  // The same of the host, from which Copy to the device waits for nothing.
  virtual absl::StatusOr<DeviceMemory> AllocateHost(int64_t bytes) = 0;

  // A new stream, independent of all others; lives as long as the device.
  virtual absl::StatusOr<Stream> MakeStream() = 0;

  // A new marker; lives as long as the device. One that was never set has been passed.
  virtual absl::StatusOr<Marker> MakeMarker() = 0;
  // Sets the marker to the point that the stream's work has reached so far.
  virtual absl::Status Mark(Marker marker, Stream stream) = 0;
  // Whether all work before the marker has run. True also where the device has failed.
  virtual bool Passed(Marker marker) = 0;

  // The same for a marker that remembers when it was passed. Only between two of these that have
  // been set and passed is there a time.
  virtual absl::StatusOr<Marker> MakeTimedMarker() = 0;
  virtual absl::StatusOr<absl::Duration> Between(Marker from, Marker to) = 0;

  // Scratch memory that Select and SelectAndCompact need for launches up to this size; a multiple
  // of 8.
  virtual int64_t SelectWorkspaceBytes(int32_t layers, int32_t rows, int32_t max_blocks) const = 0;

  // The same for Audit with `audits`. Launches on one stream may share it with Select.
  virtual int64_t AuditWorkspaceBytes(int32_t layers, int32_t rows, int32_t max_blocks) const = 0;

  virtual absl::Status Predict(const PredictParams& params, Stream stream) = 0;
  virtual absl::Status Select(const SelectParams& params, Stream stream) = 0;
  virtual absl::Status Compact(const CompactParams& params, Stream stream) = 0;
  virtual absl::Status SelectAndCompact(const SelectParams& select, const CompactParams& compact,
                                        Stream stream) = 0;
  virtual absl::Status Remap(const RemapParams& params, Stream stream) = 0;
  virtual absl::Status Observe(const ObserveParams& params, Stream stream) = 0;
  virtual absl::Status Audit(const AuditParams& params, Stream stream) = 0;
  virtual absl::Status Fill(const FillParams& params, Stream stream) = 0;
  virtual absl::Status Stage(const StageParams& params, Stream stream) = 0;
  virtual absl::Status Expect(const ExpectParams& params, Stream stream) = 0;
  virtual absl::Status Admit(const AdmitParams& params, Stream stream) = 0;
  // Either side may be memory of the device or of the host. Host memory may be reused when the call
  // returns if it is the source and not AllocateHost's, and read after Synchronize if it is the
  // target.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, Stream stream) = 0;
  virtual absl::Status Zero(void* to, int64_t bytes, Stream stream) = 0;

  // Stores `value` into a word in shared memory when the stream gets there.
  virtual absl::Status WriteWord(uint64_t* word, uint64_t value, Stream stream) = 0;

  // Holds the stream until the word has reached `value`, not much longer than `limit`: then the
  // wait is given up, which *given_up tells launches that come after it, and the stream goes on.
  // Giving up may raise the word itself. Not capturable in a graph. Not for an engine's process,
  // where whoever gives up may stand behind the wait: see ExpectParams.
  virtual absl::Status WaitWord(const WordWait& wait, Stream stream) = 0;
  // Gives up a wait that is under way, from any thread.
  virtual absl::Status GiveUp(const WordWait& wait) = 0;

  // Waits until everything on the stream has run.
  virtual absl::Status Synchronize(Stream stream) = 0;
};

inline constexpr absl::string_view kCpuUuid = "CPU";

std::unique_ptr<Device> MakeCpuDevice();

}  // namespace spin::kernels
