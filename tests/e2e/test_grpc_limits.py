# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Many callers, large messages, pings and deadlines."""

import re
import socket

import grpc
import pytest
from eventually import eventually
from http2_relay import ACK, GOAWAY, PING, PREFACE, Frames, Http2Relay
from raw_client import RawSession, step_row
from refusal import CODE, assert_refused, refused
from spin.v1 import request_pb2

CALLERS = 200
MORE_THREADS = 12  # of spind under load than idle: gRPC's pool
LIMIT = 4 << 20   # bytes of a message


class Blocked:
    """Step calls that wait for a word which only this test writes. They may arrive in any order."""

    def __init__(self, client, count, deadline=30):
        self.session = RawSession(client)
        self.handle = self.session.open_request(b"a", slots=8192)
        self.deadline, self.calls = deadline, []
        self.add(count)

    def add(self, count, deadline=None):
        first = len(self.calls)
        new = [self.session.client.stub.Step.future(
            self.session.step_request(step_row(self.handle, 100 + i), wait=1), timeout=deadline or self.deadline)
            for i in range(first, first + count)]
        self.calls += new
        return new

    def release(self):
        self.session.slab.engine_done(1)

    def all_answered(self) -> bool:
        return all(len(call.result().results) == 1 for call in self.calls)


def waiting(spind, count):
    """One step is with the step thread, the others in its queue."""
    return lambda: spind.metric("spin_step_queue_depth") == count - 1


class TestManyCallers:
    def test_none_that_the_queue_can_take_is_rejected(self, start_spind, connect):
        spind = start_spind("--wait-limit-ms", "10000")
        idle_threads = spind.threads()
        blocked = Blocked(connect(spind), CALLERS)
        eventually(waiting(spind, CALLERS))
        assert spind.threads() <= idle_threads + MORE_THREADS
        assert not any(call.done() for call in blocked.calls)
        blocked.release()
        assert blocked.all_answered()
        assert spind.metric("spin_rpcs_total", method="Step", code="OK") == CALLERS

    def test_from_as_many_connections_is_no_different(self, start_spind, connect):
        spind = start_spind("--wait-limit-ms", "10000")
        idle_threads = spind.threads()
        blocked = Blocked(connect(spind), 1)
        for _ in range(CALLERS - 1):
            blocked.session.client = connect(spind)
            blocked.add(1)
        eventually(waiting(spind, CALLERS))
        assert spind.threads() <= idle_threads + MORE_THREADS
        blocked.release()
        assert blocked.all_answered()

    def test_full_queue_refuses_at_once_and_serves_again_later(self, start_spind, connect):
        spind = start_spind("--wait-limit-ms", "10000", "--step-queue", "8")
        blocked = Blocked(connect(spind), 2)
        eventually(waiting(spind, 2))
        blocked.add(7)
        eventually(waiting(spind, 9))
        refused_calls = blocked.add(3)
        for call in refused_calls:
            assert_refused(call.exception(), CODE.RESOURCE_EXHAUSTED, "QUEUE_FULL", "")
            blocked.calls.remove(call)
        blocked.release()
        assert blocked.all_answered()
        assert blocked.session.step(step_row(blocked.handle, 1000, resync=True))[0].observed

    def test_full_control_queue_refuses_too(self, start_spind, connect):
        spind = start_spind("--control-queue", "1", slab_bytes="256MiB")
        session = RawSession(connect(spind), layers=16, max_requests=64, max_slots=65536, executor="INLINE")
        items = [[dict(key=f"{call} {i}".encode(), slots=65536) for i in range(4)] for call in range(12)]
        calls = [session.client.stub.OpenRequests.future(request_pb2.OpenRequestsRequest(
            session_id=session.id, items=batch), timeout=30) for batch in items]  # each fills 64 MiB of state
        errors = [error for call in calls if (error := call.exception()) is not None]
        assert 0 < len(errors) < len(calls)
        for error in errors:
            assert_refused(error, CODE.RESOURCE_EXHAUSTED, "QUEUE_FULL", "")

    def test_other_calls_do_not_wait_for_blocked_steps(self, start_spind, connect):
        spind = start_spind("--wait-limit-ms", "10000")
        blocked = Blocked(connect(spind), 20)
        eventually(waiting(spind, 20))
        other = RawSession(connect(spind), executor="INLINE")
        handle = other.open_request(b"b")
        other.extend((handle, 4097))
        assert other.close_requests(handle) == 1
        other.close()
        assert spind.get("/livez")[0] == 200
        assert not any(call.done() for call in blocked.calls)
        blocked.release()


