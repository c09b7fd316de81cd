# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""spinctl replay: what it measures, and that it measures the same whoever runs the kernels and however often."""

import expected
import pytest
from expected import BUNDLED, SPARSITIES, TRACES

EXECUTORS = ("inline", "sidecar")

# What differs between two replays of one setting.
TIMES = {"us_per_step", "spin_us_per_step", "score_us_per_step", "topk_us_per_step", "full_us_per_step",
         "full_score_us_per_step", "full_topk_us_per_step"}
VOLATILE = TIMES | {"epoch", "executor"}


@pytest.fixture
def replay(spinctl):
    """One object of numbers: replay(trace, topk=128, sparsity=0.4)."""

    def run(trace, **flags) -> dict:
        words = [word for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", value)]
        return spinctl.json("replay", "--trace", trace, *words)

    return run


def measured(result: dict) -> dict:
    return {key: value for key, value in result.items() if key not in VOLATILE}


def expected_or_skip(name, sparsity) -> expected.Expected:
    found = expected.read(TRACES, name, sparsity)
    if isinstance(found, str):
        pytest.skip(found)
    return found


def check(replay, wanted: expected.Expected, sparsity, executor) -> dict:
    result = replay(wanted.trace, topk=wanted.topk, sparsity=sparsity, executor=executor, exploration=0, alpha=0.5)
    wanted.check(result)
    assert result["exact"] and result["state"] == "f32"
    assert {reason for reason, rows in result["fallbacks"].items() if rows} == {"cold"}
    assert result["fallbacks"]["cold"] == 1
    return result


@pytest.mark.parametrize("sparsity", SPARSITIES)
def test_bundled_trace_misses_what_is_expected_with_both_executors(replay, sparsity):
    wanted = expected.read(BUNDLED, "small-8k", sparsity)
    inline, sidecar = [check(replay, wanted, sparsity, executor) for executor in EXECUTORS]
    assert measured(inline) == measured(sidecar)


@pytest.mark.parametrize("sparsity, executor", [(0.4, "sidecar"), (0.7, "inline")])
@pytest.mark.parametrize("name", expected.LARGE)
def test_large_trace_misses_what_is_expected(replay, name, sparsity, executor):
    check(replay, expected_or_skip(name, sparsity), sparsity, executor)


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", SPARSITIES)
@pytest.mark.parametrize("name", expected.all_names())
def test_every_trace_misses_what_is_expected_with_both_executors(replay, name, sparsity):
    wanted = expected_or_skip(name, sparsity)
    inline, sidecar = [check(replay, wanted, sparsity, executor) for executor in EXECUTORS]
    assert measured(inline) == measured(sidecar)


@pytest.mark.parametrize("flags", [
    dict(exploration=0.2, seed=7), dict(exploration=0.05, audit_every=8), dict(state="bf16", exploration=0.1),
    dict(block=16, sparsity=0.6), dict(layer_sparsity="0.2,0.4,0.6,0.8", alpha=0.9)], ids=str)
def test_executors_and_runs_agree_exactly(replay, small_trace, flags):
    first, second, sidecar = [measured(replay(small_trace, topk=128, steps=64, executor=executor, **flags))
                              for executor in ("inline", "inline", "sidecar")]
    assert first == second == sidecar
    assert first["miss_mean"] > 0 and first["exact"]


def test_another_seed_explores_elsewhere(replay, small_trace):
    runs = [measured(replay(small_trace, topk=128, steps=32, sparsity=0.6, exploration=0.5, seed=seed))
            for seed in (1, 2)]
    assert [run.pop("seed") for run in runs] == [1, 2]
    assert runs[0] != runs[1]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_at_sparsity_zero_everything_is_kept_and_exact(replay, small_trace, executor):
    result = replay(small_trace, topk=128, sparsity=0, executor=executor)
    assert result["exact"]  # every score, and the top-K
    assert (result["realized_sparsity"], result["miss_mean"], result["miss_p99"], result["recall"]) == (0, 0, 0, 1)
    assert result["scores_computed"] == result["scores_full"]


def test_top_k_larger_than_the_kept_share_bounds_the_sparsity(replay, small_trace):
    result = replay(small_trace, topk=2048, steps=16, sparsity=0.9, exploration=0)
    blocks = 8080 // 64 + 1
    assert result["realized_sparsity"] == pytest.approx(1 - 32 / blocks, abs=0.003)


def test_layers_have_the_models_numbers_and_shares_of_their_own(replay, small_trace):
    result = replay(small_trace, topk=128, steps=16, layer_sparsity="0.2,0.4,0.6,0.8", exploration=0)
    assert [layer["layer"] for layer in result["layers"]] == [4, 12, 20, 28]
    for layer, asked in zip(result["layers"], (0.2, 0.4, 0.6, 0.8)):
        assert layer.keys() == {"layer", "realized_sparsity", "miss_mean", "miss_p99", "recall"}
        assert layer["realized_sparsity"] == pytest.approx(asked, abs=0.01)


def test_json_has_every_documented_number(replay, small_trace):
    result = replay(small_trace, topk=128, steps=16)
    assert result.keys() >= {"trace", "executor", "state", "topk", "sparsity", "exploration", "alpha", "seed",
                             "realized_sparsity", "miss_mean", "miss_p99", "recall", "layers", "steps", "us_per_step",
                             "fallbacks", "exact", "scores_computed", "scores_full", "audits", "epoch"}
    assert result["steps"] == 16
    assert result["us_per_step"] == pytest.approx(
        result["spin_us_per_step"] + result["score_us_per_step"] + result["topk_us_per_step"])
    assert result["full_us_per_step"] == pytest.approx(
        result["full_score_us_per_step"] + result["full_topk_us_per_step"])
    assert min(result[time] for time in TIMES) > 0


@pytest.mark.parametrize("executor", EXECUTORS)
def test_audits_come_only_when_asked_for_and_count_the_misses(replay, small_trace, executor):
    never = replay(small_trace, topk=128, sparsity=0.6, executor=executor)
    assert never["audits"] == {"rows": 0, "topk_slots": 0, "missed_slots": 0}
    every = replay(small_trace, topk=128, sparsity=0.6, executor=executor, audit_every=1)
    assert every["audits"]["rows"] == 127 and every["audits"]["topk_slots"] == 127 * 4 * 128
    assert every["audits"]["missed_slots"] > 0
    assert every["realized_sparsity"] == 0  # an audited step scores everything


def test_text_says_the_same_as_json(spinctl, replay, small_trace):
    result = replay(small_trace, topk=128, steps=16)
    text = spinctl("replay", "--trace", small_trace, "--topk", 128, "--steps", 16).out
    assert f"{100 * result['miss_mean']:.3f} %" in text and f"{100 * result['recall']:.3f} %" in text
    assert "equals the full scan's, bit by bit" in text


def test_commands_to_try_next_name_the_program_as_it_was_called(spinctl, small_trace):
    text = spinctl("replay", "--trace", small_trace, "--topk", 128, "--steps", 4).out
    tries = [line.split() for line in text.partition("Try next:")[2].splitlines() if " replay --trace " in line]
    assert tries and {words[0] for words in tries} == {str(spinctl.binary)}
    for words in tries:
        if "--hold" not in words:
            assert spinctl(*words[1:]).code == 0, words
