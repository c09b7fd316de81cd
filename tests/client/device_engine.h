// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "spin/device_loop.h"
#include "tests/client/engine_backend.h"

namespace spin {

// When lists are made: both forms of an engine's step.
enum class ListsMade {
  kAtBeginning,  // of the step that uses them: SelectAndCompact
  kStepAhead,    // Select at the end of the step before, then Compact
};

// The forms of an engine's loop. The sidecar executor makes no lists in the engine's process: there
// is one form of it.
struct Form {
  Executor executor;
  ListsMade lists_made;
};
inline constexpr Form kForms[] = {{Executor::kInline, ListsMade::kAtBeginning},
                                  {Executor::kInline, ListsMade::kStepAhead},
                                  {Executor::kSidecar, ListsMade::kAtBeginning}};

inline std::string FormName(const ::testing::TestParamInfo<Form>& form) {
  if (form.param.executor == Executor::kSidecar) return "sidecar";
  return form.param.lists_made == ListsMade::kAtBeginning ? "inline" : "inline_step_ahead";
}

// A made-up engine whose scores stay on its device: one captured graph of all launches serves every
// step. Its indexer is that of toy_engine.h.
class DeviceEngine {
 public:
  DeviceEngine(EngineBackend* backend, Session* session, const SessionOptions& options,
               ListsMade lists_made = ListsMade::kAtBeginning);
  ~DeviceEngine();

  // A whole step; [layer][row] the blocks that were scored. With drafts the verdict is applied as
  // an engine would: after the first part of the step has run.
  using Lists = std::vector<std::vector<std::vector<int32_t>>>;
  Lists RunStep(const std::vector<StepRow>& rows, const EndOptions& end = {});

  // The parts of a step, for those who want to do something between them.
  void Begin(const std::vector<StepRow>& rows);
  void Replay();
  void End(const std::vector<StepRow>& rows, const EndOptions& end = {});
  // What the last step scored, when the device has run it.
  Lists TakeLists(const std::vector<StepRow>& rows);

  const std::vector<Reason>& reasons() const { return reasons_; }
  DeviceLoop& loop() { return *loop_; }
  kernels::Device& device() { return *device_; }
  void Synchronize();

 private:
  template <typename T>
  T* OnDevice(size_t count);
  void WritePages(const std::vector<StepRow>& rows);
  void LaunchScoring(void* stream);
  void LaunchUpdate(void* stream);
  int32_t PageOf(int row, int32_t block) const;

  EngineBackend* const backend_;
  const ListsMade lists_made_;
  const Executor executor_;
  const Model model_;
  const int rows_;
  const int next_n_;
  const int32_t blocks_;
  std::unique_ptr<kernels::Device> device_;
  std::vector<kernels::DeviceMemory> memory_;
  int32_t* table_ = nullptr;
  int32_t* kept_table_ = nullptr;
  int32_t* kept_slots_ = nullptr;
  int32_t* kept_blocks_ = nullptr;
  float* pages_ = nullptr;   // [layers][next_n][rows * blocks][block]
  float* scores_ = nullptr;  // [layers][rows][next_n][blocks * block]
  std::vector<float> host_pages_;
  std::unique_ptr<DeviceLoop> loop_;
  std::function<void()> score_;
  std::function<void()> update_;
  std::vector<Reason> reasons_;
};

}  // namespace spin
