// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/list_flag.h"
#include "client/cli/values.h"

namespace spin::cli {

// The flags for the numbers of a policy. Flags has members of their names: plain values where a
// default applies (replay), optionals where only what is given changes (policy set).
template <typename Flags>
void AddPolicyValueFlags(CLI::App* command, Flags* flags) {
  command->add_option("--sparsity", flags->sparsity, "Share of blocks to skip, in [0, 1)")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  AddListFlag(command, "--layer-sparsity", &flags->layer_sparsity,
              "The same, for each layer in turn", ShareBelowOne())
      ->type_name("A,B,...");
  command->add_option("--exploration", flags->exploration, "Share of kept blocks drawn at random")
      ->check(Share())
      ->type_name("SHARE");
  command->add_option("--alpha", flags->alpha, "Weight of the past in the averages, in [0, 1)")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  const std::vector<std::string> modes = {"fixed", "calibrated", "target_miss"};
  command
      ->add_option("--budget-mode", flags->budget_mode,
                   "Who decides the layers' budgets: you; spind, at this total; spind, at a miss")
      ->check(OneOf(modes))
      ->type_name(ChoiceName(modes));
  command
      ->add_option("--target-miss", flags->target_miss,
                   "The miss that spind holds with the budget mode target_miss")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  command->add_option("--min-sparsity", flags->min_sparsity, "It never skips less")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  command->add_option("--max-sparsity", flags->max_sparsity, "It never skips more")
      ->check(ShareBelowOne())
      ->type_name("SHARE");
  command
      ->add_option("--audit-every", flags->audit_every,
                   "Score a step in full with probability 1/N; 0: never")
      ->check(IntegerIn(0, UINT32_MAX))
      ->type_name("N");
  command->add_option("--seed", flags->seed, "Of exploration and audits; equal on all ranks")
      ->check(Unsigned64())
      ->type_name("N");
}

}  // namespace spin::cli
