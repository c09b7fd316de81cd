# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The algorithm of Spin, written down a second time: plain numpy, straight from its definition.

Shares nothing with kernels/ but the documented constants. Slow; for small contexts.
"""

import dataclasses
import math

import numpy as np
from slab import bf16_to_f32, f32_to_bf16

_MASK32, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
AUDIT_TAG = 0xFFFFFFFF
KEY_BITS = 11


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0, see the xxHash specification."""
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                          0x27D4EB2F165667C5)

    def rotate(x, r):
        return ((x << r) | (x >> (64 - r))) & _MASK64

    def round_(acc, lane):
        return rotate((acc + lane * p2) & _MASK64, 31) * p1 & _MASK64

    def lane(at, width):
        return int.from_bytes(data[at: at + width], "little")

    at = 0
    if len(data) >= 32:
        accs = [(p1 + p2) & _MASK64, p2, 0, -p1 & _MASK64]
        while at + 32 <= len(data):
            accs = [round_(acc, lane(at + 8 * i, 8)) for i, acc in enumerate(accs)]
            at += 32
        h = sum(rotate(acc, r) for acc, r in zip(accs, (1, 7, 12, 18))) & _MASK64
        for acc in accs:
            h = ((h ^ round_(0, acc)) * p1 + p4) & _MASK64
    else:
        h = p5
    h = (h + len(data)) & _MASK64
    while at + 8 <= len(data):
        h = (rotate(h ^ round_(0, lane(at, 8)), 27) * p1 + p4) & _MASK64
        at += 8
    if at + 4 <= len(data):
        h = (rotate(h ^ (lane(at, 4) * p1 & _MASK64), 23) * p2 + p3) & _MASK64
        at += 4
    while at < len(data):
        h = rotate(h ^ (data[at] * p5 & _MASK64), 11) * p1 & _MASK64
        at += 1
    h = (h ^ (h >> 33)) * p2 & _MASK64
    h = (h ^ (h >> 29)) * p3 & _MASK64
    return h ^ (h >> 32)


def philox4x32(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds, see Salmon et al. 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        low, high = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(high >> 32) ^ c[1] ^ k[0], high & _MASK32, (low >> 32) ^ c[3] ^ k[1], low & _MASK32]
        k = [(k[0] + 0x9E3779B9) & _MASK32, (k[1] + 0xBB67AE85) & _MASK32]
    return c


def draw(seed: int, key_hash: int, position: int, tag: int) -> list[int]:
    return philox4x32([key_hash & _MASK32, key_hash >> 32, position, tag], [seed & _MASK32, seed >> 32])


@dataclasses.dataclass
class Setting:
    """What a session is opened with."""

    layers: int
    block: int
    topk: int
    tokens_per_slot: int = 1
    sparsity: float = 0.4
    exploration: float = 0.0
    decay: float = 0.5
    seed: int = 0
    audit_every: int = 0
    pin_first_block: bool = False
    layer_sparsity: tuple = ()
    bf16: bool = False  # how V and D are stored

    def sparsity_of(self, layer: int) -> float:
        return self.layer_sparsity[layer] if self.layer_sparsity else self.sparsity


def floor_share(ratio: float, count: int) -> int:
    return math.floor(ratio * count + 1e-9)


class Request:
    """V and D of one request, and the lists that follow from them."""

    def __init__(self, setting: Setting, key: bytes, slots: int):
        self.setting, self.key_hash = setting, xxh64(key)
        self.v = np.full((setting.layers, slots), -np.inf, np.float32)
        self.d = np.full((setting.layers, slots + 1), -np.inf, np.float32)

    def fork(self, key: bytes) -> "Request":
        child = Request(self.setting, key, self.v.shape[1])
        child.v, child.d = self.v.copy(), self.d.copy()
        return child

    def visible(self, position: int) -> int:
        return (position + 1) // self.setting.tokens_per_slot

    def query(self, position: int) -> int:
        return position // self.setting.tokens_per_slot

    def audit_due(self, position: int) -> bool:
        if self.setting.audit_every == 0:
            return False
        return draw(self.setting.seed, self.key_hash, position, AUDIT_TAG)[0] * self.setting.audit_every < 2**32

    def _update(self, entries: np.ndarray, scores: np.ndarray) -> np.ndarray:
        past, now = np.float32(self.setting.decay), np.float32(1 - self.setting.decay)
        with np.errstate(invalid="ignore", over="ignore"):
            moved = np.where(np.isneginf(entries), scores, past * entries + now * scores)
            if self.setting.bf16:
                moved = bf16_to_f32(f32_to_bf16(moved))
        return np.where(np.isfinite(moved), moved, entries)

    def observe(self, layer: int, position: int, slots: np.ndarray, scores: np.ndarray):
        """One verifier row: scores[i] is that of slots[i], fp32."""
        self.v[layer, slots] = self._update(self.v[layer, slots], scores)
        distance = self.query(position) - slots
        self.d[layer, distance] = self._update(self.d[layer, distance], scores)

    def block_scores(self, layer: int, position: int, next_n: int) -> np.ndarray:
        b = self.setting.block
        blocks = math.ceil(self.visible(position + next_n - 1) / b)
        best = np.full(blocks * b, -np.inf, np.float32)
        for row in range(position, position + next_n):
            slots = np.arange(self.visible(row))
            best[slots] = np.maximum.reduce(
                [best[slots], self.v[layer, slots], self.d[layer, self.query(row) - slots]])
        return best.reshape(blocks, b).max(axis=1)

    def exploration_keys(self, layer: int, position: int, blocks: int) -> list[int]:
        keys = []
        for group in range(math.ceil(blocks / 8)):
            words = draw(self.setting.seed, self.key_hash, position, layer << 24 | group)
            keys += [(word >> shift & 0xFFFF) >> (16 - KEY_BITS) for word in words for shift in (0, 16)]
        return keys[:blocks]

    def budget(self, layer: int, position: int, next_n: int) -> tuple[int, set[int], int]:
        """(blocks to keep, the pinned ones, how many of them to draw at random)"""
        s = self.setting
        slots = self.visible(position + next_n - 1)
        blocks = math.ceil(slots / s.block)
        pinned = set(range(max(slots - next_n, 0) // s.block, blocks))
        if s.pin_first_block and blocks:
            pinned.add(0)
        keep = max(blocks - floor_share(s.sparsity_of(layer), blocks), math.ceil(s.topk / s.block), len(pinned))
        if keep < blocks:
            keep += (next_n - 1) * math.ceil(blocks / 256)
        keep = min(keep, blocks)
        return keep, pinned, min(floor_share(s.exploration, keep), keep - len(pinned))

    def kept(self, layer: int, position: int, next_n: int = 1) -> np.ndarray:
        """The block list of one layer, ascending."""
        scores = self.block_scores(layer, position, next_n)
        keep, pinned, explored = self.budget(layer, position, next_n)
        free = [block for block in range(len(scores)) if block not in pinned]
        ranked = sorted(free, key=lambda block: (-scores[block], block))
        best, rest = ranked[: keep - len(pinned) - explored], ranked[keep - len(pinned) - explored:]
        keys = self.exploration_keys(layer, position, len(scores)) if explored else None
        drawn = sorted(rest, key=lambda block: (keys[block], block))[:explored] if explored else []
        return np.array(sorted(pinned | set(best) | set(drawn)), np.int32)

    def slots_of(self, kept: np.ndarray, position: int) -> np.ndarray:
        """The slots that a verifier row scores in these blocks, in compacted order."""
        slots = (kept[:, None] * self.setting.block + np.arange(self.setting.block)).ravel()
        return slots[slots < self.visible(position)]
