# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests run on: the programs in build/bin, the Python modules of spin.v1, traces, promtool.

`make test-e2e` builds and installs all of it. SPIN_BUILD_DIR names another place, SPIN_TRACES_DIR that of the large
traces (expected.py).
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPIN_BUILD_DIR", ROOT / "build"))

# spin.v1, see scripts/python_stubs.sh; another build directory may bring its own
sys.path[:0] = [str(BUILD / "python"), str(ROOT / "build" / "python"), str(ROOT / "client" / "c" / "python")]

pytest.register_assert_rewrite("refusal", "engine", "raw_client", "spinctl", "spind")

from engine import Engine  # noqa: E402
from raw_client import RawClient, RawSession  # noqa: E402
from spinctl import Spinctl  # noqa: E402
from spind import Spind  # noqa: E402


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
def engine_binary() -> pathlib.Path:
    """The scripted engine of tests/programs."""
    return _program(BUILD / "bin" / "scripted_engine")


@pytest.fixture(scope="session")
def example_engine_binary() -> pathlib.Path:
    return _program(BUILD / "bin" / "example_engine")


@pytest.fixture(scope="session")
def small_trace() -> pathlib.Path:
    """The bundled trace: 4 layers, 8192 slots, 128 steps; use K = 128."""
    return ROOT / "testdata" / "traces" / "small-8k.safetensors"


@pytest.fixture
def spinctl(spinctl_binary):
    """spinctl, which must leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="spin-") as folder:
        spinctl = Spinctl(spinctl_binary, pathlib.Path(folder))
        yield spinctl
        try:
            assert spinctl.left_behind() == {}
        finally:
            for process in spinctl.processes():
                os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="session")
def promtool() -> str:
    path = shutil.which("promtool", path=f"{ROOT / '.deps' / 'bin'}:{os.environ.get('PATH', '')}")
    if path is None:
        pytest.fail("promtool is missing: run `make setup-test`")
    return path


@pytest.fixture(scope="session")
def mounts():
    """Mounted folders; they go when the last spind has ended."""
    folders = []
    yield folders
    for folder in folders:
        subprocess.run(["umount", "--lazy", folder], check=True)
        os.rmdir(folder)


@pytest.fixture(scope="session")
def ending(mounts):
    """Every spind that a test leaves running gets SIGTERM, and must end well. They end while later tests run."""
    ended = []
    yield ended
    try:
        wrong = {name: problem for name, spind in ended if (problem := spind.ended_well())}
        assert not wrong
    finally:
        for _, spind in ended:
            spind.clean_up()


@pytest.fixture
def start_spind(request, spind_binary, ending):
    """Starts a spind of the test's own: start_spind("--sparsity", "0.5", slab_bytes="1MiB")."""
    started = []

    def start(*flags, **options):
        started.append(Spind(spind_binary, *flags, **options))
        return started[-1]

    yield start
    for spind in started:
        if spind.process.poll() is None:
            spind.terminate()
            ending.append((request.node.name, spind))
        else:
            spind.clean_up()


@pytest.fixture
def spind(start_spind) -> Spind:
    return start_spind()


@pytest.fixture
def connect(start_spind):
    """A raw client on a connection of its own: connect(spind)."""
    clients = []

    def connect_to(spind, *options) -> RawClient:
        clients.append(RawClient(spind.socket, *options))
        return clients[-1]

    yield connect_to
    for client in clients:
        client.close()


@pytest.fixture
def client(spind, connect) -> RawClient:
    return connect(spind)


@pytest.fixture
def session(client) -> RawSession:
    return RawSession(client)


@pytest.fixture
def start_engine(start_spind, engine_binary):
    """Starts the scripted engine: start_engine(spind, executor="sidecar")."""
    engines = []

    def start(spind, **options) -> Engine:
        engines.append(Engine(engine_binary, getattr(spind, "socket", spind), **options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.clean_up()


@pytest.fixture
def start_script(start_spind):
    """Runs one of the scripts of this folder in another process; returns it, with pipes for input and output."""
    processes = []

    def start(name, *arguments) -> subprocess.Popen:
        command = [sys.executable, str(pathlib.Path(__file__).with_name(name)), *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                          env=environment))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def mount_tmpfs(mounts):
    """A file system of a given size: mount_tmpfs("64k"). Skips where mounting is not allowed."""

    def mount(size: str) -> pathlib.Path:
        folder = tempfile.mkdtemp(prefix="spin-tmpfs-")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "spin-test", folder],
                              capture_output=True, text=True)
        if done.returncode != 0:
            os.rmdir(folder)
            pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
        mounts.append(folder)
        return pathlib.Path(folder)

    return mount


@pytest.fixture
def memory_limited():
    """What to put in front of a command so that it has that memory limit: memory_limited(BYTES). Skips where control
    groups cannot be made."""
    mount = pathlib.Path("/sys/fs/cgroup")
    root, limit = (mount / "memory", "memory.limit_in_bytes") if (mount / "memory").exists() else (mount, "memory.max")
    group = root / f"spin-test-{os.getpid()}"

    def limited(size: int) -> list[str]:
        try:
            group.mkdir()
            (group / limit).write_text(str(size))
        except OSError as error:
            pytest.skip(f"cannot make a control group: {error}")
        return ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$0" "$@"']

    yield limited
    with contextlib.suppress(OSError):
        group.rmdir()
