# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""spinctl beside a running spind and engine: status, sessions, policy, top, doctor; and completion."""

import json
import os
import pty
import shutil
import signal
import subprocess
import time

import pytest
from eventually import eventually
from spinctl import TIMEOUT

SERVER_KEYS = {"version", "epoch", "device_uuid", "slab_bytes", "slab_used_bytes", "started_at", "admin_address",
               "process_id"}
SESSION_KEYS = {"session_id", "model_name", "client_name", "geometry", "executor", "policy", "policy_epoch", "attached",
                "open_requests", "state_bytes", "opened_at", "peer_process_id", "peer_user_id", "policy_reason"}
POLICY_KEYS = {"sparsity", "layer_sparsity", "exploration", "decay", "seed", "audit_every", "pin_first_block",
               "enabled", "budget_mode", "target_miss", "min_sparsity", "max_sparsity"}
TOP_KEYS = {"session_id", "model_name", "realized_sparsity", "target_sparsity", "blocks", "audits", "fallbacks", "steps",
            "steps_per_second", "predict_seconds", "observe_seconds", "open_requests", "state_bytes", "policy_epoch",
            "layer_sparsity", "layer_miss", "budgets", "enabled"}


@pytest.fixture
def ask(spinctl, spind):
    """What a command says of our spind, as JSON."""
    return lambda *words: spinctl.json(*words, "--socket", spind.socket)


@pytest.fixture
def engine(start_engine, spind):
    """Has one request of 100 blocks."""
    engine = start_engine(spind, model_name="m", sparsity=0.4, exploration=0)
    engine.ready()
    engine.open("a", 8000, 6400)
    return engine


def kept_share(engine) -> float:
    """Of the last of a few steps."""
    steps = engine.steps(3)
    return steps.kept[-1][0] / steps.considered[-1][0]


@pytest.mark.parametrize("command", [["status"], ["sessions"], ["policy", "get"], ["top", "--once"], ["top"],
                                     ["policy", "set", "--all", "--sparsity", "0.5"]], ids=" ".join)
def test_without_a_spind_every_command_says_so(spinctl, spind, command, tmp_path):
    spind.kill()
    for socket in (tmp_path / "spind.sock", spind.socket):
        assert str(socket) in spinctl.refusal(*command, "--socket", socket, code=3)


class TestStatus:
    def test_tells_what_spind_is_and_how_full(self, spinctl, spind, ask, engine):
        status = ask("status")
        assert status.keys() == {"serving", "server", "sessions", "requests"}
        assert (status["serving"], status["sessions"], status["requests"]) == (True, 1, 1)
        assert status["server"].keys() == SERVER_KEYS
        assert (status["server"]["process_id"], status["server"]["admin_address"]) == (spind.pid, spind.admin)
        assert 0 < status["server"]["slab_used_bytes"] < status["server"]["slab_bytes"] == 16 << 20
        text = spinctl("status", env={"SPIN_SOCKET": str(spind.socket)}).out
        assert "serving" in text and status["server"]["epoch"] in text

    def test_of_a_spind_that_hangs_ends_in_time(self, spinctl, spind):
        spind.signal(signal.SIGSTOP)
        try:
            assert "did not answer" in spinctl.refusal("status", "--socket", spind.socket, code=3)
        finally:
            spind.signal(signal.SIGCONT)


class TestSessions:
    def test_are_listed_and_shown_by_the_first_digits_of_their_id(self, spinctl, spind, ask, engine):
        (session,) = ask("sessions")["sessions"]
        assert session.keys() == SESSION_KEYS and session["policy"].keys() == POLICY_KEYS
        assert (session["model_name"], session["peer_process_id"]) == ("m", engine.pid)
        assert session["geometry"]["layers"] == 2
        assert ask("sessions", session["session_id"][:6]) == session
        text = spinctl("sessions", session["session_id"], "--socket", spind.socket).out
        assert "sparsity 40.0 %" in text and f"process {engine.pid}" in text

    def test_that_are_not_there(self, spinctl, spind):
        assert spinctl("sessions", "--socket", spind.socket).out == "no open session\n"
        assert "no open session 12" in spinctl.refusal("sessions", "12", "--socket", spind.socket, code=1)
        assert "ID: 'xyz'" in spinctl.refusal("sessions", "xyz", "--socket", spind.socket)


