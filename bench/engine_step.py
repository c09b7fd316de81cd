# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A decode step of an engine on made-up requests, for bench/deepgemm.py: queries and keys of all layers, the scoring
kernel over them, and a session of Spin in memory of this process, reached through libspin_kernels.so alone.

Keys are random around a direction of their own for each block, so that blocks differ as they do in a model; queries
and head weights are random. Nothing is equal to anything else, so no kernel has it easy.
"""

import ctypes
import dataclasses

import spin_kernels as spin
import torch

EPOCH, GENERATION = 1, 1
BLOCK = 64
GROWTH = 256  # slots that a context grows by before it starts again
FP8 = torch.float8_e4m3fn


@dataclasses.dataclass(frozen=True)
class Shape:
    slots: int
    requests: int
    sparsity: float
    next_n: int = 1
    layers: int = 21
    heads: int = 64
    dim: int = 128
    topk: int = 512
    tokens_per_slot: int = 4

    @property
    def blocks(self) -> int:
        return self.slots // BLOCK

    @property
    def position(self) -> int:
        """Of the first step: on the last token of a slot. Contexts grow from there, to at most `slots`."""
        return self.tokens_per_slot * (self.slots - GROWTH) - 1

    def visible(self, position: int) -> int:
        return (position + 1) // self.tokens_per_slot

    def geometry(self) -> spin.Geometry:
        return spin.Geometry(self.layers, BLOCK, self.topk, self.tokens_per_slot, spin.BF16)


class Engine:
    """Queries [layers][requests, next_n, heads, dim] fp8, keys in pages of 64 slots (64 x dim fp8, then 64 fp32 scales),
    one block table for all layers. `scorer` is the scoring kernel, see bench/deepgemm.py."""

    KEY_BYTES_REACH = 1 << 30  # keys that a step over all layers goes through at least, so that no cache holds them

    def __init__(self, shape: Shape, scorer, device: str, seed: int = 1):
        self.shape, self.scorer, self.device = shape, scorer, device
        self.random = torch.Generator(device).manual_seed(seed)
        pages = shape.requests * shape.blocks
        page_bytes = BLOCK * (shape.dim + 4)
        caches = min(shape.layers, max(1, -(-self.KEY_BYTES_REACH // (pages * page_bytes))))
        self.keys = [self._keys(pages, page_bytes) for _ in range(caches)]
        self.queries = [self._normal(shape.requests, shape.next_n, shape.heads, shape.dim).to(FP8)
                        for _ in range(shape.layers)]
        self.weights = [self._normal(shape.requests * shape.next_n, shape.heads) / shape.heads
                        for _ in range(shape.layers)]
        self.table = torch.randperm(pages, generator=self.random, device=device, dtype=torch.int32).view(
            shape.requests, shape.blocks)
        slots = [shape.visible(shape.position + draft) for draft in range(shape.next_n)]
        self.lengths = torch.tensor([slots] * shape.requests, dtype=torch.int32, device=device)
        self.plan = scorer.plan(self.lengths)

    def _normal(self, *size):
        return torch.randn(size, generator=self.random, device=self.device)

    def _keys(self, pages: int, page_bytes: int) -> torch.Tensor:
        cache = torch.empty(pages, page_bytes, dtype=torch.uint8, device=self.device)
        values = BLOCK * self.shape.dim
        for first in range(0, pages, 8192):
            part = cache[first:first + 8192]
            keys = self._normal(len(part), BLOCK, self.shape.dim) + self._normal(len(part), 1, self.shape.dim)
            part[:, :values] = keys.to(FP8).view(torch.uint8).view(len(part), values)
            scales = 0.5 + torch.rand(len(part), BLOCK, generator=self.random, device=self.device)
            part[:, values:] = scales.view(torch.uint8)
        return cache.view(pages, BLOCK, 1, self.shape.dim + 4)

    def score(self, layer: int, table=None, lengths=None, plan=None) -> torch.Tensor:
        """Scores [requests * next_n, slots] fp32 through the engine's own table, or another one; garbage past `lengths`."""
        return self.scorer.score(
            self.queries[layer], self.keys[layer % len(self.keys)], self.weights[layer],
            self.lengths if lengths is None else lengths, self.table if table is None else table,
            self.plan if plan is None else plan, self.shape.slots)

    def score_all(self) -> torch.Tensor:
        """All layers, kept: [layers, requests, next_n, slots]."""
        shape = self.shape
        out = torch.empty(shape.layers, shape.requests, shape.next_n, shape.slots, device=self.device)
        for layer in range(shape.layers):
            out[layer] = self.score(layer).view(shape.requests, shape.next_n, -1)
        return out


