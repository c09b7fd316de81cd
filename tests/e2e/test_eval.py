# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""spinctl eval and tune: what they measure, that a tuned policy keeps its promise in a replay, and what they refuse."""

import csv
import io
import json
import os
import resource
import shlex
import struct

import expected
import pytest
import safetensors
from expected import BUNDLED, TRACES

SIGNAL_TOLERANCE, MISS_TOLERANCE = 0.002, 0.0005
LARGE = [TRACES / f"{name}-32k.safetensors" for name in ("prose0", "code0", "retrieval0")]


def check(measured: dict, wanted: dict):
    for name, signal in wanted["signal"].items():
        for kind in ("pearson", "recall"):
            assert measured["signal"][name][kind] == pytest.approx(signal[kind], abs=SIGNAL_TOLERANCE), (name, kind)
    for sparsity, predictors in wanted["miss"].items():
        for name, miss in predictors.items():
            got = measured["miss"][sparsity][name]
            for kind in ("mean", "p99", "layers"):
                assert got[kind] == pytest.approx(miss[kind], abs=MISS_TOLERANCE), (sparsity, name, kind)


def wanted_or_skip(folder, name):
    file = folder / "expected.json"
    if not file.exists() or not (folder / f"{name.partition('@')[0]}.safetensors").exists():
        pytest.skip(f"no {file} (SPIN_TRACES_DIR)")
    return json.loads(file.read_text())[name]


@pytest.mark.parametrize("name", ["small-8k", *expected.LARGE])
def test_agrees_with_an_independent_implementation(spinctl, name):
    wanted = wanted_or_skip(TRACES, name)
    file = name.partition("@")[0]
    result = spinctl.json("eval", TRACES / f"{file}.safetensors", "--topk", wanted["K"], "--study", "signals")
    check(result["traces"][file], wanted)


def test_agrees_on_the_bundled_trace(spinctl, small_trace):
    result = spinctl.json("eval", small_trace, "--topk", 128, "--study", "signals")
    check(result["traces"]["small-8k"], wanted_or_skip(BUNDLED, "small-8k"))


def test_csv_has_the_numbers_of_json(spinctl, small_trace):
    words = ("eval", small_trace, "--topk", 128, "--steps", 16, "--sparsity", "0.4,0.6", "--study", "drafts")
    rows = list(csv.DictReader(io.StringIO(spinctl(*words, "--csv").out)))
    miss = spinctl.json(*words)["traces"]["small-8k"]["miss"]["0.6"]["v_only"]
    found = [row for row in rows if (row["study"], row["name"], row["target"]) == ("predictor", "v_only", "0.6")]
    assert [row["layer"] for row in found] == ["all", "4", "12", "20", "28"]
    assert [float(row["miss_mean"]) for row in found] == pytest.approx([miss["mean"], *miss["layers"]], rel=1e-4)
    assert {row["study"] for row in rows} == {"predictor", "drafts"}


def test_traces_of_one_name_are_told_apart(spinctl, small_trace, tmp_path):
    other = tmp_path / small_trace.name
    other.write_bytes(small_trace.read_bytes())
    traces = spinctl.json("eval", small_trace, other, "--topk", 128, "--steps", 4, "--study", "none")["traces"]
    assert set(traces) == {str(small_trace), str(other)}


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", [0.5, 0.6, 0.7, 0.8])
def test_budgets_from_some_traces_miss_less_on_another(spinctl, tmp_path, sparsity):
    """Of other kinds of text, too: learnt from two kinds, replayed on the third."""
    if not all(trace.exists() for trace in LARGE):
        pytest.skip("no large traces (SPIN_TRACES_DIR)")
    ratios = []
    for held_out in LARGE:
        policy = tmp_path / f"{held_out.stem}.json"
        spinctl.json("tune", *[t for t in LARGE if t != held_out], "--topk", 512, "--target-sparsity", sparsity, "--out", policy)
        replay = ("replay", "--trace", held_out, "--topk", 512)
        tuned, uniform = spinctl.json(*replay, "--policy", policy), spinctl.json(*replay, "--sparsity", sparsity)
        assert tuned["realized_sparsity"] == pytest.approx(uniform["realized_sparsity"], abs=0.003)
        ratios.append((tuned["miss_mean"], uniform["miss_mean"]))
    assert sum(tuned for tuned, _ in ratios) <= 0.65 * sum(uniform for _, uniform in ratios), ratios


