# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""libspin_kernels.so in Python, by ctypes alone: the structs and functions of spin/kernels.h, whose documentation holds.

    library = Library()                    # or Library("/path/to/libspin_kernels.so"); SPIN_KERNELS_LIBRARY names one too
    device = library.open("GPU-...")       # "CPU"; "" is the only visible GPU
    device.select(SelectParams(launch=..., rows=tensor.data_ptr(), ...), stream)

Pointers are plain integers. Failures raise SpinError; `struct_size` is filled in.
"""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p

ABI_VERSION = 1

PAGE_SLOTS = 4096
MAX_LAYERS = 128
MAX_PAGES = 1024
PADDING_ROW = 0xFFFFFFFF
COVERS_ALL, COVERS_KEPT = 0, 1
F32, BF16 = 0, 1
POSIX_SHM, CUDA_IPC = 1, 2

CODES = {3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND", 8: "RESOURCE_EXHAUSTED",
         9: "FAILED_PRECONDITION", 12: "UNIMPLEMENTED", 13: "INTERNAL", 14: "UNAVAILABLE"}
SHARE_FAULTS = ("OK", "NO_DEVICE", "SAME_PID", "NOT_SHAREABLE", "INVALID_HANDLE", "DRIVER")


class SpinError(Exception):
    """A call that failed. `code` is the name of a gRPC status code, `share_fault` one of SHARE_FAULTS."""

    def __init__(self, code: int, message: str, share_fault: str = "OK"):
        self.code = CODES.get(code, str(code))
        self.share_fault = share_fault
        super().__init__(f"{self.code}: {message}")


class _Params(ctypes.Structure):
    """Parameters that begin with their size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Geometry(ctypes.Structure):
    _fields_ = [("layers", c_int32), ("block", c_int32), ("topk", c_int32), ("tokens_per_slot", c_int32),
                ("state", c_int32)]


class SlabHandle(_Params):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32), ("bytes", c_uint64), ("epoch", c_uint64),
                ("posix_path", c_char_p), ("ipc_handle", c_uint8 * 64), ("ipc_offset", c_uint64),
                ("process_id", c_int64), ("pid_namespace", c_uint64)]


# In device memory.


class RequestRecord(ctypes.Structure):
    _fields_ = [("generation", c_uint32), ("page_count", c_uint32), ("key_hash", c_uint64),
                ("pages", c_uint32 * MAX_PAGES)]


class Row(ctypes.Structure):
    _fields_ = [("request", c_uint32), ("next_n", c_uint32), ("position", c_int64), ("buffer", c_uint32),
                ("generation", c_uint32)]


class ScoredRow(ctypes.Structure):
    _fields_ = [("request", c_uint32), ("next_n", c_uint32), ("position", c_int64), ("accepted", c_uint32),
                ("buffer", c_uint32), ("coverage", c_uint32), ("score_row", c_uint32)]


class EmaWeights(ctypes.Structure):
    _fields_ = [("past", c_float), ("now", c_float)]


class Policy(ctypes.Structure):
    _fields_ = [("sparsity", c_double * MAX_LAYERS), ("exploration", c_double), ("decay", c_double), ("seed", c_uint64),
                ("audit_every", c_uint32), ("pin_first_block", c_uint32)]


class ListHeader(ctypes.Structure):
    _fields_ = [("epoch", c_uint64), ("generation", c_uint32), ("next_n", c_uint32), ("position", c_int64),
                ("count", c_int32), ("blocks", c_int32), ("pinned", c_int32), ("predicted", c_int32),
                ("explored", c_int32), ("cut", c_uint32)]


class ListMask(ctypes.Structure):
    _fields_ = [("kept", c_uint32), ("rank", c_uint32)]


class LayerCounters(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in (
        "considered_blocks", "predicted_blocks", "explored_blocks", "pinned_blocks", "full_blocks", "scored_slots",
        "nonfinite_scores", "audited_rows", "audit_topk_slots", "audit_missed_slots")]


