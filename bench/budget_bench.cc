// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What live budgets are worth: recorded traces, looped as many requests, through the kernels with
// uniform budgets, offline-calibrated ones, and those that calibration::BudgetController learns
// from audits on the way. Everything in one process, so that hundreds of requests take minutes.
//
//   budget_bench [--json] --topk 512 TRACE.safetensors...
//
// Misses are those of all steps but each request's first; an audited step counts what its list
// would have missed. All runs have the same audits.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/budget_bed.h"
#include "calibration/budget_controller.h"
#include "trace/trace.h"

namespace {

using spin::bench::Playback;
using spin::bench::RecordedScores;
using spin::calibration::BudgetController;
using spin::calibration::BudgetGoal;
using spin::calibration::BudgetOptions;
using Json = nlohmann::ordered_json;
using Curves = std::vector<spin::calibration::MissCurve>;

struct Flags {
  std::vector<std::string> traces;
  int topk = 512;
  int requests = 40;
  int audit_every = 32;
  double exploration = 0.05;
  double target_miss = 0.01;
};

std::vector<double> Uniform(size_t layers, double sparsity) {
  return std::vector<double>(layers, sparsity);
}

BudgetOptions OptionsOf(const Flags& flags, const RecordedScores& trace, BudgetGoal goal) {
  BudgetOptions options;
  options.goal = goal;
  options.target_miss = flags.target_miss;
  options.exploration = flags.exploration;
  options.topk_blocks = trace.TopkBlocks();
  return options;
}

// One long run: the traces in the order of `play`, a request each.
struct Run {
  std::vector<double> request_miss;
  std::vector<double> request_sparsity;
  int changes = 0;
  int fallbacks = 0;
  uint64_t audits = 0;

