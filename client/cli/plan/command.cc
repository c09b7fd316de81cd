// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/plan/models.h"
#include "client/cli/plan/slab_plan.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/table.h"
#include "client/cli/terminal/terminal.h"
#include "client/cli/values.h"
#include "kernels/geometry.h"

namespace spin::cli {
namespace {

constexpr char kFooter[] =
    R"(Says how large the slab must be, so that this many requests of this context fit at once. All of it is
reserved when spind starts; a request that does not fit keeps all blocks and is tried again.

Examples:
  spinctl plan --model v4-flash --context 1M --requests 32
  spinctl plan --model v3.2 --context 128K --requests 64 --executor sidecar --json
  spinctl plan --layers 61 --topk 2048 --tokens-per-slot 1 --context 200000 --requests 8)";

struct PlanFlags {
  CommonFlags common;
  std::string model;
  int layers = 0;
  int topk = 0;
  int tokens_per_slot = 0;
  int block = 64;
  int64_t context = 0;  // tokens
  int requests = 0;
  int next_n = 1;
  std::string state = "bf16";
  std::string executor = "inline";
};

absl::Status Invalid(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", what));
}

// The shape that the flags ask for: of a known model, with single values of their own.
absl::StatusOr<dataplane::SessionShape> ShapeOf(const PlanFlags& flags) {
  IndexerModel model = {"", 0, 1, 0, flags.block};
  for (const IndexerModel& known : KnownModels()) {
    if (known.name == flags.model) model = known;
  }
  if (flags.layers > 0) model.layers = flags.layers;
  if (flags.topk > 0) model.topk = flags.topk;
  if (flags.tokens_per_slot > 0) model.tokens_per_slot = flags.tokens_per_slot;
  if (model.layers == 0) return Invalid("--layers", "give it, or a --model");
  if (model.tokens_per_slot == 0) return Invalid("--tokens-per-slot", "give it, or a --model");
  if (flags.context == 0) return Invalid("--context", "is required: the longest one, in tokens");
  if (flags.requests == 0) return Invalid("--requests", "is required: how many at once");
  const int64_t slots = (flags.context + model.tokens_per_slot - 1) / model.tokens_per_slot;
  if (slots > kernels::kMaxSlots) {
    return Invalid("--context",
                   absl::StrCat(slots, " slots are more than Spin takes, ", kernels::kMaxSlots));
  }
  dataplane::SessionShape shape = {};
  shape.geometry = {model.layers, model.block, model.topk, model.tokens_per_slot,
                    flags.state == "bf16" ? kernels::Dtype::kBF16 : kernels::Dtype::kF32};
  shape.max_slots = slots;
  shape.max_requests = flags.requests;
  shape.max_next_n = flags.next_n;
  shape.scores = kernels::Dtype::kF32;
  shape.staging = flags.executor == "sidecar";
  return shape;
}

// Up to the next whole MiB, as a flag's value.
std::string FlagValue(uint64_t bytes) { return absl::StrCat((bytes + (1 << 20) - 1) >> 20, "MiB"); }

const char* StateName(const dataplane::SessionShape& shape) {
  return shape.geometry.state == kernels::Dtype::kBF16 ? "bf16" : "f32";
}

std::string PlanJson(const dataplane::SessionShape& shape, const SlabPlan& plan) {
  return Dump({{"layers", shape.geometry.layers},
               {"max_slots", shape.max_slots},
               {"requests", shape.max_requests},
               {"state_dtype", StateName(shape)},
               {"state_bytes", plan.state},
               {"list_bytes", plan.lists},
               {"staging_bytes", plan.staging},
               {"other_bytes", plan.other},
               {"slab_bytes", plan.total()},
               {"slab_bytes_flag", FlagValue(plan.total())}});
}

std::string PlanText(const dataplane::SessionShape& shape, const SlabPlan& plan,
                     const Terminal& terminal) {
  const Paint paint(terminal.color);
  Table table({{"part", Table::Align::kLeft}, {"bytes"}, {"a request"}});
  const auto requests = static_cast<uint64_t>(shape.max_requests);
  const auto add = [&](const char* part, uint64_t bytes) {
    table.AddRow({part, FormatBytes(bytes), FormatBytes(bytes / requests)});
  };
  add("moving averages", plan.state);
  add("block lists", plan.lists);
  add("staged scores", plan.staging);
  add("records, spare pages", plan.other);
  table.AddRule();
  add("slab", plan.total());
  // With the type of state, which else is the device's own: another takes twice as much, or half.
  return absl::StrFormat(
      "%d layers, %d requests of %s slots, %s state\n\n%s\nspind --slab-bytes %s --state-dtype "
      "%s\n",
      shape.geometry.layers, shape.max_requests, FormatCount(shape.max_slots), StateName(shape),
      table.Render(paint), FlagValue(plan.total()), StateName(shape));
}

absl::Status RunPlan(const PlanFlags& flags) {
  const auto shape = ShapeOf(flags);
  if (!shape.ok()) return shape.status();
  const SlabPlan plan = PlanSlab(*shape);
  return Print(flags.common.json ? PlanJson(*shape, plan)
                                 : PlanText(*shape, plan, DetectTerminal(STDOUT_FILENO)));
}

}  // namespace

void AddPlanCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app->add_subcommand("plan", "How large the slab of spind must be");
  command->footer(kFooter);
  std::vector<std::string> models;
  for (const IndexerModel& model : KnownModels()) models.push_back(model.name);
  const std::vector<std::string> states = {"f32", "bf16"}, executors = {"inline", "sidecar"};
  command->add_option("--model", flags->model, "A known model; the flags below replace its values")
      ->check(OneOf(models))
      ->type_name(ChoiceName(models));
  command->add_option("--layers", flags->layers, "Layers that have an indexer")
      ->check(IntegerIn(1, kernels::kMaxLayers))
      ->type_name("N");
  command->add_option("--topk", flags->topk, "K: slots the indexer keeps")
      ->check(IntegerIn(1, kernels::kMaxTopk))
      ->type_name("K");
  command->add_option("--tokens-per-slot", flags->tokens_per_slot, "Tokens of an indexer entry")
      ->check(IntegerIn(1, kernels::kMaxTokensPerSlot))
      ->type_name("N");
  command->add_option("--block", flags->block, "Slots per block: the indexer's KV page")
      ->check(OneOf({"16", "32", "64", "128"}))
      ->type_name("16|32|64|128");
  command
      ->add_option("--context", flags->context, "Longest context in tokens, such as 131072 or 1M")
      ->transform(
          CLI::AsNumberWithUnit(std::map<std::string, int64_t>{{"K", 1 << 10}, {"M", 1 << 20}}))
      ->check(IntegerIn(1, kernels::kMaxSlots * kernels::kMaxTokensPerSlot))
      ->type_name("TOKENS");
  command->add_option("--requests", flags->requests, "Requests at once")
      ->check(IntegerIn(1, 512))
      ->type_name("N");
  command->add_option("--next-n", flags->next_n, "Verifier rows of a request: 1 + draft tokens")
      ->check(IntegerIn(1, kernels::kMaxNextN))
      ->type_name("N");
  command
      ->add_option("--state", flags->state, "Type of the moving averages: --state-dtype of spind")
      ->check(OneOf(states))
      ->type_name(ChoiceName(states));
  command->add_option("--executor", flags->executor, "Who runs Spin's kernels")
      ->check(OneOf(executors))
      ->type_name(ChoiceName(executors));
  AddJsonFlag(command, &flags->common);
  for (const char* flag : {"--block", "--next-n", "--state", "--executor"}) {
    command->get_option(flag)->capture_default_str();
  }
  command->callback([=] { *action = [flags] { return RunPlan(*flags); }; });
}

}  // namespace spin::cli
