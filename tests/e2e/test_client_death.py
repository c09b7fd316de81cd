# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that die, idle, fork or close at the wrong moment: what they held comes back, and nobody else notices."""

import json
import os
import signal
import threading

import grpc
import pytest
from eventually import eventually, jitter
from raw_client import RawSession, open_session_request, step_row
from refusal import CODE, detail_of
from spin.v1 import error_pb2, session_pb2, stats_pb2

FREED_WITHIN = 1.0  # seconds, of the cases
GAUGES = ("spin_sessions", "spin_requests", "spin_state_bytes", "spin_quarantined_bytes", "spin_connections")


def gauges(spind) -> dict[str, float]:
    """Over all models."""
    metrics = spind.metrics()
    return {name: sum(metrics.all(name).values()) for name in GAUGES}


def stats_request(milliseconds):
    request = stats_pb2.WatchStatsRequest()
    request.interval.FromMilliseconds(milliseconds)
    return request


class Bystander:
    """Another session, whose steps go on all the time."""

    def __init__(self, client):
        self.session = RawSession(client, model_name="bystander")
        self.handle = self.session.open_request(b"a", slots=8192)
        self.position = 100
        self.step("ALL")

    def step(self, coverage="KEPT"):
        buffer = (self.position - 100) % 2
        (result,) = self.session.step(step_row(self.handle, self.position, coverage, buffer=buffer))
        assert result.observed and not result.HasField("error"), result
        self.position += 1


@pytest.fixture
def bystander(client):
    return Bystander(client)


# Opened only, attached, with requests, and with a step under way.
@pytest.mark.parametrize("stage", ["opened", "attached", "requests", "stepping"])
def test_killed_client_is_freed_within_a_second_and_others_go_on(start_spind, connect, start_script, stage):
    spind = start_spind("--wait-limit-ms", "300")
    bystander = Bystander(connect(spind))
    before = gauges(spind)
    victim = start_script("raw_process.py", spind.socket, stage)
    victim_session = json.loads(victim.stdout.readline())["session_id"]
    assert gauges(spind)["spin_sessions"] == 2
    victim.kill()

    def freed():
        bystander.step()
        return gauges(spind) == before

    eventually(freed, within=FREED_WITHIN)
    assert [session.session_id for session in bystander.session.client.sessions()] == [bystander.session.id]
    assert victim_session != bystander.session.id
    bystander.step()


def test_connections_that_drop_while_a_session_is_being_opened_leave_nothing(start_spind, connect):
    spind = start_spind(slab_bytes="128MiB")
    control = connect(spind)
    large = open_session_request(layers=64, max_requests=512, max_slots=1024, executor="INLINE")  # takes a while
    before = gauges(spind)["spin_state_bytes"]
    for attempt in range(100):
        client = connect(spind)
        client.ListSessions(session_pb2.ListSessionsRequest())  # connected
        client.stub.OpenSession.future(large)
        jitter((attempt % 10) * 0.0005)
        client.close()
    eventually(lambda: control.sessions() == [], within=2)
    eventually(lambda: gauges(spind)["spin_state_bytes"] == before, within=2)


def test_engine_of_the_library_is_freed_within_a_second_of_its_death(spind, start_engine, bystander):
    before = gauges(spind)
    engine = start_engine(spind, executor="inline")
    engine.ready()
    engine.open("a", 4096)
    engine.steps(3)
    engine.send("step", 100000)  # dies at work
    engine.kill()
    eventually(lambda: gauges(spind) == before, within=FREED_WITHIN)
    assert spind.metric("spin_session_ends_total", reason="peer_exited") + \
        spind.metric("spin_session_ends_total", reason="detached") == 1
    bystander.step()


def test_idle_clients_live_as_long_as_their_process(start_spind, connect, start_engine):
    # There are no leases: time alone ends nothing. Twenty times the longest timer of spind's own passes here.
    spind = start_spind("--quarantine-ms", "50", "--wait-limit-ms", "50")
    engine = start_engine(spind)
    engine.ready()
    engine.open("a", 1000)
    engine.steps(2)
    idle = RawSession(connect(spind))
    watcher = RawSession(connect(spind))
    started = watcher.info().opened_at.ToNanoseconds()
    ticks = watcher.client.stub.WatchStats(stats_request(milliseconds=100), timeout=30)
    eventually(lambda: next(ticks).taken_at.ToNanoseconds() - started > 1e9)
    ticks.cancel()
    assert idle.info().attached
    assert engine.steps(2).column() == ["none", "none"]
    assert sum(spind.metrics().all("spin_session_ends_total").values()) == 0


