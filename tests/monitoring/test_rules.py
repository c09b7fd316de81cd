# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The Prometheus rules: sound, tested, explained, and about metrics that spind has."""

import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "monitoring" / "spin.rules.yaml"
RULE_TESTS = ROOT / "tests" / "monitoring" / "rules_test.yaml"
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule]


def metrics_of_spind() -> set[str]:
    """Every metric name that a source of spind mentions."""
    sources = "".join(path.read_text() for path in (ROOT / "server").glob("*.cc"))
    return set(re.findall(r'"((?:spin|process)_[a-z_]+)"', sources))


def promtool(*arguments):
    result = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_rules_are_sound():
    promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_rules_say_what_they_should_in_situations_of_production():
    promtool("test", "rules", RULE_TESTS)


def test_rules_name_metrics_that_spind_has():
    known = metrics_of_spind()
    used = set(re.findall(r"\b(?:spin|process)_[a-z_]+", " ".join(
        str(rule["expr"]) for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"])))
    assert {name.removesuffix("_sum").removesuffix("_bucket").removesuffix("_count") for name in used} <= known


def relabelled(labels, config):
    """What is left of a target, as Prometheus relabels it: none if it is dropped."""
    for rule in config:
        value = ";".join(labels.get(name, "") for name in rule["source_labels"])
        matches = bool(re.fullmatch(rule.get("regex", ".*"), value))
        if matches == (rule.get("action") == "drop") and rule.get("action") in ("keep", "drop"):
            return None
        if "target_label" in rule:
            labels = {**labels, rule["target_label"]: value}
    return labels


@pytest.mark.parametrize("phase, is_target", [("Running", True), ("Pending", True), ("Succeeded", False), ("Failed", False)])
def test_pods_that_have_ended_are_no_targets(phase, is_target):
    """The pod of a completed Job stays for a while, and would be a spind that is down."""
    for job in yaml.safe_load((RULES.parent / "prometheus.yaml").read_text())["scrape_configs"]:
        port = "spin-admin" if job["job_name"] == "spin" else "http"
        labels = {"__meta_kubernetes_pod_label_spin_sidecar": "true", "__meta_kubernetes_pod_container_port_name": port, "__meta_kubernetes_pod_phase": phase}
        assert (relabelled(labels, job["relabel_configs"]) is not None) == is_target


@pytest.mark.parametrize("alert", ALERTS, ids=[f"{a['alert']}-{a['labels']['severity']}" for a in ALERTS])
class TestAlert:
    def test_is_explained(self, alert):
        assert alert["labels"]["severity"] in ("info", "warning", "critical")
        assert set(alert["annotations"]) == {"summary", "description", "runbook"}
        assert len(alert["annotations"]["summary"]) < 130

    def test_has_a_runbook_that_names_it(self, alert):
        page = (ROOT / alert["annotations"]["runbook"]).read_text()
        assert alert["alert"] in page
        assert "**Means.**" in page and "**Is over when**" in page
        index = (ROOT / "docs" / "runbooks" / "README.md").read_text()
        assert alert["alert"] in index

    def test_is_tested(self, alert):
        severity = rf"severity: {alert['labels']['severity']}"
        assert re.search(rf"alertname: {alert['alert']}\n\s+exp_alerts:\n(?:.*\n)*?.*{severity}", RULE_TESTS.read_text())


def test_every_runbook_belongs_to_an_alert():
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("Spin*.md")}
    assert pages == {pathlib.Path(alert["annotations"]["runbook"]).stem for alert in ALERTS}
