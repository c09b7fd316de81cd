# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What a replay of each recorded trace must measure, computed once by an independent implementation.

A file expected.json lies beside the traces: for each trace, or TRACE@K2048 for the same with another K, its `K` and for
each sparsity `miss.SPARSITY.spin`: `mean`, `p99` and `layers` (mean of each), without exploration and audits.
"""

import dataclasses
import json
import os
import pathlib

_ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLED = _ROOT / "testdata" / "traces"
TRACES = pathlib.Path(os.environ.get("SPIN_TRACES_DIR", _ROOT.parent / "shared" / "traces"))

# Too large for the repository; where they are not in TRACES, their tests are skipped and say so.
LARGE = ("code0-32k", "code0-32k@K2048", "prose0-32k", "retrieval0-32k", "retrieval0-32k@K2048")
SPARSITIES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
MEAN_TOLERANCE, P99_TOLERANCE = 0.0005, 0.01


@dataclasses.dataclass
class Expected:
    trace: pathlib.Path
    topk: int
    miss: dict  # of one sparsity

    def check(self, replay: dict):
        mean, p99 = abs(replay["miss_mean"] - self.miss["mean"]), abs(replay["miss_p99"] - self.miss["p99"])
        assert mean <= MEAN_TOLERANCE and p99 <= P99_TOLERANCE, (replay["miss_mean"], replay["miss_p99"], self.miss)
        by_layer = [layer["miss_mean"] for layer in replay["layers"]]
        assert len(by_layer) == len(self.miss["layers"])
        for layer, (measured, expected) in enumerate(zip(by_layer, self.miss["layers"])):
            assert abs(measured - expected) <= 2 * MEAN_TOLERANCE, (layer, measured, expected)


def all_names() -> list[str]:
    """Of whatever TRACES has, and the large ones in any case."""
    file = TRACES / "expected.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    return sorted({*found, *LARGE})


def read(folder: pathlib.Path, name: str, sparsity: float) -> Expected | str:
    """Or why it cannot be had."""
    trace, values = folder / f"{name.partition('@')[0]}.safetensors", folder / "expected.json"
    for file in (trace, values):
        if not file.exists():
            return f"no {file} (SPIN_TRACES_DIR)"
    entry = json.loads(values.read_text())[name]
    return Expected(trace, entry["K"], entry["miss"][str(sparsity)]["spin"])
