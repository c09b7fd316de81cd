// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What Spin's own work costs beside the scan it shortens, on one core of this machine: for each
// sparsity, the time to score the kept blocks of a decode step (trace::Scorer, vectorised) against
// the time to observe, predict and select, in one run.
//
//   step_cost_bench [TRACE.safetensors] [--json]     without a trace: random keys, 8 layers x 32768
//   slots

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "dataplane/layout.h"
#include "dataplane/session_view.h"
#include "dataplane/step_runner.h"
#include "kernels/device.h"
#include "trace/scorer.h"
#include "trace/trace.h"

namespace {

using spin::kernels::Dtype;

constexpr int kTopk = 512;
constexpr int kWarmSteps = 8;
constexpr int kSteps = 64;

double Microseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// A trace of the recorded traces' shape. What the numbers are plays no part in the time.
spin::trace::Trace RandomTrace() {
  spin::trace::Trace trace;
  trace.layers = 8;
  trace.slots = 32768;
  trace.steps = kWarmSteps + kSteps;
  trace.heads = 8;
  trace.dim = 64;
  trace.first_query = trace.slots - trace.steps;
  for (int layer = 0; layer < trace.layers; ++layer) trace.layer_numbers.push_back(layer);
  std::mt19937 random(1);
  const auto code = [&random] { return static_cast<uint8_t>(random() % 0x7f | (random() & 0x80)); };
  trace.k.resize(static_cast<size_t>(trace.layers) * trace.slots * trace.dim);
  trace.q.resize(static_cast<size_t>(trace.layers) * trace.steps * trace.heads * trace.dim);
  std::generate(trace.k.begin(), trace.k.end(), code);
  std::generate(trace.q.begin(), trace.q.end(), code);
  trace.k_scale.assign(static_cast<size_t>(trace.layers) * trace.slots, 0.01f);
  trace.w.assign(static_cast<size_t>(trace.layers) * trace.steps * trace.heads, 0.1f);
  return trace;
}

// One request with state for a whole trace, in memory of its own.
class Bed {
 public:
  Bed(const spin::trace::Trace& trace, Dtype state)
      : device_(spin::kernels::MakeCpuDevice()),
        shape_{.geometry = {.layers = trace.layers,
                            .block = 64,
                            .topk = kTopk,
                            .tokens_per_slot = 1,
                            .state = state},
               .max_slots = trace.slots,
               .max_requests = 1,
               .max_next_n = 1,
               .scores = Dtype::kF32,
               .staging = false},
        layout_(spin::dataplane::LayoutAt(0, shape_)),
        page_bytes_(spin::kernels::PageBytes(shape_.geometry)),
        pages_(spin::kernels::PagesFor(trace.slots)),
        memory_(static_cast<std::byte*>(
            std::aligned_alloc(4096, (layout_.end + pages_ * page_bytes_ + 4095) / 4096 * 4096))),
        scratch_(*device_->Allocate(spin::dataplane::StepRunner::ScratchBytes(*device_, shape_))),
        runner_(device_.get(), spin::dataplane::ViewOf(memory_, 1, shape_, layout_),
                scratch_.get()) {
    std::memset(memory_, 0, layout_.end);
    auto& record = runner_.view().records[0];
    record.generation = 1;
    record.page_count = static_cast<uint32_t>(pages_);
    for (int page = 0; page < pages_; ++page) {
      record.pages[page] = static_cast<uint32_t>((layout_.end + page * page_bytes_) /
                                                 spin::kernels::kPageOffsetUnit);
    }
    (void)device_->Fill(
        {shape_.geometry, memory_, record.pages, static_cast<int32_t>(pages_), false}, {});
  }
  ~Bed() { std::free(memory_); }

  spin::dataplane::StepRunner& runner() { return runner_; }

