// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What Spin's own work costs on a GPU: one decode step of all layers and requests (observe the kept
// scores, predict and select the next step's blocks) against its byte floor,
//
//   floor = (12 keep + 2 (1 - keep) / tokens_per_slot) bytes * slots * requests * layers
//           / copy bandwidth
//
// for bf16 state and fp32 scores: V and D of kept blocks are read and written and their scores
// read; elsewhere D alone is read, where the query is in another slot than in the step before. With
// one token a slot that is (10 keep + 2) bytes. With drafts each verifier row has scores of its
// own; the averages count once, though Observe goes over them once for each. The copy bandwidth is
// measured in the same run. Requests decode on: steps are replayed from CUDA graphs, 12 in a row of
// each of so many sessions that their state does not stay in the L2 cache. `tables` is a step that
// makes compacted tables of its lists as well; `observe` is that launch alone, in a step whose
// query has moved; `cold` is one step after a flush of the cache, so that its lists and tables are
// gone, too. fp32 state must be right rather than fast.
//
//   gpu_step_bench [--slots N] [--requests N] [--sparsity R] [--layers N] [--tokens-per-slot N]
//                  [--block-slots N] [--next-n N] [--state bf16,f32] [--scores f32|bf16]
//                  [--json]
//                                                    without a size: the sizes of docs/gpu.md

#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu_bed.h"
#include "kernels/cuda_device.h"

namespace {

using spin::bench::Bed;
using spin::bench::BedShape;
using spin::bench::Check;
using spin::kernels::Dtype;

constexpr int kReplays = 50;
constexpr int kRounds = 12;  // steps of each session in a replay: of several slots
constexpr int64_t kL2Reach = int64_t{320} << 20;  // bytes of state and scores that steps go through

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Timer {
 public:
  Timer() {
    Check(cudaEventCreate(&start_));
    Check(cudaEventCreate(&end_));
  }
  ~Timer() {
    (void)cudaEventDestroy(start_);
    (void)cudaEventDestroy(end_);
  }

  template <typename Work>
  double Microseconds(cudaStream_t stream, Work work) {
    Check(cudaEventRecord(start_, stream));
    work();
    Check(cudaEventRecord(end_, stream));
    Check(cudaEventSynchronize(end_));
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, start_, end_));
    return ms * 1e3;
  }

 private:
  cudaEvent_t start_;
  cudaEvent_t end_;
};

// Bytes read and written per second by a large copy.
double CopyBandwidth(cudaStream_t stream) {
  constexpr size_t kBytes = size_t{1} << 30;
  void* from = nullptr;
  void* to = nullptr;
  Check(cudaMalloc(&from, kBytes));
  Check(cudaMalloc(&to, kBytes));
  Check(cudaMemsetAsync(from, 1, kBytes, stream));
  Timer timer;
  std::vector<double> times;
  for (int i = 0; i < 12; ++i) {
    times.push_back(timer.Microseconds(stream, [&] {
      Check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream));
    }));
  }
  Check(cudaFree(from));
  Check(cudaFree(to));
  return 2.0 * kBytes / (Median(times) * 1e-6);
}

struct Cost {
  double step_us;
  double tables_us;  // of a step that makes compacted tables, too
  double cold_us;
  double observe_us;
  double floor_us;
  double kept_share;
};

class Graph {
 public:
  template <typename Work>
  Graph(cudaStream_t stream, Work work) {
    cudaGraph_t graph;
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    Check(cudaStreamEndCapture(stream, &graph));
    Check(cudaGraphInstantiate(&exec_, graph, 0));
    Check(cudaGraphDestroy(graph));
  }
  ~Graph() { (void)cudaGraphExecDestroy(exec_); }
  void Launch(cudaStream_t stream) { Check(cudaGraphLaunch(exec_, stream)); }

 private:
  cudaGraphExec_t exec_;
};

