// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda_words.h"

#include <cuda.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "kernels/use_cuda_device.h"

namespace spin::kernels {
namespace {

constexpr absl::Duration kShortestLook = absl::Milliseconds(1);
constexpr absl::Duration kLongestLook = absl::Milliseconds(20);

template <typename Function>
Function* DriverFunction(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  return error == cudaSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}

using ValueFunction = CUresult(CUstream, CUdeviceptr, cuuint64_t, unsigned);

ValueFunction* WaitFunction() {
  static ValueFunction* const found = DriverFunction<ValueFunction>("cuStreamWaitValue64");
  return found;
}
ValueFunction* WriteFunction() {
  static ValueFunction* const found = DriverFunction<ValueFunction>("cuStreamWriteValue64");
  return found;
}

cudaError_t Call(ValueFunction* function, cudaStream_t stream, const uint64_t* word, uint64_t value,
                 unsigned flags) {
  if (function == nullptr) return cudaErrorNotSupported;
  // The numbers of the errors that can come here are the same in the driver and the runtime.
  return static_cast<cudaError_t>(
      function(stream, reinterpret_cast<CUdeviceptr>(word), value, flags));
}

bool HasPassed(cudaEvent_t event) { return cudaEventQuery(event) != cudaErrorNotReady; }

}  // namespace

cudaError_t CudaWords::Create(int ordinal, std::unique_ptr<CudaWords>* out) {
  if (WaitFunction() == nullptr || WriteFunction() == nullptr) return cudaErrorNotSupported;
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error == cudaSuccess) out->reset(new CudaWords(ordinal, stream));
  return error;
}

CudaWords::~CudaWords() {
  std::thread watchdog;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    watchdog.swap(watchdog_);
  }
  if (watchdog.joinable()) watchdog.join();
  const UseCudaDevice use(ordinal_);
  absl::MutexLock lock(&mutex_);
  DropPassed();
  for (const Pending& left : pending_) {
    (void)GiveUp(left.wait);  // nobody looks after it any more
    free_events_.push_back(left.events);
  }
  for (const Events& events : free_events_) {
    (void)cudaEventDestroy(events.reached);
    (void)cudaEventDestroy(events.over);
  }
  (void)cudaStreamDestroy(stream_);
}

cudaError_t CudaWords::Write(uint64_t* word, uint64_t value, cudaStream_t stream) {
  return Call(WriteFunction(), stream, word, value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

cudaError_t CudaWords::GiveUp(const WordWait& wait) {
  cudaError_t error = Write(wait.given_up, wait.ticket, stream_);
  if (error == cudaSuccess) error = Write(const_cast<uint64_t*>(wait.word), wait.value, stream_);
  return error;
}

cudaError_t CudaWords::TakeEvents(Events* out) {
  if (!free_events_.empty()) {
    *out = free_events_.back();
    free_events_.pop_back();
    return cudaSuccess;
  }
  cudaError_t error = cudaEventCreateWithFlags(&out->reached, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  error = cudaEventCreateWithFlags(&out->over, cudaEventDisableTiming);
  if (error != cudaSuccess) (void)cudaEventDestroy(out->reached);
  return error;
}

void CudaWords::DropPassed() {
  // Of several streams: one that stands still must not keep the others' events.
  const auto passed = [this](const Pending& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!HasPassed(pending.events.over)) return false;
    free_events_.push_back(pending.events);
    return true;
  };
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(), passed), pending_.end());
}

bool CudaWords::StartWatchdog() {
  if (watchdog_.joinable()) return true;
  try {
    watchdog_ = std::thread([this] { Watch(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

cudaError_t CudaWords::Wait(const WordWait& wait, cudaStream_t stream) {
  absl::MutexLock lock(&mutex_);
  DropPassed();
  if (!StartWatchdog()) return cudaErrorOperatingSystem;
  Pending pending = {wait, {}, std::nullopt, false};
  cudaError_t error = TakeEvents(&pending.events);
  if (error != cudaSuccess) return error;
  bool waits = false;
  error = cudaEventRecord(pending.events.reached, stream);
  if (error == cudaSuccess) {
    error = Call(WaitFunction(), stream, wait.word, wait.value, CU_STREAM_WAIT_VALUE_GEQ);
    waits = error == cudaSuccess;
  }
  if (error == cudaSuccess) error = cudaEventRecord(pending.events.over, stream);
  if (error != cudaSuccess) {
    if (waits) (void)GiveUp(wait);  // nobody would look after it
    free_events_.push_back(pending.events);
    return error;
  }
  pending_.push_back(pending);
  return cudaSuccess;
}

// Gives up what is overdue; returns when to look again.
absl::Duration CudaWords::Look() {
  DropPassed();
  absl::Duration next = kLongestLook;
  for (Pending& pending : pending_) {
    if (HasPassed(pending.events.over) || !HasPassed(pending.events.reached)) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!pending.reached_at.has_value()) pending.reached_at = now;
    const absl::Duration left = pending.wait.limit - absl::FromChrono(now - *pending.reached_at);
    // Once: the word may be another wait's by the time of a second one.
    if (left <= absl::ZeroDuration() && !pending.given_up) {
      pending.given_up = GiveUp(pending.wait) == cudaSuccess;
    }
    next = std::clamp(left, kShortestLook, next);
  }
  return next;
}

void CudaWords::Watch() {
  pthread_setname_np(pthread_self(), "spin-words");
  const UseCudaDevice use(ordinal_);
  absl::MutexLock lock(&mutex_);
  const auto wanted = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !pending_.empty();
  };
  while (!stopping_) {
    mutex_.Await(absl::Condition(&wanted));
    const absl::Duration next = Look();
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), next);
  }
}

}  // namespace spin::kernels
