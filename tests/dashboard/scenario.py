# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Five minutes in the life of three pods, with faults, under a real Prometheus that scrapes real spinds every second."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from spind import Spind  # noqa: E402
from standin import StandIn  # noqa: E402

BIN = pathlib.Path(os.environ.get("SPIN_BUILD_DIR", ROOT / "build")) / "bin"
MODEL = "deepseek-v4-flash"
SCRAPE_SECONDS = 1
SECONDS = 300


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pod:
    """A spind on a port of its own, and an engine."""

    def __init__(self, name, slab="32MiB", **engine):
        self.name, self.admin = name, f"127.0.0.1:{free_port()}"
        self.spind = Spind(BIN / "spind", "--admin-address", self.admin, slab_bytes=slab)
        self.engine = StandIn(BIN / "scripted_engine", self.spind.socket, MODEL, seed=ord(name[-1]), audit_every=16, **engine).start()

    def spinctl(self, *words, **options):
        return subprocess.run([BIN / "spinctl", *words, "--socket", self.spind.socket], capture_output=True, text=True, **options)

    def stop(self):
        self.engine.stop()
        self.spind.clean_up()


class Prometheus:
    """Prometheus with its own folder and port; labels each target with namespace and pod, as a PodMonitor does."""

    def __init__(self, folder, targets):
        port = free_port()
        self.url, folder = f"http://127.0.0.1:{port}", pathlib.Path(folder)
        jobs = [{"job_name": job, "static_configs": [
            {"targets": [address], "labels": {"namespace": "inference", "pod": pod, "container": container}}
            for pod, container, address in members]} for job, members in targets.items()]
        config = {"global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "5s"},
                  "rule_files": [str(ROOT / "deploy" / "monitoring" / "spin.rules.yaml")], "scrape_configs": jobs}
        (folder / "prometheus.json").write_text(json.dumps(config))  # JSON is YAML
        self.log = open(folder / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
             "--web.cors.origin=.*"], stdout=self.log, stderr=self.log)
        for _ in range(100):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"{self.url}/-/ready", timeout=1).status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Prometheus did not start: see {folder}/log")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def events(a: Pod, b: Pod, c: Pod):
    """(second, what happens)."""
    def poison(kind):
        b.engine.between.append(lambda: b.engine.engine.do("poison", kind))

    def crowd():
        b.engine.between.append(lambda: [b.engine.open_request(15000) for _ in range(9)])

    def disperse():
        b.engine.between.append(lambda: [b.engine.close_request() for _ in range(9)])

    return [
        (0, lambda: c.spinctl("policy", "set", "--all", "--disable")),
        (75, lambda: c.spinctl("policy", "set", "--all", "--enable", "--sparsity", "0.5", "--budget-mode", "calibrated")),
        (115, a.spind.kill), (123, a.spind.start),
        (150, lambda: poison("nan")), (158, lambda: poison("none")),
        (185, crowd), (215, disperse),
        (235, lambda: [c.spinctl("status", user=65534, group=os.getegid(), extra_groups=[]) for _ in range(3)]),
        (250, lambda: a.spinctl("policy", "set", "--all", "--sparsity", "0.6")),
    ]


@contextlib.contextmanager
def running(folder, seconds=SECONDS):
    """Plays the scenario, then yields Prometheus and the time span that it covers; all still runs then."""
    pods = [Pod("engine-0"), Pod("engine-1", slab="12MiB", executor="sidecar"), Pod("engine-2")]
    prometheus = Prometheus(folder, {
        "inference/spin": [(pod.name, "spin", pod.admin) for pod in pods],
        "inference/engine": [(pod.name, "engine", pod.engine.metrics.address) for pod in pods]})
    try:
        begin = time.time()
        for second, what in [(second, what) for second, what in events(*pods) if second < seconds] + [(seconds, lambda: None)]:
            time.sleep(max(0, begin + second - time.time()))
            what()
        yield prometheus, begin + min(10, seconds / 4), begin + seconds
    finally:
        prometheus.stop()
        for pod in pods:
            pod.stop()
        shutil.rmtree(pathlib.Path(folder) / "data", ignore_errors=True)
