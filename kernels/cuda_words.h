// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/word_wait.h"

namespace spin::kernels {

// Writes of and waits for words in device memory, as stream operations of the driver: a process
// whose stream waits leaves the GPU to others, and can be killed meanwhile without harm to those
// that share its MPS server, which one with a spinning kernel would not. Such a wait has no end of
// its own, so a watchdog looks after all of them. Its writes must not stand behind the waiting
// stream in a hardware queue: waits are for processes that see to it that each of their streams has
// its own (CUDA_DEVICE_MAX_CONNECTIONS, see kHardwareQueues). Thread-safe. The device is current in
// every caller but the destructor's.
class CudaWords {
 public:
  static cudaError_t Create(int ordinal, std::unique_ptr<CudaWords>* out);
  ~CudaWords();

  cudaError_t Write(uint64_t* word, uint64_t value, cudaStream_t stream);
  cudaError_t Wait(const WordWait& wait, cudaStream_t stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the wait now, wherever its stream is.
  cudaError_t GiveUp(const WordWait& wait);

 private:
  struct Events {
    cudaEvent_t reached = nullptr;  // the stream has come to the wait
    cudaEvent_t over = nullptr;     // ... and has passed it
  };
  struct Pending {
    WordWait wait;
    Events events;
    std::optional<std::chrono::steady_clock::time_point> reached_at;  // as far as was seen
    bool given_up;
  };

  CudaWords(int ordinal, cudaStream_t stream) : ordinal_(ordinal), stream_(stream) {}
  cudaError_t TakeEvents(Events* out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropPassed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StartWatchdog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch();

  const int ordinal_;
  const cudaStream_t stream_;  // of the watchdog's own writes
  absl::Mutex mutex_;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<Events> free_events_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watchdog_ ABSL_GUARDED_BY(mutex_);  // from the first wait on
};

}  // namespace spin::kernels
