# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Budgets: from policy files, and learnt from audits by a running spind."""

import json

import pytest
from metrics import Metrics
from raw_client import RawSession
from spin.v1 import policy_pb2, session_pb2, stats_pb2

LAYERS = [0.25, 0.5, 0.6, 0.65]


@pytest.fixture
def policy_file(tmp_path):
    def write(**policy) -> str:
        path = tmp_path / "policy.json"
        path.write_text(json.dumps({"format": "spin-policy", "version": 1, "policy": policy, "origin": {"by": "a test"}}))
        return str(path)

    return write


@pytest.fixture
def replay(spinctl, small_trace):
    def run(*words, **flags) -> dict:
        given = [word for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", value)]
        return spinctl.json("replay", "--trace", small_trace, "--topk", 128, *words, *given)

    return run


class TestPolicyFile:
    def test_replay_does_what_its_flags_would_do(self, replay, policy_file):
        path = policy_file(layer_sparsity=LAYERS, exploration=0, audit_every=16, seed=5)
        from_file = replay(policy=path)
        from_flags = replay(layer_sparsity=",".join(map(str, LAYERS)), exploration=0, audit_every=16, seed=5)
        for key in ("miss_mean", "realized_sparsity", "layer_sparsity", "audits"):
            assert from_file[key] == from_flags[key], key
        assert from_file["layer_sparsity"] == LAYERS

    def test_spind_takes_it_as_the_default_and_flags_win(self, start_spind, connect, policy_file):
        spind = start_spind("--policy", policy_file(layer_sparsity=LAYERS, decay=0.75, audit_every=7), "--audit-every", "9")
        policy = RawSession(connect(spind), layers=4).opened.policy
        assert list(policy.layer_sparsity) == LAYERS
        assert (policy.decay, policy.audit_every) == (0.75, 9)
        other = RawSession(connect(spind), layers=3).opened.policy  # of another model: their mean
        assert not other.layer_sparsity
        assert other.sparsity == pytest.approx(sum(LAYERS) / 4)

    def test_set_changes_a_session(self, spinctl, spind, start_engine, policy_file):
        engine = start_engine(spind, sparsity=0.4)
        engine.ready()
        (session,) = spinctl.json("sessions", "--socket", spind.socket)["sessions"]
        words = ("policy", "set", "--session", session["session_id"], "--socket", spind.socket, "--file")
        unfit = policy_file(min_sparsity=0.99)  # the flag is not to blame
        assert "set: policy.min_sparsity: 0.99 is more" in spinctl.refusal(*words, unfit, "--seed", 1)
        path = policy_file(sparsity=0.625, budget_mode="target_miss", target_miss=0.02, audit_every=64)
        done = spinctl.json("policy", "set", "--session", session["session_id"], "--file", path, "--socket", spind.socket)
        assert done["policy"]["sparsity"] == 0.625
        assert (done["policy"]["budget_mode"], done["policy"]["target_miss"]) == ("target_miss", 0.02)

    def test_mistakes_are_named(self, spinctl, start_spind, policy_file, small_trace):
        path = policy_file(layer_sparsity=[0.5, 1.5])
        replay = ("replay", "--trace", small_trace, "--topk", 128, "--policy")
        assert f"--policy: {path}: policy.layer_sparsity[1]: 1.5" in spinctl.refusal(*replay, path)
        assert "policy.sparsty" in spinctl.refusal(*replay, policy_file(sparsty=0.5))
        assert "2 values for 4 layers" in spinctl.refusal(*replay, policy_file(layer_sparsity=[0.5, 0.5]))
        assert "/no/such/file" in spinctl.refusal(*replay, "/no/such/file")


@pytest.mark.parametrize("executor", ["inline", "sidecar"])
def test_calibration_misses_less_at_the_same_total(replay, executor):
    uniform = replay(sparsity=0.8, rounds=12, audit_every=4, executor=executor)
    learnt = replay(sparsity=0.8, rounds=12, audit_every=4, executor=executor, budget_mode="calibrated")
    budgets = learnt["budgets"]
    assert budgets["changes"] > 0 and budgets["fallbacks"] == 0
    assert budgets["target_sparsity"] == pytest.approx(0.8)
    assert max(budgets["layer_sparsity"]) - min(budgets["layer_sparsity"]) > 0.1
    assert "calibrated on" in budgets["reason"]
    assert learnt["exact"]
    assert learnt["miss_mean"] < 0.8 * uniform["miss_mean"]
    assert learnt["realized_sparsity"] == pytest.approx(uniform["realized_sparsity"], abs=0.01)


def test_target_miss_is_held_within_bounds(replay):
    result = replay(sparsity=0.3, rounds=24, audit_every=4, budget_mode="target_miss", target_miss=0.03, max_sparsity=0.9)
    late = result["requests"][12:]
    miss = sum(request["miss_mean"] for request in late) / len(late)
    assert 0.01 < miss < 0.036  # audited steps, a quarter, miss nothing
    assert 0.5 < result["budgets"]["target_sparsity"] <= 0.9
    bounded = replay(sparsity=0.3, rounds=8, audit_every=4, budget_mode="target_miss", target_miss=0.03, max_sparsity=0.4)
    assert bounded["budgets"]["target_sparsity"] <= 0.4 + 1e-9


def test_learning_without_audits_is_refused(spinctl, small_trace):
    refusal = spinctl.refusal("replay", "--trace", small_trace, "--topk", 128, "--budget-mode", "calibrated")
    assert "--budget-mode: calibrated learns from audits" in refusal


def test_what_was_learnt_shows_in_metrics_and_log(spinctl, start_spind, small_trace):
    spind = start_spind("--sparsity", "0.5", slab_bytes="64MiB")
    spinctl.json("replay", "--socket", spind.socket, "--trace", small_trace, "--topk", 128, "--rounds", 6,
                 "--sparsity", 0.8, "--audit-every", 4, "--budget-mode", "calibrated")
    metrics: Metrics = spind.metrics()
    assert metrics.value("spin_budget_changes_total", kind="calibration") > 0
    assert metrics.value("spin_audit_miss_ratio_count", layer="0") == metrics.value("spin_audit_rows_total", layer="0") > 0
    assert metrics.value("spin_audit_blocks_total") > metrics.value("spin_audit_list_blocks_total") > 0
    assert "calibrated on" in spind.log


def test_contract_names_the_modes():
    assert set(policy_pb2.BudgetMode.keys()) == {f"BUDGET_MODE_{mode}" for mode in ("UNSPECIFIED", "FIXED", "CALIBRATED", "TARGET_MISS")}
    assert "policy_reason" in session_pb2.SessionInfo.DESCRIPTOR.fields_by_name
    assert "budget" in stats_pb2.SessionStats.DESCRIPTOR.fields_by_name
