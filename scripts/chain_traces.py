#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes one long trace of several: the texts of all come first, then their decode steps follow in turns, as in one
conversation that comes back to each text. Needs NumPy.

    scripts/chain_traces.py --turns 12 OUT.safetensors A.safetensors B.safetensors C.safetensors

Turn r decodes all steps of trace r modulo their number; each step's own slot is appended. Turns that come back repeat
their queries and keys: the trace is longer than what was recorded, not richer. All traces need the same layers and shape.
"""

import argparse
import json
import struct

import numpy as np

DTYPES = {"F8_E4M3": np.uint8, "F32": np.float32}


def read(path):
    """Tensors by name, and the metadata."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    metadata = header.pop("__metadata__")
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}, metadata


def write(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        dtype = "F32" if tensor.dtype == np.float32 else "F8_E4M3"
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("out")
    parser.add_argument("traces", nargs="+")
    arguments = parser.parse_args()
    parts = [read(path) for path in arguments.traces]
    if len({metadata["layers"] for _, metadata in parts}) != 1:
        parser.error("the traces have different layers")

    slots, steps = [], []  # of k and k_scale, of q and w
    for tensors, metadata in parts:
        slots.append((tensors, slice(0, int(metadata["first_query"]))))
    first_query = sum(part.stop for _, part in slots)
    for turn in range(arguments.turns):
        tensors, metadata = parts[turn % len(parts)]
        first, count = int(metadata["first_query"]), int(metadata["steps"])
        slots.append((tensors, slice(first, first + count)))
        steps.append(tensors)
    joined = {name: np.concatenate([tensors[name][:, part] for tensors, part in slots], axis=1) for name in ("k", "k_scale")}
    joined |= {name: np.concatenate([tensors[name] for tensors in steps], axis=1) for name in ("q", "w")}
    write(arguments.out, joined, {"format": "spin-trace/1", "first_query": str(first_query),
                                  "steps": str(joined["q"].shape[1]), "layers": parts[0][1]["layers"]})


if __name__ == "__main__":
    main()
