# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A relay in front of a unix socket that counts the HTTP/2 frames passing through."""

import collections
import pathlib
import socket
import tempfile
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PING, GOAWAY = 6, 7
ACK = 1


class Frames:
    """Counts (type, flags) in one direction of a connection."""

    def __init__(self, skip: int):
        self.skip, self.buffer, self.counts = skip, b"", collections.Counter()

    def feed(self, data: bytes):
        self.buffer += data
        if self.skip:
            taken = min(self.skip, len(self.buffer))
            self.buffer, self.skip = self.buffer[taken:], self.skip - taken
        while len(self.buffer) >= 9 and len(self.buffer) >= 9 + int.from_bytes(self.buffer[:3]):
            self.counts[self.buffer[3], self.buffer[4]] += 1
            self.buffer = self.buffer[9 + int.from_bytes(self.buffer[:3]):]


class Http2Relay:
    """Serves one connection at `socket` and passes it on to `target`."""

    def __init__(self, target):
        self._folder = tempfile.TemporaryDirectory(prefix="spin-relay-")
        self.socket = pathlib.Path(self._folder.name) / "relay.sock"
        self.from_client, self.from_server = Frames(len(PREFACE)), Frames(0)
        self._target = str(target)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        client, _ = self._listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        threading.Thread(target=self._pass_on, args=(server, client, self.from_server), daemon=True).start()
        self._pass_on(client, server, self.from_client)

    @staticmethod
    def _pass_on(source, sink, frames):
        try:
            while data := source.recv(65536):
                frames.feed(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one end is gone

    def pings(self) -> int:
        return self.from_client.counts[PING, 0]

    def goaways(self) -> int:
        return sum(count for (kind, _), count in self.from_server.counts.items() if kind == GOAWAY)
