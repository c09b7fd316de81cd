// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "dataplane/step_runner.h"
#include "tests/dataplane/tiny_session.h"

// This program counts every allocation of C++, so it holds nothing but the tests about that.

namespace {

std::atomic<int> allocations = 0;

void* Allocate(size_t bytes, size_t alignment) {
  ++allocations;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) != 0) std::abort();
  return memory;
}

// Not inlined, or GCC takes free() for the wrong counterpart of new.
[[gnu::noinline]] void Release(void* memory) { std::free(memory); }

}  // namespace

// The other forms of new and delete call these.
void* operator new(size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Release(memory); }

namespace spin::dataplane {
namespace {

using kernels::Coverage;

TEST(AllocationTest, AllocationsAreCounted) {
  const int before = allocations;
  delete new int;
  EXPECT_EQ(allocations, before + 1);
}

TEST(AllocationTest, DecodeStepAllocatesNothing) {
  TinySession session;
  StepRunner runner(session.device(), session.view());
  const kernels::ScoreView staged = session.view().staged_scores();
  const kernels::Policy policy = HalfSparsity();
  const std::array<kernels::Row, 2> first = {RowAt(319, 0), RowAt(300, 1)};
  const std::array<kernels::Row, 2> next = {RowAt(320, 0), RowAt(301, 1)};
  const std::array<kernels::ScoredRow, 2> rows = {ScoredAt(319, Coverage::kAll, 0),
                                                  ScoredAt(300, Coverage::kKept, 1)};
  ASSERT_TRUE(runner.Predict(first, policy, runner.all_layers(), {}).ok());

  const int before = allocations;
  const absl::Status audited = runner.Audit(rows, staged, runner.all_layers(), {});
  const absl::Status observed = runner.Observe(rows, staged, runner.all_layers(), 0.5, {});
  const absl::Status predicted = runner.Predict(next, policy, runner.all_layers(), {});
  EXPECT_EQ(allocations, before);

  EXPECT_TRUE(audited.ok() && observed.ok() && predicted.ok());
  EXPECT_EQ(session.view().counters[0].audited_rows, 1);      // so all of it
  EXPECT_EQ(session.view().counters[0].predicted_blocks, 9);  // did run
}

}  // namespace
}  // namespace spin::dataplane
