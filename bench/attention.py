# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What stands in for attention and the rest of a layer, between the scoring of two layers: 10 to 15 us of traffic.

Two kinds, since it decides what can run beside: `product` is a matrix product over 32 MB of weights, whose thread
blocks take the shared memory of all multiprocessors, as attention kernels of Hopper do; `copy` moves as much with one
small thread block on each multiprocessor and leaves room.
"""

import torch
import triton
import triton.language as tl

BYTES = 32 << 20
WIDTH = 4096
TURNS = 8  # so that no cache holds what is read


@triton.jit
def _copy(source, target, count, BLOCK: tl.constexpr):
    for at in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        tl.store(target + offsets, tl.load(source + offsets))


class Copy:
    def __init__(self, requests: int):
        self._from = torch.ones(TURNS, BYTES // 2 // 4, dtype=torch.int32, device="cuda")
        self._to = torch.empty_like(self._from)
        self._grid = (torch.cuda.get_device_properties(0).multi_processor_count,)

    def __call__(self, layer: int):
        turn = layer % TURNS
        _copy[self._grid](self._from[turn], self._to[turn], self._from.shape[1], BLOCK=4096, num_warps=8)


class Product:
    def __init__(self, requests: int):
        self._weights = torch.randn(TURNS, WIDTH, BYTES // 2 // WIDTH, device="cuda").bfloat16()
        self._in = torch.randn(requests, WIDTH, device="cuda").bfloat16()
        self._out = torch.empty(requests, self._weights.shape[2], device="cuda", dtype=torch.bfloat16)

    def __call__(self, layer: int):
        torch.mm(self._in, self._weights[layer % TURNS], out=self._out)


KINDS = {"product": Product, "copy": Copy}
