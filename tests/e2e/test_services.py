# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The standard services beside spin.v1, and who may connect at all."""

import os
import socket
import subprocess
import sys

import pytest
from eventually import eventually
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from http2_relay import PREFACE
from spin.v1 import service_pb2

NOBODY = 65534


def test_health_is_serving(client):
    health = health_pb2_grpc.HealthStub(client.channel)
    assert health.Check(health_pb2.HealthCheckRequest(), timeout=10).status == \
        health_pb2.HealthCheckResponse.SERVING


def test_reflection_tells_the_contract(client):
    database = ProtoReflectionDescriptorDatabase(client.channel)
    assert {"spin.v1.SpinService", "grpc.health.v1.Health"} <= set(database.get_services())
    told = DescriptorPool(database).FindServiceByName("spin.v1.SpinService")
    known = service_pb2.DESCRIPTOR.services_by_name["SpinService"]
    assert [(m.name, m.input_type.full_name, m.client_streaming, m.server_streaming) for m in told.methods] == \
        [(m.name, m.input_type.full_name, m.client_streaming, m.server_streaming) for m in known.methods]


# Connects, says hello as HTTP/2 does, prints what comes back; the end of the connection prints nothing.
_HELLO = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
try:
    s.connect(sys.argv[1])
    s.sendall({preface!r} + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    print(s.recv(9).hex())
except PermissionError:
    print("no permission")
except (BrokenPipeError, ConnectionResetError):
    print("")
"""


@pytest.fixture
def hello_as():
    """Speaks to a socket as another user; returns the first frame's header, or why there is none."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")

    def hello(uid: int, gid: int, path) -> str:
        return subprocess.run(["/usr/bin/env", "-i", _python(), "-I", "-c", _HELLO.format(preface=PREFACE), str(path)],
                              user=uid, group=gid, extra_groups=[], capture_output=True, text=True, check=True,
                              cwd="/").stdout.strip()

    return hello


def _python() -> str:
    """An interpreter that every user may run."""
    for path in ("/usr/bin/python3", os.path.realpath(sys.executable)):
        try:
            subprocess.run([path, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", check=True)
            return path
        except (OSError, subprocess.CalledProcessError):
            continue
    pytest.skip("no Python interpreter that another user may run")


def is_settings(frame: str) -> bool:
    return len(frame) == 18 and frame[6:8] == "04"


class TestPeers:
    def test_user_on_the_allow_list_is_served(self, start_spind, hello_as):
        spind = start_spind("--allow-uids", f"0,{NOBODY}")
        assert is_settings(hello_as(NOBODY, os.stat(spind.socket).st_gid, spind.socket))

    def test_user_who_is_not_is_hung_up_on_and_counted(self, spind, hello_as):
        assert hello_as(NOBODY, os.stat(spind.socket).st_gid, spind.socket) == ""
        eventually(lambda: spind.metric("spin_connections_rejected_total") == 1)
        assert f"user {NOBODY}" in spind.log and "--allow-uids" in spind.log
        assert is_settings(hello_as(0, 0, spind.socket))

    def test_user_without_the_group_does_not_get_to_the_socket(self, start_spind, hello_as):
        spind = start_spind("--allow-uids", f"0,{NOBODY}")
        assert hello_as(NOBODY, NOBODY, spind.socket) == "no permission"

    def test_root_can_be_left_off_the_list(self, start_spind):
        spind = start_spind("--allow-uids", str(NOBODY))
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(spind.socket))
            assert s.recv(1) == b""
        eventually(lambda: spind.metric("spin_connections_rejected_total") == 1)

    def test_spind_of_another_user_serves_that_user_and_root(self, start_spind, hello_as):
        spind = start_spind(uid=NOBODY)
        assert is_settings(hello_as(NOBODY, NOBODY, spind.socket))
        assert is_settings(hello_as(0, 0, spind.socket))

    def test_connections_are_counted_and_bytes_that_are_no_http_do_no_harm(self, spind, client):
        for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64, PREFACE + bytes(9) + b"\xff" * 300):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(str(spind.socket))
                try:
                    s.sendall(noise)
                except (BrokenPipeError, ConnectionResetError):
                    pass
        assert client.sessions() == []
        eventually(lambda: spind.metric("spin_connections") == 1)
