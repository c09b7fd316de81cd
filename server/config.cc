// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "policy_file/policy_file.h"
#include "server/environment.h"
#include "server/flag_values.h"
#include "server/start_failure.h"
#include "server/version.h"

namespace spin::server {
namespace {

constexpr char kFooter[] = R"(
Every flag can also be set in the environment (--slab-bytes is SPIND_SLAB_BYTES) or in a config file
(slab-bytes = "1GiB", one line a flag). Flags win over the environment, which wins over the file.

Examples:
  spind --socket /run/spin/spind.sock --slab-bytes 2GiB
  spind --config /etc/spin/spind.toml --sparsity 0.5 --log-format json
)";

void AddServing(CLI::App& app, Config& config) {
  auto* group = app.add_option_group("Serving");
  group->add_option("--socket", config.socket, "Unix socket of the control plane")
      ->envname("SPIND_SOCKET")
      ->capture_default_str();
  group
      ->add_option_function<std::string>(
          "--allow-uids", [&config](const std::string& text) { config.allow_uids = UidsIn(text); },
          "Users who may connect, such as 0,1000 (default: spind's own and root)")
      ->envname("SPIND_ALLOW_UIDS");
  group->add_option("--step-queue", config.step_queue, "Steps that may wait")
      ->envname("SPIND_STEP_QUEUE")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  group->add_option("--control-queue", config.control_queue, "Other calls that may wait")
      ->envname("SPIND_CONTROL_QUEUE")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
}

// What is needed even where nothing else can be read.
void AddAdmin(CLI::App& app, Config& config) {
  auto* group = app.add_option_group("Admin port");
  group
      ->add_option("--admin-address", config.admin_address,
                   "HOST:PORT of /metrics, the probes and the status page; port 0 takes a free one")
      ->envname("SPIND_ADMIN_ADDRESS")
      ->capture_default_str();
  group
      ->add_flag(
          "--stay-up,!--no-stay-up", config.stay_up,
          "Where spind cannot serve, do not exit: tell why in the log and on the admin port, "
          "and serve as soon as that has passed. For pods, whose engine starts after spind; "
          "not in a config file")
      ->envname("SPIND_STAY_UP")
      ->configurable(false);
}

void AddMemory(CLI::App& app, Config& config) {
  auto* group = app.add_option_group("Device and memory");
  group
      ->add_option(
          "--device", config.device,
          "Where state lives and kernels run: cpu, cuda (the only visible GPU) or cuda:UUID")
      ->envname("SPIND_DEVICE")
      ->capture_default_str();
  group
      ->add_option("--slab-bytes", config.slab_bytes,
                   "Shared memory for all state, such as 512MiB; reserved at start")
      ->envname("SPIND_SLAB_BYTES")
      ->transform(Size(uint64_t{1} << 16, uint64_t{1} << 42))
      ->default_str("256MiB");
  group
      ->add_option("--shm-dir", config.shm_dir,
                   "Memory file system for the slab (cpu); clients must see it under the same path")
      ->envname("SPIND_SHM_DIR")
      ->capture_default_str();
  const std::map<std::string, kernels::Dtype> dtypes = {{"f32", kernels::Dtype::kF32},
                                                        {"bf16", kernels::Dtype::kBF16}};
  group
      ->add_option(
          "--state-dtype", config.state_dtype,
          "Default type of the moving averages: f32 or bf16 (default: f32 on the CPU, bf16 on a "
          "GPU)")
      ->envname("SPIND_STATE_DTYPE")
      ->transform(CLI::CheckedTransformer(dtypes).description("f32|bf16"));
}

void AddPolicy(CLI::App& app, Config& config) {
  Policy& policy = config.policy;
  auto* group = app.add_option_group("Default policy", "sessions and UpdatePolicy may override it");
  group
      ->add_option("--policy", config.policy_file,
                   "Policy file (JSON), such as spinctl tune writes; the flags below win over it")
      ->envname("SPIND_POLICY");
  group
      ->add_option_function<double>(
          "--sparsity",
          [&policy](double sparsity) {
            policy.sparsity = sparsity;
            policy.layer_sparsity.clear();
          },
          "rho: share of blocks to skip")
      ->envname("SPIND_SPARSITY")
      ->check(Ratio(true))
      ->default_str(absl::StrCat(policy.sparsity));
  group
      ->add_option("--exploration", policy.exploration,
                   "gamma: share of kept blocks drawn at random")
      ->envname("SPIND_EXPLORATION")
      ->check(Ratio(false))
      ->capture_default_str();
  group->add_option("--decay", policy.decay, "alpha: weight of the past in the moving averages")
      ->envname("SPIND_DECAY")
      ->check(Ratio(true))
      ->capture_default_str();
  group->add_option("--seed", policy.seed, "Seed of exploration and audits; equal on all ranks")
      ->envname("SPIND_SEED")
      ->check(WholeNumber(UINT64_MAX))
      ->capture_default_str();
  group
      ->add_option("--audit-every", policy.audit_every,
                   "A step is audited with probability 1/N; 0 never")
      ->envname("SPIND_AUDIT_EVERY")
      ->check(WholeNumber(UINT32_MAX))
      ->capture_default_str();
  group
      ->add_flag("--pin-first-block,!--no-pin-first-block", policy.pin_first_block,
                 "Keep block 0 in every list (attention sink)")
      ->envname("SPIND_PIN_FIRST_BLOCK");
  const std::map<std::string, v1::BudgetMode> modes = {
      {"fixed", v1::BUDGET_MODE_FIXED},
      {"calibrated", v1::BUDGET_MODE_CALIBRATED},
      {"target_miss", v1::BUDGET_MODE_TARGET_MISS}};
  group
      ->add_option("--budget-mode", policy.budget_mode,
                   "fixed: the sparsity given; calibrated: the same total, shared out among the "
                   "layers by what audits teach; target_miss: the total that holds --target-miss")
      ->envname("SPIND_BUDGET_MODE")
      ->transform(CLI::CheckedTransformer(modes).description("fixed|calibrated|target_miss"))
      ->default_str("fixed");
  group
      ->add_option("--target-miss", policy.target_miss,
                   "Share of the true top-K that may be missed (target_miss)")
      ->envname("SPIND_TARGET_MISS")
      ->check(Ratio(true))
      ->capture_default_str();
  group->add_option("--min-sparsity", policy.min_sparsity, "Never skip less (target_miss)")
      ->envname("SPIND_MIN_SPARSITY")
      ->check(Ratio(true))
      ->capture_default_str();
  group->add_option("--max-sparsity", policy.max_sparsity, "Never skip more (target_miss)")
      ->envname("SPIND_MAX_SPARSITY")
      ->check(Ratio(true))
      ->capture_default_str();
  group
      ->add_flag("--enabled,!--disabled", policy.enabled, "Off switch: --disabled keeps all blocks")
      ->envname("SPIND_ENABLED");
}

void AddOperations(CLI::App& app, Config& config, int64_t& wait_ms, int64_t& quarantine_ms) {
  auto* group = app.add_option_group("Operations");
  group->add_option("--wait-limit-ms", wait_ms, "Longest wait for an engine's timeline word")
      ->envname("SPIND_WAIT_LIMIT_MS")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  group
      ->add_option("--quarantine-ms", quarantine_ms,
                   "How long memory of a lost session is kept back if its process cannot be seen")
      ->envname("SPIND_QUARANTINE_MS")
      ->check(CLI::Range(0, 60000))
      ->capture_default_str();
  group->add_option("--log-level", config.log_level, "debug, info, warn or error")
      ->envname("SPIND_LOG_LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  group->add_option("--log-format", config.log_format, "text or json, on stderr")
      ->envname("SPIND_LOG_FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void AddAll(CLI::App& app, Config& config, int64_t& wait_ms, int64_t& quarantine_ms) {
  app.set_config("--config", "", "Config file (TOML)")->envname("SPIND_CONFIG");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddServing(app, config);
  AddAdmin(app, config);
  AddMemory(app, config);
  AddPolicy(app, config);
  AddOperations(app, config, wait_ms, quarantine_ms);
}

// What the environment says of the option; null if nothing.
const char* InEnvironment(const CLI::Option& option) {
  const std::string& name = option.get_envname();
  const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value != nullptr && *value != '\0' ? value : nullptr;
}

template <typename Visit>
void ForEachGrouped(const CLI::App& app, Visit visit) {
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (const CLI::Option* option : group->get_options()) visit(*option);
  }
}

// CLI11 lets a config file win over the environment. Here the environment is put in front of the
// flags, where every option takes the last of its values, and the file fills in what is left.
std::vector<std::string> EnvironmentAndFlags(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> args;
  ForEachGrouped(app, [&args](const CLI::Option& option) {
    const char* value = InEnvironment(option);
    if (value != nullptr) args.push_back(option.get_name() + "=" + value);
  });
  args.insert(args.end(), argv + 1, argv + argc);
  std::reverse(args.begin(), args.end());  // the order in which CLI11 takes a vector
  return args;
}

absl::Status CheckSwitches(const CLI::App& app) {
  absl::Status status;
  ForEachGrouped(app, [&status](const CLI::Option& option) {
    status.Update(CheckSwitch(option, InEnvironment(option) != nullptr));
  });
  return status;
}

// CLI11 speaks of INI files, and of an unknown section as an item "name.++".
std::string SentenceOf(const CLI::ParseError& error) {
  const std::string what = error.what();
  absl::string_view item = what;
  if (!absl::ConsumePrefix(&item, "INI was not able to parse ")) return what;
  if (absl::ConsumeSuffix(&item, ".++")) {
    return absl::StrCat("--config: [", item, "]: settings are in no section of the file");
  }
  return absl::StrCat("--config: ", item, " is no setting; settings are flags without their --");
}

// Reads everything but the policy file into `config`, whose values are the defaults. False after
// --help or --version, which have been answered.
absl::StatusOr<bool> ParseInto(int argc, char** argv, Config& config) {
  int64_t wait_ms = absl::ToInt64Milliseconds(config.wait_limit);
  int64_t quarantine_ms = absl::ToInt64Milliseconds(config.quarantine);
  CLI::App app(
      "spind predicts which KV blocks a sparse-attention indexer needs to score, and serves the\n"
      "answer to inference engines on this host.",
      "spind");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("spind ") + kVersion);
  AddAll(app, config, wait_ms, quarantine_ms);
  try {
    app.parse(EnvironmentAndFlags(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return absl::InvalidArgumentError(SentenceOf(error));
    app.exit(error);
    return false;
  }
  if (absl::Status switches = CheckSwitches(app); !switches.ok()) return switches;
  config.wait_limit = absl::Milliseconds(wait_ms);
  config.quarantine = absl::Milliseconds(quarantine_ms);
  if (config.allow_uids.empty()) config.allow_uids = {getuid(), 0};
  return true;
}

absl::Status CheckTogether(const Policy& policy) {
  if (policy.target_miss <= 0)
    return absl::InvalidArgumentError("--target-miss: 0 is not in (0, 1)");
  const std::optional<PolicyConflict> conflict = ConflictIn(policy);
  if (!conflict.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", absl::StrReplaceAll(conflict->field, {{"_", "-"}}), ": ", conflict->why));
}

// All of it, the policy file between two readings of the flags, which win over it.
absl::StatusOr<bool> ReadInto(int argc, char** argv, Config& config) {
  const auto go_on = ParseInto(argc, argv, config);
  if (!go_on.ok()) return FailedStart(StartPart::kConfig, go_on.status());
  if (!*go_on) return false;
  if (!config.policy_file.empty()) {
    const absl::StatusOr<v1::Policy> file = policy_file::Read(config.policy_file);
    if (!file.ok()) {
      return FailedStart(StartPart::kPolicy, absl::InvalidArgumentError(absl::StrCat(
                                                 "--policy: ", file.status().message())));
    }
    config = Config();
    ApplyPolicy(*file, &config.policy);
    const auto again = ParseInto(argc, argv, config);
    if (!again.ok()) return FailedStart(StartPart::kConfig, again.status());
  }
  const absl::Status together = CheckTogether(config.policy);
  if (!together.ok()) return FailedStart(StartPart::kConfig, together);
  return true;
}

// What a spind that must stay up needs, where the rest cannot be read; nothing if it need not.
std::optional<Config> ReadStayUp(int argc, char** argv) {
  Config config;
  CLI::App app;
  app.set_help_flag();  // answered before, or the mistake of another flag
  app.allow_extras();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  AddAdmin(app, config);
  app.add_option_group("Log")
      ->add_option("--log-format", config.log_format)
      ->envname("SPIND_LOG_FORMAT");
  try {
    app.parse(EnvironmentAndFlags(app, argc, argv));
  } catch (const CLI::ParseError&) {
    return std::nullopt;
  }
  if (!config.stay_up) return std::nullopt;
  return config;
}

std::vector<std::string> KnownVariables() {
  Config config;
  int64_t unused = 0;
  CLI::App app;
  AddAll(app, config, unused, unused);
  std::vector<std::string> known = {app.get_config_ptr()->get_envname()};
  ForEachGrouped(app, [&known](const CLI::Option& option) {
    if (!option.get_envname().empty()) known.push_back(option.get_envname());
  });
  return known;
}

ConfigOrExit ReadAll(int argc, char** argv) {
  Config config;
  const absl::StatusOr<bool> go_on = ReadInto(argc, argv, config);
  if (go_on.ok() && *go_on) return {std::move(config), 0, absl::OkStatus()};
  if (go_on.ok()) return {std::nullopt, 0, absl::OkStatus()};
  std::optional<Config> stay_up = ReadStayUp(argc, argv);
  if (stay_up.has_value()) return {std::move(stay_up), 0, go_on.status()};
  std::fprintf(stderr, "spind: %s (see spind --help)\n",
               std::string(go_on.status().message()).c_str());
  return {std::nullopt, 2, go_on.status()};
}

}  // namespace

ConfigOrExit ReadConfig(int argc, char** argv) {
  ConfigOrExit read = ReadAll(argc, argv);
  if (read.config.has_value()) read.warnings = UnknownVariables(KnownVariables(), environ);
  return read;
}

}  // namespace spin::server
