// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

// What a made-up engine needs of its device beside kernels::Device. A test executable has the
// backend_*.cc of one.
namespace spin {

// A stock paged scoring kernel, whose pages hold the scores themselves: element c of verifier row d
// of row r becomes pages[d][table[r][c / block]][c % block], up to slots[r][d].
struct PagedScoring {
  const float* pages;  // [next_n][page_count][block]
  int64_t page_count;
  const int32_t* table;  // [rows][table_stride]
  int32_t table_stride;
  const int32_t* slots;  // [rows][next_n]
  float* scores;         // out [rows][next_n][scores_stride]
  int64_t scores_stride;
  int32_t rows;
  int32_t next_n;
  int32_t block;
};

class EngineBackend {
 public:
  virtual ~EngineBackend() = default;

  virtual std::string device_uuid() const = 0;
  virtual void* stream() const = 0;
  virtual void Score(const PagedScoring& scoring, void* stream) const = 0;

  // Holds the stream up for a while, if the device runs asynchronously.
  virtual void Stall(absl::Duration duration) const = 0;

  // Whether the stream has run all that was enqueued.
  virtual bool Idle() const = 0;

  // Makes a graph of the launches, which can be replayed on stream() any number of times.
  virtual std::function<void()> Capture(
      const std::function<void(void* stream)>& launches) const = 0;
};

// Null where this machine has no such device.
std::unique_ptr<EngineBackend> MakeEngineBackend();

}  // namespace spin