class Session:
    """A session as spind lays it out, with requests that decode on from one step after a full scan: the lists for
    shape.position are there, compacted and scored. observe(i) takes scores of the i-th step from there,
    select_and_compact(i) makes and compacts the lists of the one after it; advance(n) says that n steps were made. The
    scores are those of the first step, whatever the lists of the others are. Launches find the session through a binding,
    as in an engine's captured graph."""

    def __init__(self, device: spin.Device, engine: Engine, full_scores: torch.Tensor, steps: int = 1):
        self.device, self.engine, self.shape, self.steps = device, engine, engine.shape, steps
        shape, on = engine.shape, engine.device
        layers, requests, blocks = shape.layers, shape.requests, shape.blocks
        self._allocate(blocks)
        self.full_scores = full_scores
        self._start()
        self.lengths = self.kept_slots[0].clone()
        if not all(torch.equal(self.lengths, of_layer) for of_layer in self.kept_slots):
            raise AssertionError("layers keep different numbers of blocks")
        self.plan = engine.scorer.plan(self.lengths)
        self.scores = torch.zeros(layers, requests, shape.next_n, shape.slots, device=on)
        # Nothing is left of what the scoring kernel leaves past the lengths: contexts grow.
        scored = torch.arange(shape.slots, device=on) < self.lengths[..., None]
        for layer in range(layers):
            self.scores[layer] = torch.where(scored, self.score(layer).view(requests, shape.next_n, -1), 0)

    def _start(self):
        """One step back everything is scored, and the lists of shape.position are made."""
        self.position = self.shape.position - self.shape.next_n
        self._write_rows(spin.COVERS_ALL)
        self.observe(scores=self.full_scores)
        self.select_and_compact()
        self.advance(1)

    def advance(self, steps: int):
        self.position += steps * self.shape.next_n
        if self.shape.visible(self.position + self.steps * self.shape.next_n) >= self.shape.slots:
            self._start()
        else:
            self._write_rows(spin.COVERS_KEPT)

    def _write_rows(self, coverage: int):
        """Of the next steps, in the list buffers in turn."""
        next_n, requests = self.shape.next_n, range(self.shape.requests)
        positions = [self.position + i * next_n for i in range(self.steps)]
        turns = [((position - self.shape.position) // next_n % 2, position) for position in positions]
        self._write(self.scored, [spin.ScoredRow(r, next_n, position, next_n, buffer, coverage, r)
                                  for buffer, position in turns for r in requests])
        self._write(self.rows, [spin.Row(r, next_n, position + next_n, 1 - buffer, GENERATION)
                                for buffer, position in turns for r in requests])

    def _allocate(self, blocks: int):
        shape, geometry, library = self.shape, self.shape.geometry(), self.device.library
        layers, requests, on = shape.layers, shape.requests, self.engine.device
        pages = requests * -(-shape.slots // spin.PAGE_SLOTS)
        page_bytes = library.page_bytes(geometry)
        self.slab = torch.full((pages * page_bytes // 2,), -128, dtype=torch.int16, device=on)  # bf16 -infinity
        # Pages of a request lie scattered, as after a while of requests coming and going.
        order = (torch.randperm(pages) * (page_bytes // 256)).view(requests, -1).tolist()
        self.records = self._upload([spin.RequestRecord(GENERATION, len(pages), key, (ctypes.c_uint32 * 1024)(*pages))
                                     for key, pages in enumerate(order)])
        lists = 2 * requests * layers
        self.headers = self._zeros(lists * ctypes.sizeof(spin.ListHeader))
        self.lists = self._zeros(lists * blocks * 4)
        self.masks = self._zeros(lists * -(-blocks // 32) * 8)
        self.counters = self._zeros(layers * ctypes.sizeof(spin.LayerCounters))
        self.policy = self._upload([spin.Policy((ctypes.c_double * 128)(*[shape.sparsity] * 128), 0.05, 0.5, 1, 0, 0)])
        self.workspace = self._zeros(max(8, self.device.select_workspace_bytes(layers, requests, blocks)))
        self.rows = self._zeros(self.steps * requests * ctypes.sizeof(spin.Row))
        self.scored = self._zeros(self.steps * requests * ctypes.sizeof(spin.ScoredRow))
        self.binding = self._upload([spin.Binding(
            self.slab.data_ptr(), self.records.data_ptr(), self.counters.data_ptr(), None, self.headers.data_ptr(),
            self.lists.data_ptr(), self.masks.data_ptr(), EPOCH, spin.EmaWeights(0.5, 0.5))])
        table = (layers, requests, blocks)
        self.kept_table = torch.zeros(table, dtype=torch.int32, device=on)
        self.kept_blocks = torch.zeros(table, dtype=torch.int32, device=on)
        self.kept_slots = torch.zeros(layers, requests, shape.next_n, dtype=torch.int32, device=on)
        self.unserved = torch.zeros(1, dtype=torch.int32, device=on)

    def _zeros(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.uint8, device=self.engine.device)

    def _upload(self, structs: list) -> torch.Tensor:
        to = self._zeros(len(structs) * ctypes.sizeof(structs[0]))
        self._write(to, structs)
        return to

    def _write(self, to: torch.Tensor, structs: list):
        array = (type(structs[0]) * len(structs))(*structs)
        to.copy_(torch.frombuffer(bytearray(array), dtype=torch.uint8))

    def _launch(self, first: int = 0, count: int | None = None) -> spin.Launch:
        shape = self.shape
        return spin.Launch(shape.geometry(), first, shape.layers if count is None else count, shape.requests,
                           lists=spin.Lists(max_requests=shape.requests, max_blocks=shape.blocks),
                           binding=self.binding.data_ptr())

    @property
    def _stream(self):
        return torch.cuda.current_stream().cuda_stream if self.engine.device != "cpu" else None

    def observe(self, step: int = 0, scores: torch.Tensor | None = None):
        """All layers, from self.scores or others."""
        taken = self.scores if scores is None else scores
        stride = taken.stride()
        self._observe(self._launch(), spin.Scores(taken.data_ptr(), stride[0], stride[1], stride[2], spin.F32), step)

    def observe_layer(self, layer: int, scores: torch.Tensor):
        """One layer, from what score() returned."""
        next_n, stride = self.shape.next_n, scores.stride(0)
        self._observe(self._launch(layer, 1), spin.Scores(scores.data_ptr(), 0, next_n * stride, stride, spin.F32), 0)

    def _observe(self, launch: spin.Launch, scores: spin.Scores, step: int):
        rows = self.scored.data_ptr() + step * self.shape.requests * ctypes.sizeof(spin.ScoredRow)
        self.device.observe(spin.ObserveParams(max_next_n=self.shape.next_n, launch=launch, rows=rows, scores=scores),
                            self._stream)

    def select(self, step: int = 0):
        self.device.select(self._select_params(step), self._stream)

    def compact(self, step: int = 0):
        """The lists: a table, lengths and blocks for each layer."""
        self.device.compact(self._compact_params(step), self._stream)

    def select_and_compact(self, step: int = 0):
        self.device.select_and_compact(self._select_params(step), self._compact_params(step), self._stream)

    def _rows_of(self, step: int) -> int:
        return self.rows.data_ptr() + step * self.shape.requests * ctypes.sizeof(spin.Row)

    def _select_params(self, step: int) -> spin.SelectParams:
        return spin.SelectParams(launch=self._launch(), rows=self._rows_of(step), policy=self.policy.data_ptr(),
                                 workspace=self.workspace.data_ptr())

    def _compact_params(self, step: int) -> spin.CompactParams:
        return spin.CompactParams(
            launch=self._launch(), rows=self._rows_of(step), block_table=self.engine.table.data_ptr(),
            table_stride=self.shape.blocks, next_n_stride=self.shape.next_n, kept_table=self.kept_table.data_ptr(),
            kept_slots=self.kept_slots.data_ptr(), kept_blocks=self.kept_blocks.data_ptr(),
            unserved=self.unserved.data_ptr())

    def remap(self, layer: int, topk: torch.Tensor):
        """Indices [requests, next_n, K] int32 into compacted rows of a layer become slots."""
        self.device.remap(spin.RemapParams(
            row_count=self.shape.requests, geometry=self.shape.geometry(), layer_first=layer, layer_count=1,
            table_stride=self.shape.blocks, next_n_stride=self.shape.next_n, topk_stride=topk.shape[-1],
            rows=self.rows.data_ptr(), kept_blocks=self.kept_blocks.data_ptr(), topk=topk.data_ptr()), self._stream)

    def score(self, layer: int) -> torch.Tensor:
        """The kept blocks, through the compacted table."""
        return self.engine.score(layer, self.kept_table[layer], self.lengths, self.plan)

    @property
    def kept(self) -> int:
        """Blocks in each list."""
        header = spin.ListHeader.from_buffer_copy(self.headers[:ctypes.sizeof(spin.ListHeader)].cpu().numpy())
        return header.count

    @property
    def bytes_per_step(self) -> int:
        """Of state and scores that a step goes through, about."""
        return self.shape.layers * self.shape.requests * self.shape.slots * 8
