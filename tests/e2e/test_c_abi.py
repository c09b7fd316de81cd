# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""libspin_kernels.so over the slab of a spind, with the control plane in Python: the data plane of an engine that does
not use the C++ client. Lists and state against the reference."""

import ctypes
import re
import subprocess

import numpy as np
import pytest
import reference
import spin_kernels as spin
from conftest import BUILD, ROOT
from raw_client import RawSession
from spin.v1 import session_pb2

LIBRARY = BUILD / "lib" / "libspin_kernels.so"
SETTING = reference.Setting(layers=2, block=16, topk=32, sparsity=0.5, exploration=0.1)
SLOTS = 900


@pytest.fixture(scope="module")
def device():
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is not built: run `make all`")
    device = spin.Library(LIBRARY).open("CPU")
    yield device
    device.close()


def handle_of(slab: session_pb2.SlabHandle, **changes) -> spin.SlabHandle:
    return spin.SlabHandle(**{**dict(kind=spin.POSIX_SHM, bytes=slab.bytes, epoch=slab.epoch,
                                     posix_path=slab.posix_shm.path.encode()), **changes})


class DataPlane:
    """What an engine keeps in memory of its own, and its launches. One request is one row, its number is its index."""

    def __init__(self, device: spin.Device, session: RawSession, handles: list, bound: bool):
        self.device, self.handles = device, handles
        opened = session.opened
        self.slab = device.map(handle_of(opened.slab))
        self.layout, g = opened.layout, opened.geometry
        self.geometry = spin.Geometry(g.layers, g.block_slots, g.topk, g.tokens_per_slot, spin.F32)
        policy = opened.policy
        self.policy = spin.Policy((ctypes.c_double * spin.MAX_LAYERS)(*[policy.sparsity] * spin.MAX_LAYERS),
                                  policy.exploration, policy.decay, policy.seed)
        self.weights = spin.EmaWeights(policy.decay, 1 - policy.decay)
        self.requests, self.blocks, self.epoch = g.max_requests, self.layout.max_blocks, opened.slab.epoch
        self.workspace = np.zeros(device.select_workspace_bytes(g.layers, self.requests, self.blocks), np.uint8)
        at = {name: self.slab.data + getattr(self.layout, name)
              for name in ("records", "counters", "headers", "lists", "masks")}
        self.binding = spin.Binding(self.slab.data, at["records"], at["counters"], None, at["headers"], at["lists"],
                                    at["masks"], self.epoch, self.weights) if bound else None
        self.at = dict.fromkeys(at) if bound else at

    def launch(self) -> spin.Launch:
        lists = spin.Lists(self.at["headers"], self.at["lists"], self.at["masks"], self.requests, self.blocks)
        return spin.Launch(self.geometry, 0, self.geometry.layers, len(self.handles),
                           0 if self.binding else self.epoch, None if self.binding else self.slab.data,
                           self.at["records"], lists, ctypes.addressof(self.binding) if self.binding else None)

    def rows(self, positions, next_n, buffer):
        return (spin.Row * len(self.handles))(*[spin.Row(handle.index, next_n, position, buffer, handle.generation)
                                                for handle, position in zip(self.handles, positions)])

    def observe(self, positions, next_n, coverage, buffer, scores: np.ndarray):
        """scores [layers, rows, next_n, elements]"""
        rows = (spin.ScoredRow * len(self.handles))(*[
            spin.ScoredRow(handle.index, next_n, position, next_n, buffer, coverage, row)
            for row, (handle, position) in enumerate(zip(self.handles, positions))])
        strides = [stride // 4 for stride in scores.strides]
        self.device.observe(spin.ObserveParams(
            max_next_n=next_n, launch=self.launch(), rows=ctypes.addressof(rows),
            scores=spin.Scores(scores.ctypes.data, *strides[:3], spin.F32), weights=self.weights,
            counters=self.at["counters"]))

    def select_params(self, rows) -> spin.SelectParams:
        return spin.SelectParams(launch=self.launch(), rows=ctypes.addressof(rows),
                                 policy=ctypes.addressof(self.policy), workspace=self.workspace.ctypes.data)

    def select(self, positions, next_n, buffer):
        rows = self.rows(positions, next_n, buffer)
        self.device.select(self.select_params(rows))

    def compact(self, positions, next_n, buffer, table: np.ndarray, select: bool = False) -> dict:
        """With `select` the lists are made, too, by the same launch."""
        shape = (self.geometry.layers, *table.shape)
        out = dict(table=np.full(shape, -1, np.int32), blocks=np.full(shape, -1, np.int32),
                   slots=np.zeros((*shape[:2], next_n), np.int32), unserved=np.zeros(1, np.int32))
        rows = self.rows(positions, next_n, buffer)
        params = spin.CompactParams(
            launch=self.launch(), rows=ctypes.addressof(rows), block_table=table.ctypes.data,
            table_stride=table.shape[1], next_n_stride=next_n, kept_table=out["table"].ctypes.data,
            kept_slots=out["slots"].ctypes.data, kept_blocks=out["blocks"].ctypes.data,
            unserved=out["unserved"].ctypes.data)
        if select:
            self.device.select_and_compact(self.select_params(rows), params)
        else:
            self.device.compact(params)
        return out

    def remap(self, layer, positions, next_n, kept_blocks, topk: np.ndarray):
        rows = self.rows(positions, next_n, 0)
        self.device.remap(spin.RemapParams(
            row_count=len(self.handles), geometry=self.geometry, layer_first=layer, layer_count=1,
            table_stride=kept_blocks.shape[-1], next_n_stride=next_n, topk_stride=topk.shape[-1],
            rows=ctypes.addressof(rows), kept_blocks=kept_blocks.ctypes.data, topk=topk.ctypes.data))


@pytest.mark.parametrize("together", [False, True], ids=["two-launches", "one-launch"])
@pytest.mark.parametrize("next_n", [1, 2])
@pytest.mark.parametrize("bound", [False, True], ids=["pointers", "binding"])
def test_decode_steps_through_the_abi_are_those_of_the_reference(device, client, bound, next_n, together):
    session = RawSession(client, executor="INLINE", layers=SETTING.layers, block_slots=SETTING.block,
                         topk=SETTING.topk, max_slots=1024, max_next_n=next_n,
                         policy=dict(sparsity=SETTING.sparsity, exploration=SETTING.exploration))
    handles = [session.open_request(key, SLOTS) for key in (b"a", b"b")]
    models = [reference.Request(SETTING, key, SLOTS) for key in (b"a", b"b")]
    plane = DataPlane(device, session, handles, bound)
    assert plane.slab.nonce == session.slab.nonce
    random = np.random.default_rng(3)
    table = np.stack([random.permutation(64), 64 + random.permutation(64)]).astype(np.int32)
    positions, kept = [700, 333], None
    for step in range(6):
        scores = np.zeros((SETTING.layers, 2, next_n, SLOTS), np.float32)
        for row, (model, position) in enumerate(zip(models, positions)):
            for layer, draft in np.ndindex(SETTING.layers, next_n):
                blocks = np.arange(-(-(position + next_n) // SETTING.block)) if kept is None else kept[row][layer]
                slots = model.slots_of(blocks, position + draft)
                drawn = random.normal(-1, 1, len(slots)).astype(np.float32)
                scores[layer, row, draft, :len(slots)] = drawn
                model.observe(layer, position + draft, slots, drawn)
        plane.observe(positions, next_n, spin.COVERS_ALL if kept is None else spin.COVERS_KEPT, 1 - step % 2, scores)
        positions = [position + next_n for position in positions]
        if not together:
            plane.select(positions, next_n, step % 2)
        kept = [[model.kept(layer, position, next_n) for layer in range(SETTING.layers)]
                for model, position in zip(models, positions)]
        out = plane.compact(positions, next_n, step % 2, table, select=together)
        assert out["unserved"] == 0
        for row, layer in np.ndindex(2, SETTING.layers):
            blocks, full = kept[row][layer], -(-(positions[row] + next_n) // SETTING.block)
            np.testing.assert_array_equal(out["blocks"][layer, row, :len(blocks)], blocks)
            np.testing.assert_array_equal(out["table"][layer, row, :len(blocks)], table[row][blocks])
            np.testing.assert_array_equal(out["slots"][layer, row], [
                positions[row] + draft + 1 - SETTING.block * (full - len(blocks)) for draft in range(next_n)])
    for layer in range(SETTING.layers):
        topk = np.tile(np.array([0, 5, SETTING.block * 7 + 3, -1], np.int32), (2, next_n, 1))
        plane.remap(layer, positions, next_n, out["blocks"], topk)
        for row in range(2):
            blocks = kept[row][layer]
            expected = [blocks[0] * SETTING.block, blocks[0] * SETTING.block + 5, blocks[7] * SETTING.block + 3, -1]
            np.testing.assert_array_equal(topk[row], [expected] * next_n)
    for row, layer in np.ndindex(2, SETTING.layers):
        v, d = session.slab.state(handles[row], layer)
        np.testing.assert_array_equal(v[:SLOTS], models[row].v[layer])
        np.testing.assert_array_equal(d[:SLOTS], models[row].d[layer, :SLOTS])
    plane.slab.unmap()


def test_audit_through_the_abi_counts_what_the_list_had_left_out(device, client):
    session = RawSession(client, executor="INLINE", layers=2, block_slots=16, topk=32, max_slots=1024,
                         policy=dict(sparsity=0.5, exploration=0))
    plane = DataPlane(device, session, [session.open_request(b"a", SLOTS)], bound=False)
    plane.select([799], 1, 0)  # nothing was observed: the last block, and the first of the others
    scores = np.zeros((2, 1, 1, 800), np.float32)
    scores[..., 390:422] = 1  # the true top-K; the list ends with block 23, slot 383, but for the last block
    scores[1, ..., 390:422], scores[1, ..., 0:16], scores[1, ..., 600:616] = 0, 1, 1
    row = spin.ScoredRow(plane.handles[0].index, 1, 799, 1, 0, spin.COVERS_ALL, 0)
    results, audits = (spin.AuditResult * 2)(), (spin.LayerAudits * 2)()
    workspace = np.zeros(device.audit_workspace_bytes(2, 1, plane.blocks), np.uint8)
    device.audit(spin.AuditParams(
        launch=plane.launch(), rows=ctypes.addressof(row), scores=spin.Scores(scores.ctypes.data, 800, 800, 800, spin.F32),
        counters=plane.at["counters"], audits=ctypes.addressof(audits), workspace=workspace.ctypes.data,
        results=ctypes.addressof(results)))
    assert [(of.topk, of.missed) for of in results] == [(32, 32), (32, 16)]
    assert [of.blocks for of in audits] == [50, 50]
    assert session.slab.counters["audit_missed_slots"].tolist() == [32, 16]


def test_list_of_another_step_keeps_all_blocks(device, client):
    session = RawSession(client, executor="INLINE", layers=2, block_slots=16, topk=32, max_slots=1024)
    plane = DataPlane(device, session, [session.open_request(b"a", SLOTS)], bound=False)
    plane.select([500], 1, 0)
    table = np.arange(64, dtype=np.int32)[None]
    out = plane.compact([501], 1, 0, table)
    assert out["unserved"] == 2  # layers
    np.testing.assert_array_equal(out["table"][:, 0, :32], np.tile(table[0, :32], (2, 1)))
    np.testing.assert_array_equal(out["slots"], 502)


@pytest.mark.parametrize("changes,code", [
    (dict(epoch=1), "FAILED_PRECONDITION"), (dict(bytes=1 << 40), "INVALID_ARGUMENT"),
    (dict(posix_path=b"/dev/shm/elsewhere"), "NOT_FOUND"), (dict(kind=spin.CUDA_IPC), "INVALID_ARGUMENT")])
def test_other_memory_is_not_mapped(device, client, changes, code):
    session = RawSession(client)
    with pytest.raises(spin.SpinError) as refused:
        device.map(handle_of(session.opened.slab, **changes))
    assert refused.value.code == code


def test_library_exports_what_the_header_declares_and_nothing_else():
    header = (ROOT / "client/c/include/spin/kernels.h").read_text()
    declared = set(re.findall(r"SPIN_API [^;(]*?(spin_\w+)\(", header))
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] != "A"}
    assert exported == declared


def test_library_needs_glibc_and_libgcc_only_and_can_be_loaded_late():
    dynamic = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
    needed = {name.split(".so")[0] for name in re.findall(r"NEEDED.*\[(.+)\]", dynamic)}
    assert needed <= {"libc", "libm", "libgcc_s", "ld-linux-x86-64"}
    assert "STATIC_TLS" not in dynamic  # dlopen would find no room for it