class TestPolicy:
    def test_of_a_session_changes_under_a_running_engine(self, ask, engine):
        (session,) = ask("sessions")["sessions"]
        assert kept_share(engine) == pytest.approx(0.6, abs=0.02)
        changed = ask("policy", "set", "--session", session["session_id"], "--sparsity", "0.75")
        assert (changed["policy"]["sparsity"], changed["policy_epoch"], changed["sessions_changed"]) == (0.75, 2, 1)
        eventually(lambda: kept_share(engine) == pytest.approx(0.25, abs=0.02))
        (entry,) = ask("policy", "get", "--session", session["session_id"])["sessions"]
        assert entry == {"session_id": session["session_id"], "policy": changed["policy"], "policy_epoch": 2,
                         "policy_reason": "set by a call"}
        assert entry["policy"].keys() == POLICY_KEYS

    def test_of_all_is_that_of_later_sessions_too(self, ask, engine, start_engine, spind):
        before = ask("policy", "get")["default"]
        assert before["policy"].keys() == POLICY_KEYS and before["policy_epoch"] == 1
        changed = ask("policy", "set", "--all", "--audit-every", "7")
        assert changed["sessions_changed"] == 1
        assert ask("policy", "get")["default"] == {"policy": {**before["policy"], "audit_every": 7}, "policy_epoch": 2}
        start_engine(spind, model_name="later").ready()
        policies = {session["model_name"]: session["policy"] for session in ask("sessions")["sessions"]}
        assert policies["m"]["audit_every"] == 7 and policies["m"]["sparsity"] == 0.4

    def test_of_all_says_which_sessions_its_layers_do_not_fit(self, spinctl, spind, ask, engine, start_engine):
        start_engine(spind, model_name="fits", layers=3).ready()
        words = ("policy", "set", "--all", "--layer-sparsity", "0.1,0.2,0.3")
        changed = ask(*words)
        assert (changed["sessions_changed"], changed["sessions_with_mean"]) == (2, 1)
        policies = {session["model_name"]: session["policy"] for session in ask("sessions")["sessions"]}
        assert policies["m"]["sparsity"] == pytest.approx(0.2) and not policies["m"]["layer_sparsity"]
        assert policies["fits"]["layer_sparsity"] == [0.1, 0.2, 0.3]
        assert "\n1 of them with other than 3 layers: the mean" in spinctl(*words, "--socket", spind.socket).out
        assert ask("policy", "set", "--all", "--sparsity", "0.5")["sessions_with_mean"] == 0

    def test_switched_off_keeps_all_blocks_until_it_is_on_again(self, ask, engine):
        ask("policy", "set", "--all", "--disable")
        eventually(lambda: kept_share(engine) == 1)
        assert not ask("top", "--once")["sessions"][0]["enabled"]
        ask("policy", "set", "--all", "--enable")
        eventually(lambda: kept_share(engine) == pytest.approx(0.6, abs=0.02))

    @pytest.mark.parametrize("flags, field", [
        (["--sparsity", "nan"], "--sparsity"), (["--sparsity", "1.5"], "--sparsity"), ([], "nothing to change"),
        (["--layer-sparsity", "0.1,0.2,0.3"], "set: --layer-sparsity: has 3 values"),
        (["--target-miss", "0"], "set: --target-miss: 0 is not in (0, 1)"), (["--session", "0", "--sparsity", "0.1"], "--session")])
    def test_that_is_bad_is_refused_and_nothing_changes(self, spinctl, spind, ask, engine, flags, field):
        before = ask("policy", "get")
        (session,) = ask("sessions")["sessions"]
        whom = ["--all"] if "--session" in flags else ["--session", session["session_id"]]
        assert field in spinctl.refusal("policy", "set", *whom, *flags, "--socket", spind.socket)
        assert ask("policy", "get") == before


