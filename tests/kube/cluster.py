# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A throw-away Kubernetes on this machine: etcd, API server, controllers, and one node with pretended GPUs. Needs root."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent / "cluster"
TOOLS = pathlib.Path(os.environ.get("SPIN_KUBE", pathlib.Path.home() / ".cache" / "spin-kube"))
IMAGE = "localhost/spin:0.1.0"
OTHER_IMAGE = "localhost/spin:next"  # the same with another label


def eventually(what, within=60.0, every=0.25):
    """The first true value of `what()`."""
    end, problem = time.monotonic() + within, None
    while time.monotonic() < end:
        try:
            if value := what():
                return value
        except (AssertionError, subprocess.CalledProcessError, KeyError, IndexError, OSError) as error:
            problem = error
        time.sleep(every)
    raise AssertionError(f"not within {within} s: {what.__name__}; last: {problem}")


def predicted_rows(log) -> int:
    """How many rows scored fewer blocks than there are, by a list from the sidecar."""
    return sum(int(kept) < int(all_) for kept, all_ in re.findall(r"scored (\d+) of (\d+) blocks \(none\)", log))


class Kubernetes:
    """The API, and kubectl and Helm for it. `start(node=False)` has no node: enough for admission and Helm."""

    def __init__(self, state=None):
        self.state = state or pathlib.Path(tempfile.mkdtemp(prefix="spin-kube-"))
        self.images = self.state.with_suffix(".images")
        self.env = {**os.environ, "KUBE_BIN": str(TOOLS / "bin"), "KUBE_STATE": str(self.state), "IMAGES": str(self.images), "KUBECONFIG": f"{self.state}/kubeconfig",
                    "PATH": f"{TOOLS}/tools:{TOOLS}/bin:{os.environ['PATH']}", "HELM_CACHE_HOME": f"{self.state}/helm"}
        self.parts = []

    def start(self, node=True, api_arguments=""):
        self.state.mkdir(exist_ok=True)
        for script in ("apiserver.sh", *(("controllers.sh", "node.sh") if node else ())):
            self.parts.insert(0, script)
            log = self.state / f"{script}.log"
            with open(log, "w", encoding="utf-8") as out:  # a pipe would be kept open by what it starts
                result = subprocess.run([HERE / script, "start"], env={**self.env, "KUBE_APISERVER_ARGS": api_arguments}, check=False, stdout=out, stderr=out,
                                        start_new_session=True)
            assert result.returncode == 0, f"{script}: {log.read_text()[-2000:]}"
        return self

    def stop(self):
        for script in self.parts:
            subprocess.run([HERE / script, "stop"], env=self.env, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, *command, check=True, stdin=None, timeout=120):
        result = subprocess.run([str(word) for word in command], env=self.env, capture_output=True, text=True, input=stdin, timeout=timeout, check=False)
        if check and result.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {result.stdout}{result.stderr}")
        return result

    def kubectl(self, *words, **options) -> str:
        return self.run("kubectl", *words, **options).stdout

    def get(self, *words) -> dict:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, manifest, namespace="default"):
        return self.kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest if isinstance(manifest, str) else json.dumps(manifest))

    def create_namespace(self, name, labels):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        if "controllers.sh" in self.parts:
            eventually(lambda: "default" in self.kubectl("-n", name, "get", "serviceaccounts"))
        return name

    def helm(self, version, *words, **options):
        return self.run(f"helm{version}", *words, **options)

    def pod(self, namespace, selector) -> dict:
        """The one pod that is not going away."""
        pods = [pod for pod in self.get("-n", namespace, "pods", "-l", selector)["items"] if "deletionTimestamp" not in pod["metadata"]]
        assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
        return pods[0]

    def logs(self, namespace, pod, container, *words) -> str:
        return self.kubectl("-n", namespace, "logs", pod, "-c", container, *words)

    def processes(self, program, pod_name) -> list[int]:
        """Processes of this machine that run `program` in that pod."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
                if command.rpartition("/")[2] == program and environment(int(entry.name)).get("HOSTNAME") == pod_name:
                    found.append(int(entry.name))
            except OSError:
                pass
        return found


def environment(pid) -> dict:
    pairs = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def make_images(folder):
    """Archives of pause and of spin under two names, for the node to import."""
    folder.mkdir()
    subprocess.run([HERE / "mkimage.py", folder / "pause.tar", "localhost/pause:1", '["/pause"]', f"{TOOLS}/bin/pause=/pause"], check=True)
    container = subprocess.run(["buildah", "from", "--pull-never", IMAGE], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["buildah", "config", "--label", "other=true", container], check=True)
    subprocess.run(["buildah", "commit", "--quiet", "--rm", container, OTHER_IMAGE], check=True, capture_output=True)
    for name, file in ((IMAGE, "spin.tar"), (OTHER_IMAGE, "next.tar")):
        subprocess.run(["buildah", "push", "--quiet", name, f"docker-archive:{folder}/{file}:{name}"], check=True, capture_output=True)
