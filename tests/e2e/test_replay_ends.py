# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Replays that are interrupted, killed, or lose their spind: they end well, and nothing of them stays."""

import json
import os
import re
import signal
import subprocess

import pytest
from eventually import eventually
from spinctl import TIMEOUT
from spind import STOP_BOUND


@pytest.fixture
def start_replay(spinctl, small_trace):
    """Starts a replay and waits until it plays: start_replay("--hold")."""
    started = []

    def start(*flags):
        replay = spinctl.start("replay", "--trace", small_trace, "--topk", 128, *flags)
        started.append(replay)
        replay.metrics = re.search(r"metrics at (\S+)", replay.stderr.readline()).group(1)
        return replay

    yield start
    for replay in started:
        replay.kill()
        replay.communicate()


def outcome(replay) -> tuple[int, str, str]:
    out, err = replay.communicate(timeout=TIMEOUT)
    return replay.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_stops_its_spind_and_says_nothing(spinctl, start_replay, number):
    replay = start_replay("--executor", "sidecar")
    assert set(spinctl.processes().values()) == {"spinctl", "spind"}
    replay.send_signal(number)
    assert outcome(replay) == (128 + number, "", "")


def test_killed_its_spind_ends_too(spinctl, start_replay):
    replay = start_replay("--hold")
    replay.kill()
    replay.wait()
    eventually(lambda: spinctl.processes() == {}, within=STOP_BOUND)
    assert spinctl.left_behind("files") == {}
    # Its empty folder goes with the first replay a minute later; nothing of spind's own is in it.
    (folder,) = spinctl.folder.iterdir()
    assert [path.name for path in folder.iterdir() if path.is_socket()] == []
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_without_its_spind_it_keeps_all_blocks_and_says_so(spinctl, start_replay, small_trace):
    replay = start_replay("--json", "--sparsity", "0.8")
    (spind,) = [number for number, name in spinctl.processes().items() if name == "spind"]
    os.kill(spind, signal.SIGKILL)
    code, out, err = outcome(replay)
    result = json.loads(out)
    assert code == 0 and result["exact"] and result["steps"] == 128
    lost = sum(rows for reason, rows in result["fallbacks"].items() if reason != "cold")
    assert lost == 0 or "kept all blocks out of doubt" in err  # 0: it had played all steps already
    assert spinctl.left_behind("slabs") == {}
    spinctl("replay", "--trace", small_trace, "--topk", 128, "--steps", 2)  # its spind removes the slab of the killed


def test_held_it_serves_until_it_is_interrupted(spinctl, start_replay):
    replay = start_replay("--hold", "--steps", "16", "--audit-every", "4")
    text = "".join(replay.stderr.readline() for _ in range(3))
    socket = re.search(r"top --socket (\S+)", text).group(1)
    assert replay.metrics in text and text.count(str(spinctl.binary)) == 1

    def steps():
        (session,) = spinctl.json("top", "--once", "--socket", socket)["sessions"]
        return session["steps"]

    eventually(lambda: steps() == 16)  # a client reports them once a second
    replay.send_signal(signal.SIGINT)
    code, out, _ = outcome(replay)
    assert code == 0 and "total" in out


def test_output_that_cannot_be_written_is_an_error(spinctl, small_trace):
    with open("/dev/full", "w") as full:
        done = subprocess.run(spinctl.command("replay", "--trace", small_trace, "--topk", 128, "--steps", 4),
                              stdout=full, stderr=subprocess.PIPE, text=True, env=spinctl.environment)
    assert done.returncode == 1 and "cannot write to stdout" in done.stderr


class TestOfARunningSpind:
    def test_it_closes_its_session_and_leaves_the_policy_of_others_alone(self, spinctl, spind, small_trace):
        result = spinctl.json("replay", "--socket", spind.socket, "--trace", small_trace, "--topk", 128,
                              "--sparsity", 0.7)
        assert result["epoch"] == spinctl.json("status", "--socket", spind.socket)["server"]["epoch"]
        assert spinctl.json("sessions", "--socket", spind.socket) == {"sessions": []}
        assert spind.metric("spin_steps_total", model_name="small-8k") == 128
        assert spind.process.poll() is None

    def test_that_is_too_small_is_told_what_to_raise(self, spinctl, start_spind, small_trace):
        spind = start_spind(slab_bytes="64KiB")
        said = spinctl.refusal("replay", "--socket", spind.socket, "--trace", small_trace, "--topk", 128, code=1)
        assert "no room in the slab" in said and "--slab-bytes" in said
        assert spinctl.json("sessions", "--socket", spind.socket) == {"sessions": []}

    def test_that_is_dead_or_was_never_there(self, spinctl, spind, small_trace, tmp_path):
        spind.kill()
        for socket in (spind.socket, tmp_path / "spind.sock"):
            said = spinctl.refusal("replay", "--socket", socket, "--trace", small_trace, "--topk", 128, code=3)
            assert str(socket) in said


def test_variables_of_another_spind_do_not_reach_its_own(spinctl, small_trace):
    done = spinctl("replay", "--trace", small_trace, "--topk", 128, "--steps", 4, "--json",
                   env={"SPIND_SPARSITY": "nonsense", "SPIND_SOCKET": "/nonexistent/x", "SPIND_DEVICE": "tpu"})
    assert done.json()["steps"] == 4


def test_spind_that_cannot_start_is_quoted(spinctl, small_trace):
    said = spinctl.refusal("replay", "--trace", small_trace, "--topk", 128, "--spind", "/bin/false", code=1)
    assert "spind did not start" in said
