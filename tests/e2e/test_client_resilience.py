# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The client library end to end: whatever happens to spind, the engine goes on, with the output of a full scan."""

import os
import signal
import socket

import pytest
from eventually import eventually
from raw_client import RawSession
from spin.v1 import policy_pb2, session_pb2
from spind import Spind

EXECUTORS = pytest.mark.parametrize("executor", ["inline", "sidecar"])
STEP_TIMEOUT_MS = 50


def assert_full_scan(steps):
    """Rows that were not predicted had the top K of a full scan, because they kept all blocks."""
    for reasons, equal, kept, considered in zip(steps.reasons, steps.equal, steps.kept, steps.considered):
        for reason, same, count, blocks in zip(reasons, equal, kept, considered):
            if reason != "none":
                assert same and count == blocks, reason


def steps_until(engine, reason, at_a_time=5):
    """Steps until the last one has this reason in every row; returns all reasons of the first row."""
    seen = []

    def reached():
        steps = engine.steps(at_a_time)
        assert_full_scan(steps)
        seen.extend(steps.column())
        return set(steps.reasons[-1]) == {reason}

    eventually(reached)
    return seen


def without_repeats(reasons) -> list[str]:
    return [reason for i, reason in enumerate(reasons) if i == 0 or reasons[i - 1] != reason]


@pytest.fixture
def late_spind(spind_binary, start_spind, tmp_path):
    """A socket path where nobody serves yet, and how to change that."""

    class Late:
        socket = tmp_path / "spind.sock"

        @staticmethod
        def start() -> Spind:
            return start_spind(folder=tmp_path)

    return Late()


class TestAbsence:
    @EXECUTORS
    def test_engine_starts_alone_and_turns_sparse_once_spind_appears(self, late_spind, start_engine, executor):
        engine = start_engine(late_spind, executor=executor, step_timeout_ms=10000)
        assert engine.status()["code"] == "UNAVAILABLE"
        opened = engine.open("a", 2000)
        assert not opened["ok"] and opened["capacity"] == 0
        steps = engine.steps(5)
        assert steps.column() == ["no_sidecar"] * 5
        assert_full_scan(steps)
        late_spind.start()
        assert without_repeats(steps_until(engine, "none"))[-2:] == ["cold", "none"]
        assert engine.do("request", "a")["capacity"] == 4096

    def test_socket_without_a_server_is_no_different(self, late_spind, start_engine):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(late_spind.socket))
        engine = start_engine(late_spind)
        engine.open("a", 1000)
        assert engine.steps(3).column() == ["no_sidecar"] * 3
        os.unlink(late_spind.socket)
        late_spind.start()
        steps_until(engine, "none")

    def test_server_that_never_answers_is_no_different(self, late_spind, start_engine):
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(str(late_spind.socket))
            mute.listen()
            engine = start_engine(late_spind, control_timeout_ms=200)
            engine.open("a", 1000)
            assert engine.steps(3).column() == ["no_sidecar"] * 3
            assert not engine.do("ready", 500)["ok"]
            engine.quit()


