// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/command.h"
#include "spin/options.h"
#include "spin/v1/policy.pb.h"
#include "trace/trace.h"

namespace CLI {
class App;
}

namespace spin::cli {

// A flag as it was typed: with its value, or with none.
struct GivenFlag {
  std::string name;
  std::optional<std::string> value;
};

// What `spinctl replay` was asked to do. The policy is always sent in full, so that a replay
// depends on no default of the spind it meets.
struct ReplayFlags {
  CommonFlags common;  // an empty socket means a spind of our own, whatever $SPIN_SOCKET says
  std::string trace;
  std::vector<std::string> more_traces;  // played after it, in the same session
  int requests = 1;                      // that play each trace
  int rounds = 1;                        // of all traces
  std::string spind;                     // program to start; empty: the one beside spinctl
  int topk = 0;                          // K; 0: not given
  int block = 64;
  int steps = 0;  // 0: all of the trace
  double sparsity = 0.4;
  std::vector<double> layer_sparsity;
  double exploration = 0.05;
  double alpha = 0.5;
  uint64_t seed = 0;
  uint32_t audit_every = 0;
  bool pin_first_block = false;
  std::string budget_mode = "fixed";
  std::optional<double> target_miss, min_sparsity, max_sparsity;
  v1::Policy policy_file;      // what it has set is in the fields above already, but for its flags
  std::string device = "cpu";  // of the spind that replay starts
  std::string executor = "inline";
  std::string state = "f32";
  bool hold = false;
  std::vector<GivenFlag> given;  // on the command line

  bool sidecar() const { return executor == "sidecar"; }
  bool bf16() const { return state == "bf16"; }
};

// Flags whose range does not depend on the trace are checked while parsing.
void AddReplayFlags(CLI::App* command, ReplayFlags* flags);

// Lets the policy file have its say where no flag of the parsed command spoke.
void ApplyPolicyFile(const CLI::App& command, ReplayFlags* flags);

// Of the parsed command, for commands that repeat it.
std::vector<GivenFlag> GivenFlags(const CLI::App& command);

// How the flag was given; null if it was not.
const GivenFlag* FindGiven(const ReplayFlags& flags, absl::string_view name);

// The rest: INVALID_ARGUMENT names the flag, or the trace if that exceeds a limit of Spin.
absl::Status CheckAgainstTrace(const ReplayFlags& flags, const trace::Trace& trace);

// Whether the further traces can be of the same model: INVALID_ARGUMENT says why not.
absl::Status CheckTogether(const ReplayFlags& flags, absl::Span<const trace::Trace> traces);

// Steps of one request.
int StepsOf(const ReplayFlags& flags, const trace::Trace& trace);

// Requests in all.
int RequestsOf(const ReplayFlags& flags);

// The session an engine with this model would open: one request at a time, the longest of them.
SessionOptions SessionOptionsFor(const ReplayFlags& flags, absl::Span<const trace::Trace> traces,
                                 const std::string& socket, const std::string& client_name);

// Bytes a spind needs for this one session and its one request, with room to spare.
uint64_t SlabBytesFor(const ReplayFlags& flags, absl::Span<const trace::Trace> traces);

}  // namespace spin::cli
