// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "client/cli/command.h"
#include "client/cli/flag_names.h"
#include "client/cli/health.h"
#include "client/cli/interrupt.h"
#include "client/cli/replay/gpu_engine.h"
#include "client/cli/replay/host_engine.h"
#include "client/cli/replay/player.h"
#include "client/cli/replay/replay_flags.h"
#include "client/cli/replay/report.h"
#include "client/cli/replay/server_counts.h"
#include "client/cli/score_check.h"
#include "client/cli/spawn/spawned_spind.h"
#include "client/cli/terminal/progress.h"
#include "trace/scorer.h"
#include "trace/trace.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kReadyTimeout = absl::Seconds(10);

constexpr char kFooter[] =
    R"(Plays a recorded trace as an engine would: asks Spin for the blocks, scores only those, hands the
scores back. Each layer and step is then compared with the full scan, outside the measured time. The
first step scans everything and is left out of all shares, means and times. The session's policy is
that of the flags and of --policy, in full: with --socket, too, the default policy of that spind
(its flags, its --policy) has no say.

  sparsity   share of blocks that were not scored
  miss       share of the true top-K in blocks that were not scored
  recall     share of the true top-K that the engine's own top-K holds

Examples:
  spinctl replay --trace testdata/traces/small-8k.safetensors --topk 128 --sparsity 0.4
  spinctl replay --trace long.safetensors --topk 2048 --sparsity 0.7 --executor sidecar --json
  spinctl replay --trace long.safetensors --topk 2048 --audit-every 16 --hold
  spinctl replay --trace long.safetensors --topk 2048 --device cuda   scores and kernels on a GPU
  spinctl replay --trace a.safetensors --then b.safetensors --rounds 20 --topk 512 \
    --audit-every 32 --budget-mode target_miss --target-miss 0.01)";

// A refusal that is the trace's fault, not of spinctl's surroundings.
absl::StatusOr<trace::Trace> LoadOne(const ReplayFlags& flags, const std::string& flag,
                                     const std::string& path) {
  absl::StatusOr<trace::Trace> loaded = trace::LoadTrace(path);
  if (!loaded.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", loaded.status().message()));
  }
  if (absl::Status status = CheckAgainstTrace(flags, *loaded); !status.ok()) return status;
  return loaded;
}

absl::StatusOr<std::vector<trace::Trace>> Load(const ReplayFlags& flags) {
  if (flags.trace.empty()) return absl::InvalidArgumentError("--trace is required");
  if (flags.topk == 0) {
    return absl::InvalidArgumentError(
        "--topk is required: a trace does not say how many slots its indexer keeps");
  }
  std::vector<trace::Trace> traces;
  absl::StatusOr<trace::Trace> loaded = LoadOne(flags, "--trace", flags.trace);
  if (!loaded.ok()) return loaded.status();
  traces.push_back(*std::move(loaded));
  for (const std::string& path : flags.more_traces) {
    loaded = LoadOne(flags, "--then", path);
    if (!loaded.ok()) return loaded.status();
    traces.push_back(*std::move(loaded));
  }
  if (absl::Status status = CheckTogether(flags, traces); !status.ok()) return status;
  return traces;
}

absl::Status WaitUntilReady(Session* session) {
  const absl::Time deadline = absl::Now() + kReadyTimeout;
  for (;;) {
    absl::Status status = session->WaitUntilReady(absl::Milliseconds(100));
    if (status.ok() || absl::Now() > deadline) return status;
    if (absl::Status interrupted = CheckInterrupt(); !interrupted.ok()) return interrupted;
  }
}

// A session with its first request, ready to decode.
struct Opened {
  std::unique_ptr<Session> session;
  Request request;
};