class LayerAudits(ctypes.Structure):
    _fields_ = [("blocks", c_uint64), ("list_blocks", c_uint64), ("miss_rows", c_uint64 * 11),
                ("rank_slots", c_uint64 * 256)]


class AuditResult(ctypes.Structure):
    _fields_ = [("topk", c_int32), ("missed", c_int32)]


class Binding(ctypes.Structure):
    _fields_ = [("slab", c_void_p), ("records", c_void_p), ("counters", c_void_p), ("audits", c_void_p),
                ("headers", c_void_p), ("blocks", c_void_p), ("masks", c_void_p), ("epoch", c_uint64),
                ("weights", EmaWeights), ("staging", c_void_p)]


# Launches.


class Lists(ctypes.Structure):
    _fields_ = [("headers", c_void_p), ("blocks", c_void_p), ("masks", c_void_p), ("max_requests", c_int32),
                ("max_blocks", c_int32)]


class Scores(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("layer_stride", c_int64), ("row_stride", c_int64), ("draft_stride", c_int64),
                ("dtype", c_int32), ("reserved", c_uint32)]


class Launch(ctypes.Structure):
    _fields_ = [("geometry", Geometry), ("layer_first", c_int32), ("layer_count", c_int32), ("row_count", c_int32),
                ("epoch", c_uint64), ("slab", c_void_p), ("records", c_void_p), ("lists", Lists),
                ("binding", c_void_p)]


class PredictParams(_Params):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("launch", Launch), ("rows", c_void_p),
                ("layer_stride", c_int64), ("block_scores", c_void_p)]


class SelectParams(_Params):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("launch", Launch), ("rows", c_void_p),
                ("policy", c_void_p), ("block_scores", c_void_p), ("layer_stride", c_int64), ("workspace", c_void_p)]


class CompactParams(_Params):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("launch", Launch), ("rows", c_void_p),
                ("block_table", c_void_p), ("table_stride", c_int32), ("next_n_stride", c_int32),
                ("kept_table", c_void_p), ("kept_slots", c_void_p), ("kept_blocks", c_void_p), ("unserved", c_void_p)]


class RemapParams(_Params):
    _fields_ = [("struct_size", c_uint32), ("row_count", c_int32), ("geometry", Geometry), ("layer_first", c_int32),
                ("layer_count", c_int32), ("table_stride", c_int32), ("next_n_stride", c_int32),
                ("topk_stride", c_int32), ("rows", c_void_p), ("kept_blocks", c_void_p), ("topk", c_void_p)]


class ObserveParams(_Params):
    _fields_ = [("struct_size", c_uint32), ("max_next_n", c_int32), ("launch", Launch), ("rows", c_void_p),
                ("scores", Scores), ("weights", EmaWeights), ("counters", c_void_p)]


class AuditParams(_Params):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32), ("launch", Launch), ("rows", c_void_p),
                ("scores", Scores), ("counters", c_void_p), ("audits", c_void_p), ("workspace", c_void_p),
                ("results", c_void_p)]


LAUNCHES = {"predict": PredictParams, "select": SelectParams, "compact": CompactParams, "remap": RemapParams,
            "observe": ObserveParams, "audit": AuditParams}