class TestLargeMessages:
    """4 MiB is the documented limit of both sides; gRPC says so in the same words."""

    @staticmethod
    def message(size) -> request_pb2.OpenRequestsRequest:
        message = request_pb2.OpenRequestsRequest(session_id=1, items=[dict(key=b"")])
        message.items[0].key = bytes(size - message.ByteSize() - 9)
        assert size - 16 < message.ByteSize() <= size
        return message

    @pytest.mark.parametrize("side", ["client", "server"])
    def test_five_mebibytes_are_refused(self, spind, connect, side):
        options = [("grpc.max_send_message_length", LIMIT)] if side == "client" else []
        client = connect(spind, *options)
        with pytest.raises(grpc.RpcError) as caught:
            client.OpenRequests(self.message(5 << 20))
        assert caught.value.code() == CODE.RESOURCE_EXHAUSTED
        assert re.search(rf"(Sent|Received) message larger than max \(\d+ vs\. {LIMIT}\)", caught.value.details())
        assert client.sessions() == []  # the connection lives on

    def test_just_below_the_limit_is_read(self, client):
        with refused(CODE.NOT_FOUND, "UNKNOWN_SESSION", "session_id"):
            client.OpenRequests(self.message(LIMIT))


class TestKeepalive:
    def test_pings_of_a_second_on_an_idle_stream_are_welcome(self, spind, connect):
        relay = Http2Relay(spind.socket)
        client = connect(relay, ("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_permit_without_calls", 1),
                         ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.bdp_probe", 0))
        session = RawSession(client)
        eventually(lambda: relay.pings() >= 4)  # more than a server takes by default
        assert relay.goaways() == 0
        assert session.attachment.received.empty() and session.info().attached

    def test_pings_at_any_rate_are_answered(self, spind):
        settings, ping = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), bytes([0, 0, 8, PING, 0, 0, 0, 0, 0]) + b"spinspin"
        answers = Frames(0)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(spind.socket))
            s.sendall(PREFACE + settings + ping * 100)
            while answers.counts[PING, ACK] < 100:
                data = s.recv(65536)
                assert data, answers.counts
                answers.feed(data)
        assert answers.counts[GOAWAY, 0] == 0


class TestDeadlines:
    @pytest.fixture
    def spind(self, start_spind):
        return start_spind("--wait-limit-ms", "10000")

    def test_abandoned_work_is_not_begun(self, spind, client):
        blocked = Blocked(client, 2)
        eventually(waiting(spind, 2))
        abandoned = blocked.add(5, deadline=1)
        eventually(waiting(spind, 7))
        for call in abandoned:
            assert call.code() == CODE.DEADLINE_EXCEEDED
            blocked.calls.remove(call)
        client.sessions()  # comes after the cancellations, on the same connection
        blocked.release()
        assert blocked.all_answered()
        eventually(lambda: spind.metric("spin_rpcs_total", method="Step", code="CANCELLED") == 5)
        assert spind.metric("spin_steps_total") == 2

    def test_work_that_is_abandoned_while_it_waits_for_the_engine_is_not_done(self, spind, client):
        blocked = Blocked(client, 1, deadline=0.1)
        assert blocked.calls[0].code() == CODE.DEADLINE_EXCEEDED
        client.sessions()  # comes after the cancellation, on the same connection
        blocked.release()
        (result,) = blocked.session.step(step_row(blocked.handle, 100))  # the same position: nothing has gone by
        assert result.observed and not result.HasField("error"), result
        assert spind.metric("spin_steps_total") == 1

    def test_wait_for_the_engine_ends_with_the_callers_patience(self, spind, client):
        blocked = Blocked(client, 1, deadline=0.1)
        assert blocked.calls[0].code() == CODE.DEADLINE_EXCEEDED
        request = blocked.session.step_request(step_row(blocked.handle, 100))
        assert client.Step(request, timeout=5).results[0].observed  # well before the wait limit of 10 s

    def test_wait_for_the_engine_ends_with_the_session(self, spind, client, connect):
        blocked = Blocked(client, 1)
        eventually(lambda: spind.metric("spin_step_queue_depth") == 0)
        blocked.session.close()
        error = blocked.calls[0].exception(timeout=5)
        assert error.code() in {CODE.ABORTED, CODE.NOT_FOUND}
