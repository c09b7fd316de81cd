// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/session_metrics.h"

#include <prometheus/client_metric.h>

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "policy_file/policy_file.h"

namespace spin::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using Models = std::map<std::string, ModelTotals>;

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void Add(MetricFamily& family, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (family.type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(std::move(metric));
}

MetricFamily Single(const char* name, const char* help, MetricType type, uint64_t value) {
  MetricFamily family = Family(name, help, type);
  Add(family, {}, static_cast<double>(value));
  return family;
}

// One counter per model and layer, a field of what SessionTotals::*layers holds of each.
template <typename Counters>
MetricFamily PerLayer(const Models& models, const char* name, const char* help,
                      std::vector<Counters> SessionTotals::*layers, uint64_t Counters::*field) {
  MetricFamily family = Family(name, help, MetricType::Counter);
  for (const auto& [model, totals] : models) {
    const std::vector<Counters>& all = totals.totals.*layers;
    for (size_t layer = 0; layer < all.size(); ++layer) {
      Add(family, {{"model_name", model}, {"layer", absl::StrCat(layer)}},
          static_cast<double>(all[layer].*field));
    }
  }
  return family;
}

MetricFamily PerLayer(const Models& models, const char* name, const char* help,
                      uint64_t kernels::LayerCounters::*field) {
  return PerLayer(models, name, help, &SessionTotals::layers, field);
}

MetricFamily PerLayer(const Models& models, const char* name, const char* help,
                      uint64_t kernels::LayerAudits::*field) {
  return PerLayer(models, name, help, &SessionTotals::audits, field);
}

// The miss of audited rows. Audits know the sum of missed slots, not that of the rows' ratios; over
// K the two agree, but for contexts with fewer than K slots, which count for less. It only grows.
MetricFamily AuditMisses(const Models& models) {
  MetricFamily family =
      Family("spin_audit_miss_ratio",
             "Share of the true top-K that the prediction had left out, of each audited row (a "
             "request in a step)",
             MetricType::Histogram);
  for (const auto& [model, totals] : models) {
    for (size_t layer = 0; layer < totals.totals.audits.size(); ++layer) {
      ClientMetric metric;
      metric.label = {{"model_name", model}, {"layer", absl::StrCat(layer)}};
      uint64_t rows = 0;
      for (int bucket = 0; bucket < kernels::kMissBuckets; ++bucket) {
        rows += totals.totals.audits[layer].miss_rows[bucket];
        metric.histogram.bucket.push_back({rows, kernels::MissBound(bucket) / 1000.0});
      }
      metric.histogram.bucket.push_back({rows, std::numeric_limits<double>::infinity()});
      metric.histogram.sample_count = rows;
      metric.histogram.sample_sum =
          static_cast<double>(totals.totals.miss_millionths[layer]) * 1e-6;
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

MetricFamily BudgetModes(const Models& models) {
  MetricFamily family =
      Family("spin_budget_mode", "1 for the budget mode of the policy in force", MetricType::Gauge);
  for (const auto& [model, totals] : models) {
    for (const v1::BudgetMode mode :
         {v1::BUDGET_MODE_FIXED, v1::BUDGET_MODE_CALIBRATED, v1::BUDGET_MODE_TARGET_MISS}) {
      Add(family, {{"model_name", model}, {"mode", policy_file::ModeName(mode)}},
          totals.budget.mode() == mode ? 1 : 0);
    }
  }
  return family;
}

MetricFamily BudgetChanges(const Models& models) {
  MetricFamily family = Family("spin_budget_changes_total",
                               "Changes of the layers' budgets that spind made itself (fallback: "
                               "more blocks, because misses had jumped)",
                               MetricType::Counter);
  for (const auto& [model, totals] : models) {
    const SessionTotals& t = totals.totals;
    Add(family, {{"model_name", model}, {"kind", "calibration"}},
        static_cast<double>(t.budget_changes - t.budget_fallbacks));
    Add(family, {{"model_name", model}, {"kind", "fallback"}},
        static_cast<double>(t.budget_fallbacks));
  }
  return family;
}

// What the policy asks of each layer; 0 while no session is open.
MetricFamily LayerTargets(const Models& models) {
  MetricFamily family =
      Family("spin_layer_target_sparsity_ratio",
             "Share of a layer's blocks that the policy in force asks to skip", MetricType::Gauge);
  for (const auto& [model, totals] : models) {
    const std::vector<double>& targets = totals.layer_target_sparsity;
    for (size_t layer = 0; layer < totals.totals.layers.size(); ++layer) {
      Add(family, {{"model_name", model}, {"layer", absl::StrCat(layer)}},
          layer < targets.size() ? targets[layer] : 0);
    }
  }
  return family;
}

MetricFamily SelectedBlocks(const Models& models) {
  constexpr std::pair<const char*, uint64_t kernels::LayerCounters::*> kSources[] = {
      {"predicted", &kernels::LayerCounters::predicted_blocks},
      {"explored", &kernels::LayerCounters::explored_blocks},
      {"pinned", &kernels::LayerCounters::pinned_blocks},
      {"full", &kernels::LayerCounters::full_blocks}};
  MetricFamily family = Family("spin_blocks_selected_total",
                               "Blocks that were scored, by why (full: the whole row was scored)",
                               MetricType::Counter);
  for (const auto& [source, field] : kSources) {
    MetricFamily part = PerLayer(models, "", "", field);
    for (ClientMetric& metric : part.metric) {
      metric.label.push_back({"source", source});
      family.metric.push_back(std::move(metric));
    }
  }
  return family;
}

// Process-level like the fallbacks, whose share of it is what counts.
uint64_t Rows(const Models& models) {
  uint64_t rows = 0;
  for (const auto& [model, totals] : models) rows += totals.totals.rows;
  return rows;
}

MetricFamily Fallbacks(const Models& models) {
  std::array<uint64_t, kFallbackReasons> rows = {};
  for (const auto& [model, totals] : models) {
    for (int reason = 0; reason < kFallbackReasons; ++reason) {
      rows[reason] += totals.totals.fallback_rows[reason];
    }
  }
  MetricFamily family =
      Family("spin_fallback_rows_total",
             "Rows (a request in a step) that kept all blocks out of doubt", MetricType::Counter);
  for (int reason = 1; reason < kFallbackReasons; ++reason) {
    absl::string_view name = v1::FallbackReason_Name(reason);
    absl::ConsumePrefix(&name, "FALLBACK_REASON_");
    Add(family, {{"reason", absl::AsciiStrToLower(name)}}, static_cast<double>(rows[reason]));
  }
  return family;
}

MetricFamily Times(const Models& models, const char* name, const char* help,
                   TimeTotals SessionTotals::*field) {
  MetricFamily family = Family(name, help, MetricType::Histogram);
  for (const auto& [model, totals] : models) {
    const TimeTotals& time = totals.totals.*field;
    ClientMetric metric;
    metric.label = {{"model_name", model}};
    uint64_t count = 0;
    for (size_t i = 0; i < time.buckets.size(); ++i) {
      count += time.buckets[i];
      const double bound = i < dataplane::kTimeBounds.size()
                               ? dataplane::kTimeBounds[i]
                               : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({count, bound});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = time.sum_seconds;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

template <typename Value>
MetricFamily PerModel(const Models& models, const char* name, const char* help, MetricType type,
                      Value value) {
  MetricFamily family = Family(name, help, type);
  for (const auto& [model, totals] : models) {
    Add(family, {{"model_name", model}}, static_cast<double>(value(totals)));
  }
  return family;
}

MetricFamily SessionEnds(const SessionTable& sessions) {
  MetricFamily family =
      Family("spin_session_ends_total", "Sessions that ended, by why", MetricType::Counter);
  for (EndReason reason : kEndReasons) {
    Add(family, {{"reason", std::string(EndReasonName(reason))}},
        static_cast<double>(sessions.ended(reason)));
  }
  return family;
}

size_t OpenRequests(const SessionTable& sessions) {
  size_t requests = 0;
  for (const auto& session : sessions.All()) requests += session->requests().size();
  return requests;
}

}  // namespace

SessionMetrics::SessionMetrics(const SessionTable* sessions, std::function<ServerGauges()> gauges)
    : sessions_(sessions), gauges_(std::move(gauges)) {}

std::vector<MetricFamily> SessionMetrics::Collect() const {
  using L = kernels::LayerCounters;
  using A = kernels::LayerAudits;
  const Models models = sessions_->TotalsByModel();
  const ServerGauges gauges = gauges_();
  return {
      PerLayer(models, "spin_blocks_considered_total",
               "Blocks of the contexts of all scored rows; realised sparsity is 1 - selected / "
               "considered",
               &L::considered_blocks),
      SelectedBlocks(models),
      PerLayer(models, "spin_audit_topk_slots_total", "True top-K slots seen by audits",
               &L::audit_topk_slots),
      PerLayer(models, "spin_audit_missed_slots_total",
               "True top-K slots whose block the prediction had left out", &L::audit_missed_slots),
      PerLayer(models, "spin_audit_rows_total", "Verifier rows that were audited",
               &L::audited_rows),
      PerLayer(models, "spin_audit_blocks_total", "Blocks of the contexts of audited rows",
               &A::blocks),
      PerLayer(models, "spin_audit_list_blocks_total",
               "Of those, blocks that would have been scored without the audit", &A::list_blocks),
      AuditMisses(models),
      PerLayer(models, "spin_scored_slots_total", "Scores that came back", &L::scored_slots),
      PerLayer(models, "spin_scores_nonfinite_total",
               "Scores that were NaN, infinite or too large, and were ignored",
               &L::nonfinite_scores),
      PerModel(models, "spin_steps_total", "Decode steps", MetricType::Counter,
               [](const ModelTotals& m) { return m.totals.steps; }),
      PerModel(models, "spin_target_sparsity_ratio",
               "Share of blocks that the policy in force asks to skip", MetricType::Gauge,
               [](const ModelTotals& m) { return m.target_sparsity; }),
      LayerTargets(models),
      BudgetModes(models),
      BudgetChanges(models),
      PerModel(models, "spin_target_miss_ratio",
               "Miss that the policy in force holds; 0 if it holds none", MetricType::Gauge,
               [](const ModelTotals& m) { return m.budget.target_miss(); }),
      PerModel(models, "spin_expected_miss_ratio",
               "Miss that the layers' curves expect of the budgets in force", MetricType::Gauge,
               [](const ModelTotals& m) { return m.budget.expected_miss(); }),
      PerModel(models, "spin_policy_epoch", "Changes of the policy in force, whoever made them",
               MetricType::Gauge, [](const ModelTotals& m) { return m.policy_epoch; }),
      PerModel(models, "spin_sessions", "Open sessions", MetricType::Gauge,
               [](const ModelTotals& m) { return m.open_sessions; }),
      Times(models, "spin_predict_duration_seconds",
            "Time to predict and select the blocks of a step", &SessionTotals::predict_time),
      Times(models, "spin_observe_duration_seconds",
            "Time to let the scores of a step enter the state", &SessionTotals::observe_time),
      Single("spin_rows_total", "Rows (a request in a step) that engines began",
             MetricType::Counter, Rows(models)),
      Fallbacks(models),
      Single("spin_sessions_opened_total", "Sessions ever opened", MetricType::Counter,
             sessions_->opened()),
      SessionEnds(*sessions_),
      Single("spin_requests", "Open requests", MetricType::Gauge, OpenRequests(*sessions_)),
      Single("spin_slab_bytes", "Size of the slab", MetricType::Gauge, gauges.slab_bytes),
      Single("spin_state_bytes", "Bytes of the slab in use, quarantine included", MetricType::Gauge,
             gauges.used_bytes),
      Single("spin_quarantined_bytes", "Bytes of ended sessions that their peer may still write to",
             MetricType::Gauge, gauges.quarantined_bytes),
      Single("spin_connections", "Open connections to the control socket", MetricType::Gauge,
             gauges.connections),
      Single("spin_connections_rejected_total", "Connections refused by --allow-uids",
             MetricType::Counter, gauges.rejected_connections),
      Single("spin_step_queue_depth", "Steps that wait for the step thread", MetricType::Gauge,
             gauges.step_queue_depth),
      Single("spin_control_queue_depth", "Calls that wait for the control thread",
             MetricType::Gauge, gauges.control_queue_depth),
  };
}

}  // namespace spin::server