class TestDeathOfSpind:
    @EXECUTORS
    def test_engine_never_stops_and_turns_sparse_again_after_a_restart(self, spind, start_engine, executor):
        engine = start_engine(spind, executor=executor, step_us=500, step_timeout_ms=STEP_TIMEOUT_MS)
        engine.ready()
        engine.open("a", 3000)
        engine.open("b", 500)
        assert engine.steps(10).column()[-1] == "none"
        (old,) = engine.mapped_slabs()

        engine.send("step", 400)  # killed in the middle of these
        spind.kill()
        steps = engine.take_steps(engine.reply())
        assert len(steps.reasons) == 400
        assert_full_scan(steps)
        assert steps.reasons[-1] == ["no_sidecar"] * 2
        assert steps.reason_set <= {"none", "no_sidecar", "cold", "deadline"}
        eventually(lambda: engine.mapped_slabs() == [])  # a mapping would keep the old memory alive

        spind.start()
        reasons = without_repeats(steps_until(engine, "none"))
        assert reasons[-2:] == ["cold", "none"]
        assert set(reasons) <= {"no_sidecar", "epoch", "cold", "none"}
        (new,) = engine.mapped_slabs()
        assert new != old and "deleted" not in new
        stats = engine.stats()
        assert stats["reconnects"] == 1
        assert stats["rows"]["no_sidecar"] > 0
        assert spind.metric("spin_requests") == 2

    @EXECUTORS
    def test_fallbacks_are_reported_to_the_next_spind(self, spind, start_engine, executor):
        engine = start_engine(spind, executor=executor, step_timeout_ms=STEP_TIMEOUT_MS)
        engine.ready()
        engine.open("a", 1000)
        engine.steps(3)
        spind.kill()
        steps_until(engine, "no_sidecar")
        spind.start()
        steps_until(engine, "none")
        counted = engine.stats()["rows"]
        eventually(lambda: spind.metric("spin_fallback_rows_total", reason="no_sidecar") == counted["no_sidecar"],
                   within=5)

    @EXECUTORS
    def test_many_restarts_leave_one_session_and_no_old_mapping(self, spind, start_engine, executor):
        engine = start_engine(spind, executor=executor, step_timeout_ms=STEP_TIMEOUT_MS)
        engine.open("a", 1000)
        for _ in range(5):
            steps_until(engine, "none")
            spind.kill()
            engine.steps(2)
            spind.start()
        steps_until(engine, "none")
        assert len(engine.mapped_slabs()) == 1
        assert spind.metric("spin_sessions") == spind.metric("spin_requests") == 1

    @EXECUTORS
    def test_sigterm_is_as_good_a_death(self, spind, start_engine, executor):
        engine = start_engine(spind, executor=executor, step_us=200, step_timeout_ms=STEP_TIMEOUT_MS)
        engine.ready()
        engine.open("a", 1000)
        engine.send("step", 300)
        spind.terminate()
        assert spind.await_end() == 0
        steps = engine.take_steps(engine.reply())
        assert_full_scan(steps)
        steps_until(engine, "no_sidecar")
        spind.start()
        steps_until(engine, "none")


class TestSlowSpind:
    def test_sidecar_executor_falls_back_within_its_deadline(self, spind, start_engine):
        engine = start_engine(spind, executor="sidecar", step_timeout_ms=100)
        engine.ready()
        engine.open("a", 1000)
        engine.steps(5)
        spind.signal(signal.SIGSTOP)
        steps = engine.steps(5)
        spind.signal(signal.SIGCONT)
        assert_full_scan(steps)
        assert steps.column()[1:] == ["deadline"] * 4  # the list of the first had been made before
        assert max(steps.seconds) < 1.0  # a deadline of 0.1 s, and slack for a busy machine
        assert engine.stats()["rows"]["deadline"] >= 4
        assert without_repeats(steps_until(engine, "none"))[-1] == "none"

    def test_inline_executor_does_not_notice(self, spind, start_engine):
        engine = start_engine(spind, executor="inline")
        engine.ready()
        engine.open("a", 1000)
        engine.steps(5)
        spind.signal(signal.SIGSTOP)
        steps = engine.steps(50)
        spind.signal(signal.SIGCONT)
        assert steps.column() == ["none"] * 50

    @EXECUTORS
    def test_opening_and_growing_give_up_in_time_and_catch_up_later(self, spind, start_engine, executor):
        engine = start_engine(spind, executor=executor, step_timeout_ms=50, control_timeout_ms=200)
        engine.ready()
        engine.open("a", 1000)
        engine.steps(2)
        spind.signal(signal.SIGSTOP)
        opened = engine.open("b", 1000)
        assert not opened["ok"]
        assert not engine.do("extend", "a", 5000)["ok"]
        assert set(engine.steps(2).column(1)) <= {"no_sidecar", "deadline"}
        spind.signal(signal.SIGCONT)
        steps_until(engine, "none")
        eventually(lambda: engine.do("request", "a")["capacity"] == 8192)
        assert spind.metric("spin_requests") == 2


def update_policy(client, **policy):
    client.UpdatePolicy(session_pb2.UpdatePolicyRequest(policy=policy_pb2.Policy(**policy)))


@EXECUTORS
def test_many_engines_at_once_are_all_served(start_spind, start_engine, executor):
    spind = start_spind(slab_bytes="64MiB")
    engines = [start_engine(spind, executor=executor, max_requests=2, step_timeout_ms=10000) for _ in range(8)]
    for number, engine in enumerate(engines):
        engine.ready()
        engine.open(f"request-{number}", 2000)
    for engine in engines:
        engine.send("step", 50)
    for engine in engines:
        assert engine.take_steps(engine.reply()).column() == ["cold"] + ["none"] * 49


