# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""How spind starts, and refuses to start."""

import json
import os
import pathlib
import re
import resource
import socket
import stat
import subprocess
import tempfile
import threading

import grpc
import pytest
from eventually import eventually
from raw_client import RawClient, RawSession, open_session_request


@pytest.fixture
def refusal_of(spind_binary, tmp_path):
    """Runs a spind that must refuse to start; returns the sentence it says: refusal_of("--device", "cuda")."""

    def run(*flags, code=1, warnings=0, **options):
        defaults = {"--socket": tmp_path / "spind.sock", "--admin-address": "127.0.0.1:0", "--shm-dir": tmp_path,
                    "--slab-bytes": "1MiB"}
        command = [spind_binary]
        for flag, value in {**defaults, **dict(zip(flags[::2], flags[1::2]))}.items():
            command += [flag, str(value)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, **options)
        assert (done.returncode, done.stdout) == (code, ""), done
        lines = done.stderr.splitlines()
        assert len(lines) == 1 + warnings and lines[-1].startswith("spind: "), done.stderr
        assert "exception" not in done.stderr and "terminate" not in done.stderr
        return lines[-1]

    return run


class TestRefusals:
    """One clear sentence each, and nothing left behind."""

    @pytest.fixture(autouse=True)
    def nothing_is_left(self, tmp_path):
        yield
        assert [name for name in os.listdir(tmp_path) if name != "spind.sock.lock"] == []

    def test_device_that_this_build_lacks(self, refusal_of):
        assert re.search(r"--device: \w+ .*use cpu", refusal_of("--device", "tpu"))

    def test_cuda_without_a_gpu(self, refusal_of):
        if os.path.exists("/dev/nvidia0"):
            pytest.skip("this machine has a GPU")
        assert "cuda" in refusal_of("--device", "cuda")

    def test_metrics_port_that_is_taken(self, refusal_of):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = refusal_of("--admin-address", f"127.0.0.1:{port}")
        assert f"127.0.0.1:{port}" in said and "in use" in said and "port 0" in said

    @pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "127.0.0.1", "256.1.1.1:80", ""])
    def test_metrics_address_that_is_none(self, refusal_of, address):
        assert "--admin-address" in refusal_of("--admin-address", address)

    @pytest.mark.parametrize("length", [108, 109, 300])
    def test_socket_path_that_is_too_long(self, refusal_of, length):
        said = refusal_of("--socket", "/tmp/" + "s" * (length - 5))
        assert f"{length} characters" in said and "107" in said

    def test_socket_folder_that_is_missing(self, refusal_of, tmp_path):
        said = refusal_of("--socket", tmp_path / "missing" / "spind.sock")
        assert "missing" in said and "create its folder first" in said

    def test_socket_path_that_is_a_folder(self, refusal_of):
        assert "/tmp" in refusal_of("--socket", "/tmp/")

    def test_file_where_the_socket_should_be_is_left_alone(self, refusal_of, tmp_path):
        file = tmp_path / "spind.sock"
        file.write_text("precious")
        assert "not a socket" in refusal_of("--socket", file)
        assert file.read_text() == "precious"
        file.unlink()

    def test_slab_folder_that_is_missing(self, refusal_of, tmp_path):
        assert "missing" in refusal_of("--shm-dir", tmp_path / "missing")

    @pytest.mark.parametrize("flags", [
        ("--sparsity", "1.5"), ("--sparsity", "nan"), ("--sparsity", "-0.1"), ("--exploration", "2"),
        ("--decay", "1"), ("--slab-bytes", "1"), ("--slab-bytes", "many"), ("--step-queue", "0"),
        ("--wait-limit-ms", "0"), ("--log-level", "loud"), ("--unknown", "1"), ("--state-dtype", "f16"),
        ("--config", "/nonexistent.toml")])
    def test_flag_out_of_range(self, refusal_of, flags):
        assert flags[0] in refusal_of(*flags, code=2) or flags[1] in refusal_of(*flags, code=2)

    def test_variable_of_the_environment_out_of_range(self, refusal_of):
        assert "nan" in refusal_of(code=2, env={**os.environ, "SPIND_SPARSITY": "nan"})


class TestFullFileSystem:
    """The slab is reserved as a whole at the start: a full file system is an error then, and no SIGBUS later."""

    def test_too_small_for_the_slab(self, refusal_of, mount_tmpfs):
        folder = mount_tmpfs("64k")
        assert "--slab-bytes" in refusal_of("--shm-dir", folder)
        assert os.listdir(folder) == []

    def test_filled_by_others(self, refusal_of, mount_tmpfs):
        folder = mount_tmpfs("2m")
        with open(folder / "other", "wb") as other:
            other.write(bytes(1500 << 10))
        assert "no room" in refusal_of("--shm-dir", folder, warnings=1)  # it waits a little, and says so
        assert os.listdir(folder) == ["other"]

    def test_slab_that_just_fits_is_served_to_its_last_page(self, start_spind, connect, mount_tmpfs):
        spind = start_spind("--wait-limit-ms", "100", slab_bytes="1MiB", shm_dir=mount_tmpfs("1m"))
        session = RawSession(connect(spind), layers=1, max_requests=100, max_slots=128, executor="INLINE")
        opened = 0
        while not session.open_requests(dict(key=str(opened).encode(), slots=64))[0].HasField("error"):
            opened += 1
        assert opened > 0 and spind.process.poll() is None


