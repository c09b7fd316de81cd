// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/terminal.h"
#include "client/cli/terminal/wrap.h"
#include "client/cli/top/frame.h"
#include "client/cli/top/quit_watch.h"
#include "client/cli/top/render.h"
#include "client/cli/top/screen.h"
#include "client/cli/values.h"
#include "client/cli/watch.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kRetryEvery = absl::Seconds(1);

constexpr char kFooter[] =
    R"(On a terminal the view redraws itself; q or Ctrl-C ends it, and it waits for a spind that restarts.
Elsewhere it prints a frame for each interval, with --json an object on a line of its own.

  sparsity   share of blocks that were not scored, since the last frame
  miss       share of the true top-K outside the list that would have been used: of all audited
             steps, and recently, where older audits count less and less
  budgets    who decides how much each layer skips: fixed (the policy), calibrated (spind, at the
             policy's total), target_miss (spind, so that no more is missed); below, why they were
             last changed. 'expected' there is the miss that audits foretell for new budgets
  fallbacks  rows that kept all blocks out of doubt, by reason
  by layer   one column for each layer, the first layer first: its height is the layer's sparsity;
             its miss against the worst layer's; the sparsity that its budget asks for. Without
             Unicode a digit, 0 to 9

Examples:
  spinctl top
  spinctl top --interval 250ms
  spinctl top --once --json | jq '.sessions[].realized_sparsity')";

struct TopFlags {
  CommonFlags common;
  std::string interval = "1s";
  bool once = false;

  absl::Duration interval_duration() const {
    absl::Duration duration = absl::Seconds(1);
    absl::ParseDuration(interval, &duration);  // checked while parsing
    return duration;
  }
};

using OnFrame = std::function<absl::Status(const Frame&)>;

v1::WatchStatsRequest RequestFor(const TopFlags& flags) {
  v1::WatchStatsRequest request;
  const absl::Duration interval = flags.interval_duration();
  const int64_t seconds = absl::ToInt64Seconds(interval);
  request.mutable_interval()->set_seconds(seconds);
  request.mutable_interval()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(interval - absl::Seconds(seconds))));
  return request;
}

// Follows the stream until it ends, on_frame fails, or it is time to quit (OK).
absl::Status Follow(const Connection& connection, const TopFlags& flags, QuitWatch* quit,
                    const OnFrame& on_frame) {
  grpc::ClientContext context;
  const auto stream = connection.stub().WatchStats(&context, RequestFor(flags));
  quit->Guard(&context);
  v1::WatchStatsResponse before, now;
  bool first = true;
  absl::Status shown;
  while (shown.ok() && stream->Read(&now)) {
    shown = on_frame(MakeFrame(now, first ? nullptr : &before));
    before.Swap(&now);
    first = false;
  }
  if (!shown.ok()) context.TryCancel();
  const grpc::Status ended = stream->Finish();
  quit->Guard(nullptr);
  if (!shown.ok() || quit->quit()) return shown;
  return ended.ok() ? absl::UnavailableError("spind ended the stream")
                    : connection.Explain(ended, context);
}

absl::Status RunOnce(const Connection& connection, const TopFlags& flags) {
  const absl::StatusOr<v1::WatchStatsResponse> look = FetchStats(connection, 0);
  if (!look.ok()) return look.status();
  const Frame frame = MakeFrame(*look, nullptr);
  if (flags.common.json) return Print(Dump(FrameJson(frame)));
  const Terminal terminal = DetectTerminal(STDOUT_FILENO);
  return Print(absl::StrCat(absl::StrJoin(RenderFrame(frame, terminal), "\n"), "\n"));
}

absl::Status RunPlain(const Connection& connection, const TopFlags& flags) {
  QuitWatch quit(/*keys=*/false);
  const Terminal terminal = DetectTerminal(STDOUT_FILENO);
  return Follow(connection, flags, &quit, [&](const Frame& frame) {
    if (flags.common.json) return Print(DumpLine(FrameJson(frame)));
    return Print(absl::StrCat(absl::StrJoin(RenderFrame(frame, terminal), "\n"), "\n\n"));
  });
}

absl::Status RunLive(const std::string& socket, const TopFlags& flags) {
  Screen screen;
  QuitWatch quit(screen.keys());
  const auto draw = [&](std::vector<std::string> lines, const Terminal& terminal) {
    lines.push_back("");
    lines.push_back(absl::StrCat("every ", flags.interval, "; q quits"));
    return screen.Draw(std::move(lines), terminal.rows);
  };
  for (;;) {
    const Connection connection(
        socket);  // a new one tries at once, an old one only after a backoff
    absl::Status status = Follow(connection, flags, &quit, [&](const Frame& frame) {
      const Terminal terminal = DetectTerminal(STDOUT_FILENO);
      return draw(RenderFrame(frame, terminal), terminal);
    });
    if (quit.quit()) return absl::OkStatus();
    if (!absl::IsUnavailable(status)) return status;
    const Terminal terminal = DetectTerminal(STDOUT_FILENO);
    absl::Status drawn =
        draw(Wrap(status.message(), static_cast<size_t>(terminal.columns)), terminal);
    if (!drawn.ok()) return drawn;
    quit.Sleep(kRetryEvery);
  }
}

absl::Status RunTop(const TopFlags& flags) {
  const std::string socket = SocketOrDefault(flags.common.socket);
  if (flags.once) return RunOnce(Connection(socket), flags);
  const bool live = DetectTerminal(STDOUT_FILENO).tty && !flags.common.json;
  return live ? RunLive(socket, flags) : RunPlain(Connection(socket), flags);
}

}  // namespace

void AddTopCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<TopFlags>();
  CLI::App* command = app->add_subcommand("top", "Live view: sparsity, miss, fallbacks, times");
  command->footer(kFooter);
  command->add_option("--interval", flags->interval, "Between frames, 100ms to 1h")
      ->check(DurationIn(absl::Milliseconds(100), absl::Hours(1)))
      ->type_name("TIME")
      ->capture_default_str();
  command->add_flag("--once", flags->once, "One frame, of the totals, and exit");
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags] { return RunTop(*flags); }; });
}

}  // namespace spin::cli