// Median time of one step of a graph that makes `steps` of them. `after` each replay is not
// measured.
template <typename After>
double TimeOf(Graph& graph, int steps, cudaStream_t stream, After after) {
  Timer timer;
  graph.Launch(stream);
  after();
  std::vector<double> times;
  for (int i = 0; i < kReplays; ++i) {
    times.push_back(timer.Microseconds(stream, [&] { graph.Launch(stream); }) / steps);
    after();
  }
  return Median(times);
}

// Of a single step, in the mean over so many that they end where a slot ends.
double ColdTimeOf(Graph& graph, Bed& bed, int tokens_per_slot, cudaStream_t stream) {
  constexpr size_t kFlush = size_t{256} << 20;
  void* flush = nullptr;
  Check(cudaMalloc(&flush, kFlush));
  Timer timer;
  std::vector<double> times;
  for (int i = 0; i < kReplays / 2; ++i) {
    double sum = 0;
    for (int token = 0; token < tokens_per_slot; ++token) {
      Check(cudaMemsetAsync(flush, i, kFlush, stream));
      sum += timer.Microseconds(stream, [&] { graph.Launch(stream); });
      bed.Advance(1);
    }
    times.push_back(sum / tokens_per_slot);
  }
  Check(cudaFree(flush));
  return Median(times);
}

Cost Measure(spin::kernels::Device& device, const BedShape& shape, double bandwidth,
             cudaStream_t stream) {
  std::vector<std::unique_ptr<Bed>> beds;
  int64_t bytes = 0;
  while (bytes < kL2Reach) {
    beds.push_back(std::make_unique<Bed>(device, shape, kRounds, stream));
    bytes += beds.back()->bytes_per_step();
  }
  const auto every_step = [&](auto work) {
    for (int i = 0; i < kRounds; ++i) {
      for (auto& bed : beds) work(*bed, i);
    }
  };
  const auto advance = [&] {
    for (auto& bed : beds) bed->Advance(kRounds);
  };
  const int steps = kRounds * static_cast<int>(beds.size());
  Graph step(stream, [&] { every_step([](Bed& bed, int i) { bed.Step(i); }); });
  Graph tables(stream, [&] { every_step([](Bed& bed, int i) { bed.StepWithTables(i); }); });
  Graph observe(stream, [&] { every_step([](Bed& bed, int) { bed.Observe(0); }); });
  Graph one(stream, [&] { beds[0]->Step(0); });
  Cost cost;
  cost.kept_share = beds[0]->KeptShare();
  cost.step_us = TimeOf(step, steps, stream, advance);
  cost.tables_us = TimeOf(tables, steps, stream, advance);
  cost.cold_us = ColdTimeOf(one, *beds[0], shape.tokens_per_slot, stream);
  for (const auto& bed : beds) bed->CheckObserved();
  cost.observe_us = TimeOf(observe, steps, stream, [] {});
  const double element = shape.state == Dtype::kBF16 ? 2 : 4;
  const double score = shape.scores == Dtype::kBF16 ? 2 : 4;
  const double moves = std::min(1.0, double(shape.next_n) / shape.tokens_per_slot);
  const double floor_bytes = (4 * element + shape.next_n * score) * cost.kept_share +
                             element * (1 - cost.kept_share) * moves;
  cost.floor_us = floor_bytes * shape.slots * shape.requests * shape.layers / bandwidth * 1e6;
  return cost;
}

void PrintHeader(const BedShape& shape, const std::string& state, const std::string& scores) {
  std::printf("\n%d layers, %d tokens per slot, blocks of %d, next_n %d, %s state, %s scores\n\n",
              shape.layers, shape.tokens_per_slot, shape.block_slots, shape.next_n, state.c_str(),
              scores.c_str());
  std::printf("%8s %4s %8s %6s | %8s %8s %8s %8s %8s | %10s %9s\n", "slots", "req", "sparsity",
              "kept", "observe", "step us", "tables", "floor us", "cold us", "step/floor",
              "us/layer");
}