def test_slow_registration_of_one_session_delays_nobody(start_spind, connect, bystander_of):
    spind = start_spind(slab_bytes="512MiB")
    bystander = bystander_of(spind)
    slow = RawSession(connect(spind), layers=8, max_requests=64, max_slots=65536, executor="INLINE")
    items = [dict(key=str(i).encode(), slots=65536) for i in range(64)]  # fills more than the slab has
    registering = threading.Thread(target=slow.open_requests, args=items)
    registering.start()
    steps = 0
    while registering.is_alive():
        bystander.step()
        bystander.session.info()
        steps += 1
    registering.join()
    assert steps > 10  # they went on beside it
    assert slow.info().open_requests > 0


@pytest.fixture
def bystander_of(connect):
    return lambda spind: Bystander(connect(spind))


def test_opening_does_not_wait_for_a_large_session_to_be_freed(start_spind, connect, start_engine):
    spind = start_spind(slab_bytes="256MiB")
    large = RawSession(connect(spind), layers=8, max_requests=64, max_slots=65536, executor="INLINE")
    large.open_requests(*[dict(key=str(i).encode(), slots=65536) for i in range(32)])
    other = connect(spind)
    large.attachment.cancel()  # detached: its memory is held back for a while
    for _ in range(20):
        session = RawSession(other, max_requests=1)
        session.close()
    eventually(lambda: spind.metric("spin_state_bytes") == 0, within=2)


class TestCloseDuringAStep:
    """The step thread is in the middle of the session's step, waiting for the engine's word."""

    @pytest.fixture
    def spind(self, start_spind):
        return start_spind("--wait-limit-ms", "2000")

    @staticmethod
    def start_step(session, handle, position):
        return session.client.stub.Step.future(session.step_request(step_row(handle, position), wait=1), timeout=10)

    @staticmethod
    def result_or_aborted(call):
        try:
            return call.result()
        except grpc.RpcError as error:
            assert error.code() in {CODE.ABORTED, CODE.NOT_FOUND}, error.details()
            assert detail_of(error).reason in {error_pb2.ERROR_REASON_CLOSED, error_pb2.ERROR_REASON_UNKNOWN_SESSION}

    def test_call_ends_with_a_result_or_aborted(self, spind, client, connect):
        other = Bystander(connect(spind))
        for _ in range(10):
            session = RawSession(client)
            handle = session.open_request(b"a", slots=4096)
            running = self.start_step(session, handle, 100)
            eventually(lambda: spind.metric("spin_step_queue_depth") == 0)
            waiting = [self.start_step(session, handle, 101 + i) for i in range(3)]
            session.close()
            session.slab.engine_done(1)
            for call in (running, *waiting):
                self.result_or_aborted(call)
            assert session.attachment.end().code() == CODE.ABORTED
            other.step()
        eventually(lambda: gauges(spind)["spin_sessions"] == 1)

    def test_memory_of_a_closed_session_is_not_reused_under_its_running_step(self, spind, client, connect):
        session = RawSession(client)
        handle = session.open_request(b"a", slots=4096)
        running = self.start_step(session, handle, 100)
        eventually(lambda: spind.metric("spin_rpcs_total", method="OpenRequests", code="OK") == 1)
        session.close()
        others = [RawSession(client) for _ in range(5)]  # would get its memory
        session.slab.engine_done(1)
        self.result_or_aborted(running)
        for other in others:
            assert not other.slab.headers["generation"].any()  # no list of a stranger
            other.close()
        eventually(lambda: spind.metric("spin_state_bytes") == 0)

    def test_request_closed_under_its_running_step_is_not_reused_before_its_end(self, spind, client):
        session = RawSession(client, max_requests=1)
        handle = session.open_request(b"a", slots=4096)
        running = self.start_step(session, handle, 100)
        session.close_requests(handle)
        session.slab.engine_done(1)
        results = running.result().results
        assert results[0].observed or results[0].error.reason == error_pb2.ERROR_REASON_UNKNOWN_REQUEST
        eventually(lambda: not session.open_requests(b"b")[0].HasField("error"))


