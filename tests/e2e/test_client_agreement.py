# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The client library end to end: lists that agree over executors, runs, batch orders and ranks."""

import subprocess

import pytest

STEPS = 60
SHAPES = {
    "explored": dict(sparsity=0.6, exploration=0.2, seed=7),
    "audited": dict(sparsity=0.4, exploration=0.05, audit_every=8),
    "drafts": dict(sparsity=0.5, exploration=0.1, max_next_n=3),
    "staged in bf16": dict(sparsity=0.5, max_next_n=2, staged_scores="bf16"),
    "four tokens a slot": dict(sparsity=0.5, exploration=0.1, tokens_per_slot=4, max_slots=2048),
}


def run(start_engine, spind, **options):
    """An engine's life with three requests, one of which comes later, forked from another, and one closes."""
    engine = start_engine(spind, step_timeout_ms=10000, **options)
    engine.ready()
    per_slot = options.get("tokens_per_slot", 1)
    for key, tokens in (("long", 1500 * per_slot), ("short", 10)):
        engine.open(key, 2000, tokens)
    steps = [engine.steps(STEPS // 3)]
    engine.fork("long", "branch", 2000)
    steps.append(engine.steps(STEPS // 3))
    engine.close("short")
    steps.append(engine.steps(STEPS // 3))
    return engine, steps


def lists_of(steps) -> list[str]:
    return [lists for part in steps for lists in part.lists]


@pytest.mark.parametrize("name", SHAPES)
def test_executors_agree_on_every_list(spind, start_engine, name):
    runs = [run(start_engine, spind, executor=executor, **SHAPES[name])[1] for executor in ("inline", "sidecar")]
    assert lists_of(runs[0]) == lists_of(runs[1])
    for part_inline, part_sidecar in zip(*runs):
        assert part_inline.reasons == part_sidecar.reasons
        assert part_inline.equal == part_sidecar.equal
    reasons = {reason for part in runs[0] for reason in part.reason_set}
    assert reasons == {"cold", "none"} | ({"audit"} if "audit_every" in SHAPES[name] else set())


@pytest.mark.parametrize("executor", ["inline", "sidecar"])
def test_two_runs_agree_on_every_list(start_spind, start_engine, executor):
    runs = [run(start_engine, start_spind(), executor=executor, **SHAPES["explored"])[1] for _ in range(2)]
    assert lists_of(runs[0]) == lists_of(runs[1])
    assert len(set(lists_of(runs[0]))) > STEPS / 2  # they are not all the same list


@pytest.mark.parametrize("executor", ["inline", "sidecar"])
def test_row_of_a_request_in_the_batch_plays_no_part(spind, start_engine, executor):
    runs = [run(start_engine, spind, executor=executor, rotate_rows=rotate, **SHAPES["explored"])[1]
            for rotate in ("false", "true")]
    assert lists_of(runs[0]) == lists_of(runs[1])


def test_executors_agree_on_a_bf16_state(start_spind, start_engine):
    spind = start_spind("--state-dtype", "bf16")
    runs = [run(start_engine, spind, executor=executor, **SHAPES["explored"])[1] for executor in ("inline", "sidecar")]
    assert lists_of(runs[0]) == lists_of(runs[1])
    exact = run(start_engine, start_spind("--state-dtype", "f32"), executor="inline", **SHAPES["explored"])[1]
    assert lists_of(runs[0]) != lists_of(exact)  # it is another state


@pytest.mark.parametrize("executor", ["inline", "sidecar"])
def test_ranks_with_sessions_of_their_own_agree(spind, start_engine, executor):
    ranks = [start_engine(spind, model_name="tp", executor=executor, step_timeout_ms=10000, **SHAPES["explored"])
             for _ in range(4)]
    for rank in ranks:
        rank.ready()
        rank.open("same-key", 2000)
    for rank in ranks:
        rank.send("step", STEPS)
    lists = [rank.take_steps(rank.reply()).lists for rank in ranks]
    assert lists[0] == lists[1] == lists[2] == lists[3]


def test_other_keys_and_other_seeds_explore_elsewhere(spind, start_engine):
    lists = []
    for key, seed in (("a", 1), ("b", 1), ("a", 2)):
        engine = start_engine(spind, sparsity=0.5, exploration=1.0, seed=seed)  # all but the tail is drawn
        engine.ready()
        engine.open(key, 2000)
        lists.append(engine.steps(5).lists[-1])
    assert len(set(lists)) == 3


@pytest.mark.parametrize("executor", ["inline", "sidecar"])
def test_sparsity_is_what_was_asked_for(spind, start_engine, executor):
    engine = start_engine(spind, executor=executor, sparsity=0.7, step_timeout_ms=10000)
    engine.ready()
    engine.open("a", 6400)
    steps = engine.steps(20)
    assert steps.column()[0] == "cold" and set(steps.column()[1:]) == {"none"}
    for kept, considered in zip(steps.kept[1:], steps.considered[1:]):
        blocks = considered[0] // 2
        assert kept[0] == 2 * (blocks - int(0.7 * blocks + 1e-9))
    metrics = spind.metrics()
    selected = sum(metrics.value("spin_blocks_selected_total", source=source) for source in (
        "predicted", "explored", "pinned", "full"))
    assert selected == sum(kept[0] for kept in steps.kept)
    assert metrics.value("spin_blocks_considered_total") == sum(considered[0] for considered in steps.considered)


@pytest.mark.parametrize("executor", ["inline", "sidecar"])
def test_sparsity_zero_keeps_every_block_and_every_top_k(spind, start_engine, executor):
    engine = start_engine(spind, executor=executor, sparsity=0, step_timeout_ms=10000)
    engine.ready()
    engine.open("a", 3000)
    steps = engine.steps(10)
    assert steps.kept == steps.considered
    assert all(all(row) for row in steps.equal)
    assert steps.reason_set == {"cold", "none"}


def test_example_engine_runs_with_spind_and_without(spind, example_engine_binary, tmp_path):
    def run_example(path) -> str:
        return subprocess.run([example_engine_binary, path], capture_output=True, text=True, timeout=60,
                              check=True).stdout

    assert "no_sidecar" in run_example(tmp_path / "nobody.sock")
    assert "rows with a prediction: 14, cold: 2" in run_example(spind.socket)


@pytest.mark.parametrize("arguments", [["SOCK", "abc"], ["SOCK", "8x"], ["SOCK", "-5"], ["--steps", "8"],
                                       ["SOCK", "8", "--allow-recordin"], ["SOCK", "8", "--allow-recording", "more"]],
                         ids=" ".join)
def test_example_engine_refuses_what_it_does_not_know(example_engine_binary, arguments):
    done = subprocess.run([example_engine_binary, *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("Usage: example_engine")
