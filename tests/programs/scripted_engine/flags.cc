// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/programs/scripted_engine/flags.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace spin::scripted {
namespace {

const std::map<std::string, Executor> kExecutors = {{"inline", Executor::kInline},
                                                    {"sidecar", Executor::kSidecar}};
const std::map<std::string, ElementType> kTypes = {{"f32", ElementType::kFloat32},
                                                   {"bf16", ElementType::kBFloat16}};

void AddModel(CLI::App& app, Model& model) {
  model = {.name = "scripted",
           .layers = 2,
           .block_slots = 64,
           .topk = 128,
           .tokens_per_slot = 1,
           .max_slots = 8192};
  app.add_option("--model-name", model.name);
  app.add_option("--layers", model.layers);
  app.add_option("--block-slots", model.block_slots);
  app.add_option("--topk", model.topk);
  app.add_option("--tokens-per-slot", model.tokens_per_slot);
  app.add_option("--max-slots", model.max_slots);
}

void AddPolicy(CLI::App& app, PolicyOverrides& policy) {
  policy.audit_every = 0;
  app.add_option("--sparsity", policy.sparsity);
  app.add_option("--exploration", policy.exploration);
  app.add_option("--decay", policy.decay);
  app.add_option("--seed", policy.seed);
  app.add_option("--audit-every", policy.audit_every);
  app.add_option("--pin-first-block", policy.pin_first_block);
}

void AddMilliseconds(CLI::App& app, const char* flag, absl::Duration& duration) {
  app.add_option_function<int>(flag, [&duration](int ms) { duration = absl::Milliseconds(ms); });
}

}  // namespace

std::optional<Flags> ReadFlags(int argc, char** argv) {
  Flags flags;
  SessionOptions& session = flags.session;
  session.client_name = "scripted_engine";
  session.max_requests = 8;
  session.reconnect_interval = absl::Milliseconds(20);
  CLI::App app("An engine that does what its input says", "scripted_engine");
  app.add_option("--socket", session.socket);
  app.add_option("--device-uuid", session.device_uuid);
  app.add_option("--max-requests", session.max_requests);
  app.add_option("--max-next-n", session.max_next_n);
  app.add_option("--executor", session.executor)->transform(CLI::CheckedTransformer(kExecutors));
  app.add_option("--staged-scores", session.staged_scores)
      ->transform(CLI::CheckedTransformer(kTypes));
  app.add_option("--step-us", flags.step_us);
  app.add_option("--rotate-rows", flags.rotate_rows);
  app.add_option("--allow-recording", session.allow_recording);
  app.add_option("--recorder", flags.recorder);
  AddMilliseconds(app, "--step-timeout-ms", session.step_timeout);
  AddMilliseconds(app, "--control-timeout-ms", session.control_timeout);
  AddMilliseconds(app, "--reconnect-ms", session.reconnect_interval);
  AddModel(app, session.model);
  AddPolicy(app, session.policy);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return std::nullopt;
  }
  return flags;
}

}  // namespace spin::scripted