class TestStart:
    def test_alone_it_is_started_and_live_at_once(self, spind):
        assert spind.get("/startupz") == (200, "ok\n")
        assert spind.get("/livez") == (200, "ok\n")
        assert sum(spind.metrics().all("spin_sessions").values()) == 0

    def test_probes_answer_beside_connections_that_say_nothing(self, spind):
        host, port = spind.admin.split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(12)]
        assert spind.get("/livez")[0] == 200
        assert spind.get("/startupz")[0] == 200
        for connection in idle:
            connection.close()

    def test_pages_that_are_not_served_say_which_are(self, spind):
        status, body = spind.get("/unknown")
        assert status == 404 and "/metrics" in body

    def test_status_page_and_its_numbers_are_served(self, spind):
        status, page = spind.get("/")
        assert status == 200 and page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
        status, numbers = spind.get("/status.json")
        assert status == 200 and json.loads(numbers)["live"] is True

    def test_version_and_help_go_to_standard_output(self, spind_binary):
        version = subprocess.run([spind_binary, "--version"], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"spind \d+\.\d+\.\d+\n", version.stdout)
        shown = subprocess.run([spind_binary, "--help"], capture_output=True, text=True, check=True)
        assert "--slab-bytes" in shown.stdout and shown.stderr == ""

    def test_flags_win_over_environment_which_wins_over_file(self, spind_binary, start_spind, connect, tmp_path,
                                                             monkeypatch):
        config = tmp_path / "spind.toml"
        config.write_text("sparsity = 0.1\nexploration = 0.1\ndecay = 0.1\n")
        monkeypatch.setenv("SPIND_EXPLORATION", "0.2")
        monkeypatch.setenv("SPIND_DECAY", "0.2")
        policy = connect(start_spind("--config", str(config), "--decay", "0.3")).open_session().policy
        assert (policy.sparsity, policy.exploration, policy.decay) == (0.1, 0.2, 0.3)

    def test_variable_that_is_no_setting_is_told_and_those_of_a_kubernetes_service_are_not(self, start_spind, monkeypatch):
        monkeypatch.setenv("SPIND_SPARSTY", "0.2")
        monkeypatch.setenv("SPIND_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("SPIND_PORT_9464_TCP", "tcp://10.0.0.1:9464")
        warnings = [line for line in start_spind().log.splitlines() if "in the environment" in line]
        assert len(warnings) == 1 and "SPIND_SPARSTY" in warnings[0]

    def test_slab_folder_on_a_disk_is_told(self, start_spind, mount_tmpfs):
        here = pathlib.Path(__file__).parent
        if subprocess.check_output(["stat", "--file-system", "--format=%T", here], text=True).strip() in ("tmpfs", "ramfs"):
            pytest.skip("this checkout is not on a disk")
        with tempfile.TemporaryDirectory(dir=here) as folder:
            spind = start_spind(shm_dir=folder)
            eventually(lambda: f"--shm-dir: {folder} is no memory file system" in spind.log)
            spind.terminate()
            assert spind.await_end() == 0
        spind = start_spind(slab_bytes="1MiB", shm_dir=mount_tmpfs("2m"))
        spind.terminate()
        assert spind.await_end() == 0 and "--shm-dir" not in spind.log

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_socket_is_0660_whatever_the_umask(self, start_spind, umask):
        spind = start_spind(umask=umask)
        assert stat.S_IMODE(os.stat(spind.socket).st_mode) == 0o660
        (slab,) = spind.slab_files()
        assert stat.S_IMODE(os.stat(spind.shm_dir / slab).st_mode) == 0o660

    def test_socket_path_of_107_characters_serves(self, start_spind, tmp_path):
        folder = tmp_path / ("d" * (107 - len(f"{tmp_path}//spind.sock")))
        folder.mkdir()
        spind = start_spind(folder=folder)
        assert len(str(spind.socket)) == 107
        assert RawClient(spind.socket).sessions() == []


class TestDescriptors:
    def test_running_out_of_them_is_survived_and_loses_no_session(self, start_spind, connect):
        spind = start_spind()
        _, hard = resource.prlimit(spind.pid, resource.RLIMIT_NOFILE)
        limit = len(os.listdir(f"/proc/{spind.pid}/fd")) + 40
        resource.prlimit(spind.pid, resource.RLIMIT_NOFILE, (limit, hard))
        clients = [connect(spind) for _ in range(40)]
        calls = [client.stub.OpenSession.future(open_session_request(max_requests=1), timeout=1) for client in clients]
        opened = [call for call in calls if call.exception() is None]
        assert 0 < len(opened) < 40
        resource.prlimit(spind.pid, resource.RLIMIT_NOFILE, (hard, hard))
        for client in clients:
            client.close()
        control = connect(spind)
        eventually(lambda: control.sessions() == [], within=2)
        eventually(lambda: spind.metric("spin_connections") == 1, within=2)


class TestSecondServer:
    def test_is_refused_and_the_first_stays_reachable_throughout(self, spind, spind_binary):
        stop, failures, calls = threading.Event(), [], []

        def keep_calling():
            while not stop.is_set():
                client = RawClient(spind.socket)
                try:
                    calls.append(client.sessions())
                except grpc.RpcError as error:
                    failures.append(error)
                client.close()

        caller = threading.Thread(target=keep_calling)
        caller.start()
        for _ in range(5):
            second = subprocess.run(spind.command, capture_output=True, text=True, timeout=20)
            assert second.returncode == 1
            assert second.stderr == (f"spind: another spind serves {spind.socket}; stop it first, or choose another "
                                     "path with --socket\n")
        stop.set()
        caller.join()
        assert not failures and len(calls) > 5
        assert spind.get("/livez")[0] == 200
        assert len(spind.slab_files()) == 1

    def test_on_another_socket_shares_the_slab_folder(self, spind, start_spind):
        other = start_spind(shm_dir=spind.shm_dir)
        assert len(spind.slab_files()) == 2
        other.terminate()
        assert other.await_end() == 0
        assert len(spind.slab_files()) == 1  # its own is gone, ours is not
