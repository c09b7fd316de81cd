// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/eval/charts_library.h"
#include "client/cli/eval/report.h"
#include "client/cli/eval/report_data.h"
#include "client/cli/json.h"
#include "gen/client/cli/eval/report_page_html.h"
#include "prediction/predictor.h"

namespace spin::cli {
namespace {

// Four cells a byte, the first in the lowest bits.
std::string PackCells(const std::vector<prediction::Cell>& cells) {
  std::string packed((cells.size() + 3) / 4, '\0');
  for (size_t i = 0; i < cells.size(); ++i) {
    packed[i / 4] = static_cast<char>(packed[i / 4] | static_cast<int>(cells[i]) << (2 * (i % 4)));
  }
  return absl::Base64Escape(packed);
}

Json GridJson(const prediction::Grid& grid) {
  return {{"rows", grid.rows},
          {"columns", grid.columns},
          {"steps_per_row", grid.steps_per_row},
          {"first_slot", grid.first_slot},
          {"slots_per_column", grid.slots_per_column},
          {"cells", PackCells(grid.cells)}};
}

Json PredictorsJson() {
  Json json = Json::array();
  for (const prediction::NamedPredictor& predictor : prediction::Predictors()) {
    json.push_back(
        {{"name", predictor.name}, {"title", predictor.title}, {"meaning", predictor.meaning}});
  }
  return json;
}

Json PageData(const EvalReport& report) {
  Json traces = Json::array();
  for (const EvaluatedTrace& trace : report.traces) {
    Json json = TraceJson(report, trace);
    json["name"] = trace.name;
    Json maps = Json::array();
    for (const prediction::HeatMapLayer& layer : trace.evaluation.heat_map) {
      maps.push_back({{"all", GridJson(layer.all)}, {"near", GridJson(layer.near)}});
    }
    json["heat_map"] = std::move(maps);
    traces.push_back(std::move(json));
  }
  return {{"version", SPIN_VERSION},
          {"predictors", PredictorsJson()},
          {"heat_map_sparsity", report.flags.options.heat_map_sparsity},
          {"recommended", RecommendedJson(report)},
          {"traces", std::move(traces)}};
}

// What may stand in a script element: "</script>" in a file's name would end it.
std::string ForScript(const std::string& json) {
  return absl::StrReplaceAll(json, {{"<", "\\u003c"}});
}

// The page is cut at its marks rather than searched for each, so that no value is taken for a mark.
std::string Between(absl::string_view* page, absl::string_view mark) {
  const size_t at = page->find(mark);
  const std::string before(page->substr(0, at));
  page->remove_prefix(at + mark.size());
  return before;
}

}  // namespace

std::string EvalHtml(const EvalReport& report) {
  absl::string_view page = kReportPageHtml;
  std::string out = Between(&page, "/*DATA*/");
  absl::StrAppend(&out, ForScript(DumpLine(PageData(report))));
  absl::StrAppend(&out, Between(&page, "/*ECHARTS*/"), ChartsLibrary());
  out += Between(&page, "/*SCRIPT*/");
  absl::StrAppend(&out, kReportPageScript, page);
  return out;
}

}  // namespace spin::cli
