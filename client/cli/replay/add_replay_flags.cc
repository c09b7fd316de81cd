// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include "client/cli/policy/file_flag.h"
#include "client/cli/policy/value_flags.h"
#include "client/cli/replay/replay_flags.h"
#include "client/cli/values.h"
#include "kernels/geometry.h"
#include "policy_file/policy_file.h"

namespace spin::cli {
namespace {

void AddTraceFlags(CLI::App* command, ReplayFlags* flags) {
  command->add_option("--trace", flags->trace, "Recorded trace, a safetensors file (required)")
      ->type_name("FILE");
  command
      ->add_option("--then", flags->more_traces,
                   "Play this trace after it, in the same session; may be given again")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command->add_option("--requests", flags->requests, "Play each trace N times, as N requests")
      ->check(IntegerIn(1, 1000000))
      ->type_name("N");
  command->add_option("--rounds", flags->rounds, "Play all of that N times")
      ->check(IntegerIn(1, 1000000))
      ->type_name("N");
  command->add_option("--topk", flags->topk, "K: slots the indexer keeps, 1 to 2048 (required)")
      ->check(IntegerIn(1, kernels::kMaxTopk))
      ->type_name("K");
  command->add_option("--steps", flags->steps, "Play only the first N steps (2 or more)")
      ->check(IntegerIn(2, INT32_MAX))
      ->type_name("N");
  command->add_option("--block", flags->block, "Slots per block: the indexer's KV page")
      ->check(OneOf({"16", "32", "64", "128"}))
      ->type_name("16|32|64|128");
}

void AddExecutionFlags(CLI::App* command, ReplayFlags* flags) {
  const std::vector<std::string> executors = {"inline", "sidecar"}, states = {"f32", "bf16"};
  command
      ->add_option(
          "--device", flags->device,
          "Where it all runs: cpu, cuda (the only visible GPU) or cuda:UUID; with --socket, "
          "where that spind runs")
      ->type_name("DEVICE");
  command->add_option("--executor", flags->executor, "Who runs Spin's kernels: spinctl or spind")
      ->check(OneOf(executors))
      ->type_name(ChoiceName(executors));
  command->add_option("--state", flags->state, "Type of the moving averages")
      ->check(OneOf(states))
      ->type_name(ChoiceName(states));
}

void AddSpindFlags(CLI::App* command, ReplayFlags* flags) {
  CLI::Option* socket =
      command
          ->add_option(
              "--socket", flags->common.socket,
              "Use the spind at this socket; else replay starts one of its own. The policy is "
              "the one of this command either way")
          ->check(Path())
          ->type_name("PATH");
  command->add_option("--spind", flags->spind, "Program to start (else the spind beside spinctl)")
      ->type_name("FILE")
      ->excludes(socket);
  command->add_flag("--hold", flags->hold, "Keep its own spind up afterwards, until Ctrl-C")
      ->excludes(socket);
}

}  // namespace

void AddReplayFlags(CLI::App* command, ReplayFlags* flags) {
  AddTraceFlags(command, flags);
  AddPolicyFileFlag(command, "--policy", &flags->policy_file);
  AddPolicyValueFlags(command, flags);
  command->add_flag("--pin-first-block", flags->pin_first_block,
                    "Keep block 0 always (attention sink)");
  AddExecutionFlags(command, flags);
  AddSpindFlags(command, flags);
  AddJsonFlag(command, &flags->common);
  for (const char* flag : {"--sparsity", "--exploration", "--alpha", "--audit-every", "--seed",
                           "--block", "--budget-mode", "--device", "--executor", "--state"}) {
    command->get_option(flag)->capture_default_str();
  }
}

void ApplyPolicyFile(const CLI::App& command, ReplayFlags* flags) {
  const v1::Policy& file = flags->policy_file;
  const auto open = [&](const char* flag) { return command.count(flag) == 0; };
  const bool shares = open("--sparsity") && open("--layer-sparsity");
  if (shares && file.has_sparsity()) flags->sparsity = file.sparsity();
  if (shares) flags->layer_sparsity = {file.layer_sparsity().begin(), file.layer_sparsity().end()};
  if (open("--exploration") && file.has_exploration()) flags->exploration = file.exploration();
  if (open("--alpha") && file.has_decay()) flags->alpha = file.decay();
  if (open("--seed") && file.has_seed()) flags->seed = file.seed();
  if (open("--audit-every") && file.has_audit_every()) flags->audit_every = file.audit_every();
  if (open("--pin-first-block") && file.has_pin_first_block()) {
    flags->pin_first_block = file.pin_first_block();
  }
  if (open("--budget-mode") && file.has_budget_mode()) {
    flags->budget_mode = policy_file::ModeName(file.budget_mode());
  }
  if (open("--target-miss") && file.has_target_miss()) flags->target_miss = file.target_miss();
  if (open("--min-sparsity") && file.has_min_sparsity()) flags->min_sparsity = file.min_sparsity();
  if (open("--max-sparsity") && file.has_max_sparsity()) flags->max_sparsity = file.max_sparsity();
}

std::vector<GivenFlag> GivenFlags(const CLI::App& command) {
  std::vector<GivenFlag> given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    if (option->get_items_expected_max() == 0) {
      given.push_back({name, std::nullopt});
    } else {
      for (const std::string& value : option->results()) given.push_back({name, value});
    }
  }
  return given;
}

}  // namespace spin::cli
