// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/eval/eval_flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/list_flag.h"
#include "client/cli/policy/file_flag.h"
#include "client/cli/values.h"
#include "kernels/geometry.h"
#include "prediction/predictor.h"

namespace spin::cli {
namespace {

const std::vector<std::string> kStudies = {"signals", "pooling", "exploration", "audits",
                                           "alpha",   "drafts",  "budgets",     "none"};

void AddTraceFlags(CLI::App* command, EvalFlags* flags) {
  command->add_option("TRACE", flags->traces, "Recorded traces, safetensors files")
      ->required()
      ->type_name("FILE");
  command->add_option("--topk", flags->topk, "K: slots the indexer keeps, 1 to 2048 (required)")
      ->required()
      ->check(IntegerIn(1, kernels::kMaxTopk))
      ->type_name("K");
  command->add_option("--steps", flags->options.steps, "Only the first N steps (2 or more)")
      ->check(IntegerIn(2, INT32_MAX))
      ->type_name("N");
  command->add_option("--block", flags->options.block, "Slots per block: the indexer's KV page")
      ->check(OneOf({"16", "32", "64", "128"}))
      ->capture_default_str()
      ->type_name("16|32|64|128");
}

void AddSettingFlags(CLI::App* command, EvalFlags* flags) {
  prediction::EvaluationOptions& options = flags->options;
  AddListFlag(command, "--sparsity", &options.sparsities, "Target sparsities, between commas",
              ShareBelowOne())
      ->type_name("RHO,...");
  AddListFlag(command, "--layer-sparsity", &options.layer_sparsity,
              "A sparsity for each layer: one more setting", ShareBelowOne())
      ->type_name("RHO,...");
  AddPolicyFileFlag(command, "--policy", &flags->policy)
      ->description("Policy file whose sparsity, or that of each layer, is one more setting")
      ->excludes(command->get_option("--layer-sparsity"));
  command
      ->add_option("--exploration", flags->exploration,
                   "Share of kept blocks drawn at random (the tables: 0; the recommendation: 0.05)")
      ->check(Share())
      ->type_name("GAMMA");
  command->add_option("--alpha", options.decay, "Weight of the past in the moving averages")
      ->check(ShareBelowOne())
      ->capture_default_str()
      ->type_name("ALPHA");
  command->add_option("--seed", options.seed, "Of all random draws")
      ->check(Unsigned64())
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--pin-first-block", options.pin_first_block,
                    "Keep block 0 always (attention sink)");
  command
      ->add_option("--target-miss", flags->target_miss, "Mean miss that the recommendation allows")
      ->check(Share())
      ->capture_default_str()
      ->type_name("SHARE");
}

}  // namespace

void AddEvalFlags(CLI::App* command, EvalFlags* flags) {
  AddTraceFlags(command, flags);
  AddSettingFlags(command, flags);
  AddListFlag(command, "--study", &flags->studies,
              absl::StrCat("What to measure beside the predictors: ", absl::StrJoin(kStudies, ", "),
                           "; budgets is the recommendation"),
              OneOf(kStudies))
      ->type_name("NAME,...");
  command->add_option("--threads", flags->threads, "Threads that work (one for each core)")
      ->check(IntegerIn(1, 1024))
      ->type_name("N");
  command->add_option("--report", flags->report, "Write a page with charts, for a browser")
      ->type_name("FILE");
  AddJsonFlag(command, &flags->common);
  command->add_flag("--csv", flags->csv, "One line for each predictor, setting and layer")
      ->excludes(command->get_option("--json"));
}

bool Asked(const EvalFlags& flags, absl::string_view study) {
  return std::find(flags.studies.begin(), flags.studies.end(), study) != flags.studies.end();
}

int ThreadsOf(const EvalFlags& flags) {
  if (flags.threads != 0) return flags.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

double ExplorationOf(const EvalFlags& flags) {
  return flags.exploration.value_or(flags.options.exploration);
}

prediction::EvaluationOptions EvaluationOptionsFor(const EvalFlags& flags, int layers) {
  prediction::EvaluationOptions options = flags.options;
  options.topk = flags.topk;
  options.exploration = ExplorationOf(flags);
  options.threads = ThreadsOf(flags);
  if (options.layer_sparsity.empty()) {
    options.layer_sparsity.assign(flags.policy.layer_sparsity().begin(),
                                  flags.policy.layer_sparsity().end());
  }
  if (options.layer_sparsity.empty() && flags.policy.has_sparsity()) {
    options.layer_sparsity.assign(layers, flags.policy.sparsity());
  }
  options.studies = {Asked(flags, "signals"), Asked(flags, "pooling"), Asked(flags, "exploration"),
                     Asked(flags, "audits"),  Asked(flags, "alpha"),   Asked(flags, "drafts")};
  options.heat_map = !flags.report.empty();
  return options;
}

prediction::ReplayOptions RecommendationOptionsFor(const EvalFlags& flags) {
  prediction::ReplayOptions replay;
  replay.predictor = prediction::FindPredictor("spin")->make;
  replay.topk = flags.topk;
  replay.block = flags.options.block;
  replay.exploration = flags.exploration.value_or(replay.exploration);
  replay.decay = flags.options.decay;
  replay.pin_first_block = flags.options.pin_first_block;
  replay.seed = flags.options.seed;
  replay.threads = ThreadsOf(flags);
  return replay;
}

}  // namespace spin::cli
