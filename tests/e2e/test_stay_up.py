# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""spind --stay-up where it cannot serve: the pod's engine must start all the same, and somebody must be told why."""

import json
import os
import subprocess

import pytest
from eventually import eventually


@pytest.fixture
def start_failing(start_spind):
    """Starts a spind that stays up without serving."""

    def start(*flags, **options):
        return start_spind("--stay-up", *flags, serves=False, **options)

    return start


def failure(spind) -> dict:
    status, body = spind.get("/status.json")
    assert status == 200
    return json.loads(body)["startFailure"]


def assert_told(spind, reason, *words, retries):
    """Everything a pod and its people look at, and that there is nothing for an engine to find."""
    assert spind.get("/startupz") == (200, "ok\n") and spind.get("/livez") == (200, "ok\n")
    told = failure(spind)
    assert (told["reason"], told["retries"]) == (reason, retries)
    for word in words:
        assert word in told["message"], told
    assert spind.metric("spin_start_failed", reason=reason) == 1 == spind.metric("spin_start_failed")
    assert spind.metric("spin_build_info") == 1 and not spind.metrics().all("spin_sessions")
    assert spind.get("/")[0] == 200
    assert spind.log.count("not serving (") == 1 and told["message"] in spind.log


def assert_ends_well(spind):
    spind.terminate()
    assert spind.await_end() == 0
    assert "SIGTERM: stopping" in spind.log


def assert_full_scans(engine):
    steps = engine.steps(5)
    assert steps.column() == ["no_sidecar"] * 5
    assert steps.kept == steps.considered and all(equal for row in steps.equal for equal in row)


class TestForGood:
    """What this process was told does not change: it waits for its end."""

    @pytest.mark.parametrize("flags, reason, word", [
        (("--sparsity", "50"), "config", "50 is not in [0, 1)"),
        (("--unknown",), "config", "--unknown"),
        (("--log-level", "loud"), "config", "loud"),
        (("--config", "/nonexistent.toml"), "config", "/nonexistent.toml"),
        (("--min-sparsity", "0.9", "--max-sparsity", "0.1"), "config", "--min-sparsity"),
        (("--socket", "/tmp/" + "s" * 120), "socket", "125 characters"),
        (("--device", "tpu"), "device", "--device: tpu"),
        (("--policy", "/nonexistent.json"), "policy", "/nonexistent.json")])
    def test_is_told_and_the_engine_goes_on(self, start_failing, start_engine, flags, reason, word):
        spind = start_failing(*flags)
        assert_told(spind, reason, word, retries=False)
        assert not spind.socket.exists() and spind.slab_files() == []
        engine = start_engine(spind)
        engine.open("a", 1000)
        assert_full_scans(engine)
        assert_ends_well(spind)

    def test_policy_file_with_a_misspelt_field(self, start_failing, tmp_path):
        file = tmp_path / "policy.json"
        file.write_text('{"format": "spin-policy", "version": 1, "policy": {"sparsitty": 0.5}}')
        spind = start_failing("--policy", str(file))
        assert_told(spind, "policy", str(file), "sparsitty", retries=False)
        assert_ends_well(spind)

    def test_environment_as_a_pod_has_it(self, start_spind, monkeypatch):
        """An annotation spin/sparsity: "50". The log is JSON, whatever it quotes."""
        for name, value in {"STAY_UP": "true", "SPARSITY": '"50"', "LOG_FORMAT": "json"}.items():
            monkeypatch.setenv(f"SPIND_{name}", value)
        spind = start_spind(serves=False)
        told = failure(spind)
        assert told["reason"] == "config" and '"50"' in told["message"]
        (entry,) = [json.loads(line) for line in spind.log.splitlines()]
        assert entry["level"] == "error" and told["message"] in entry["message"] and "new pod" in entry["message"]
        assert_ends_well(spind)

    def test_slab_above_the_memory_limit_is_refused_by_spind_and_not_killed_for(self, memory_limited, start_failing):
        spind = start_failing(slab_bytes="128MiB", prefix=memory_limited(64 << 20))
        assert_told(spind, "slab", "memory limit of 67108864 bytes", "--slab-bytes", retries=True)
        assert_ends_well(spind)


class TestUntilItPasses:
    def test_folder_of_the_slab_that_comes_later(self, start_failing, start_engine, tmp_path):
        folder = tmp_path / "later"
        spind = start_failing(shm_dir=folder)
        assert_told(spind, "slab", "later", retries=True)
        assert not spind.socket.exists()
        engine = start_engine(spind)
        engine.open("a", 1000)
        assert_full_scans(engine)
        folder.mkdir()
        spind.await_serving()
        eventually(lambda: engine.steps(1).column() == ["none"], within=10)
        assert spind.metric("spin_start_failed") == 0
        assert "startFailure" not in json.loads(spind.get("/status.json")[1])
        assert spind.get("/livez")[0] == spind.get("/startupz")[0] == 200

    def test_room_that_others_give_back(self, start_failing, mount_tmpfs):
        folder = mount_tmpfs("2m")
        (folder / "other").write_bytes(bytes(1500 << 10))
        spind = start_failing(slab_bytes="1MiB", shm_dir=folder)
        assert_told(spind, "slab", "no room", "--slab-bytes", retries=True)
        (folder / "other").unlink()
        spind.await_serving()

    def test_folder_of_the_socket_that_comes_later(self, start_failing, tmp_path):
        folder = tmp_path / "later"
        spind = start_failing("--socket", str(folder / "spind.sock"))
        assert_told(spind, "socket", "later", "create its folder first", retries=True)
        folder.mkdir()
        spind.await_serving()

    def test_lock_of_a_predecessor(self, spind, start_failing, start_engine):
        successor = start_failing("--socket", str(spind.socket))
        assert_told(successor, "socket", "another spind serves", retries=True)
        engine = start_engine(spind)
        engine.ready()  # the predecessor's: it was left alone
        spind.terminate()
        assert spind.await_end() == 0
        successor.await_serving()
        engine.ready()

    def test_end_while_it_waits(self, start_failing, tmp_path):
        assert_ends_well(start_failing(shm_dir=tmp_path / "never"))


class TestOtherwise:
    def test_admin_port_that_is_taken_ends_it(self, spind, spind_binary):
        """There is nobody to tell, and no probe that could pass."""
        done = subprocess.run([spind_binary, "--stay-up", "--sparsity", "50", "--admin-address", spind.admin],
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and done.stderr.startswith("spind: --sparsity: ")

    def test_help_is_help(self, spind_binary):
        done = subprocess.run([spind_binary, "--stay-up", "--help"], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and "--stay-up" in done.stdout

    def test_off_wins_over_the_environment(self, spind_binary):
        done = subprocess.run([spind_binary, "--no-stay-up", "--sparsity", "50"], capture_output=True, text=True,
                              timeout=20, env={**os.environ, "SPIND_STAY_UP": "true"})
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
