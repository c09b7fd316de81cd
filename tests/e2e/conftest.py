# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests run on: the programs in build/bin, the Python modules of spin.v1, traces, promtool.

`make test-e2e` builds and installs all of it. SPIN_BUILD_DIR and SPIN_TRACES_DIR name other places.
"""

import os
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPIN_BUILD_DIR", ROOT / "build"))
TRACES = pathlib.Path(os.environ.get("SPIN_TRACES_DIR", ROOT.parent / "shared" / "traces"))

sys.path.insert(0, str(ROOT / "build" / "python"))  # spin.v1, see scripts/python_stubs.sh


def _program(path: pathlib.Path) -> pathlib.Path:
    if not path.exists():
        pytest.fail(f"{path} is not built: run `make all`")
    return path


@pytest.fixture(scope="session")
def spind_binary() -> pathlib.Path:
    return _program(BUILD / "bin" / "spind")


@pytest.fixture(scope="session")
def spinctl_binary() -> pathlib.Path:
    return _program(BUILD / "bin" / "spinctl")


@pytest.fixture(scope="session")
def small_trace() -> pathlib.Path:
    """The bundled trace: 4 layers, 8192 slots, 128 steps; use K = 128."""
    return ROOT / "testdata" / "traces" / "small-8k.safetensors"


@pytest.fixture(scope="session")
def traces() -> pathlib.Path:
    """The folder of the large traces and their expected.json, which are not part of the repository."""
    if not (TRACES / "expected.json").exists():
        pytest.skip(f"no recorded traces in {TRACES} (SPIN_TRACES_DIR)")
    return TRACES


@pytest.fixture(scope="session")
def promtool() -> str:
    path = shutil.which("promtool", path=f"{ROOT / '.deps' / 'bin'}:{os.environ.get('PATH', '')}")
    if path is None:
        pytest.fail("promtool is missing: run `make setup-test`")
    return path
