# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The image itself, and the two ways to run it without Kubernetes."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import pytest
from cluster import IMAGE, ROOT, eventually, predicted_rows

DEPLOY = ROOT / "deploy"
# Limits that also hold where a process may not raise its own, and the same runtime as that of the cluster.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    conf = tmp_path_factory.mktemp("podman") / "containers.conf"
    conf.write_text(CONTAINERS_CONF)

    def run(*command, **environment):
        env = {**os.environ, "CONTAINERS_CONF": str(conf), **environment}
        result = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, f"{' '.join(map(str, command))}: {result.stdout}{result.stderr}"
        return result.stdout

    return run


@pytest.fixture(scope="module")
def files(run):
    """The file system of the image."""
    yield pathlib.Path(run("podman", "image", "mount", IMAGE).strip())
    run("podman", "image", "unmount", IMAGE)


@pytest.fixture(scope="module")
def config(run):
    return json.loads(run("podman", "image", "inspect", IMAGE))[0]


def test_is_small_unprivileged_and_of_one_commit(run, config):
    assert len(config["RootFS"]["Layers"]) == 1 and config["Size"] < 60e6
    assert config["User"] == "65532:65532"
    revision = config["Labels"]["org.opencontainers.image.revision"]
    committed = run("git", "-C", ROOT, "show", "-s", "--format=%cd", "--date=format-local:%FT%TZ", revision, TZ="UTC").strip()
    assert config["Created"] == committed  # no clock: built again, it is the same


def test_holds_what_runs_and_nothing_that_builds(files):
    names = {path.name for path in files.rglob("*")}
    assert {"spind", "spinctl", "example_engine", "libspin_client.a", "libspin_kernels.so", "kernels.h", "session.h", "spinConfig.cmake"} <= names
    assert not names & {"sh", "bash", "gcc", "cc1plus", "ld", "nvcc", "cicc", "apt", "dpkg"}
    assert not [name for name in names if name.startswith(("libcuda.so", "libcudart"))]


def test_bill_of_materials_knows_every_library(run, files):
    bill = json.loads((files / "usr/share/spin/sbom.spdx.json").read_text())
    ids = {package["SPDXID"] for package in bill["packages"]}
    assert {relation["relatedSpdxElement"] for relation in bill["relationships"]} == ids - {"SPDXRef-spin"}
    named = {package["name"].removesuffix("-dev") for package in bill["packages"]}
    assert {"libc6", "libstdc++6", "libabsl", "libgrpc29", "libprotobuf32", "libssl3"} <= named
    libraries = list((files / "usr/lib/x86_64-linux-gnu").iterdir())
    copyrights = {path.name for path in (files / "usr/share/doc").iterdir()}
    assert len(libraries) > 30 and {package["name"] for package in bill["packages"]} - {"spin", "cuda-runtime"} == copyrights


def test_runs_with_a_read_only_root_and_no_rights(run):
    arguments = ("--rm", "--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges")
    assert "spind" in run("podman", "run", *arguments, IMAGE, "--version")
    assert "spinctl" in run("podman", "run", *arguments, "--entrypoint=spinctl", IMAGE, "--version")


def numbers() -> str:
    return urllib.request.urlopen("http://127.0.0.1:9464/metrics", timeout=2).read().decode()


def assert_gone(run, word):
    for what in ("ps -a", "pod ls", "volume ls", "network ls"):
        listed = run("podman", *what.split(), "--format", "{{.Names}}" if what == "ps -a" else "{{.Name}}").split()
        assert not [name for name in listed if word in name], (what, listed)


def test_podman_pod_gets_block_lists_and_leaves_nothing(run):
    run("podman", "play", "kube", DEPLOY / "podman-pod.yaml")
    try:
        eventually(lambda: predicted_rows(run("podman", "logs", "spin-engine")) > 0)
        assert 'spin_sessions{model_name="example"} 1' in numbers()
    finally:
        run("podman", "play", "kube", "--down", DEPLOY / "podman-pod.yaml")
    assert_gone(run, "spin-")


def test_compose_gets_block_lists_and_leaves_nothing(run):
    compose = [pathlib.Path(sys.executable).parent / "podman-compose", "-p", "spin-compose", "-f", DEPLOY / "compose.yaml"]
    run(*compose, "up", "-d")
    try:
        eventually(lambda: predicted_rows(run("podman", "logs", "spin-compose-engine")) > 0)
        assert 'spin_sessions{model_name="example"} 1' in numbers()
    finally:
        run(*compose, "down", "-v")
    assert_gone(run, "spin-")
