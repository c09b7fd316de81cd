# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Times of CUDA graphs: medians, in microseconds."""

import statistics

import torch

REPLAYS = 100
FLUSH_BYTES = 256 << 20  # several times the L2 cache
WARM_MICROSECONDS = 2e5  # after which clocks and power are those of a GPU at work


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


def time_of(graph: torch.cuda.CUDAGraph, steps: int = 1, before=None) -> float:
    """Of one of the `steps` in a replay. `before` runs ahead of each replay and is not measured."""
    return median_of(graph.replay, before) / steps


def median_of(work, before=None) -> float:
    """Runs follow one another without a pause, as decode steps do: a GPU that rests in between clocks higher."""
    before = before or (lambda: None)
    runs = [timed(work, before)]
    torch.cuda.synchronize()
    warm = int(WARM_MICROSECONDS / max(elapsed(runs[0]), 10.0)) + 1
    runs = [timed(work, before) for _ in range(warm + REPLAYS)][warm:]
    torch.cuda.synchronize()
    return statistics.median(elapsed(run) for run in runs)


def timed(work, before) -> tuple:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before()
    start.record()
    work()
    end.record()
    return start, end


def elapsed(run: tuple) -> float:
    start, end = run
    return start.elapsed_time(end) * 1e3


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
    return 2 * count / (median_of(lambda: target.copy_(source)) * 1e-6)
