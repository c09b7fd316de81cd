// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/tune/tune_flags.h"

#include <CLI/CLI.hpp>

#include <cstdint>

#include "client/cli/values.h"
#include "kernels/geometry.h"

namespace spin::cli {
namespace {

void AddGoalFlags(CLI::App* command, TuneFlags* flags) {
  CLI::Option* miss =
      command
          ->add_option("--target-miss", flags->target_miss,
                       "Mean share of the top-K that may be missed: as much sparsity as it allows")
          ->check(ShareBelowOne())
          ->type_name("SHARE");
  command
      ->add_option("--target-sparsity", flags->target_sparsity,
                   "Share of all layers' blocks to skip: as few misses as that allows")
      ->check(ShareBelowOne())
      ->excludes(miss)
      ->type_name("RHO");
  command->add_flag("--uniform", flags->uniform, "One sparsity for all layers");
  command->add_option("--out", flags->out, "Policy file to write")->type_name("FILE");
}

void AddPolicyFlags(CLI::App* command, TuneFlags* flags) {
  const std::vector<std::string> predictors = {"spin", "query_aware"};
  command
      ->add_option("--predictor", flags->predictor,
                   "Whose misses count; spind runs spin, the other is for 'spinctl eval'")
      ->check(OneOf(predictors))
      ->capture_default_str()
      ->type_name(ChoiceName(predictors));
  prediction::ReplayOptions& replay = flags->replay;
  command->add_option("--exploration", replay.exploration, "Share of kept blocks drawn at random")
      ->check(Share())
      ->capture_default_str()
      ->type_name("SHARE");
  command->add_option("--alpha", replay.decay, "Weight of the past in the averages, in [0, 1)")
      ->check(ShareBelowOne())
      ->capture_default_str()
      ->type_name("SHARE");
  command->add_flag("--pin-first-block", replay.pin_first_block,
                    "Keep block 0 always (attention sink)");
  command->add_option("--seed", replay.seed, "Of exploration")
      ->check(Unsigned64())
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace

void AddTuneFlags(CLI::App* command, TuneFlags* flags) {
  command->add_option("TRACE", flags->traces, "Recorded traces of one model, safetensors files")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--topk", flags->replay.topk, "K: slots the indexer keeps, 1 to 2048 (required)")
      ->required()
      ->check(IntegerIn(1, kernels::kMaxTopk))
      ->type_name("K");
  command->add_option("--steps", flags->steps, "Only the first N steps (2 or more)")
      ->check(IntegerIn(2, INT32_MAX))
      ->type_name("N");
  command->add_option("--block", flags->replay.block, "Slots per block: the indexer's KV page")
      ->check(OneOf({"16", "32", "64", "128"}))
      ->capture_default_str()
      ->type_name("16|32|64|128");
  AddGoalFlags(command, flags);
  AddPolicyFlags(command, flags);
  command->add_option("--threads", flags->threads, "Threads that work (one for each core)")
      ->check(IntegerIn(1, 1024))
      ->type_name("N");
  AddJsonFlag(command, &flags->common);
}

}  // namespace spin::cli