absl::StatusOr<Opened> Open(const SessionOptions& options, int64_t slots) {
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(options);
  if (!session.ok()) return session.status();
  if (absl::Status status = WaitUntilReady(session->get()); !status.ok()) return status;
  Request request = (*session)->OpenRequest("replay", slots);
  // A spind of our own has room; another's is at fault, not the trace.
  static constexpr FieldFlag kNames[] = {{"items[0].slots", "--socket"}};
  if (absl::Status status = request.status(); !status.ok()) return WithFlagNames(status, kNames);
  return Opened{*std::move(session), std::move(request)};
}

int64_t SlotsOf(const ReplayFlags& flags, const trace::Trace& trace) {
  return trace.Context(StepsOf(flags, trace) - 1);
}

int TotalSteps(const ReplayFlags& flags, absl::Span<const trace::Trace> traces) {
  int steps = 0;
  for (const trace::Trace& trace : traces) steps += StepsOf(flags, trace);
  return steps * flags.requests * flags.rounds;
}

// On the device that spind serves.
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const ReplayFlags& flags, Session* session,
                                                   const std::string& device_uuid,
                                                   const trace::Trace& trace,
                                                   const trace::Scorer& scorer, int64_t max_slots) {
  if (device_uuid == kernels::kCpuUuid) {
    return std::make_unique<HostEngine>(session, &scorer, StepsOf(flags, trace), flags.topk,
                                        flags.block);
  }
  return GpuEngine::Create(session, device_uuid, trace, max_slots, flags.topk, flags.block);
}

// All requests, one after the other; the first is open.
absl::StatusOr<PlayResult> PlayAll(const ReplayFlags& flags, absl::Span<const trace::Trace> traces,
                                   Opened* opened, const SessionOptions& options) {
  Session* const session = opened->session.get();
  const std::vector<trace::Scorer> scorers(traces.begin(), traces.end());
  Progress progress("replay", TotalSteps(flags, traces), DetectTerminal(STDERR_FILENO), stderr,
                    absl::Now());
  std::optional<Request> request = std::move(opened->request);
  PlayResult all;
  for (int i = 0; i < RequestsOf(flags); ++i) {
    const size_t which = static_cast<size_t>(i / flags.requests) % traces.size();
    if (i > 0) {
      request.reset();  // first: the session has room for one
      request = session->OpenRequest(absl::StrCat("replay ", i + 1), SlotsOf(flags, traces[which]));
    }
    const auto engine = MakeEngine(flags, session, options.device_uuid, traces[which],
                                   scorers[which], options.model.max_slots);
    if (!engine.ok()) return engine.status();
    absl::StatusOr<PlayResult> one =
        Play(scorers[which], which == 0 ? flags.trace : flags.more_traces[which - 1], flags,
             StepsOf(flags, traces[which]), engine->get(), *request,
             [&](int done) { progress.Update(all.steps + done, absl::Now()); });
    if (!one.ok()) return one.status();
    all.Add(*one);
  }
  return all;
}

void Warn(const std::string& text) { std::fputs(absl::StrCat(text, "\n").c_str(), stderr); }

void WarnOfDoubts(const ReplayReport& report) {
  if (const uint64_t rows = report.UnexpectedFallbacks(); rows > 0) {
    Warn(absl::StrCat(
        "spinctl replay: warning: ", rows, " of ", report.played.steps,
        " steps kept all blocks out of doubt; the numbers are not those of the setting"));
  }
}

// Of all traces together; what the engine and the full scan both make of such scores agrees, so
// that the numbers alone look well.
absl::StatusOr<trace::ScoreCount> CountAllScores(const ReplayFlags& flags,
                                                 absl::Span<const trace::Trace> traces) {
  trace::ScoreCount all;
  for (size_t i = 0; i < traces.size(); ++i) {
    const std::string& path = i == 0 ? flags.trace : flags.more_traces[i - 1];
    const auto count = CheckScores("replay", path, traces[i], StepsOf(flags, traces[i]));
    if (!count.ok()) return count.status();
    all.Add(*count);
  }
  return all;
}