  double Miss(size_t from = 0) const {
    return std::accumulate(request_miss.begin() + from, request_miss.end(), 0.0) /
           static_cast<double>(request_miss.size() - from);
  }
  double Sparsity(size_t from = 0) const {
    return std::accumulate(request_sparsity.begin() + from, request_sparsity.end(), 0.0) /
           static_cast<double>(request_sparsity.size() - from);
  }
};

Run Play(const Flags& flags, const std::vector<const RecordedScores*>& play,
         std::vector<double> sparsity, BudgetController* controller) {
  Run run;
  for (size_t i = 0; i < play.size(); ++i) {
    Playback playback(*play[i], flags.exploration, flags.audit_every, i);
    double total = 0;
    for (int step = 0; step < play[i]->steps(); ++step) {
      const auto audit = playback.Step(step, sparsity);
      total += std::accumulate(sparsity.begin(), sparsity.end(), 0.0) / sparsity.size();
      if (controller == nullptr || !audit.has_value()) continue;
      ++run.audits;
      if (const auto decision = controller->Take(*audit, 1)) {
        sparsity = decision->sparsity;
        ++run.changes;
        run.fallbacks += decision->fallback ? 1 : 0;
      }
    }
    run.request_miss.push_back(playback.miss());
    run.request_sparsity.push_back(total / play[i]->steps());
  }
  return run;
}

// Curves from audits of every step, under uniform budgets.
Curves Offline(const Flags& flags, const std::vector<const RecordedScores*>& play,
               double sparsity) {
  Curves curves(play[0]->layers());
  for (const RecordedScores* trace : play) {
    Playback playback(*trace, flags.exploration, 0, 0);
    playback.AuditAll(&curves);
    for (int step = 0; step < trace->steps(); ++step) {
      (void)playback.Step(step, Uniform(trace->layers(), sparsity));
    }
  }
  return curves;
}

std::vector<const RecordedScores*> Looped(const std::vector<const RecordedScores*>& once,
                                          int requests) {
  std::vector<const RecordedScores*> out;
  for (int i = 0; i < requests; ++i) out.push_back(once[i % once.size()]);
  return out;
}

// Calibrated budgets at a total, against uniform ones and those fitted offline on the same traces.
// All three play the same requests: in a short context, which steps are audited and what is
// explored decides as much as the budgets do.
Json Calibration(const Flags& flags, const std::vector<const RecordedScores*>& once, double total) {
  const size_t layers = once[0]->layers();
  const std::vector<const RecordedScores*> looped = Looped(once, flags.requests);
  const Run uniform = Play(flags, looped, Uniform(layers, total), nullptr);
  const auto fit = spin::calibration::AllocateAtSparsity(
      Offline(flags, once, total), total,
      {.min_keep = static_cast<double>(once[0]->TopkBlocks()) / once[0]->blocks(),
       .exploration = flags.exploration});
  if (!fit.ok()) return {{"error", std::string(fit.status().message())}};
  const Run offline = Play(flags, looped, fit->sparsity, nullptr);
  BudgetController controller(Uniform(layers, total),
                              OptionsOf(flags, *once[0], BudgetGoal::kCalibrated));
  const Run live = Play(flags, looped, Uniform(layers, total), &controller);
  double worst = 0;
  for (size_t i = 0; i < looped.size(); ++i) {
    worst = std::max(worst, live.request_miss[i] / uniform.request_miss[i]);
  }
  return {{"total", total},
          {"uniform_miss", uniform.Miss()},
          {"offline_miss", offline.Miss()},
          {"live_miss", live.Miss()},
          {"offline_miss_last_half", offline.Miss(looped.size() / 2)},
          {"live_miss_last_half", live.Miss(looped.size() / 2)},
          {"live_to_uniform", live.Miss() / uniform.Miss()},
          {"worst_request_to_uniform", worst},
          {"changes", live.changes},
          {"audits", live.audits}};
}

// The highest uniform total that misses no more over one round of the traces.
double UniformTotalAt(const Flags& flags, const std::vector<const RecordedScores*>& round,
                      double miss) {
  double low = 0.2, high = 0.95;
  for (int i = 0; i < 7; ++i) {
    const double middle = (low + high) / 2;
    const Run run = Play(flags, round, Uniform(round[0]->layers(), middle), nullptr);
    (run.Miss() <= miss ? low : high) = middle;
  }
  return low;
}

// The last three quarters of a long run: the first is for finding the total.
Json Target(const Flags& flags, const std::string& name,
            const std::vector<const RecordedScores*>& round) {
  const size_t layers = round[0]->layers();
  BudgetController controller(Uniform(layers, 0.4),
                              OptionsOf(flags, *round[0], BudgetGoal::kTargetMiss));
  const Run live = Play(flags, Looped(round, flags.requests), Uniform(layers, 0.4), &controller);
  const size_t settled = live.request_miss.size() / 4;
  return {{"traces", name},
          {"miss", live.Miss()},
          {"miss_settled", live.Miss(settled)},
          {"sparsity_settled", live.Sparsity(settled)},
          {"uniform_sparsity", UniformTotalAt(flags, round, live.Miss(settled))},
          {"changes", live.changes},
          {"fallbacks", live.fallbacks},
          {"audits", live.audits}};
}

// The load turns from the first trace to the last; miss and total of every four requests.
Json Switch(const Flags& flags, const RecordedScores* first, const RecordedScores* last) {
  std::vector<const RecordedScores*> play(flags.requests, first);
  play.insert(play.end(), flags.requests, last);
  BudgetController controller(Uniform(first->layers(), 0.4),
                              OptionsOf(flags, *first, BudgetGoal::kTargetMiss));
  const Run live = Play(flags, play, Uniform(first->layers(), 0.4), &controller);
  Json rows = Json::array();
  for (int i = std::max(0, flags.requests - 8); i + 4 <= static_cast<int>(play.size()); i += 4) {
    double miss = 0, sparsity = 0;
    for (int j = i; j < i + 4; ++j) {
      miss += live.request_miss[j] / 4;
      sparsity += live.request_sparsity[j] / 4;
    }
    rows.push_back(
        {{"requests_since", i - flags.requests}, {"miss", miss}, {"sparsity", sparsity}});
  }
  return rows;
}

double Percent(const Json& number) { return 100 * number.get<double>(); }

void Print(const Json& report) {
  std::printf(
      "total   uniform   offline      live  last half: offline  live  worst request  changes  "
      "audits\n");
  for (const Json& row : report["calibrated"]) {
    std::printf(
        "%4.0f %%  %6.3f %%  %6.3f %%  %6.3f %%  %7.3f %%  %7.3f %%         x %4.2f  %7d  %6d\n",
        Percent(row["total"]), Percent(row["uniform_miss"]), Percent(row["offline_miss"]),
        Percent(row["live_miss"]), Percent(row["offline_miss_last_half"]),
        Percent(row["live_miss_last_half"]), row["worst_request_to_uniform"].get<double>(),
        row["changes"].get<int>(), row["audits"].get<int>());
  }
  std::printf("\ntarget miss %.2f %%\n", Percent(report["target_miss"]));
  std::printf("   miss  settled  sparsity  uniform at that miss  changes  fallbacks  traces\n");
  for (const Json& row : report["target"]) {
    std::printf("%5.3f %%  %5.3f %%    %4.1f %%               %4.1f %%  %7d  %9d  %s\n",
                Percent(row["miss"]), Percent(row["miss_settled"]),
                Percent(row["sparsity_settled"]), Percent(row["uniform_sparsity"]),
                row["changes"].get<int>(), row["fallbacks"].get<int>(),
                row["traces"].get<std::string>().c_str());
  }
  if (report["switch"].empty()) return;
  std::printf(
      "\nafter the load turned from the first to the last trace\nrequests   miss  sparsity\n");
  for (const Json& row : report["switch"]) {
    std::printf("    %+4d  %5.3f %%   %4.1f %%\n", row["requests_since"].get<int>(),
                Percent(row["miss"]), Percent(row["sparsity"]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  bool json = false;
  CLI::App app("Live budgets against uniform and offline-calibrated ones, on recorded traces.");
  app.add_option("traces", flags.traces, "Recorded traces of one model")->required();
  app.add_option("--topk", flags.topk, "K")->capture_default_str();
  app.add_option("--requests", flags.requests, "Requests in a long run")->capture_default_str();
  app.add_option("--audit-every", flags.audit_every, "N")->capture_default_str();
  app.add_option("--exploration", flags.exploration, "gamma")->capture_default_str();
  app.add_option("--target-miss", flags.target_miss, "Target")->capture_default_str();
  app.add_flag("--json", json, "One object instead of tables");
  CLI11_PARSE(app, argc, argv);

  std::vector<std::unique_ptr<RecordedScores>> traces;
  for (const std::string& path : flags.traces) {
    const auto trace = spin::trace::LoadTrace(path);
    if (!trace.ok()) {
      std::fprintf(stderr, "budget_bench: %s\n", std::string(trace.status().message()).c_str());
      return 2;
    }
    traces.push_back(std::make_unique<RecordedScores>(*trace, flags.topk));
  }
  std::vector<const RecordedScores*> once;
  for (const auto& trace : traces) once.push_back(trace.get());

  Json report = {{"topk", flags.topk},
                 {"requests", flags.requests},
                 {"audit_every", flags.audit_every},
                 {"target_miss", flags.target_miss}};
  for (const double total : {0.5, 0.6, 0.7, 0.8}) {
    report["calibrated"].push_back(Calibration(flags, once, total));
  }
  for (size_t i = 0; i < once.size(); ++i) {
    report["target"].push_back(Target(flags, flags.traces[i], {once[i]}));
  }
  if (once.size() > 1) report["target"].push_back(Target(flags, "all, in turn", once));
  report["switch"] = once.size() > 1 ? Switch(flags, once.front(), once.back()) : Json::array();
  if (json) {
    std::printf("%s\n", report.dump(2).c_str());
  } else {
    Print(report);
  }
  return 0;
}
