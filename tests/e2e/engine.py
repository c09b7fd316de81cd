# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Drives the C++ engine of tests/programs: a command a line in, a JSON object a line out."""

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import threading

REPLY_TIMEOUT = 60  # seconds; a safeguard


@dataclasses.dataclass
class Steps:
    """What happened in a run of decode steps; lists are [step] or [step][row]."""

    reasons: list[list[str]]
    kept: list[list[int]]       # blocks scored, over all layers
    considered: list[list[int]]
    equal: list[list[bool]]     # top-K equal to that of a full scan, in every layer
    lists: list[str]            # hash of every list of the step
    seconds: list[float]        # in BeginStep, PutScores and End; the engine's own work left out

    @property
    def reason_set(self) -> set[str]:
        return {reason for row in self.reasons for reason in row}

    def column(self, row: int = 0) -> list[str]:
        return [reasons[row] for reasons in self.reasons]


class Engine:
    """A process with a spin::Session of its own. Options are those of the program: step_timeout_ms=500."""

    def __init__(self, binary, socket, **options):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        self.process = subprocess.Popen([str(binary), f"--socket={socket}", *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self._replies, self._children = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._replies.put(json.loads(line))
        self._replies.put(None)

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, *words):
        """Starts a command; reply() waits for it."""
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")

    def reply(self) -> dict:
        reply = self._replies.get(timeout=REPLY_TIMEOUT)
        assert reply is not None, f"the engine left with {self.process.wait()}"
        assert "bad_command" not in reply, reply
        self._children += [reply["child"]] if "child" in reply else []
        return reply

    def do(self, *words) -> dict:
        self.send(*words)
        return self.reply()

    def ready(self, within_ms=5000):
        reply = self.do("ready", within_ms)
        assert reply["ok"], reply

    def status(self) -> dict:
        return self.do("status")

    def open(self, key, slots, position=None) -> dict:
        """Opens a request whose next token is at `position` (default: the last of `slots`)."""
        return self.do("open", key, slots, slots - 1 if position is None else position)

    def fork(self, parent, key, slots) -> dict:
        return self.do("fork", parent, key, slots)

    def close(self, key) -> dict:
        return self.do("close", key)

    def steps(self, count=1) -> Steps:
        return self.take_steps(self.do("step", count))

    @staticmethod
    def take_steps(reply) -> Steps:
        return Steps(**reply["steps"])

    def stats(self) -> dict:
        return self.do("stats")

    def mapped_slabs(self) -> list[str]:
        """Slab files in the process's address space, deleted ones too."""
        with open(f"/proc/{self.pid}/maps") as maps:
            return [line.split(maxsplit=5)[5].strip() for line in maps if "spin-slab-" in line]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def quit(self) -> int:
        self.process.stdin.close()
        return self.process.wait(timeout=REPLY_TIMEOUT)

    def clean_up(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.stdin = open(os.devnull, "w")  # what was not flushed has no reader any more
