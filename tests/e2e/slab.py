# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The session's arrays in the slab, mapped as the contract and the headers of kernels/ document them.

Independent of the C++ code on purpose: a layout that this module reads differently is a contract that lies.
"""

import mmap
import os

import numpy as np
from spin.v1 import session_pb2

PAGE_SLOTS = 4096
PAGE_UNIT = 256

HEADER = np.dtype([("magic", "<u8"), ("layout_version", "<u4"), ("reserved", "<u4"), ("epoch", "<u8"),
                   ("bytes", "<u8"), ("nonce", "<u8")])
RECORD = np.dtype([("generation", "<u4"), ("page_count", "<u4"), ("key_hash", "<u8"), ("pages", "<u4", 1024)])
COUNTERS = np.dtype([(name, "<u8") for name in (
    "considered_blocks", "predicted_blocks", "explored_blocks", "pinned_blocks", "full_blocks", "scored_slots",
    "nonfinite_scores", "audited_rows", "audit_topk_slots", "audit_missed_slots")])
AUDITS = np.dtype([("blocks", "<u8"), ("list_blocks", "<u8"), ("miss_rows", "<u8", 11), ("rank_slots", "<u8", 256)])
LIST_HEADER = np.dtype([("epoch", "<u8"), ("generation", "<u4"), ("next_n", "<u4"), ("position", "<i8"),
                        ("count", "<i4"), ("blocks", "<i4"), ("pinned", "<i4"), ("predicted", "<i4"),
                        ("explored", "<i4"), ("reserved", "<u4")])


def bf16_to_f32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f32_to_bf16(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest bf16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


class MappedSession:
    """Views into the mapped slab; closed by the garbage collector."""

    def __init__(self, opened: session_pb2.OpenSessionResponse):
        self.path = opened.slab.posix_shm.path
        fd = os.open(self.path, os.O_RDWR)
        self.memory = mmap.mmap(fd, opened.slab.bytes)
        os.close(fd)
        self.geometry, self.layout = opened.geometry, opened.layout
        g, layout = self.geometry, self.layout
        layers, requests, blocks = g.layers, g.max_requests, layout.max_blocks
        self.header = self._view(0, HEADER, ())
        self.records = self._view(layout.records, RECORD, (requests,))
        self.counters = self._view(layout.counters, COUNTERS, (layers,))
        self.audits = self._view(layout.audits, AUDITS, (layers,))
        self.timeline = self._view(layout.timeline, "<u8", (2,))
        self.headers = self._view(layout.headers, LIST_HEADER, (2, requests, layers))
        self.lists = self._view(layout.lists, "<i4", (2, requests, layers, blocks))
        self.score_bf16 = g.score_dtype == session_pb2.DTYPE_BF16
        self.staging = None
        if layout.staging:
            self.staging = self._view(layout.staging, "<u2" if self.score_bf16 else "<f4",
                                      (layers, requests, g.max_next_n, layout.staging_stride))

    def _view(self, offset, dtype, shape):
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.memory, dtype, count, offset).reshape(shape)

    @property
    def nonce(self) -> int:
        return int(self.header["nonce"])

    def engine_done(self, value: int):
        self.timeline[0] = value

    @property
    def spin_done(self) -> int:
        return int(self.timeline[1])

    def stage(self, layer: int, row: int, draft: int, scores: np.ndarray):
        if self.score_bf16:
            scores = f32_to_bf16(scores)
        self.staging[layer, row, draft, : len(scores)] = scores

    def kept(self, buffer: int, handle, layer: int, position: int, next_n: int = 1) -> np.ndarray | None:
        """The list made for this step; None if its stamp is another."""
        header = self.headers[buffer, handle.index, layer]
        stamp = (self.header["epoch"], handle.generation, next_n, position)
        if tuple(header[name] for name in ("epoch", "generation", "next_n", "position")) != stamp:
            return None
        return self.lists[buffer, handle.index, layer, : header["count"]].copy()

    def state(self, handle, layer: int) -> tuple[np.ndarray, np.ndarray]:
        """V by slot and D by distance, over the pages the request has."""
        record = self.records[handle.index]
        bf16 = self.geometry.state_dtype == session_pb2.DTYPE_BF16
        v, d = [], []
        for page in record["pages"][: record["page_count"]]:
            # After both averages, pages of bf16 state in blocks of 64 hold a summary of 512 bytes.
            summary = 512 if bf16 and self.geometry.block_slots == 64 else 0
            layer_bytes = 2 * PAGE_SLOTS * (2 if bf16 else 4) + summary
            halves = self._view(int(page) * PAGE_UNIT + layer * layer_bytes, "<u2" if bf16 else "<f4",
                                (2, PAGE_SLOTS))
            halves = bf16_to_f32(halves) if bf16 else halves
            v.append(halves[0])
            d.append(halves[1][::-1])  # stored reversed within a page
        return np.concatenate(v), np.concatenate(d)
