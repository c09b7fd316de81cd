// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/replay/replay_flags.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "dataplane/layout.h"
#include "dataplane/slab_header.h"
#include "kernels/state.h"

namespace spin::cli {
namespace {

constexpr size_t kLongestModelName = 128;         // limit of the contract
constexpr uint64_t kSpareSlabBytes = 8ull << 20;  // headers, rounding, growth ahead of need

// The file's name without its extension, as far as a model's name may have its characters.
std::string ModelName(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !absl::ascii_isalnum(c) && c != '-' && c != '.'; }, '_');
  name.resize(std::min(name.size(), kLongestModelName));
  return name.empty() ? "trace" : name;
}

absl::Status Invalid(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

int64_t LongestContext(const ReplayFlags& flags, absl::Span<const trace::Trace> traces) {
  int64_t longest = 0;
  for (const trace::Trace& trace : traces) {
    longest = std::max<int64_t>(longest, trace.Context(StepsOf(flags, trace) - 1));
  }
  return longest;
}

dataplane::SessionShape ShapeFor(const ReplayFlags& flags, absl::Span<const trace::Trace> traces) {
  dataplane::SessionShape shape = {};
  shape.geometry = {traces[0].layers, flags.block, flags.topk, /*tokens_per_slot=*/1,
                    flags.bf16() ? kernels::Dtype::kBF16 : kernels::Dtype::kF32};
  shape.max_slots = LongestContext(flags, traces);
  shape.max_requests = 1;
  shape.max_next_n = 1;
  shape.scores = kernels::Dtype::kF32;
  shape.staging = true;  // only the sidecar executor needs it; the rest is small beside it
  return shape;
}

// The flag by which a setting came: that of its own, or the policy file that has it.
std::string Origin(const ReplayFlags& flags, absl::string_view flag, absl::string_view field,
                   bool in_file) {
  const GivenFlag* file = FindGiven(flags, "--policy");
  if (!in_file || file == nullptr || FindGiven(flags, flag) != nullptr) return std::string(flag);
  return absl::StrCat("--policy: ", *file->value, ": ", field);
}

absl::Status CheckBudgetFlags(const ReplayFlags& flags) {
  if (flags.budget_mode != "fixed" && flags.audit_every == 0) {
    return Invalid(
        Origin(flags, "--budget-mode", "budget_mode", flags.policy_file.has_budget_mode()),
        absl::StrCat(flags.budget_mode, " learns from audits: give --audit-every too"));
  }
  for (const char* flag : {"--target-miss", "--min-sparsity", "--max-sparsity"}) {
    if (flags.budget_mode == "target_miss" || FindGiven(flags, flag) == nullptr) continue;
    return Invalid(flag,
                   absl::StrCat("is for --budget-mode target_miss, not for ", flags.budget_mode));
  }
  if (flags.target_miss == 0.0) return Invalid("--target-miss", "0 is not in (0, 1)");
  if (flags.min_sparsity && flags.max_sparsity && *flags.min_sparsity > *flags.max_sparsity) {
    return Invalid("--min-sparsity", absl::StrCat(*flags.min_sparsity,
                                                  " is more than "
                                                  "--max-sparsity, ",
                                                  *flags.max_sparsity));
  }
  return absl::OkStatus();
}

BudgetMode ModeOf(const std::string& name) {
  if (name == "calibrated") return BudgetMode::kCalibrated;
  return name == "target_miss" ? BudgetMode::kTargetMiss : BudgetMode::kFixed;
}

}  // namespace