class Library:
    """The shared library. OSError if it can't be loaded, SpinError if it is of another major version."""

    def __init__(self, path: str | os.PathLike | None = None):
        path = path or os.environ.get("SPIN_KERNELS_LIBRARY") or f"libspin_kernels.so.{ABI_VERSION}"
        self._functions = ctypes.CDLL(os.fspath(path))
        self._declare("spin_abi_version", c_uint32)
        if (version := self._functions.spin_abi_version()) != ABI_VERSION:
            raise SpinError(9, f"{path} has ABI version {version}, this module speaks {ABI_VERSION}")
        self._declare("spin_layout_version", c_uint32)
        self._declare("spin_last_error", c_char_p)
        self._declare("spin_last_share_fault", c_int32)
        self._declare("spin_device_open", c_int32, c_char_p, POINTER(c_void_p))
        self._declare("spin_device_close", None, c_void_p)
        self._declare("spin_device_uuid", c_char_p, c_void_p)
        self._declare("spin_page_bytes", c_int32, POINTER(Geometry), POINTER(c_int64))
        for name in ("spin_select_workspace_bytes", "spin_audit_workspace_bytes"):
            self._declare(name, c_int32, c_void_p, c_int32, c_int32, c_int32, POINTER(c_int64))
        self._declare("spin_slab_map", c_int32, c_void_p, POINTER(SlabHandle), POINTER(c_void_p))
        self._declare("spin_slab_unmap", None, c_void_p)
        self._declare("spin_slab_data", c_void_p, c_void_p)
        self._declare("spin_slab_nonce", c_uint64, c_void_p)
        for name, params in LAUNCHES.items():
            self._declare(f"spin_{name}", c_int32, c_void_p, POINTER(params), c_void_p)
        self._declare("spin_select_and_compact", c_int32, c_void_p, POINTER(SelectParams), POINTER(CompactParams), c_void_p)

    def _declare(self, name, result, *arguments):
        function = getattr(self._functions, name)
        function.restype, function.argtypes = result, arguments

    def call(self, name: str, *arguments):
        """Calls a function that returns a code; raises it."""
        code = getattr(self._functions, name)(*arguments)
        if code != 0:
            fault = SHARE_FAULTS[self._functions.spin_last_share_fault()] if name == "spin_slab_map" else "OK"
            raise SpinError(code, self._functions.spin_last_error().decode(errors="replace"), fault)

    @property
    def layout_version(self) -> int:
        return self._functions.spin_layout_version()

    def page_bytes(self, geometry: Geometry) -> int:
        out = c_int64()
        self.call("spin_page_bytes", byref(geometry), byref(out))
        return out.value

    def open(self, uuid: str) -> "Device":
        return Device(self, uuid)


class Device:
    """An open device, with a method for each launch: device.select(SelectParams(...), stream)."""

    def __init__(self, library: Library, uuid: str):
        self.library = library
        self._handle = c_void_p()
        library.call("spin_device_open", uuid.encode(), byref(self._handle))
        for name in LAUNCHES:
            setattr(self, name, self._launcher(f"spin_{name}"))

    def _launcher(self, name: str):
        def launch(params, stream: int | None = None):
            self.library.call(name, self._handle, byref(params), stream)
        return launch

    def select_and_compact(self, select: SelectParams, compact: CompactParams, stream: int | None = None):
        """select and, of the same rows, compact in one launch."""
        self.library.call("spin_select_and_compact", self._handle, byref(select), byref(compact), stream)

    @property
    def uuid(self) -> str:
        return self.library._functions.spin_device_uuid(self._handle).decode()

    def select_workspace_bytes(self, layers: int, rows: int, max_blocks: int) -> int:
        return self._workspace_bytes("spin_select_workspace_bytes", layers, rows, max_blocks)

    def audit_workspace_bytes(self, layers: int, rows: int, max_blocks: int) -> int:
        return self._workspace_bytes("spin_audit_workspace_bytes", layers, rows, max_blocks)

    def _workspace_bytes(self, function: str, *size: int) -> int:
        out = c_int64()
        self.library.call(function, self._handle, *size, byref(out))
        return out.value

    def map(self, handle: SlabHandle) -> "Slab":
        return Slab(self, handle)

    def close(self):
        self.library._functions.spin_device_close(self._handle)
        self._handle = c_void_p()


class Slab:
    """A mapped slab: `data` is its base address, `nonce` what Attach wants to see."""

    def __init__(self, device: Device, handle: SlabHandle):
        self._functions = device.library._functions
        self._handle = c_void_p()
        device.library.call("spin_slab_map", device._handle, byref(handle), byref(self._handle))
        self.data: int = self._functions.spin_slab_data(self._handle)
        self.nonce: int = self._functions.spin_slab_nonce(self._handle)

    def unmap(self):
        self._functions.spin_slab_unmap(self._handle)
        self._handle = c_void_p()
