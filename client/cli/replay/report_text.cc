// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/cli/command.h"
#include "client/cli/replay/report.h"
#include "client/cli/shell_word.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/table.h"

namespace spin::cli {
namespace {

constexpr double kMicros = 1e6;

std::string Requests(const ReplayReport& report) {
  const size_t requests = report.played.requests.size();
  const size_t others = report.flags.more_traces.size();
  if (requests <= 1) return "one request";
  return absl::StrCat(requests, " requests",
                      others == 0 ? "" : absl::StrCat(" of this and ", others, " more traces"));
}

std::string Mode(const ReplayFlags& flags) {
  if (flags.budget_mode != "target_miss" || !flags.target_miss) return flags.budget_mode;
  return absl::StrCat(flags.budget_mode, " ", FormatPercent(*flags.target_miss, 2));
}

std::string Setting(const ReplayReport& report) {
  const ReplayFlags& flags = report.flags;
  const GivenFlag* policy = FindGiven(flags, "--policy");
  const std::string sparsity =
      flags.layer_sparsity.empty()
          ? FormatPercent(flags.sparsity, 1)
          : absl::StrCat("per layer ", absl::StrJoin(flags.layer_sparsity, ","));
  return absl::StrFormat(
      "%s: %s slots, %d layers, %d steps, %s\n"
      "top-K %d, blocks of %d, %s executor, %s state\n"
      "sparsity %s, exploration %s, alpha %g, audits %s\n"
      "budgets %s%s\n",
      flags.trace, FormatCount(report.trace.Context(StepsOf(flags, report.trace) - 1)),
      report.trace.layers, report.played.steps, Requests(report), flags.topk, flags.block,
      flags.executor, flags.state, sparsity, FormatPercent(flags.exploration, 1), flags.alpha,
      flags.audit_every == 0 ? "never"
                             : absl::StrCat("every ", flags.audit_every, " steps on average"),
      Mode(flags), policy == nullptr ? "" : absl::StrCat("; policy file ", *policy->value));
}

std::vector<std::string> Row(const std::string& name, const QualityMeter& meter) {
  const Quality quality = meter.Read();
  return {name,
          FormatPercent(quality.realized_sparsity, 1),
          FormatPercent(quality.miss_mean, 3),
          FormatPercent(quality.miss_p99, 2),
          FormatPercent(quality.recall, 3),
          FormatCount(meter.kept_slots()),
          FormatCount(meter.considered_slots())};
}

std::string LayerTable(const ReplayReport& report, const Paint& paint) {
  Table table({{"layer"},
               {"sparsity"},
               {"miss mean"},
               {"miss p99"},
               {"recall"},
               {"scores computed"},
               {"of all"}});
  for (size_t i = 0; i < report.played.layers.size(); ++i) {
    table.AddRow(Row(absl::StrCat(report.trace.layer_numbers[i]), report.played.layers[i]));
  }
  table.AddRule();
  table.AddRow(Row("total", report.Total()));
  return table.Render(paint);
}

std::string Times(const ReplayReport& report) {
  const StepTimes& mean = report.played.mean;
  const StepTimes& full = report.played.mean_full;
  const std::string times =
      absl::StrFormat("time per step   %s = Spin %s + scoring %s + top-K %s\n",
                      FormatMicros(mean.all() * kMicros), FormatMicros(mean.spin * kMicros),
                      FormatMicros(mean.score * kMicros), FormatMicros(mean.topk * kMicros));
  if (report.on_gpu) return times;
  return absl::StrFormat("%swithout Spin    %s = scoring everything %s + top-K %s\n", times,
                         FormatMicros(full.all() * kMicros), FormatMicros(full.score * kMicros),
                         FormatMicros(full.topk * kMicros));
}

std::string Exactness(const ReplayReport& report, const Paint& paint) {
  return report.played.exact
             ? paint(Tone::kGood, "every kept score equals the full scan's, bit by bit")
             : paint(Tone::kBad, "NOT exact: a kept score differs from the full scan's (a bug)");
}

std::string Fallbacks(const ReplayReport& report, const Paint& paint) {
  std::vector<std::string> counts;
  for (int r = 0; r < kReasonCount; ++r) {
    const Reason reason = static_cast<Reason>(r);
    const uint64_t rows = report.client.rows_by_reason[r];
    if (IsFallback(reason) && rows > 0)
      counts.push_back(absl::StrCat(ReasonName(reason), " ", rows));
  }
  const std::string text = counts.empty() ? "none" : absl::StrJoin(counts, ", ");
  if (report.UnexpectedFallbacks() > 0) return paint(Tone::kWarn, text);
  return absl::StrCat(
      text, counts.empty() ? "" : paint(Tone::kQuiet, " (the first step has no history)"));
}

std::string Audits(const ReplayReport& report) {
  if (report.flags.audit_every == 0) return "";
  const uint64_t rows = report.client.rows_by_reason[static_cast<int>(Reason::kAudit)];
  std::string line = absl::StrCat("audits          ", rows, rows == 1 ? " step" : " steps");
  if (report.server.has_value()) {
    absl::StrAppend(&line, ": ", FormatCount(report.server->audit_missed_slots), " of ",
                    FormatCount(report.server->audit_topk_slots),
                    " top-K slots would have been missed");
  }
  return line + "\n";
}

std::string Budgets(const ReplayReport& report) {
  if (report.flags.budget_mode == "fixed" || !report.server.has_value()) return "";
  const ServerCounts& server = *report.server;
  return absl::StrFormat("budgets         %s, %d changes, %d fallbacks; now %s: %s\n",
                         report.flags.budget_mode, server.budget_changes, server.budget_fallbacks,
                         FormatPercent(server.target_sparsity, 1), server.budget_reason);
}

// The command that was given, but for these flags.
std::string CommandWithout(const ReplayReport& report,
                           std::initializer_list<absl::string_view> left_out) {
  std::string command = absl::StrCat(ShellWord(InvokedAs()), " replay");
  for (const GivenFlag& flag : report.flags.given) {
    if (std::find(left_out.begin(), left_out.end(), flag.name) != left_out.end()) continue;
    absl::StrAppend(&command, " ", flag.name);
    if (flag.value.has_value()) absl::StrAppend(&command, " ", ShellWord(*flag.value));
  }
  return command;
}

std::string OtherTrade(const ReplayReport& report) {
  const ReplayFlags& flags = report.flags;
  if (flags.budget_mode == "target_miss" && flags.target_miss.has_value()) {
    const double other = std::min(2 * *flags.target_miss, 0.5);
    return absl::StrCat("  ", CommandWithout(report, {"--target-miss", "--hold", "--json"}),
                        " --target-miss ", other,
                        "\n      allow more misses; watch the sparsity\n");
  }
  const double other = flags.sparsity < 0.55 ? 0.7 : 0.4;
  return absl::StrCat(
      "  ", CommandWithout(report, {"--sparsity", "--layer-sparsity", "--hold", "--json"}),
      " --sparsity ", other, "\n      skip ", other > flags.sparsity ? "more" : "fewer", " blocks",
      flags.layer_sparsity.empty() ? "" : ", the same share in each layer", "; watch the miss\n");
}

// Settings that show the trade better than the one just seen.
std::string Next(const ReplayReport& report, const Paint& paint) {
  const ReplayFlags& flags = report.flags;
  std::string next = absl::StrCat(paint(Tone::kStrong, "Try next:"), "\n", OtherTrade(report));
  if (flags.audit_every == 0) {
    absl::StrAppend(&next, "  ", CommandWithout(report, {"--audit-every", "--hold", "--json"}),
                    " --audit-every 16\n"
                    "      let spind measure its own miss rate, as it does in production\n");
  }
  if (!flags.common.socket.empty()) {
    absl::StrAppend(&next, "  ", CommandWithout(report, {"--rounds", "--json"}),
                    " --rounds 200\n      long enough to watch, elsewhere: ",
                    ShellWord(InvokedAs()), " top --socket ", ShellWord(flags.common.socket), "\n");
  } else if (!flags.hold) {
    absl::StrAppend(&next, "  ", CommandWithout(report, {"--json"}),
                    " --hold\n      keep spind up, to look at /metrics and 'spinctl top'\n");
  }
  return next;
}

}  // namespace

std::string ReportText(const ReplayReport& report, const Terminal& terminal) {
  const Paint paint(terminal.color);
  return absl::StrCat(Setting(report), "\n", LayerTable(report, paint), "\n", Times(report),
                      "fallbacks       ", Fallbacks(report, paint), "\n", Audits(report),
                      Budgets(report), "check           ", Exactness(report, paint), "\n\n",
                      Next(report, paint));
}

}  // namespace spin::cli
