# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Times of CUDA graphs: medians, in microseconds."""

import statistics

import torch

REPLAYS = 50
FLUSH_BYTES = 256 << 20  # several times the L2 cache
AHEAD_CYCLES = 200_000   # keeps the GPU busy, 0.1 ms, while the host enqueues what is measured


def capture(work) -> torch.cuda.CUDAGraph:
    """A graph of what work() launches on the current stream. It runs once before, so that nothing is new to it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    return graph


def time_of(graph: torch.cuda.CUDAGraph, steps: int = 1, before=None, cycle: int = 1) -> float:
    """Of one of the `steps` in a replay. `before` runs ahead of each replay and is not measured. Where replays take
    their time in turns of `cycle`, it is the mean of a turn of which the median is taken."""
    def prepare():
        if before:
            before()
        torch.cuda._sleep(AHEAD_CYCLES)

    return median_of(graph.replay, prepare, cycle) / steps


def median_of(work, before, cycle: int = 1) -> float:
    before()
    work()
    times = []
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before()
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    turns = range(0, len(times) - cycle + 1, cycle)
    return statistics.median(statistics.mean(times[turn:turn + cycle]) for turn in turns)


class Flush:
    """Called, it fills the L2 cache with something else."""

    def __init__(self):
        self._memory = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def __call__(self):
        self._memory.zero_()


def copy_bandwidth() -> float:
    """Bytes read and written per second by a large copy."""
    count = 1 << 30
    source = torch.ones(count, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    # Not as a graph, where copies may go to the slower copy engines.
    return 2 * count / (median_of(lambda: target.copy_(source), lambda: torch.cuda._sleep(AHEAD_CYCLES)) * 1e-6)