class TestTop:
    def test_once_shows_the_totals(self, spinctl, spind, ask, engine):
        engine.steps(20)
        frame = ask("top", "--once")
        assert frame.keys() == {"taken_at", "server", "sessions"}
        (session,) = frame["sessions"]
        assert session.keys() >= TOP_KEYS
        assert 0.3 < session["realized_sparsity"] < 0.4  # the first step kept all
        assert session["audits"] == {"topk_slots": 0, "missed_slots": 0, "miss": None, "rows": 0, "extra_blocks_share": 0}
        assert (session["budgets"]["mode"], session["budgets"]["changes"]) == ("fixed", 0)
        text = spinctl("top", "--once", "--socket", spind.socket).out
        assert "by layer" in text and "\033" not in text

    def test_without_a_terminal_prints_an_object_a_line_until_interrupted(self, spinctl, spind, engine):
        top = spinctl.start("top", "--interval", "100ms", "--json", "--socket", spind.socket)
        frames = [json.loads(top.stdout.readline()) for _ in range(3)]
        assert {frame["server"]["process_id"] for frame in frames} == {spind.pid}
        top.send_signal(signal.SIGINT)
        top.communicate(timeout=TIMEOUT)
        assert top.returncode == 0

    def test_on_a_terminal_draws_until_q_and_puts_the_terminal_back(self, spinctl, spind, engine):
        ours, theirs = pty.openpty()
        top = subprocess.Popen(spinctl.command("top", "--interval", "100ms", "--socket", spind.socket), stdin=theirs,
                               stdout=theirs, stderr=theirs, env={**spinctl.environment, "TERM": "xterm"})
        os.close(theirs)
        seen = b""
        while seen.count(b"q quits") < 3:
            seen += os.read(ours, 65536)
        os.write(ours, b"q")
        while top.poll() is None:
            try:
                seen += os.read(ours, 65536)
            except OSError:
                break  # it has closed its end
        os.close(ours)
        assert top.wait(timeout=TIMEOUT) == 0
        assert b"\033[?1049h" in seen and seen.rindex(b"\033[?1049l") > seen.rindex(b"q quits")


class TestDoctor:
    def outcomes(self, report) -> dict[str, str]:
        return {check["check"]: check["outcome"] for check in report["checks"]}

    def test_finds_nothing_wrong_and_leaves_no_session(self, ask, engine):
        report = ask("doctor")
        assert report["ok"] and report["checks"][0].keys() == {"check", "outcome", "found", "advice"}
        outcomes = self.outcomes(report)
        assert {"socket file", "listener", "allowed user", "health", "slab", "admin port"} <= outcomes.keys()
        assert set(outcomes.values()) <= {"ok", "info", "warn"}
        assert [session["model_name"] for session in ask("sessions")["sessions"]] == ["m"]

    def test_says_what_is_wrong_and_what_to_do(self, spinctl, spind):
        spind.kill()
        done = spinctl("doctor", "--socket", spind.socket, "--json")
        report = json.loads(done.out)
        assert done.code == 1 and "1 check failed" in done.err and not report["ok"]
        (failed,) = [check for check in report["checks"] if check["outcome"] == "fail"]
        assert failed["check"] == "listener" and failed["advice"]
        assert self.outcomes(report)["slab"] == "skipped"

    def test_of_a_spind_that_hangs_waits_once(self, spinctl, spind):
        spind.signal(signal.SIGSTOP)
        begin = time.monotonic()
        try:
            report = json.loads(spinctl("doctor", "--socket", spind.socket, "--json").out)
        finally:
            spind.signal(signal.SIGCONT)
        assert time.monotonic() - begin < 10  # one look at the socket, and one call of 5 s
        outcomes = self.outcomes(report)
        assert outcomes["health"] == "fail"
        assert {outcomes[check] for check in ("version", "slab", "room", "admin port", "processes")} == {"skipped"}

    def test_sees_memory_that_is_not_shared(self, spinctl, spind):
        (slab,) = spind.slab_files()
        os.rename(spind.shm_dir / slab, spind.shm_dir / "elsewhere")
        done = spinctl("doctor", "--socket", spind.socket, "--json")
        assert done.code == 1 and self.outcomes(json.loads(done.out))["slab"] == "fail"
        os.rename(spind.shm_dir / "elsewhere", spind.shm_dir / slab)


class TestCompletion:
    @pytest.mark.parametrize("shell, check", [("bash", "source /dev/stdin && complete -p spinctl"),
                                              ("zsh", "compdef() { :; }; source /dev/stdin"),
                                              ("fish", "source - && complete -C 'spinctl re' | grep replay")])
    def test_script_is_one_that_its_shell_takes(self, spinctl, shell, check):
        script = spinctl("completion", shell)
        assert script.code == 0 and spinctl.json("completion", shell) == {"shell": shell, "script": script.out}
        if shutil.which(shell) is None:
            pytest.skip(f"no {shell} on this machine")
        done = subprocess.run([shell, "-c", check], input=script.out, capture_output=True, text=True, timeout=TIMEOUT)
        assert (done.returncode, done.stderr) == (0, "")

    def test_of_another_shell_is_refused(self, spinctl):
        assert "SHELL: tcsh is not one of" in spinctl.refusal("completion", "tcsh")
