// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/top/render.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/describe.h"
#include "client/cli/terminal/bar.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/wrap.h"
#include "policy_file/policy_file.h"

namespace spin::cli {
namespace {

constexpr int kBarWidth = 20;
constexpr int kLabelWidth = 12;  // "  sparsity  "
constexpr int kNoLimit = 1 << 20;
constexpr double kSparsityGap = 0.1;  // realised this far below the target is worth a colour

class Renderer {
 public:
  explicit Renderer(const Terminal& terminal) : terminal_(terminal), paint_(terminal.color) {}

  std::vector<std::string> Render(const Frame& frame) {
    Header(frame);
    if (frame.sessions.empty()) {
      Line("");
      Line("no open session; an engine opens one, or try 'spinctl replay --socket ...'");
    }
    for (const SessionFrame& session : frame.sessions) Session(session);
    return std::move(lines_);
  }

 private:
  // What does not go to a terminal is whole, whoever reads it.
  void Line(const std::string& text) {
    lines_.push_back(terminal_.tty ? Clip(text, terminal_.columns) : text);
  }
  // Broken at blanks where it is wider than the terminal.
  void Item(const std::string& label, const std::string& text) {
    const int room = terminal_.tty ? std::max(1, terminal_.columns - kLabelWidth) : kNoLimit;
    std::string name = label;
    for (const std::string& part : Wrap(text, static_cast<size_t>(room))) {
      Line(absl::StrFormat("  %-*s%s", kLabelWidth - 2, name, part));
      name.clear();
    }
  }

  void Header(const Frame& frame) {
    const v1::ServerInfo& server = frame.server;
    const double used = static_cast<double>(server.slab_used_bytes()) /
                        static_cast<double>(std::max<uint64_t>(1, server.slab_bytes()));
    Line(absl::StrFormat(
        "%s  up %s  %s  %d %s", paint_(Tone::kStrong, absl::StrCat("spind ", server.version())),
        FormatAge(frame.taken_at - ToTime(server.started_at())), server.device_uuid(),
        frame.sessions.size(), frame.sessions.size() == 1 ? "session" : "sessions"));
    Item("slab",
         absl::StrFormat("[%s] %s of %s", Bar(used, kBarWidth, terminal_.unicode),
                         FormatBytes(server.slab_used_bytes()), FormatBytes(server.slab_bytes())));
  }

  void Session(const SessionFrame& s) {
    Line("");
    Line(absl::StrFormat("%s  session %s  policy epoch %d", paint_(Tone::kStrong, s.model), s.id,
                         s.policy_epoch));
    Sparsity(s);
    Item("blocks", absl::StrFormat("predicted %s  explored %s  pinned %s  full %s",
                                   FormatCount(s.predicted_blocks), FormatCount(s.explored_blocks),
                                   FormatCount(s.pinned_blocks), FormatCount(s.full_blocks)));
    Item("miss", Miss(s));
    Item("budgets", Budgets(s));
    if (!s.budget.reason().empty()) Item("  reason", paint_(Tone::kQuiet, s.budget.reason()));
    Item("fallbacks", Fallbacks(s));
    Item("steps", Steps(s));
    Item("state", absl::StrFormat("%s, %d open %s", FormatBytes(s.state_bytes), s.open_requests,
                                  s.open_requests == 1 ? "request" : "requests"));
    Layers("sparsity", s.layer_sparsity, 1.0);
    const double worst = Worst(s.layer_miss);
    if (worst > 0) Layers("miss", s.layer_miss, worst);
    if (s.budget.changes() > 0) Layers("budget", s.layer_target, 1.0);
  }

  void Sparsity(const SessionFrame& s) {
    const bool low = s.realized_sparsity < s.target_sparsity - kSparsityGap;
    const std::string realized = FormatPercent(s.realized_sparsity, 1);
    const std::string target = s.switched_off
                                   ? paint_(Tone::kWarn, "off: every list keeps all blocks")
                                   : absl::StrCat("target ", FormatPercent(s.target_sparsity, 1));
    Item("sparsity",
         absl::StrFormat("[%s] %s, %s%s", Bar(s.realized_sparsity, kBarWidth, terminal_.unicode),
                         paint_(low ? Tone::kWarn : Tone::kPlain, realized), target,
                         s.recent ? "" : paint_(Tone::kQuiet, "  (since opened)")));
  }

  std::string Miss(const SessionFrame& s) const {
    if (s.audit_topk_slots == 0) return paint_(Tone::kQuiet, "not audited yet");
    return absl::StrFormat(
        "%s of %s audited top-K slots, recently %s; %s audits cost %s of all blocks",
        FormatPercent(s.miss, 3), FormatCount(s.audit_topk_slots),
        FormatPercent(s.budget.recent_miss(), 3), FormatCount(s.audited_rows),
        FormatPercent(s.audit_cost, 1));
  }

