// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What live budgets are worth: recorded traces, looped as many requests, through the kernels with
// uniform budgets, offline-calibrated ones, and those that calibration::BudgetController learns
// from audits on the way. Everything in one process, so that hundreds of requests take minutes.
//
//   budget_bench --topk 512 TRACE.safetensors...

#include <CLI/CLI.hpp>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
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
         std::vector<double> sparsity, BudgetController* controller, bool verbose = false) {
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
        if (verbose) {
          std::printf("    request %zu step %d: %s\n", i, step, decision->reason.c_str());
        }
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

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  bool verbose = false;
  CLI::App app("Live budgets against uniform and offline-calibrated ones, on recorded traces.");
  app.add_option("traces", flags.traces, "Recorded traces of one model")->required();
  app.add_option("--topk", flags.topk, "K")->capture_default_str();
  app.add_option("--requests", flags.requests, "Requests in a long run")->capture_default_str();
  app.add_option("--audit-every", flags.audit_every, "N")->capture_default_str();
  app.add_option("--exploration", flags.exploration, "gamma")->capture_default_str();
  app.add_option("--target-miss", flags.target_miss, "Target")->capture_default_str();
  app.add_flag("--verbose", verbose, "Print every change");
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
  std::vector<const RecordedScores*> once, looped;
  for (const auto& trace : traces) once.push_back(trace.get());
  for (int i = 0; i < flags.requests; ++i) looped.push_back(once[i % once.size()]);
  const size_t layers = once[0]->layers();

  std::printf(
      "total   uniform   offline      live  live last half  (ratio to offline)  worst "
      "request/uniform  changes\n");
  for (const double total : {0.5, 0.6, 0.7, 0.8}) {
    const Run uniform = Play(flags, once, Uniform(layers, total), nullptr);
    const auto fit = spin::calibration::AllocateAtSparsity(
        Offline(flags, once, total), total,
        {.min_keep = static_cast<double>(once[0]->TopkBlocks()) / once[0]->blocks(),
         .exploration = flags.exploration});
    const Run offline = Play(flags, once, fit->sparsity, nullptr);
    BudgetController controller(Uniform(layers, total),
                                OptionsOf(flags, *once[0], BudgetGoal::kCalibrated));
    const Run live = Play(flags, looped, Uniform(layers, total), &controller, verbose);
    double worst = 0;
    for (size_t i = 0; i < looped.size(); ++i) {
      worst = std::max(worst, live.request_miss[i] / uniform.request_miss[i % once.size()]);
    }
    const double late = live.Miss(looped.size() / 2);
    std::printf(
        "%5.2f  %7.4f%%  %7.4f%%  %7.4f%%  %7.4f%%        %5.3f          %5.3f       %d of %d "
        "audits\n",
        total, 100 * uniform.Miss(), 100 * offline.Miss(), 100 * live.Miss(), 100 * late,
        late / offline.Miss(), worst, live.changes, static_cast<int>(live.audits));
  }

  std::printf(
      "\ntarget miss %.2f %%\nrun          miss   last 3/4  sparsity  uniform at that miss   "
      "changes fallbacks\n",
      100 * flags.target_miss);
  std::map<std::string, std::vector<const RecordedScores*>> plays;
  for (size_t i = 0; i < once.size(); ++i) {
    plays[std::to_string(i) + " alone"] =
        std::vector<const RecordedScores*>(flags.requests, once[i]);
  }
  plays["mixed"] = looped;
  for (const auto& [name, play] : plays) {
    BudgetController controller(Uniform(layers, 0.4),
                                OptionsOf(flags, *once[0], BudgetGoal::kTargetMiss));
    const Run live = Play(flags, play, Uniform(layers, 0.4), &controller, verbose);
    const size_t quarter = play.size() / 4;
    // The uniform setting that misses as much, over one round of the same traces.
    const std::vector<const RecordedScores*> round(
        play.begin(), play.begin() + static_cast<long>(std::min(play.size(), once.size())));
    double low = 0.2, high = 0.95;
    for (int i = 0; i < 7; ++i) {
      const double middle = (low + high) / 2;
      (Play(flags, round, Uniform(layers, middle), nullptr).Miss() <= live.Miss(quarter) ? low
                                                                                         : high) =
          middle;
    }
    std::printf("%-10s %6.3f%%  %6.3f%%  %7.2f%%  %7.2f%%  +%5.2f    %4d %4d of %d audits\n",
                name.c_str(), 100 * live.Miss(), 100 * live.Miss(quarter),
                100 * live.Sparsity(quarter), 100 * low, 100 * (live.Sparsity(quarter) - low),
                live.changes, live.fallbacks, static_cast<int>(live.audits));
  }
  if (once.size() >= 2) {
    std::vector<const RecordedScores*> play(flags.requests, once.front());
    play.insert(play.end(), flags.requests, once.back());
    BudgetController controller(Uniform(layers, 0.4),
                                OptionsOf(flags, *once[0], BudgetGoal::kTargetMiss));
    const Run live = Play(flags, play, Uniform(layers, 0.4), &controller, verbose);
    std::printf(
        "\nswitch from the first to the last trace after %d requests; miss per 4 requests:\n",
        flags.requests);
    for (size_t i = play.size() / 2 - 8; i + 4 <= play.size(); i += 4) {
      double miss = 0, sparsity = 0;
      for (size_t j = i; j < i + 4; ++j) {
        miss += live.request_miss[j] / 4;
        sparsity += live.request_sparsity[j] / 4;
      }
      std::printf("  %+4d  %.3f %%  at %.1f %%\n", static_cast<int>(i) - flags.requests, 100 * miss,
                  100 * sparsity);
    }
  }
  return 0;
}