std::string MetricsUrl(const Connection& connection) {
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok() || list->server().admin_address().empty()) return "";
  return absl::StrCat("http://", list->server().admin_address(), "/metrics");
}

// Where to look while the replay runs. On stderr: JSON on stdout stays alone.
void AnnounceMetrics(const Connection& connection) {
  const std::string url = MetricsUrl(connection);
  if (!url.empty()) Warn(absl::StrCat("spind serves metrics at ", url));
}

void Hold(const SpawnedSpind& spind) {
  Warn(absl::StrCat("spind stays up until Ctrl-C:\n  curl ", MetricsUrl(spind.connection()), "\n  ",
                    InvokedAs(), " top --socket ", spind.socket()));
  while (InterruptSignal() == 0) SleepUnlessInterrupted(absl::Hours(1));
}

absl::Status ReplayThrough(const Connection& connection, const ReplayFlags& flags,
                           absl::Span<const trace::Trace> traces, const SpawnedSpind* own) {
  if (absl::Status status = CheckHealth(connection); !status.ok()) return status;
  const std::string client_name = absl::StrCat("spinctl replay ", getpid());
  const auto list =
      connection.Call(&v1::SpinService::Stub::ListSessions, v1::ListSessionsRequest());
  if (!list.ok()) return list.status();
  SessionOptions options = SessionOptionsFor(flags, traces, connection.socket(), client_name);
  options.device_uuid = list->server().device_uuid();
  if (options.device_uuid != kernels::kCpuUuid && flags.sidecar()) {
    return absl::InvalidArgumentError(
        "--executor: on a GPU replay runs the kernels itself; leave out --executor sidecar");
  }
  absl::StatusOr<Opened> opened = Open(options, SlotsOf(flags, traces[0]));
  if (!opened.ok()) return opened.status();
  AnnounceMetrics(connection);
  const absl::StatusOr<PlayResult> played = PlayAll(flags, traces, &*opened, options);
  if (!played.ok()) return played.status();
  const absl::StatusOr<trace::ScoreCount> scores = CountAllScores(flags, traces);
  if (!scores.ok()) return scores.status();
  ReplayReport report = {flags,
                         traces[0],
                         *played,
                         opened->session->stats(),
                         std::nullopt,
                         *scores,
                         options.device_uuid != kernels::kCpuUuid};
  absl::StatusOr<ServerCounts> counts = FetchServerCounts(connection, client_name);
  if (counts.ok()) report.server = *counts;
  WarnOfDoubts(report);
  const std::string text =
      flags.common.json ? ReportJson(report) : ReportText(report, DetectTerminal(STDOUT_FILENO));
  if (absl::Status status = Print(text); !status.ok()) return status;
  if (flags.hold) Hold(*own);
  return absl::OkStatus();
}

absl::Status RunReplay(const ReplayFlags& flags) {
  const absl::StatusOr<std::vector<trace::Trace>> traces = Load(flags);
  if (!traces.ok()) return traces.status();
  if (!flags.common.socket.empty()) {
    return ReplayThrough(Connection(flags.common.socket), flags, *traces, nullptr);
  }
  const auto spind = SpawnedSpind::Start(flags.spind, flags.device, SlabBytesFor(flags, *traces));
  if (!spind.ok()) return spind.status();
  absl::Status status = ReplayThrough((*spind)->connection(), flags, *traces, spind->get());
  if (const std::string log = (*spind)->Log(); !log.empty())
    Warn(absl::StrCat("spind said:\n", log));
  return status;
}

}  // namespace

void AddReplayCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = app->add_subcommand(
      "replay", "Play a recorded trace through Spin, and measure what it costs");
  command->footer(kFooter);
  AddReplayFlags(command, flags.get());
  command->callback([=] {
    ApplyPolicyFile(*command, flags.get());
    flags->given = GivenFlags(*command);
    *action = [flags] { return RunReplay(*flags); };
  });
}

}  // namespace spin::cli