 private:
  std::unique_ptr<spin::kernels::Device> device_;
  spin::dataplane::SessionShape shape_;
  spin::dataplane::SessionLayout layout_;
  int64_t page_bytes_;
  int64_t pages_;
  std::byte* memory_;
  spin::kernels::DeviceMemory scratch_;
  spin::dataplane::StepRunner runner_;
};

struct Cost {
  double score_us;
  double observe_us;
  double predict_us;
  double gflops;
  double own_share() const { return (observe_us + predict_us) / score_us; }
};

Cost Measure(const spin::trace::Trace& trace, const spin::trace::Scorer& scorer, Dtype state,
             double sparsity) {
  Bed bed(trace, state);
  spin::kernels::Policy policy = {};
  std::fill_n(policy.sparsity, trace.layers, sparsity);
  policy.exploration = 0.05;
  policy.decay = 0.5;
  std::vector<float> scores(trace.slots);
  const spin::kernels::ScoreView view = {scores.data(), Dtype::kF32, 0, 0, 0};
  std::vector<double> score_us, observe_us, predict_us;
  double flops = 0;
  uint32_t buffer = 0;
  for (int step = 0; step < std::min(trace.steps, kWarmSteps + kSteps); ++step) {
    const int64_t position = trace.Query(step);
    const spin::kernels::ListTable& lists = bed.runner().view().lists;
    const spin::kernels::ScoredRow row = {
        .request = 0,
        .next_n = 1,
        .position = position,
        .accepted = 1,
        .buffer = buffer,
        .coverage = step == 0 ? spin::kernels::Coverage::kAll : spin::kernels::Coverage::kKept,
        .score_row = 0};
    const spin::kernels::Row next = {
        .request = 0, .next_n = 1, .position = position + 1, .buffer = 1 - buffer, .generation = 0};
    const bool may_predict = step + 1 < trace.steps;
    int64_t scored = 0;
    double score = 0, observe = 0, predict = 0;
    for (int layer = 0; layer < trace.layers; ++layer) {  // layer by layer, as an engine runs
      score += Microseconds([&] {
        if (step == 0) {
          scored += scorer.ScoreAll(layer, step, scores.data());
          return;
        }
        const int32_t count = lists.Header(buffer, 0, layer)->count;
        scored += scorer.ScoreBlocks(layer, step,
                                     {lists.Blocks(buffer, 0, layer), static_cast<size_t>(count)},
                                     64, scores.data());
      });
      observe += Microseconds([&] {
        (void)bed.runner().Observe({&row, 1}, view, {layer, 1}, policy.decay, {});
      });
      if (may_predict)
        predict += Microseconds([&] {
          (void)bed.runner().Predict({&next, 1}, policy, {layer, 1}, {});
        });
    }
    buffer = 1 - buffer;
    if (step < kWarmSteps || !may_predict) continue;
    score_us.push_back(score);
    observe_us.push_back(observe);
    predict_us.push_back(predict);
    flops = static_cast<double>(scored) * scorer.FlopsPerScore();
  }
  const double median_score = Median(score_us);
  return {median_score, Median(observe_us), Median(predict_us), flops / median_score * 1e-3};
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else {
      path = argv[i];
    }
  }
  spin::trace::Trace trace = RandomTrace();
  if (!path.empty()) {
    auto loaded = spin::trace::LoadTrace(path);
    if (!loaded.ok()) {
      std::fprintf(stderr, "step_cost_bench: %s\n", std::string(loaded.status().message()).c_str());
      return 2;
    }
    trace = *std::move(loaded);
  }
  const spin::trace::Scorer scorer(trace);
  if (!json) {
    std::printf("%d layers, %d slots, %s, scorer %s; medians of %d steps, one core\n", trace.layers,
                trace.slots, path.empty() ? "random keys" : path.c_str(), scorer.kernel_name(),
                kSteps);
    std::printf("state  sparsity   score us  GFLOP/s  observe us  predict us   own/score\n");
  }
  const char* separator = "";
  if (json) std::printf("[");
  for (Dtype state : {Dtype::kF32, Dtype::kBF16}) {
    for (double sparsity : {0.3, 0.4, 0.5, 0.6}) {
      const Cost cost = Measure(trace, scorer, state, sparsity);
      const char* name = state == Dtype::kF32 ? "f32" : "bf16";
      if (json) {
        std::printf(
            "%s{\"state\":\"%s\",\"sparsity\":%.1f,\"score_us\":%.1f,\"scorer_gflops\":%.1f,"
            "\"observe_us\":%.1f,"
            "\"predict_us\":%.1f,\"own_share\":%.4f}",
            separator, name, sparsity, cost.score_us, cost.gflops, cost.observe_us, cost.predict_us,
            cost.own_share());
        separator = ",";
      } else {
        std::printf("%-5s  %8.1f  %9.1f  %7.1f  %10.1f  %10.1f  %9.1f %%\n", name, sparsity,
                    cost.score_us, cost.gflops, cost.observe_us, cost.predict_us,
                    100 * cost.own_share());
      }
    }
  }
  if (json) std::printf("]\n");
  return 0;
}
