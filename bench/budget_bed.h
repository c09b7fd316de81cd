// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "calibration/budget_controller.h"
#include "calibration/miss_curve.h"
#include "dataplane/step_runner.h"
#include "kernels/device.h"
#include "trace/trace.h"

// Recorded traces as requests through the CPU kernels, over and over: scored once.
namespace spin::bench {

// All scores of a trace, and the blocks of every true top-K slot. 1 GiB for 8 layers, 32768 slots
// and 256 steps. Blocks have 64 slots.
class RecordedScores {
 public:
  RecordedScores(const trace::Trace& trace, int topk);

  int layers() const { return layers_; }
  int steps() const { return steps_; }
  int topk() const { return topk_; }
  int slots() const { return first_query_ + steps_; }
  int64_t Position(int step) const { return first_query_ + step; }
  const float* Scores(int layer, int step) const;
  // [topk] ascending.
  const uint16_t* TopkBlocks(int layer, int step) const;
  int blocks() const;
  int TopkBlocks() const;  // the least a list keeps

 private:
  size_t Index(int layer, int step) const { return static_cast<size_t>(step) * layers_ + layer; }

  int layers_, steps_, topk_, first_query_;
  std::vector<float> scores_;     // [steps, layers, slots]
  std::vector<uint16_t> blocks_;  // [steps, layers, topk]
};

// One request that plays a trace. `recorded` must outlive it.
class Playback {
 public:
  Playback(const RecordedScores& recorded, double exploration, uint32_t audit_every, uint64_t key);
  ~Playback();

  // Lets every step, audited or not, add to these curves (offline calibration).
  void AuditAll(std::vector<calibration::MissCurve>* curves) { curves_ = curves; }

  // One decode step; its lists were made with the `sparsity` of the step before. Returns what the
  // audit saw, if it was one.
  std::optional<std::vector<calibration::LayerSample>> Step(int step,
                                                            const std::vector<double>& sparsity);

  // Mean over layers and steps 1 on of what the lists missed or, in audited steps, would have.
  double miss() const { return missed_ / (static_cast<double>(recorded_.topk()) * judged_); }

 private:
  void Judge(int step, int layer);
  void Observe(int step, int layer, kernels::Coverage coverage);
  std::vector<calibration::LayerSample> TakeAudits();

  const RecordedScores& recorded_;
  kernels::Policy policy_ = {};
  uint64_t key_;
  std::unique_ptr<kernels::Device> device_;
  std::byte* memory_;
  kernels::DeviceMemory scratch_;
  std::unique_ptr<dataplane::StepRunner> runner_;
  uint32_t buffer_ = 0;
  bool audit_ = false;
  std::vector<float> kept_scores_;
  std::vector<kernels::LayerAudits> before_;
  std::vector<kernels::LayerCounters> counters_before_;
  std::vector<calibration::MissCurve>* curves_ = nullptr;
  double missed_ = 0;
  double judged_ = 0;
};

}  // namespace spin::bench
