# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for an inference engine: real decode steps through a real spind, and vLLM's metrics about them.

The scores are made up, and so is the latency: a fixed part, and a scan time for each block that was really scored. So
it falls when Spin skips blocks, as it does on a GPU.
"""

import http.server
import random
import threading
import time

from engine import Engine

SCAN_SECONDS = 10e-6  # for a block in a layer
OTHER_SECONDS = 9e-3  # the rest of a step
BOUNDS = (0.001, 0.002, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175, 0.02, 0.025, 0.03, 0.04, 0.05, 0.1)
STEPS_A_SECOND = 20
BATCH = 4


class EngineMetrics:
    """vLLM's inter-token latency and token count, served as text."""

    def __init__(self, model):
        self.labels, self.lock = f'model_name="{model}",engine="0"', threading.Lock()
        self.buckets, self.sum, self.count, self.tokens = [0] * len(BOUNDS), 0.0, 0, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802, the base class calls it so
                body = outer.text().encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def observe(self, seconds, rows):
        with self.lock:
            self.sum, self.count, self.tokens = self.sum + seconds * rows, self.count + rows, self.tokens + rows
            for i, bound in enumerate(BOUNDS):
                self.buckets[i] += rows if seconds <= bound else 0

    def text(self):
        name = "vllm:inter_token_latency_seconds"
        with self.lock:
            lines = [f"# TYPE {name} histogram"]
            lines += [f'{name}_bucket{{{self.labels},le="{bound}"}} {count}' for bound, count in zip((*BOUNDS, "+Inf"), (*self.buckets, self.count))]
            lines += [f"{name}_sum{{{self.labels}}} {self.sum}", f"{name}_count{{{self.labels}}} {self.count}",
                      "# TYPE vllm:generation_tokens_total counter", f"vllm:generation_tokens_total{{{self.labels}}} {self.tokens}"]
            return "\n".join(lines) + "\n"


class StandIn:
    """Decodes a few requests without end, in a thread; `between` are commands it runs between steps."""

    def __init__(self, binary, socket, model, seed, **options):
        self.engine = Engine(binary, socket, model_name=model, layers=4, topk=256, max_slots=16384, max_requests=24, **options)
        self.metrics, self.random, self.between = EngineMetrics(model), random.Random(seed), []
        self.requests, self.opened, self.stopping = [], 0, threading.Event()
        self.engine.do("ready", 3000)
        for _ in range(3):
            self.open_request(self.random.randrange(5000, 8000))
        self.thread = threading.Thread(target=self._decode, daemon=True)

    def open_request(self, slots):
        self.opened += 1
        self.requests.append(f"r{self.opened}")
        self.engine.open(self.requests[-1], slots)

    def close_request(self):
        self.engine.close(self.requests.pop(0))

    def _decode(self):
        while not self.stopping.is_set():
            begin = time.monotonic()
            while self.between:
                self.between.pop(0)()
            steps = self.engine.steps(BATCH)
            for kept in steps.kept:
                jitter = self.random.lognormvariate(0, 0.06)
                self.metrics.observe((OTHER_SECONDS + SCAN_SECONDS * sum(kept)) * jitter, len(kept))
            if self.random.random() < 0.06:  # a request ends, another begins
                self.close_request()
                self.open_request(self.random.randrange(5000, 8000))
            self.stopping.wait(max(0, BATCH / STEPS_A_SECOND - (time.monotonic() - begin)))

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.stopping.set()
        self.thread.join()
        self.engine.clean_up()
        self.metrics.server.shutdown()