def test_a_replay_of_the_policy_misses_what_tune_promised(spinctl, small_trace, tmp_path):
    policy = tmp_path / "policy.json"
    tuned = spinctl.json("tune", small_trace, "--topk", 128, "--target-miss", "0.01", "--out", policy)
    replay = spinctl.json("replay", "--trace", small_trace, "--topk", 128, "--policy", policy)
    assert tuned["expected"]["miss_mean"] == pytest.approx(0.01, abs=0.004)
    # Exploration draws differ: a replay's request has a key of its own.
    assert replay["miss_mean"] == pytest.approx(tuned["expected"]["miss_mean"], abs=0.004)
    assert tuned["sparsity"] > tuned["expected"]["uniform_sparsity_at_same_goal"]


@pytest.mark.parametrize("flags", [(), ("--steps", 64, "--block", 32, "--exploration", 0.1, "--alpha", 0.6, "--seed", 7, "--pin-first-block")], ids=["defaults", "flags"])
def test_eval_recommends_what_its_tune_command_finds(spinctl, small_trace, tmp_path, flags):
    advice = spinctl.json("eval", small_trace, "--topk", 128, "--sparsity", 0.4, "--study", "budgets", *flags)["recommended"]
    words = shlex.split(advice["command"])
    assert words[-2] == "--out"
    tuned = spinctl.json(*words[1:-1], tmp_path / "policy.json")
    assert (advice["sparsity"], advice["layer_sparsity"]) == (tuned["sparsity"], tuned["layer_sparsity"])
    for key in ("miss_mean", "miss_p99"):
        assert advice[key] == tuned["expected"][key]
    assert advice["exploration"] == json.loads((tmp_path / "policy.json").read_text())["policy"]["exploration"]


def test_a_policy_for_other_layers_is_named_as_the_file(spinctl, small_trace, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"format": "spin-policy", "version": 1, "policy": {"layer_sparsity": [0.5, 0.6]}}))
    says = spinctl.refusal("replay", "--trace", small_trace, "--topk", 128, "--policy", policy)
    assert f"--policy: {policy}: layer_sparsity: 2 values for 4 layers" in says


def test_a_uniform_policy_has_one_sparsity(spinctl, small_trace, tmp_path):
    policy = tmp_path / "policy.json"
    spinctl.json("tune", small_trace, "--topk", 128, "--target-sparsity", "0.5", "--uniform", "--out", policy)
    written = json.loads(policy.read_text())["policy"]
    assert written["sparsity"] == 0.5 and "layer_sparsity" not in written


def test_query_aware_with_budgets_is_one_more_setting(spinctl, small_trace, tmp_path):
    policy = tmp_path / "policy.json"
    spinctl.json("tune", small_trace, "--topk", 128, "--target-sparsity", "0.6", "--predictor", "query_aware", "--exploration", 0, "--out", policy)
    miss = spinctl.json("eval", small_trace, "--topk", 128, "--sparsity", "0.6", "--study", "none", "--policy", policy)["traces"]["small-8k"]["miss"]
    assert miss["policy"]["query_aware"]["sparsity"] == pytest.approx(miss["0.6"]["spin"]["sparsity"], abs=0.01)
    assert miss["policy"]["query_aware"]["mean"] <= 0.25 * miss["0.6"]["spin"]["mean"]


def test_a_uniform_policy_is_one_more_setting(spinctl, small_trace, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"format": "spin-policy", "version": 1, "policy": {"sparsity": 0.4}}))
    words = ("eval", small_trace, "--topk", 128, "--steps", 4, "--sparsity", "0.4", "--study", "none", "--policy", policy)
    miss = spinctl.json(*words)["traces"]["small-8k"]["miss"]
    assert miss["policy"]["spin"] == miss["0.4"]["spin"]
    policy.write_text(json.dumps({"format": "spin-policy", "version": 1, "policy": {"decay": 0.4}}))
    assert "--policy: has neither sparsity nor layer_sparsity" in spinctl.refusal(*words)


def spoilt(trace, path, share):
    """The trace with a scale that is no number for the first `share` of the keys of every layer."""
    header, data = safetensors.split(trace.read_bytes())
    begin, end = header["k_scale"]["data_offsets"]
    layers, slots = header["k_scale"]["shape"]
    scales = bytearray(data[begin:end])
    count = int(share * slots)
    for layer in range(layers):
        at = layer * slots * 4
        scales[at:at + 4 * count] = count * struct.pack("<f", float("nan"))
    path.write_bytes(safetensors.join(header, data[:begin] + bytes(scales) + data[end:]))
    return path