class TestPolicy:
    @pytest.fixture(params=["inline", "sidecar"])
    def engine(self, request, spind, start_engine):
        engine = start_engine(spind, executor=request.param, sparsity=0.5, step_timeout_ms=10000)
        engine.ready()
        engine.open("a", 6400)
        assert engine.steps(3).column() == ["cold", "none", "none"]
        return engine

    def test_off_switch_keeps_all_blocks_and_is_no_fallback(self, spind, client, engine):
        update_policy(client, enabled=False)
        steps_until(engine, "off")
        off = engine.steps(10)
        assert off.column() == ["off"] * 10
        assert off.kept == off.considered
        update_policy(client, enabled=True)
        assert without_repeats(steps_until(engine, "none")) in (["off", "cold", "none"], ["cold", "none"])
        eventually(lambda: spind.metric("spin_fallback_rows_total", reason="cold") == 2, within=5)
        assert spind.metric("spin_fallback_rows_total") == 2

    def test_change_of_sparsity_reaches_a_running_engine(self, client, engine):
        def share():
            steps = engine.steps(3)
            assert set(steps.column()) == {"none"}
            return round(1 - steps.kept[-1][0] / steps.considered[-1][0], 1)

        assert share() == 0.5
        update_policy(client, sparsity=0.8)
        eventually(lambda: share() == 0.8)
        update_policy(client, sparsity=0.2)
        eventually(lambda: share() == 0.2)

    def test_sparsity_per_layer_reaches_a_running_engine(self, client, engine):
        (session,) = client.sessions()
        client.UpdatePolicy(session_pb2.UpdatePolicyRequest(
            session_id=session.session_id, policy=policy_pb2.Policy(layer_sparsity=[0.8, 0.4])))
        expected = sum(101 - int(share * 101 + 1e-9) for share in (0.8, 0.4))
        eventually(lambda: engine.steps(1).kept == [[expected]])

    def test_audits_can_be_switched_on(self, spind, client, engine):
        update_policy(client, audit_every=1)
        steps_until(engine, "audit")
        steps = engine.steps(5)
        assert steps.column() == ["audit"] * 5
        assert_full_scan(steps)
        assert spind.metric("spin_audit_rows_total") > 0