void PrintRow(const BedShape& shape, const Cost& cost) {
  std::printf("%8lld %4d %8.2f %6.3f | %8.1f %8.1f %8.1f %8.1f %8.1f | %10.2f %9.2f\n",
              static_cast<long long>(shape.slots), shape.requests, shape.sparsity, cost.kept_share,
              cost.observe_us, cost.step_us, cost.tables_us, cost.floor_us, cost.cold_us,
              cost.step_us / cost.floor_us, cost.step_us / shape.layers);
  std::fflush(stdout);
}

nlohmann::json RowJson(const BedShape& shape, const std::string& state, const std::string& scores,
                       const Cost& cost) {
  return {{"slots", shape.slots},
          {"requests", shape.requests},
          {"layers", shape.layers},
          {"tokens_per_slot", shape.tokens_per_slot},
          {"block_slots", shape.block_slots},
          {"next_n", shape.next_n},
          {"state", state},
          {"scores", scores},
          {"sparsity", shape.sparsity},
          {"kept", cost.kept_share},
          {"observe_us", cost.observe_us},
          {"step_us", cost.step_us},
          {"tables_us", cost.tables_us},
          {"cold_us", cost.cold_us},
          {"floor_us", cost.floor_us},
          {"step_over_floor", cost.step_us / cost.floor_us}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Spin's own work per decode step on a GPU, against its byte floor");
  BedShape one;
  int64_t slots = 0;
  std::vector<double> sparsities = {0.3, 0.4, 0.5};
  std::vector<std::string> states = {"bf16", "f32"};
  std::string scores = "f32";
  bool json = false;
  app.add_option("--slots", slots, "context of each request, in slots")
      ->check(CLI::Range(1024, 4 << 20));  // there must be room to decode on
  app.add_option("--requests", one.requests, "requests in the batch");
  app.add_option("--layers", one.layers, "layers with an indexer");
  app.add_option("--tokens-per-slot", one.tokens_per_slot,
                 "tokens that share a slot: 4 in V4-Flash, 1 in V3.2")
      ->check(CLI::IsMember({1, 2, 3, 4, 6, 12}));  // so that replays are of whole slots
  app.add_option("--block-slots", one.block_slots, "slots of a block")
      ->check(CLI::IsMember({16, 32, 64, 128}));
  app.add_option("--next-n", one.next_n, "verifier rows of each request: 1 and its drafts")
      ->check(CLI::IsMember({1, 2, 4, 8}));
  app.add_option("--sparsity", sparsities, "share of blocks to skip")->delimiter(',');
  app.add_option("--state", states, "bf16, f32 or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "f32"}));
  app.add_option("--scores", scores, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_flag("--json", json, "one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  one.scores = scores == "f32" ? Dtype::kF32 : Dtype::kBF16;

  auto device = spin::kernels::MakeCudaDevice("");
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
    return 1;
  }
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const double bandwidth = CopyBandwidth(stream);
  if (!json) std::printf("copy bandwidth %.2f TB/s\n", bandwidth * 1e-12);

  std::vector<std::pair<int64_t, int>> sizes = {
      {131072, 1}, {131072, 8}, {131072, 32}, {524288, 1}, {524288, 8}};
  if (slots > 0) sizes = {{slots, one.requests}};
  nlohmann::json out = {{"copy_bytes_per_second", bandwidth}, {"rows", nlohmann::json::array()}};
  for (const std::string& state : states) {
    BedShape shape = one;
    shape.state = state == "f32" ? Dtype::kF32 : Dtype::kBF16;
    if (!json) PrintHeader(shape, state, scores);
    for (const auto& [size, requests] : sizes) {
      for (const double sparsity : sparsities) {
        shape.slots = size;
        shape.requests = requests;
        shape.sparsity = sparsity;
        const Cost cost = Measure(**device, shape, bandwidth, stream);
        out["rows"].push_back(RowJson(shape, state, scores, cost));
        if (!json) PrintRow(shape, cost);
      }
    }
  }
  if (json) std::printf("%s\n", out.dump(1).c_str());
  return 0;
}
