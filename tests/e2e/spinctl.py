# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs spinctl, and knows what it leaves behind."""

import dataclasses
import json
import os
import pathlib
import subprocess

TIMEOUT = 60  # seconds; a safeguard
SHM = pathlib.Path("/dev/shm")  # where a spind that spinctl starts has its slab


@dataclasses.dataclass
class Done:
    code: int
    out: str
    err: str

    def json(self) -> dict:
        assert self.code == 0, self
        return json.loads(self.out)


def _slabs_without_owner() -> set[str]:
    """Slab files of processes that are gone: spin-slab-PID-EPOCH."""
    owners = {path.name: path.name.split("-")[2] for path in SHM.glob("spin-slab-*-*")}
    return {name for name, process in owners.items() if not os.path.exists(f"/proc/{process}")}


class Spinctl:
    """`folder` is for its temporary files, and marks its processes and theirs."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path):
        self.binary, self.folder = binary, folder
        self.environment = {**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"}
        self._slabs_before = _slabs_without_owner()

    def __call__(self, *words, **options) -> Done:
        """spinctl("replay", "--topk", 128); options are those of subprocess.run, env in addition to our own."""
        environment = {**self.environment, **options.pop("env", {})}
        done = subprocess.run(self.command(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=TIMEOUT, env=environment, **options)
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *words) -> dict:
        """What it says with --json. Nothing else may be on its standard output."""
        return self(*words, "--json").json()

    def refusal(self, *words, code=2) -> str:
        """The one sentence with which it refuses."""
        done = self(*words)
        assert (done.code, done.out) == (code, ""), done
        assert done.err.count("\n") == 1 and done.err.startswith("spinctl"), done.err
        assert "exception" not in done.err and "terminate" not in done.err
        return done.err

    def start(self, *words, **options) -> subprocess.Popen:
        return subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment, **options)

    def command(self, *words) -> list[str]:
        return [str(self.binary), *map(str, words)]

    def processes(self) -> dict[int, str]:
        """Those that still run, by number, with their command's name."""
        mark, found = f"TMPDIR={self.folder}".encode(), {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found[int(process.name)] = (process / "comm").read_text().strip()
            except OSError:
                pass  # gone meanwhile, or not ours
        return found

    def left_behind(self, *ignored: str) -> dict:
        """Processes, temporary files and slabs that outlived spinctl."""
        left = {"processes": self.processes(), "files": sorted(os.listdir(self.folder)),
                "slabs": sorted(_slabs_without_owner() - self._slabs_before)}
        return {kind: found for kind, found in left.items() if found and kind not in ignored}