const GivenFlag* FindGiven(const ReplayFlags& flags, absl::string_view name) {
  for (const GivenFlag& flag : flags.given) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

int StepsOf(const ReplayFlags& flags, const trace::Trace& trace) {
  return flags.steps == 0 ? trace.steps : flags.steps;
}

absl::Status CheckAgainstTrace(const ReplayFlags& flags, const trace::Trace& trace) {
  if (flags.steps > trace.steps) {
    return Invalid("--steps",
                   absl::StrCat(flags.steps, " is more than the trace has, ", trace.steps));
  }
  if (StepsOf(flags, trace) < 2) {
    return Invalid(flags.trace,
                   "steps: 1 is too few; the first step scans everything, so there is "
                   "nothing to measure before the second");
  }
  if (trace.layers > kernels::kMaxLayers) {
    return Invalid(flags.trace, absl::StrCat("layers: ", trace.layers,
                                             " are more than Spin takes, ", kernels::kMaxLayers));
  }
  const int64_t context = trace.Context(StepsOf(flags, trace) - 1);
  if (context > kernels::kMaxSlots) {
    return Invalid(flags.trace, absl::StrCat("slots: a context of ", context,
                                             " is longer than Spin takes, ", kernels::kMaxSlots));
  }
  if (absl::Status status = CheckBudgetFlags(flags); !status.ok()) return status;
  const size_t shares = flags.layer_sparsity.size();
  if (shares != 0 && shares != static_cast<size_t>(trace.layers)) {
    return Invalid(Origin(flags, "--layer-sparsity", "layer_sparsity",
                          flags.policy_file.layer_sparsity_size() > 0),
                   absl::StrCat(shares, shares == 1 ? " value" : " values", " for ", trace.layers,
                                " layers of the trace; give one for each"));
  }
  return absl::OkStatus();
}

int RequestsOf(const ReplayFlags& flags) {
  return flags.rounds * flags.requests * (1 + static_cast<int>(flags.more_traces.size()));
}

absl::Status CheckTogether(const ReplayFlags& flags, absl::Span<const trace::Trace> traces) {
  for (size_t i = 1; i < traces.size(); ++i) {
    if (traces[i].layers == traces[0].layers) continue;
    return Invalid("--then", absl::StrCat(flags.more_traces[i - 1], " has ", traces[i].layers,
                                          " layers, ", flags.trace, " has ", traces[0].layers,
                                          ": one session plays traces of one model"));
  }
  return absl::OkStatus();
}

SessionOptions SessionOptionsFor(const ReplayFlags& flags, absl::Span<const trace::Trace> traces,
                                 const std::string& socket, const std::string& client_name) {
  SessionOptions options;
  options.socket = socket;
  options.model.name = ModelName(flags.trace);
  options.model.layers = traces[0].layers;
  options.model.block_slots = flags.block;
  options.model.topk = flags.topk;
  options.model.max_slots = LongestContext(flags, traces);
  options.max_requests = 1;
  options.executor = flags.sidecar() ? Executor::kSidecar : Executor::kInline;
  options.state = flags.bf16() ? ElementType::kBFloat16 : ElementType::kFloat32;
  options.client_name = client_name;
  // An engine would rather score everything than wait; a replay wants the same numbers on a busy
  // machine.
  options.step_timeout = absl::Seconds(10);
  options.control_timeout = absl::Seconds(10);
  PolicyOverrides& policy = options.policy;
  policy.sparsity = flags.sparsity;
  policy.layer_sparsity = flags.layer_sparsity;
  policy.exploration = flags.exploration;
  policy.decay = flags.alpha;
  policy.seed = flags.seed;
  policy.audit_every = flags.audit_every;
  policy.pin_first_block = flags.pin_first_block;
  policy.enabled = true;
  policy.budget_mode = ModeOf(flags.budget_mode);
  policy.target_miss = flags.target_miss;
  policy.min_sparsity = flags.min_sparsity;
  policy.max_sparsity = flags.max_sparsity;
  return options;
}

uint64_t SlabBytesFor(const ReplayFlags& flags, absl::Span<const trace::Trace> traces) {
  const dataplane::SessionShape shape = ShapeFor(flags, traces);
  const uint64_t region = dataplane::LayoutAt(dataplane::kSlabAlignment, shape).end;
  const uint64_t pages = kernels::PagesFor(shape.max_slots);
  return region + pages * kernels::PageBytes(shape.geometry) + kSpareSlabBytes;
}

}  // namespace spin::cli
