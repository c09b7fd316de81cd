# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""One cluster for all tests; each has namespaces of its own."""

import pathlib
import re
import shutil
import subprocess
import zlib

import pytest
from cluster import OTHER_IMAGE, ROOT, Kubernetes, make_images

CHART = ROOT / "helm" / "spin"


@pytest.fixture(scope="session")
def kube():
    kubernetes = Kubernetes()
    make_images(kubernetes.images)
    try:
        kubernetes.start()
        kubernetes.kubectl("apply", "-f", pathlib.Path(__file__).parent / "crds.yaml")
        kubernetes.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        yield kubernetes
    finally:
        kubernetes.stop()
        shutil.rmtree(kubernetes.state, ignore_errors=True)
        shutil.rmtree(kubernetes.images, ignore_errors=True)
        subprocess.run(["buildah", "rmi", OTHER_IMAGE], check=False, capture_output=True)


@pytest.fixture
def namespace(kube, request):
    """A namespace in which Pod Security restricted is enforced and injection is allowed."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).removeprefix("test-")
    name = f"{words[:40].strip('-')}-{zlib.crc32(words.encode()):x}"
    kube.create_namespace(name, {"pod-security.kubernetes.io/enforce": "restricted", "spin/injection": "enabled"})
    yield name
    kube.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def install(kube):
    """Installs the chart, and uninstalls it afterwards: install("3", namespace, "a", "x.y=z")."""
    releases = []

    def do(helm, namespace, release, *values, wait=True):
        arguments = [word for value in ("image.repository=localhost/spin", "slab.size=64Mi", *values) for word in ("--set", value)]
        result = kube.helm(helm, "upgrade", "--install", release, CHART, "-n", namespace, *arguments, *(("--wait", "--timeout", "90s") if wait else ()))
        releases.append((helm, namespace, release))
        return result.stdout

    yield do
    for helm, namespace, release in releases:
        kube.helm(helm, "uninstall", release, "-n", namespace, check=False)


@pytest.fixture
def bare_api():
    """An API server of its own, without nodes: bare_api("--some-flag")."""
    started = []

    def start(arguments):
        kubernetes = Kubernetes()
        kubernetes.env["KUBE_PORT"] = "17443"
        started.append(kubernetes)
        return kubernetes.start(node=False, api_arguments=arguments)

    yield start
    for kubernetes in started:
        kubernetes.stop()
        shutil.rmtree(kubernetes.state, ignore_errors=True)
