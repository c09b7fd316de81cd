# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A running spind: each test has its own, with a private socket, slab folder and admin port."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from eventually import eventually
from metrics import Metrics

STOP_BOUND = 5.0  # seconds from SIGTERM to the end, see the cases


def _slab_parent() -> str:
    """Where slabs go: shared memory, unless it is as small as a container's often is."""
    try:
        info = os.statvfs("/dev/shm")
        if info.f_bavail * info.f_frsize >= 1 << 30:
            return "/dev/shm"
    except OSError:
        pass
    return tempfile.gettempdir()


class Spind:
    """Starts on construction and waits until it serves, or tells why not; `flags` are added to its command line."""

    def __init__(self, binary: pathlib.Path, *flags: str, slab_bytes="16MiB", folder=None, shm_dir=None,
                 uid=None, umask=-1, serves=True, prefix=()):
        self.owned_folders, self.uid, self.umask = [], uid, umask
        self.folder = pathlib.Path(folder or self._make_folder(tempfile.gettempdir()))
        self.shm_dir = pathlib.Path(shm_dir or self._make_folder(_slab_parent()))
        self.socket = self.folder / "spind.sock"
        self.command = [*prefix, str(binary), "--socket", str(self.socket), "--admin-address", "127.0.0.1:0",
                        "--slab-bytes", str(slab_bytes), "--shm-dir", str(self.shm_dir), *flags]
        self.log_file = self.folder / "spind.log"
        if serves:
            self.start()
        else:
            self.launch()
            self.await_failure()

    def _make_folder(self, parent) -> str:
        folder = tempfile.mkdtemp(prefix="spin-", dir=parent)
        os.chmod(folder, 0o755)  # other users' clients pass through
        if self.uid is not None:
            os.chown(folder, self.uid, self.uid)
        self.owned_folders.append(folder)
        return folder

    def start(self):
        """Starts it (again), on the same socket and slab folder."""
        self.launch()
        self.await_serving()

    def launch(self):
        """Starts it, and does not wait."""
        self.log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            user=self.uid, group=self.uid, umask=self.umask)

    def await_serving(self):
        self._await_address(r"metrics at http://(\S+)/metrics")

    def await_failure(self):
        """Waits until it tells that it is up without serving (--stay-up)."""
        self._await_address(r"not serving .*status at http://(\S+)/")

    def _await_address(self, pattern):
        def found():
            if self.process.poll() is not None:
                raise RuntimeError(f"spind left with {self.process.returncode}: {self.log}")
            return re.search(pattern, self.log)

        self.admin = eventually(found).group(1)

    @property
    def log(self) -> str:
        """What this run has said so far."""
        with open(self.log_file, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode()

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of an admin page."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> Metrics:
        status, body = self.get("/metrics")
        assert status == 200
        return Metrics(body)

    def metric(self, name: str, **labels) -> float:
        return self.metrics().value(name, **labels)

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def slab_files(self) -> list[str]:
        return sorted(os.listdir(self.shm_dir))

    def signal(self, number: int):
        """Sends a signal. After SIGSTOP all threads have stopped: they do so one after another."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            eventually(lambda: all(state == "T" for state in self._thread_states()))

    def _thread_states(self) -> list[str]:
        stats = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat")
        return [stat.read_text().rpartition(")")[2].split()[0] for stat in stats]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self):
        self.process.terminate()

    def await_end(self, within: float = STOP_BOUND) -> int:
        """Its exit code."""
        try:
            return self.process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"spind did not end within {within} s of SIGTERM: {self.log}") from None

    def ended_well(self) -> str | None:
        """After terminate(): None, or what was wrong with its end."""
        try:
            code = self.await_end(4 * STOP_BOUND)  # many at once may be ending; the bound has tests of its own
        except AssertionError as error:
            return str(error)
        if code != 0:
            return f"exit code {code}: {self.log}"
        if self.slab_files():
            return f"left behind: {self.slab_files()}"
        return None

    def clean_up(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.kill()
        for folder in self.owned_folders:
            shutil.rmtree(folder, ignore_errors=True)
