// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "client/cli/ids.h"
#include "client/cli/json.h"
#include "client/cli/replay/report.h"

namespace spin::cli {
namespace {

constexpr double kMicros = 1e6;

void AddQuality(const Quality& quality, Json* object) {
  (*object)["realized_sparsity"] = quality.realized_sparsity;
  (*object)["miss_mean"] = quality.miss_mean;
  (*object)["miss_p99"] = quality.miss_p99;
  (*object)["recall"] = quality.recall;
}

Json LayersJson(const ReplayReport& report) {
  Json layers = Json::array();
  for (size_t i = 0; i < report.played.layers.size(); ++i) {
    Json layer = {{"layer", report.trace.layer_numbers[i]}};
    AddQuality(report.played.layers[i].Read(), &layer);
    layers.push_back(std::move(layer));
  }
  return layers;
}

Json FallbacksJson(const SessionStats& stats) {
  Json fallbacks = Json::object();
  for (int r = 0; r < kReasonCount; ++r) {
    const Reason reason = static_cast<Reason>(r);
    if (IsFallback(reason)) fallbacks[std::string(ReasonName(reason))] = stats.rows_by_reason[r];
  }
  return fallbacks;
}

Json RequestsJson(const PlayResult& played) {
  Json requests = Json::array();
  for (const RequestQuality& request : played.requests) {
    requests.push_back({{"trace", request.trace},
                        {"miss_mean", request.miss_mean},
                        {"realized_sparsity", request.realized_sparsity}});
  }
  return requests;
}

// What spind had made of the budgets in the end.
Json BudgetsJson(const ReplayReport& report) {
  if (!report.server.has_value()) return Json();
  return {{"changes", report.server->budget_changes},
          {"fallbacks", report.server->budget_fallbacks},
          {"target_sparsity", report.server->target_sparsity},
          {"layer_sparsity", report.server->layer_sparsity},
          {"reason", report.server->budget_reason}};
}

Json AuditsJson(const ReplayReport& report) {
  Json audits = {{"rows", report.client.rows_by_reason[static_cast<int>(Reason::kAudit)]}};
  audits["topk_slots"] = report.server ? Json(report.server->audit_topk_slots) : Json();
  audits["missed_slots"] = report.server ? Json(report.server->audit_missed_slots) : Json();
  return audits;
}

void AddSetting(const ReplayReport& report, Json* object) {
  const ReplayFlags& flags = report.flags;
  (*object)["trace"] = flags.trace;
  (*object)["slots"] = report.trace.Context(StepsOf(flags, report.trace) - 1);
  (*object)["layer_count"] = report.trace.layers;
  (*object)["executor"] = flags.executor;
  (*object)["state"] = flags.state;
  (*object)["block"] = flags.block;
  (*object)["topk"] = flags.topk;
  (*object)["sparsity"] = flags.sparsity;
  (*object)["layer_sparsity"] = flags.layer_sparsity;
  (*object)["budget_mode"] = flags.budget_mode;
  (*object)["exploration"] = flags.exploration;
  (*object)["alpha"] = flags.alpha;
  (*object)["seed"] = flags.seed;
  (*object)["audit_every"] = flags.audit_every;
  (*object)["pin_first_block"] = flags.pin_first_block;
}

void AddTimes(const ReplayReport& report, Json* object) {
  const PlayResult& played = report.played;
  (*object)["us_per_step"] = played.mean.all() * kMicros;
  (*object)["spin_us_per_step"] = played.mean.spin * kMicros;
  (*object)["score_us_per_step"] = played.mean.score * kMicros;
  (*object)["topk_us_per_step"] = played.mean.topk * kMicros;
  const auto full = [&](double seconds) {
    return report.on_gpu ? Json() : Json(seconds * kMicros);
  };
  (*object)["full_us_per_step"] = full(played.mean_full.all());
  (*object)["full_score_us_per_step"] = full(played.mean_full.score);
  (*object)["full_topk_us_per_step"] = full(played.mean_full.topk);
}

}  // namespace

std::string ReportJson(const ReplayReport& report) {
  const QualityMeter total = report.Total();
  Json object;
  AddSetting(report, &object);
  object["steps"] = report.played.steps;
  AddQuality(total.Read(), &object);
  object["exact"] = report.played.exact;
  object["layers"] = LayersJson(report);
  AddTimes(report, &object);
  object["scores_computed"] = total.kept_slots();
  object["scores_full"] = total.considered_slots();
  object["nan_scores"] = report.scores.nan;
  object["infinite_scores"] = report.scores.infinite;
  object["fallbacks"] = FallbacksJson(report.client);
  object["audits"] = AuditsJson(report);
  object["budgets"] = BudgetsJson(report);
  object["requests"] = RequestsJson(report.played);
  object["epoch"] = report.server ? Json(FormatId(report.server->epoch)) : Json();
  return Dump(object);
}

}  // namespace spin::cli