class TestRequests:
    @pytest.fixture(params=["inline", "sidecar"])
    def executor(self, request):
        return request.param

    def start(self, start_engine, spind, executor, **options):
        engine = start_engine(spind, executor=executor, step_timeout_ms=10000, **options)
        engine.ready()
        return engine

    def test_state_grows_over_page_borders_without_a_fallback(self, spind, start_engine, executor):
        engine = self.start(start_engine, spind, executor, layers=1, step_us=1000)
        engine.open("a", 3500)
        reasons = engine.steps(700).column()
        assert reasons == ["cold"] + ["none"] * 699
        assert engine.do("request", "a")["capacity"] == 8192

    def test_longest_context_is_served_and_beyond_it_all_blocks_are_kept(self, spind, start_engine, executor):
        engine = self.start(start_engine, spind, executor, layers=1, max_slots=1024)
        engine.open("a", 1024, 1013)
        steps = engine.steps(10)
        assert steps.column() == ["cold"] + ["none"] * 9

    def test_request_that_does_not_fit_keeps_all_blocks_and_recovers(self, start_spind, connect, start_engine,
                                                                     executor):
        spind = start_spind(slab_bytes="8MiB")
        engine = self.start(start_engine, spind, executor, layers=1)
        hog = RawSession(connect(spind), executor="INLINE", layers=1, max_requests=512, max_slots=4096)
        fitting = [result for result in hog.open_requests(*[dict(key=str(i).encode(), slots=4096) for i in range(512)])
                   if not result.HasField("error")]
        assert 0 < len(fitting) < 512
        victim = engine.open("victim", 4096, 1000)
        assert (victim["ok"], victim["code"]) == (False, "RESOURCE_EXHAUSTED")
        steps = engine.steps(3)
        assert steps.column() == ["capacity"] * 3
        assert_full_scan(steps)
        hog.close()
        eventually(lambda: engine.do("request", "victim")["ok"])
        steps_until(engine, "none")

    def test_request_that_cannot_grow_keeps_all_blocks_and_recovers(self, start_spind, connect, start_engine, executor):
        spind = start_spind(slab_bytes="8MiB")
        engine = self.start(start_engine, spind, executor, layers=1)
        engine.open("victim", 4096, 4000)
        hog = RawSession(connect(spind), executor="INLINE", layers=1, max_requests=512, max_slots=4096)
        hog.open_requests(*[dict(key=str(i).encode(), slots=4096) for i in range(512)])
        steps = engine.steps(100)
        assert without_repeats(steps.column()) == ["cold", "none", "capacity"]
        assert_full_scan(steps)
        assert steps.column().index("capacity") == 4096 - 4000
        hog.close()
        eventually(lambda: engine.do("request", "victim")["capacity"] == 8192)
        steps_until(engine, "none")

    def test_more_rows_than_the_session_has_requests_are_invalid_and_the_others_go_on(self, spind, start_engine,
                                                                                     executor):
        engine = self.start(start_engine, spind, executor, max_requests=2)
        for key in "abc":
            engine.open(key, 1000)
        assert engine.steps(2).column(2) == ["invalid"] * 2
        engine.close("c")
        steps_until(engine, "none")

    def test_key_may_be_used_again_at_once(self, spind, start_engine, executor):
        engine = self.start(start_engine, spind, executor, max_requests=2)
        for round_ in range(20):
            engine.open("same", 1000 + round_)
            assert engine.steps(3).column() == ["cold", "none", "none"]
            engine.close("same")
        eventually(lambda: spind.metric("spin_requests") == 0)

    def test_branch_goes_on_from_its_parents_history(self, spind, start_engine, executor):
        engine = self.start(start_engine, spind, executor)
        engine.open("parent", 2000)
        engine.steps(5)
        assert engine.fork("parent", "child", 2000)["ok"]
        steps = engine.steps(3)
        assert steps.column(0) == ["none"] * 3
        assert steps.column(1) == ["cold", "none", "none"]

    def test_position_that_jumps_or_goes_back_is_noticed(self, spind, start_engine, executor):
        engine = self.start(start_engine, spind, executor)
        engine.open("a", 3000, 1000)
        engine.steps(3)
        engine.do("move", "a", 2000)
        steps = engine.steps(3)
        assert steps.column() == ["position", "none", "none"]
        assert_full_scan(steps)
        engine.do("move", "a", 500)
        assert without_repeats(steps_until(engine, "none"))[0] == "position"

    def test_step_that_is_dropped_costs_one_full_scan(self, spind, start_engine, executor):
        engine = self.start(start_engine, spind, executor)
        engine.open("a", 1000)
        engine.steps(3)
        engine.do("drop_step")
        assert engine.steps(3).column() == ["cold", "none", "none"]

    def test_sixty_fifth_session_keeps_all_blocks_until_one_closes(self, spind, connect, start_engine, executor):
        raw = connect(spind)
        tiny = dict(layers=1, max_slots=64, max_requests=1, topk=1, executor="INLINE")
        opened = [raw.open_session(**tiny) for _ in range(64)]
        engine = start_engine(spind, executor=executor, step_timeout_ms=10000)
        status = engine.do("ready", 200)
        assert status["code"] == "RESOURCE_EXHAUSTED" and "64 sessions" in status["message"]
        engine.open("a", 1000)
        assert engine.steps(3).column() == ["capacity"] * 3
        raw.CloseSession(session_pb2.CloseSessionRequest(session_id=opened[0].session_id))
        steps_until(engine, "none")

    def test_bad_options_are_the_only_ones_that_fail(self, spind, start_engine, executor):
        for options in (dict(layers=0), dict(sparsity=1.5), dict(sparsity="nan"), dict(topk=0), dict(block_slots=48),
                        dict(model_name="a'b\"c"), dict(max_next_n=9), dict(max_requests=0)):
            assert start_engine(spind, executor=executor, **options).quit() == 1, options


def test_engine_that_leaves_frees_its_session_at_once(spind, start_engine):
    engine = start_engine(spind)
    engine.ready()
    engine.open("a", 1000)
    engine.steps(3)
    assert engine.quit() == 0
    assert spind.metric("spin_sessions") == 0
    assert spind.metric("spin_state_bytes") == 0
    assert spind.metric("spin_session_ends_total", reason="closed") == 1
    assert spind.metric("spin_steps_total") == 3  # the last report came with the goodbye
    assert spind.metric("spin_fallback_rows_total", reason="cold") == 1
