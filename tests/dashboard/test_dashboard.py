# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A linter for the dashboard: what makes dashboards go wrong where others provision them."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "monitoring" / "spin-dashboard.json"
DASHBOARD = json.loads(FILE.read_text())
PANELS = [panel for outer in DASHBOARD["panels"] for panel in [outer, *outer.get("panels", [])] if panel["type"] != "row"]
ROWS = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
NAMES = [f"{panel['id']}-{panel['title']}" for panel in PANELS]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Of the engines; the rest is spind's.
FOREIGN = {"vllm:inter_token_latency_seconds_bucket", "sglang:inter_token_latency_seconds_bucket", "vllm:generation_tokens_total", "sglang:generation_tokens_total"}


def metrics_of_spind() -> set[str]:
    sources = "".join(path.read_text() for path in (ROOT / "server").glob("*.cc"))
    return set(re.findall(r'"((?:spin|process)_[a-z_]+)"', sources))


def expressions(panel):
    return [target["expr"] for target in panel["targets"]]


def test_file_is_what_the_generator_writes(tmp_path):
    subprocess.run([sys.executable, ROOT / "deploy/monitoring/dashboard/generate.py", tmp_path / "out.json"], check=True)
    assert (tmp_path / "out.json").read_text() == FILE.read_text(), "run `make chart-docs`"


def test_can_be_provisioned():
    assert "__inputs" not in DASHBOARD and "${DS_" not in FILE.read_text()
    assert DASHBOARD["uid"] == "spin" and DASHBOARD["schemaVersion"] == 39
    for variable in DASHBOARD["templating"]["list"]:
        assert variable["current"] == {} or variable["type"] == "textbox", variable["name"]
    assert FILE.stat().st_size < 250_000


def test_rows_are_all_there():
    assert ROWS == ["Does it pay?", "Prediction quality", "Cost", "Fallbacks and faults", "State memory and capacity", "Control plane", "Process and versions"]


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    ids = [panel["id"] for outer in DASHBOARD["panels"] for panel in [outer, *outer.get("panels", [])]]
    assert len(ids) == len(set(ids))
    for group in [[panel for panel in DASHBOARD["panels"]], *[panel["panels"] for panel in DASHBOARD["panels"] if panel.get("panels")]]:
        cells = [(x, y) for panel in group for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
                 for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])]
        assert len(cells) == len(set(cells))
        assert all(x < 24 for x, _ in cells)


def test_every_metric_of_a_kind_is_shown_somewhere():
    """A metric that nobody looks at is either missing here, or not worth having."""
    shown = " ".join(expr for panel in PANELS for expr in expressions(panel))
    unseen = {name for name in metrics_of_spind() if not re.search(rf"\b{name}(_bucket|_sum|_count)?\b", shown)}
    assert unseen <= {"spin_scored_slots_total", "spin_sessions_opened_total", "process_open_fds"}, unseen


@pytest.mark.parametrize("title, number, labels", [("Target", 0, "{}"), ("Sparsity by pod", 1, "{}"), ("Layers", 0, '{layer="0"}'), ("Budgets by layer", 0, '{layer="0"}')])
def test_targets_are_means_weighted_by_blocks(title, number, labels, tmp_path):
    """A fourth of the blocks at 0.2, the rest at 0.6; and a pod that has gone, whose target nobody knows."""
    expr = expressions(next(panel for panel in PANELS if panel["title"] == title))[number]
    for name, value in {"$__rate_interval": "5m", "$__range": "1h", "$namespace": ".*", "$pod": ".*", "$model": ".*"}.items():
        expr = expr.replace(name, value)
    series = []
    for pod, target, blocks, minutes in (("a", 0.2, 30, 60), ("b", 0.6, 90, 60), ("gone", 0.9, 500, 20)):
        of = f'namespace="n",pod="{pod}",model_name="m"'
        series += [{"series": f"spin_target_sparsity_ratio{{{of}}}", "values": f"{target}x{minutes}"},
                   {"series": f'spin_layer_target_sparsity_ratio{{{of},layer="0"}}', "values": f"{target}x{minutes}"},
                   {"series": f'spin_blocks_considered_total{{{of},layer="0"}}', "values": f"0+{blocks}x{minutes}"}]
    test = {"interval": "1m", "input_series": series,
            "promql_expr_test": [{"expr": f"round({expr}, 0.001)", "eval_time": "50m", "exp_samples": [{"labels": labels, "value": 0.5}]}]}
    (tmp_path / "test.yaml").write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    result = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("panel", PANELS, ids=NAMES)