def test_scores_that_are_no_numbers_are_counted(spinctl, small_trace, tmp_path):
    few, many = spoilt(small_trace, tmp_path / "few.safetensors", 0.001), spoilt(small_trace, tmp_path / "many.safetensors", 0.2)
    done = spinctl("eval", few, "--topk", 128, "--steps", 4, "--study", "none", "--json")
    trace = done.json()["traces"]["few"]
    assert trace["nan_scores"] > 0 and trace["infinite_scores"] == 0
    assert f"{few}: {trace['nan_scores']:,} scores are NaN and 0 infinite, of " in done.err
    done = spinctl("replay", "--trace", few, "--topk", 128, "--steps", 4, "--json")
    assert done.json()["nan_scores"] == trace["nan_scores"] and done.json()["infinite_scores"] == 0
    assert f"spinctl replay: warning: {few}: {trace['nan_scores']:,} scores are NaN and 0 infinite, of " in done.err
    done = spinctl("tune", few, "--topk", 128, "--target-sparsity", "0.5", "--json")
    assert done.json()["replayed"][0]["nan_scores"] > 0 and "warning" in done.err
    done = spinctl("tune", many, "--topk", 128, "--target-sparsity", "0.5")
    assert done.code == 2 and "of the scores are NaN or infinite, more than the 10 %" in done.err


def test_what_is_read_is_not_written_nor_read_twice(spinctl, small_trace, tmp_path):
    trace, link = tmp_path / "t.safetensors", tmp_path / "link.safetensors"
    trace.write_bytes(small_trace.read_bytes())
    link.symlink_to(trace)
    tune = ("tune", trace, "--topk", 128, "--target-sparsity", "0.5")
    assert "is read from, too" in spinctl.refusal(*tune, "--out", trace)
    assert "is a symbolic link" in spinctl.refusal(*tune, "--out", link)
    assert "is not a regular file" in spinctl.refusal(*tune, "--out", "/dev/null")
    assert "is the same file as" in spinctl.refusal("tune", trace, link, *tune[2:])
    assert "is the same file as" in spinctl.refusal("eval", trace, link, "--topk", 128)
    assert "is read from, too" in spinctl.refusal("eval", trace, "--topk", 128, "--report", trace)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"format": "spin-policy", "version": 1, "policy": {"sparsity": 0.4}}))
    assert "is read from, too" in spinctl.refusal("eval", trace, "--topk", 128, "--policy", policy, "--report", policy)
    assert trace.read_bytes() == small_trace.read_bytes()


@pytest.mark.parametrize("command", [("eval",), ("tune", "--target-sparsity", "0.5"), ("replay", "--trace")], ids=lambda c: c[0])
def test_a_trace_that_memory_cannot_hold_is_an_error(spinctl, tmp_path, command):
    """Less address space than the file's mapping and a copy of it take."""
    slots, dim = 1 << 20, 512
    k, scales = slots * dim, slots * 4
    tensors = {"k": ("F8_E4M3", [1, slots, dim], 0, k), "k_scale": ("F32", [1, slots], k, k + scales),
               "q": ("F8_E4M3", [1, 2, 1, dim], k + scales, k + scales + 2 * dim),
               "w": ("F32", [1, 2, 1], k + scales + 2 * dim, k + scales + 2 * dim + 8)}
    header = {"__metadata__": {"first_query": "8", "steps": "2", "layers": "[0]"}}
    header |= {name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]} for name, (dtype, shape, begin, end) in tensors.items()}
    file = tmp_path / "large.safetensors"
    file.write_bytes(safetensors.join(header, b""))
    os.truncate(file, file.stat().st_size + k + scales + 2 * dim + 8)  # a hole
    limit = 900 << 20
    done = spinctl(*command[:1], *command[1:], file, "--topk", 128,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.code == 1 and done.err == "spinctl: not enough memory for this on this machine\n", done


@pytest.mark.parametrize("words, says", [
    (("eval", "none.safetensors", "--topk", 8), "none.safetensors: no such file"),
    (("eval", "TRACE"), "--topk"),
    (("eval", "TRACE", "--topk", 128, "--steps", 129), "the trace has 128"),
    (("eval", "TRACE", "--topk", 128, "--sparsity", "0.4,1"), "--sparsity: 1 is not in [0, 1)"),
    (("eval", "TRACE", "--topk", 128, "--layer-sparsity", "0.4"), "1 values for 4 layers"),
    (("eval", "TRACE", "--topk", 128, "--steps", 2, "--study", "none", "--report", "/nowhere/x.html"), "/nowhere/x.html"),
    (("tune", "TRACE", "--topk", 128, "--target-miss", "0.01", "--out", "/nowhere/x.json"), "/nowhere/x.json: its folder cannot be written to"),
    (("tune", "TRACE", "--topk", 128), "--target-miss or --target-sparsity"),
    (("tune", "TRACE", "--topk", 128, "--target-sparsity", 2), "--target-sparsity: 2 is not in [0, 1)"),
], ids=str)
def test_refuses_in_one_sentence(spinctl, small_trace, words, says):
    words = [small_trace if word == "TRACE" else word for word in words]
    assert says in spinctl.refusal(*words, code=1 if str(words[-1]).startswith("/nowhere") else 2)