  // Who decides, and what has become of it.
  std::string Budgets(const SessionFrame& s) const {
    std::string mode = policy_file::ModeName(s.budget.mode());
    if (s.budget.mode() == v1::BUDGET_MODE_TARGET_MISS) {
      absl::StrAppend(&mode, " ", FormatPercent(s.budget.target_miss(), 2));
    }
    if (s.budget.changes() > 0) {
      absl::StrAppend(&mode, ", ", FormatCount(s.budget.changes()), " changes");
    }
    if (s.budget.fallbacks() > 0) {
      absl::StrAppend(
          &mode, ", ",
          paint_(Tone::kWarn, absl::StrCat(s.budget.fallbacks(), " back to more blocks")));
    }
    return mode;
  }

  std::string Fallbacks(const SessionFrame& s) const {
    std::vector<std::string> counts;
    for (const auto& [reason, rows] : s.fallbacks) {
      if (rows == 0) continue;
      const Tone tone = reason == "cold" ? Tone::kPlain : Tone::kWarn;
      counts.push_back(paint_(tone, absl::StrCat(reason, " ", FormatCount(rows))));
    }
    return counts.empty() ? paint_(Tone::kQuiet, "none") : absl::StrJoin(counts, "  ");
  }

  std::string Steps(const SessionFrame& s) const {
    const std::string rate = std::isnan(s.steps_per_second)
                                 ? absl::StrCat(FormatCount(s.steps), " in all")
                                 : absl::StrFormat("%.1f/s", s.steps_per_second);
    return absl::StrFormat("%s, predict %s, observe %s", rate,
                           FormatMicros(s.predict_seconds * 1e6),
                           FormatMicros(s.observe_seconds * 1e6));
  }

  static double Worst(const std::vector<double>& shares) {
    double worst = 0;
    for (const double share : shares) worst = std::max(worst, std::isnan(share) ? 0 : share);
    return worst;
  }

  // One bar for each layer, in rows as wide as the terminal; the first says what a full bar is.
  void Layers(const std::string& label, const std::vector<double>& shares, double full) {
    const std::string scale = absl::StrCat(terminal_.unicode ? "  full bar: " : "  9: ",
                                           FormatPercent(full, full == 1 ? 0 : 2));
    const size_t room =
        std::max(8, terminal_.columns - kLabelWidth - 10 - static_cast<int>(scale.size()));
    for (size_t begin = 0; begin < shares.size(); begin += room) {
      const auto part = absl::MakeConstSpan(shares).subspan(begin, room);
      Item(begin == 0 ? "by layer" : "",
           absl::StrFormat("%-8s  %s%s", begin == 0 ? label : "",
                           Columns(part, full, terminal_.unicode),
                           begin == 0 ? paint_(Tone::kQuiet, scale) : ""));
    }
  }

  const Terminal& terminal_;
  Paint paint_;
  std::vector<std::string> lines_;
};

Json Shares(const std::vector<double>& shares) {
  Json list = Json::array();
  for (const double share : shares) list.push_back(share);  // NaN becomes null
  return list;
}

Json SessionFrameJson(const SessionFrame& s) {
  Json fallbacks = Json::object();
  for (const auto& [reason, rows] : s.fallbacks) fallbacks[reason] = rows;
  return {{"session_id", s.id},
          {"model_name", s.model},
          {"since_last_look", s.recent},
          {"realized_sparsity", s.realized_sparsity},
          {"target_sparsity", s.target_sparsity},
          {"blocks",
           {{"predicted", s.predicted_blocks},
            {"explored", s.explored_blocks},
            {"pinned", s.pinned_blocks},
            {"full", s.full_blocks}}},
          {"audits",
           {{"topk_slots", s.audit_topk_slots},
            {"missed_slots", s.audit_missed_slots},
            {"miss", s.miss},
            {"rows", s.audited_rows},
            {"extra_blocks_share", s.audit_cost}}},
          {"budgets",
           {{"mode", policy_file::ModeName(s.budget.mode())},
            {"target_miss", s.budget.target_miss()},
            {"recent_miss", s.budget.recent_miss()},
            {"expected_miss", s.budget.expected_miss()},
            {"changes", s.budget.changes()},
            {"fallbacks", s.budget.fallbacks()},
            {"reason", s.budget.reason()},
            {"layer_target_sparsity", Shares(s.layer_target)}}},
          {"fallbacks", fallbacks},
          {"steps", s.steps},
          {"steps_per_second", s.steps_per_second},
          {"predict_seconds", s.predict_seconds},
          {"observe_seconds", s.observe_seconds},
          {"open_requests", s.open_requests},
          {"state_bytes", s.state_bytes},
          {"policy_epoch", s.policy_epoch},
          {"enabled", !s.switched_off},
          {"layer_sparsity", Shares(s.layer_sparsity)},
          {"layer_miss", Shares(s.layer_miss)}};
}

}  // namespace

std::vector<std::string> RenderFrame(const Frame& frame, const Terminal& terminal) {
  return Renderer(terminal).Render(frame);
}

Json FrameJson(const Frame& frame) {
  Json sessions = Json::array();
  for (const SessionFrame& session : frame.sessions) sessions.push_back(SessionFrameJson(session));
  return {{"taken_at", absl::FormatTime(absl::RFC3339_sec, frame.taken_at, absl::UTCTimeZone())},
          {"server", ServerJson(frame.server)},
          {"sessions", std::move(sessions)}};
}

}  // namespace spin::cli
