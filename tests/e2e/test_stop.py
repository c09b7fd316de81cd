# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""How spind dies and stops."""

import os
import signal
import socket
import threading

import grpc
import pytest
from eventually import eventually, jitter
from raw_client import RawClient, RawSession, step_row
from spin.v1 import policy_pb2, session_pb2, stats_pb2
from spind import STOP_BOUND


class TestSigkill:
    def test_after_a_hundred_the_next_start_serves_and_nothing_piles_up(self, start_spind, connect, mount_tmpfs):
        spind = start_spind(slab_bytes="1MiB", shm_dir=mount_tmpfs("1500k"))  # room for one slab, not for two
        for _ in range(100):
            spind.kill()
            assert len(spind.slab_files()) <= 1
            spind.start()
        session = RawSession(connect(spind), max_requests=1, max_slots=1024, layers=1)
        assert session.step(step_row(session.open_request(b"a"), 10))[0].observed
        assert len(spind.slab_files()) == 1
        assert sorted(os.listdir(spind.folder)) == ["spind.log", "spind.sock", "spind.sock.lock"]

    def test_at_any_moment_of_the_start_leaves_nothing_in_the_way(self, start_spind, mount_tmpfs):
        spind = start_spind(slab_bytes="1MiB", shm_dir=mount_tmpfs("1500k"))
        for attempt in range(40):
            spind.kill()
            spind.launch()
            jitter(attempt * 0.0005)
        spind.kill()
        spind.start()
        assert spind.get("/startupz")[0] == 200
        assert len(spind.slab_files()) == 1

    def test_old_epoch_is_void_after_a_restart(self, spind, connect):
        old = RawSession(connect(spind))
        spind.kill()
        spind.start()
        client = connect(spind)
        new = client.open_session()
        assert new.slab.epoch != old.opened.slab.epoch
        assert new.slab.posix_shm.path != old.opened.slab.posix_shm.path
        assert client.sessions()[0].session_id != old.id

    def test_next_start_waits_for_memory_that_an_engine_still_maps(self, start_spind, connect, mount_tmpfs):
        spind = start_spind(slab_bytes="1MiB", shm_dir=mount_tmpfs("1500k"))
        engine = RawSession(connect(spind), max_requests=1, max_slots=1024, layers=1)
        spind.kill()
        spind.launch()
        eventually(lambda: "waiting up to" in spind.log)
        engine.slab = None  # unmaps
        spind.await_serving()


class TestSigterm:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_idle_it_leaves_with_0_and_takes_everything_along(self, spind, number):
        spind.signal(number)
        assert spind.await_end() == 0
        assert not spind.socket.exists()
        assert spind.slab_files() == []

    def test_with_idle_streams_open_it_leaves_with_0_in_time(self, spind, connect):
        client = connect(spind)
        sessions = [RawSession(client) for _ in range(5)]
        hourly = stats_pb2.WatchStatsRequest()
        hourly.interval.FromSeconds(3600)
        watches = [client.stub.WatchStats(hourly) for _ in range(5)]
        for watch in watches:
            next(watch)
        connect(spind).sessions()  # a connection without a call
        spind.terminate()
        assert spind.await_end(STOP_BOUND) == 0
        for session in sessions:
            assert session.attachment.end() is not None
        for watch in watches:
            with pytest.raises(grpc.RpcError):
                next(watch)

    def test_with_clients_that_are_stopped_it_leaves_with_0_in_time(self, spind, start_engine, start_script):
        engine = start_engine(spind, executor="sidecar")
        engine.ready()
        other = start_script("raw_process.py", spind.socket, "watching")
        other.stdout.readline()
        for process in (engine.process, other):
            process.send_signal(signal.SIGSTOP)
        spind.terminate()
        assert spind.await_end(STOP_BOUND) == 0
        for process in (engine.process, other):
            process.send_signal(signal.SIGCONT)

    def test_with_steps_that_wait_for_an_engine_it_leaves_with_0_in_time(self, start_spind, connect):
        spind = start_spind("--wait-limit-ms", "10000")
        session = RawSession(connect(spind))
        handle = session.open_request(b"a")
        calls = [session.client.stub.Step.future(session.step_request(step_row(handle, 100), wait=2**60), timeout=30)
                 for _ in range(50)]
        eventually(lambda: spind.metric("spin_step_queue_depth") == 49)
        spind.terminate()
        assert spind.await_end(STOP_BOUND) == 0
        assert {call.code() for call in calls} <= {grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE}

    def test_with_idle_admin_connections_it_leaves_with_0_in_time(self, spind):
        host, port = spind.admin.split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(10)]
        spind.terminate()
        assert spind.await_end(STOP_BOUND) == 0
        for connection in idle:
            connection.close()

    def test_attached_clients_are_told_at_once(self, spind, session):
        spind.terminate()
        assert session.attachment.end().code() == grpc.StatusCode.ABORTED
        spind.await_end()

    @pytest.mark.parametrize("round_", range(4))
    def test_under_load_it_leaves_with_0(self, start_spind, connect, round_):
        spinds = [start_spind("--wait-limit-ms", "200", slab_bytes="32MiB") for _ in range(4)]
        loads = [Load(connect(spind)) for spind in spinds]
        for load in loads:
            eventually(lambda: load.calls > 20)
        for spind in spinds:
            spind.terminate()
        assert [spind.await_end(2 * STOP_BOUND) for spind in spinds] == [0] * 4
        for load in loads:
            load.finish()
        for spind in spinds:
            assert spind.slab_files() == []


class Load:
    """Steps that run and steps that wait, requests, sessions, changes of policy and watch timers, all at once."""

    def __init__(self, client: RawClient):
        self.client, self.calls, self.stopping = client, 0, False
        self.session = RawSession(client, max_requests=64)
        self.handle = self.session.open_request(b"a", slots=8192)
        self.threads = [threading.Thread(target=self._repeat, args=[call]) for call in (
            self._step, self._blocked_step, self._requests, self._policy, self._session, self._watch)]
        for thread in self.threads:
            thread.start()

    def _repeat(self, call):
        number = 0
        while not self.stopping:
            number += 1
            try:
                call(number)
            except grpc.RpcError:
                pass
            self.calls += 1

    def _step(self, number):
        self.session.step(step_row(self.handle, 100 + number, resync=True))

    def _blocked_step(self, number):
        self.session.step(step_row(self.handle, 1), wait=2**60)

    def _requests(self, number):
        self.session.open_requests(*[dict(key=f"{number} {i}".encode(), slots=4096) for i in range(4)])
        self.session.close_requests(keys=[f"{number} {i}".encode() for i in range(4)])

    def _policy(self, number):
        self.client.UpdatePolicy(session_pb2.UpdatePolicyRequest(policy=policy_pb2.Policy(sparsity=number % 10 / 10)))

    def _session(self, number):
        self.client.CloseSession(session_pb2.CloseSessionRequest(
            session_id=self.client.open_session(max_requests=1).session_id))

    def _watch(self, number):
        request = stats_pb2.WatchStatsRequest()
        request.interval.FromMilliseconds(100)
        for count, _ in enumerate(self.client.stub.WatchStats(request, timeout=5)):
            if count == number % 3:
                return

    def finish(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