class TestPanel:
    def test_says_what_it_shows_in_which_unit_and_what_nothing_means(self, panel):
        defaults = panel["fieldConfig"]["defaults"]
        assert len(panel["description"]) > 15 and panel["description"].endswith((".", ")"))
        assert defaults["unit"]
        assert defaults["noValue"] and defaults["noValue"] != "No data"
        assert len(panel["title"]) <= {3: 16, 8: 38, 12: 48}[panel["gridPos"]["w"]]

    def test_bare_numbers_say_what_they_count(self, panel):
        """A graph whose unit is none, or that has two scales."""
        defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
        if panel["type"] == "timeseries":
            assert defaults["unit"] != "short" or defaults["custom"]["axisLabel"]
            for override in overrides:
                ids = {one["id"] for one in override["properties"]}
                assert "custom.axisPlacement" not in ids or "custom.axisLabel" in ids and defaults["custom"]["axisLabel"]

    def test_numbers_are_not_struck_through(self, panel):
        assert panel["type"] != "stat" or panel["options"]["graphMode"] == "none"

    def test_targets_are_means_as_what_they_are_compared_with(self, panel):
        for expr in expressions(panel):
            assert not re.search(r"(max|min)( by \(layer\))? ?\(spin_(layer_)?target_sparsity_ratio", expr), expr

    def test_asks_the_datasource_that_was_chosen(self, panel):
        assert panel["datasource"] == SOURCE
        assert all(target["datasource"] == SOURCE for target in panel["targets"])

    def test_takes_rates_over_the_rate_interval_before_sums(self, panel):
        for expr in expressions(panel):
            for window in re.findall(r"\[([^\]]+)\]", expr):
                assert window in ("$__rate_interval", "$__range", "30m"), expr
            assert not re.search(r"rate\(\s*(sum|max|avg|min)", expr), expr
            assert not re.search(r"\bavg\b", expr), expr

    def test_counters_are_only_seen_as_rates(self, panel):
        for expr in expressions(panel):
            for name in re.findall(r"\b([a-z:_]+_(?:total|bucket|sum|count))\{", expr):
                assert re.search(rf"(rate|increase)\({re.escape(name)}\{{", expr), f"{name} in {expr}"

    def test_names_metrics_that_exist(self, panel):
        known = metrics_of_spind()
        for expr in expressions(panel):
            for name in re.findall(r"\b([a-z]+[:_][a-z_:]+)\{", expr):
                assert name in FOREIGN or re.sub(r"_(bucket|sum|count)$", "", name) in known, name

    def test_is_narrowed_by_the_variables(self, panel):
        for expr in expressions(panel):
            for selector in re.findall(r"\{([^}]*)\}", expr):
                assert 'namespace=~"$namespace"' in selector and 'pod=~"$pod"' in selector, selector

    def test_is_an_expression(self, panel, tmp_path):
        """promtool reads it as a rule."""
        rules = []
        for number, expr in enumerate(expressions(panel)):
            for name, value in {"__rate_interval": "1m", "__range": "1h", "scan_ns": "2.2"}.items():
                expr = expr.replace(f"${name}", value)
            rules.append({"record": f"a:b:c{number}", "expr": expr})
        (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
        result = subprocess.run(["promtool", "check", "rules", "--lint=none", tmp_path / "rules.yaml"], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
