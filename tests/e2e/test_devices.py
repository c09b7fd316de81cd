# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Engine and sidecar that do not share a device, or its memory: a reason that says so, and nothing is mapped."""

import os

import pytest
from eventually import eventually
from raw_client import RawSession
from refusal import CODE, refused

GPU = "GPU-8f6b9f3c-1111-2222-3333-444455556666"


@pytest.mark.parametrize("uuid", [GPU, "MIG-" + GPU[4:], "0", "cuda:0", "cpu", "CPU "])
def test_other_device_is_refused_before_anything_is_reserved(spind, client, uuid):
    with refused(CODE.FAILED_PRECONDITION, "DEVICE_MISMATCH", "device_uuid"):
        client.open_session(device_uuid=uuid)
    assert client.sessions() == []
    assert spind.metric("spin_state_bytes") == 0


def test_own_device_or_none_is_served(client):
    assert RawSession(client, device_uuid="CPU").opened.slab.device_uuid == "CPU"
    assert RawSession(client, device_uuid="").opened.slab.device_uuid == "CPU"


def test_engine_on_another_device_keeps_all_blocks_and_maps_nothing(spind, start_engine):
    engine = start_engine(spind, device_uuid=GPU)
    status = engine.do("ready", 300)
    assert (status["code"], GPU in status["message"], "CPU" in status["message"]) == ("FAILED_PRECONDITION", True, True)
    engine.open("a", 1000)
    steps = engine.steps(3)
    assert steps.column() == ["no_sidecar"] * 3
    assert all(all(row) for row in steps.equal)
    assert engine.mapped_slabs() == []
    assert spind.metric("spin_sessions_opened_total") == 0


def test_engine_that_cannot_see_the_slab_says_so_and_keeps_all_blocks(spind, start_engine):
    (slab,) = spind.slab_files()
    os.rename(spind.shm_dir / slab, spind.shm_dir / "elsewhere")
    engine = start_engine(spind)
    status = engine.do("ready", 300)
    assert not status["ok"] and slab in status["message"]
    engine.open("a", 1000)
    assert engine.steps(3).column() == ["no_sidecar"] * 3
    assert spind.metric("spin_sessions") <= 1  # it goes on trying, one at a time
    os.rename(spind.shm_dir / "elsewhere", spind.shm_dir / slab)
    engine.ready()


def test_engine_that_sees_other_memory_says_so_and_keeps_all_blocks(spind, start_engine):
    (slab,) = spind.slab_files()
    os.rename(spind.shm_dir / slab, spind.shm_dir / "elsewhere")
    (spind.shm_dir / slab).write_bytes(bytes(16 << 20))
    engine = start_engine(spind)
    status = engine.do("ready", 300)
    assert status["code"] == "FAILED_PRECONDITION" and "not the slab of this spind" in status["message"]
    (spind.shm_dir / slab).write_bytes(bytes(1 << 20))  # shorter than it should be
    eventually(lambda: "expected" in engine.status()["message"])
    os.replace(spind.shm_dir / "elsewhere", spind.shm_dir / slab)
    engine.ready()