def test_close_and_death_at_once_count_once(spind, client, start_engine):
    rounds = 12
    for round_ in range(rounds):
        engine = start_engine(spind, reconnect_ms=1000)
        engine.ready()
        engine.open("a", 100)
        (session,) = client.sessions()
        engine.process.stdin.close()  # says goodbye on its way out
        if round_ % 2:
            os.kill(engine.pid, signal.SIGKILL)
        engine.process.wait()
        eventually(lambda: gauges(spind)["spin_sessions"] == 0, within=FREED_WITHIN)
    assert sum(spind.metrics().all("spin_session_ends_total").values()) == rounds
    assert spind.metric("spin_sessions_opened_total") == rounds
    eventually(lambda: gauges(spind)["spin_state_bytes"] == 0)


def test_three_ways_to_end_at_the_same_moment_count_once(spind, connect):
    control, rounds = connect(spind), 100
    for _ in range(rounds):
        client = connect(spind)
        session = RawSession(client)
        session.open_request(b"a")
        closing = control.stub.CloseSession.future(session_pb2.CloseSessionRequest(session_id=session.id))
        session.attachment.send(closing=True)
        client.close()
        try:
            closing.result(timeout=10)
        except grpc.RpcError as error:
            assert error.code() == CODE.NOT_FOUND
    eventually(lambda: gauges(spind)["spin_sessions"] == 0)
    assert sum(spind.metrics().all("spin_session_ends_total").values()) == rounds
    eventually(lambda: gauges(spind)["spin_state_bytes"] == 0, within=2)


def state_of(pid) -> str:
    """The letter that ps shows; Z has ended."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


class TestForkedClient:
    @pytest.fixture(params=["inline", "sidecar"])
    def engine(self, request, spind, start_engine):
        engine = start_engine(spind, executor=request.param, max_next_n=2)  # both stage their scores
        engine.ready()
        engine.open("a", 2000)
        engine.steps(3)
        return engine

    def test_death_of_the_parent_is_seen_though_its_child_holds_the_socket(self, spind, engine):
        child = engine.do("fork_process")["child"]
        assert gauges(spind)["spin_sessions"] == 1
        engine.kill()
        eventually(lambda: gauges(spind)["spin_sessions"] == 0, within=FREED_WITHIN)
        assert gauges(spind)["spin_state_bytes"] == 0
        assert "socket:[" in " ".join(os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd"))
        os.kill(child, signal.SIGKILL)

    def test_child_gets_a_clear_error_and_keeps_all_blocks(self, spind, engine, client):
        child = engine.do("fork_process")["child"]
        assert "forked" in engine.status()["message"]
        opened = engine.open("b", 100)
        assert (opened["code"], opened["ok"]) == ("FAILED_PRECONDITION", False)
        steps = engine.steps(3)
        assert steps.reason_set == {"no_sidecar"}
        assert all(all(row) for row in steps.equal)
        assert not engine.do("ready", 10)["ok"]
        (session,) = client.sessions()  # the parent's
        assert session.open_requests == 1
        os.kill(child, signal.SIGKILL)
        assert client.sessions() == [session]

    def test_child_that_ends_leaves_the_parent_its_session(self, spind, engine, client):
        family = engine.do("fork_process")
        engine.do("close", "a")
        engine.process.stdin.close()  # the child, which reads it, leaves by itself
        eventually(lambda: state_of(family["child"]) == "Z")
        (session,) = client.sessions()
        assert (session.peer_process_id, session.open_requests, session.attached) == (family["parent"], 1, True)

    def test_child_does_not_end_the_step_its_parent_began(self, engine, client):
        stats = client.stub.WatchStats(stats_request(100), timeout=10)
        scored = next(stats).sessions[0].layers[0].considered_blocks
        engine.send("fork_process_in_step")
        child = engine.reply()["child"]  # in bounded time
        later = [next(stats).sessions[0].layers[0].considered_blocks for _ in range(3)][-1]
        stats.cancel()
        assert later == scored
        os.kill(child, signal.SIGKILL)
