# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""libspin_kernels.so on a GPU: what it does there is what it does on the CPU, and a slab of another process is mapped.

    SPIN_KERNELS_LIBRARY=build/lib/libspin_kernels.so python -m pytest tests/c_abi

Skipped without a GPU, PyTorch or the library.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
# In the bundle all of these lie in one folder with this file.
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(ROOT / "client" / "c" / "python"), str(ROOT / "bench")]

import engine_step  # noqa: E402
import spin_kernels as spin  # noqa: E402

LIBRARY = os.environ.get("SPIN_KERNELS_LIBRARY", str(ROOT / "build" / "lib" / "libspin_kernels.so"))
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

EXPORTER = """
import ctypes, json, os, sys, torch
first = torch.zeros(1 << 22, dtype=torch.uint8, device="cuda")  # so that the slab does not begin its allocation
slab = torch.zeros(1 << 22, dtype=torch.uint8, device="cuda")
header = (ctypes.c_uint64 * 5)(0x42414C534E495053, int(sys.argv[1]), 77, slab.numel(), 4711)
slab[:40] = torch.frombuffer(bytearray(header), dtype=torch.uint8).cuda()
torch.cuda.synchronize()
driver, handle = ctypes.CDLL("libcuda.so.1"), (ctypes.c_uint8 * 64)()
base, size = ctypes.c_uint64(), ctypes.c_size_t()
assert driver.cuIpcGetMemHandle(handle, ctypes.c_uint64(slab.data_ptr())) == 0
assert driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(slab.data_ptr())) == 0
print(json.dumps(dict(handle=list(handle), offset=slab.data_ptr() - base.value, bytes=slab.numel(), pid=os.getpid(),
                      namespace=os.stat("/proc/self/ns/pid").st_ino)), flush=True)
sys.stdin.read()
"""


class ScalesAsScores:
    """Stands in for the scoring kernel: the same numbers on every device."""

    def plan(self, lengths):
        return None

    def score(self, queries, keys, weights, lengths, table, plan, slots):
        scales = keys.flatten(1)[:, -256:].contiguous().view(torch.float32)[table.long()].flatten(1)
        out = scales.repeat_interleave(queries.shape[1], 0) * weights[:, :1]
        return torch.nn.functional.pad(out, (0, slots - out.shape[1]))


@pytest.fixture(scope="module")
def library():
    return spin.Library(LIBRARY)


@pytest.fixture(scope="module")
def gpu(library):
    return library.open("")


def on_gpu(engine):
    """The same engine, with its memory on the GPU."""
    other = engine_step.Engine.__new__(engine_step.Engine)
    other.__dict__ = dict(engine.__dict__, device="cuda", table=engine.table.cuda(), lengths=engine.lengths.cuda(),
                          **{name: [tensor.cuda() for tensor in getattr(engine, name)]
                             for name in ("keys", "queries", "weights")})
    return other


def headers(session) -> torch.Tensor:
    """But for `cut`, the last field, which is the GPU's own."""
    return session.headers.cpu().view(torch.int32).view(-1, ctypes.sizeof(spin.ListHeader) // 4)[:, :-1]


def averages(session):
    """V and D, without the summaries between them that only the GPU keeps."""
    layer_elements = 2 * spin.PAGE_SLOTS + 256
    return session.slab.view(-1, layer_elements)[:, :2 * spin.PAGE_SLOTS].cpu()


@pytest.mark.parametrize("together", [True, False], ids=["one-launch", "two-launches"])
@pytest.mark.parametrize("next_n", [1, 2])
def test_steps_on_the_gpu_are_those_on_the_cpu(library, gpu, next_n, together, monkeypatch):
    monkeypatch.setattr(engine_step.Engine, "KEY_BYTES_REACH", 1)
    shape = engine_step.Shape(16384, 3, 0.4, next_n, layers=5, heads=1, dim=32)
    sessions = []
    engine = engine_step.Engine(shape, ScalesAsScores(), "cpu")
    for device, its in ((library.open("CPU"), engine), (gpu, on_gpu(engine))):
        torch.manual_seed(5)
        session = engine_step.Session(device, its, its.score_all())
        session.observe()
        if together:
            session.select_and_compact()
        else:
            session.select()
            session.compact()
        sessions.append(session)
    cpu, other = sessions
    torch.cuda.synchronize()
    kept = cpu.kept
    assert 0 < kept < shape.blocks and other.kept == kept
    assert torch.equal(cpu.kept_blocks[..., :kept], other.kept_blocks[..., :kept].cpu())
    assert torch.equal(cpu.kept_table[..., :kept], other.kept_table[..., :kept].cpu())
    assert torch.equal(cpu.kept_slots, other.kept_slots.cpu())
    assert int(cpu.unserved) == int(other.unserved) == 0
    for name in ("masks", "counters"):
        assert torch.equal(getattr(cpu, name), getattr(other, name).cpu()), name
    assert torch.equal(headers(cpu), headers(other))
    assert torch.equal(averages(cpu), averages(other))
    picked = torch.randint(0, kept * 64, (3, next_n, 100), dtype=torch.int32)
    picked_there = picked.cuda()
    cpu.remap(2, picked)
    other.remap(2, picked_there)
    assert torch.equal(picked, picked_there.cpu())


@pytest.fixture(scope="module")
def exported(library):
    process = subprocess.Popen([sys.executable, "-c", EXPORTER, str(library.layout_version)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())
    process.communicate()


def handle_of(exported, **changes):
    return spin.SlabHandle(**{**dict(
        kind=spin.CUDA_IPC, bytes=exported["bytes"], epoch=77, ipc_handle=(ctypes.c_uint8 * 64)(*exported["handle"]),
        ipc_offset=exported["offset"], process_id=exported["pid"], pid_namespace=exported["namespace"]), **changes})


def test_slab_of_another_process_is_mapped(gpu, exported):
    slab = gpu.map(handle_of(exported))
    assert slab.nonce == 4711 and slab.data
    assert gpu.map(handle_of(exported)).data == slab.data  # mapped once
    slab.unmap()


@pytest.mark.parametrize("changes,code,fault", [
    (dict(epoch=78), "FAILED_PRECONDITION", "OK"),
    (dict(process_id=os.getpid(), pid_namespace=1), "FAILED_PRECONDITION", "SAME_PID"),
    (dict(ipc_handle=(ctypes.c_uint8 * 64)()), "INTERNAL", "INVALID_HANDLE"),
    (dict(bytes=1 << 40), "INVALID_ARGUMENT", "INVALID_HANDLE"),
    (dict(ipc_offset=1 << 40), "INVALID_ARGUMENT", "INVALID_HANDLE"),
    (dict(kind=spin.POSIX_SHM, posix_path=b"/dev/shm/x"), "INVALID_ARGUMENT", "OK")])
def test_slab_that_can_not_be_mapped_says_why(gpu, exported, changes, code, fault):
    with pytest.raises(spin.SpinError) as refused:
        gpu.map(handle_of(exported, **changes))
    assert (refused.value.code, refused.value.share_fault) == (code, fault)
    assert torch.ones(8, device="cuda").sum().item() == 8  # no error is left behind
    gpu.map(handle_of(exported)).unmap()  # nor a lock


def test_unknown_gpu_is_named(library):
    with pytest.raises(spin.SpinError, match="GPU-00000000") as refused:
        library.open("GPU-00000000-0000-0000-0000-000000000000")
    assert refused.value.code == "NOT_FOUND"
