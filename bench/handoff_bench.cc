// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What it costs to have another process run Spin's kernels: a spind is started as a child, and
// measured are
//
//   rpc       a Step of 32 rows and 21 layers against an empty unary call on the same socket
//   open      the first and the second session of a process
//   hand-off  (GPU) the time of the engine's stream from the end of Stage to the next step, less
//   the
//             same of the inline executor and less the kernels, which the inline executor runs
//
// each without MPS and, where its control daemon can be started, with MPS.
//
//   handoff_bench [--device cpu|cuda] [--slots N] [--requests N] [--steps N] [--json]

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "bench/handoff.h"
#include "client/cli/spawn/private_directory.h"
#include "client/cli/spawn/spawned_spind.h"

namespace {

using nlohmann::json;
using spin::bench::HandoffShape;
using spin::cli::SpawnedSpind;

constexpr int kRpcRows = 32;

struct Flags {
  std::string device = "cpu";
  HandoffShape shape;
  bool json = false;
  bool one = false;  // measure in this process, and print JSON
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "handoff_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

absl::StatusOr<json> Measure(const Flags& flags) {
  auto spind = SpawnedSpind::Start("", flags.device, uint64_t{2} << 30);
  if (!spind.ok()) return spind.status();
  const auto server = (*spind)->connection().Call(&spin::v1::SpinService::Stub::ListSessions, {});
  if (!server.ok()) return server.status();
  const std::string& uuid = server->server().device_uuid();
  json out = {{"device", uuid}};
  const auto open = spin::bench::MeasureOpens((*spind)->socket(), uuid);
  if (!open.ok()) return open.status();
  out["open"] = {{"first_ms", open->first_ms}, {"second_ms", open->second_ms}};
  const auto rpc = spin::bench::MeasureRpcs((*spind)->connection(), kRpcRows);
  if (!rpc.ok()) return rpc.status();
  out["rpc"] = {{"empty_us", rpc->empty_us},
                {"step_us", rpc->step_us},
                {"step_over_empty", rpc->step_us / rpc->empty_us}};
  if (flags.device == "cpu") return out;
  const auto handoff = spin::bench::MeasureHandoff((*spind)->socket(), uuid, flags.shape);
  if (!handoff.ok()) return handoff.status();
  out["handoff"] = {
      {"kernels_us", handoff->kernels_us},     {"between_inline_us", handoff->between_inline_us},
      {"stage_us", handoff->stage_us},         {"between_us", handoff->between_us},
      {"sparse_share", handoff->sparse_share}, {"handoff_us", handoff->handoff_us()}};
  return out;
}

// This program once more, in another environment: whether a process runs under MPS is settled when
// it first touches the GPU.
absl::StatusOr<json> MeasureInChild(const Flags& flags, const std::string& pipe_directory) {
  setenv("CUDA_MPS_PIPE_DIRECTORY", pipe_directory.c_str(), 1);
  setenv("CUDA_MPS_LOG_DIRECTORY", pipe_directory.c_str(), 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      absl::StrCat("'", self, "' --one --device ", flags.device, " --slots ", flags.shape.slots,
                   " --requests ", flags.shape.requests, " --layers ", flags.shape.layers,
                   " --sparsity ", flags.shape.sparsity, " --steps ", flags.shape.steps);
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::InternalError("cannot start myself");
  std::string text;
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, got);
  if (pclose(pipe) != 0) return absl::InternalError("the measurement failed");
  json out = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (out.is_discarded()) return absl::InternalError("the measurement printed no JSON");
  return out;
}

absl::StatusOr<json> MeasureUnderMps(const Flags& flags, const std::string& directory) {
  setenv("CUDA_MPS_PIPE_DIRECTORY", directory.c_str(), 1);
  setenv("CUDA_MPS_LOG_DIRECTORY", directory.c_str(), 1);
  if (std::system("nvidia-cuda-mps-control -d >/dev/null 2>&1") != 0) {
    return absl::UnavailableError("nvidia-cuda-mps-control does not start here");
  }
  const auto stop = absl::MakeCleanup(
      [] { (void)!std::system("echo quit | nvidia-cuda-mps-control >/dev/null 2>&1"); });
  return MeasureInChild(flags, directory);
}

void Print(const char* mode, const json& row) {
  std::printf("%s\n", mode);
  std::printf("  open a session         first %.1f ms, second %.1f ms\n",
              row["open"]["first_ms"].get<double>(), row["open"]["second_ms"].get<double>());
  std::printf("  Step / empty call, p50 %.0f us / %.0f us = %.2f\n",
              row["rpc"]["step_us"].get<double>(), row["rpc"]["empty_us"].get<double>(),
              row["rpc"]["step_over_empty"].get<double>());
  if (!row.contains("handoff")) return;
  const json& h = row["handoff"];
  std::printf(
      "  hand-off of a step     %.1f us beside kernels %.1f us and stage %.1f us"
      " (between steps: %.1f us, inline %.1f us; %.0f %% of rows sparse)\n",
      h["handoff_us"].get<double>(), h["kernels_us"].get<double>(), h["stage_us"].get<double>(),
      h["between_us"].get<double>(), h["between_inline_us"].get<double>(),
      100 * h["sparse_share"].get<double>());
}

int Compare(const Flags& flags) {
  const auto directory = spin::cli::PrivateDirectory::Create();
  if (!directory.ok()) return Fail(directory.status());
  const auto plain = MeasureInChild(flags, (*directory)->path() + "/none");
  if (!plain.ok()) return Fail(plain.status());
  json out = {{"plain", *plain}, {"mps", nullptr}};
  if (!flags.json) Print("without MPS", *plain);
  if (flags.device != "cpu") {
    const auto mps = MeasureUnderMps(flags, (*directory)->path());
    if (mps.ok()) out["mps"] = *mps;
    if (!mps.ok()) out["mps_error"] = std::string(mps.status().message());
    if (!flags.json && mps.ok()) Print("under MPS", *mps);
    if (!flags.json && !mps.ok()) {
      std::printf("under MPS: skipped, %s\n", std::string(mps.status().message()).c_str());
    }
  }
  if (flags.json) std::printf("%s\n", out.dump(1).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("What it costs to have spind run Spin's kernels");
  app.add_option("--device", flags.device, "cpu, cuda or cuda:UUID");
  app.add_option("--slots", flags.shape.slots, "context of each request, in slots");
  app.add_option("--requests", flags.shape.requests, "requests in the batch");
  app.add_option("--layers", flags.shape.layers, "layers with an indexer");
  app.add_option("--sparsity", flags.shape.sparsity, "share of blocks to skip");
  app.add_option("--steps", flags.shape.steps, "decode steps to measure");
  app.add_flag("--json", flags.json, "one JSON object instead of a table");
  app.add_flag("--one", flags.one)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!flags.one) return Compare(flags);
  const auto measured = Measure(flags);
  if (!measured.ok()) return Fail(measured.status());
  std::printf("%s\n", measured->dump().c_str());
  return 0;
}
