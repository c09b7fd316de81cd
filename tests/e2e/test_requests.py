# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The raw contract: requests in batches, each item with a fate of its own."""

import pytest
from raw_client import RawSession
from reference import xxh64
from refusal import CODE, assert_item_refused, refused
from slab import PAGE_SLOTS
from spin.v1 import request_pb2

STATE_BYTES_PER_SLOT = 2 * 4  # V and D in fp32, per layer


def page_bytes(session) -> int:
    return session.opened.geometry.layers * PAGE_SLOTS * STATE_BYTES_PER_SLOT


def test_items_of_a_batch_are_refused_one_by_one(session):
    handle = session.open_request(b"taken")
    results = session.open_requests(
        b"good",
        dict(key=b"", slots=1),
        dict(key=b"k" * 257, slots=1),
        b"taken",
        b"twice", b"twice",
        dict(key=b"large", slots=8193),
        dict(key=b"child", fork=dict(parent=dict(index=7, generation=3))),
        b"also good")
    assert [result.HasField("error") for result in results] == [False, True, True, True, False, True, True, True, False]
    assert_item_refused(results[1], "INVALID_FIELD", "items[1].key")
    assert_item_refused(results[2], "INVALID_FIELD", "items[2].key")
    assert_item_refused(results[3], "DUPLICATE_REQUEST", "items[3].key")
    assert_item_refused(results[5], "DUPLICATE_REQUEST", "items[5].key")
    assert_item_refused(results[6], "INVALID_FIELD", "items[6].slots")
    assert_item_refused(results[7], "UNKNOWN_REQUEST", "items[7].fork.parent")
    assert session.info().open_requests == 4
    assert len({(r.handle.index, r.handle.generation) for r in results if r.HasField("handle")} | {
        (handle.index, handle.generation)}) == 4


def test_keys_are_bytes_and_their_hash_is_xxh64(session):
    keys = [b"\x00", b"\xff\xfe", b"chat-17", b"k" * 31, b"k" * 32, bytes(range(256))]
    for key in keys:
        handle = session.open_request(key)
        assert int(session.slab.records[handle.index]["key_hash"]) == xxh64(key)
    assert xxh64(b"") == 0xEF46DB3751D8E999  # of the specification


def test_state_grows_in_pages_of_4096_slots(session):
    (none, one, two) = session.open_requests(
        dict(key=b"none", slots=0), dict(key=b"one", slots=1), dict(key=b"two", slots=4097))
    assert (none.capacity_slots, one.capacity_slots, two.capacity_slots) == (0, 4096, 8192)
    assert session.info().state_bytes - RawSession(session.client).info().state_bytes == 3 * page_bytes(session)


def test_requests_beyond_max_requests_are_refused_until_one_closes(client):
    session = RawSession(client, max_requests=2)
    first, _ = session.open_request(b"a"), session.open_request(b"b")
    assert_item_refused(session.open_requests(b"c")[0], "CAPACITY", "items[0].key")
    assert session.close_requests(first) == 1
    session.open_request(b"c")


def test_request_that_does_not_fit_the_slab_is_refused_and_leaves_nothing(start_spind, connect):
    session = RawSession(connect(start_spind(slab_bytes="1MiB")), max_slots=1 << 20, max_requests=2, executor="INLINE",
                         block_slots=128)
    before = session.info().state_bytes
    (refused_item, good) = session.open_requests(dict(key=b"large", slots=1 << 20), dict(key=b"small", slots=64))
    assert_item_refused(refused_item, "CAPACITY", "items[0].slots")
    assert "--slab-bytes" in refused_item.error.message
    assert good.capacity_slots == 4096
    assert session.close_requests(good.handle) == 1
    assert session.info().state_bytes == before


def test_extension_grows_and_never_shrinks(session):
    handle = session.open_request(b"a", slots=100)
    assert [session.extend((handle, slots))[0].capacity_slots for slots in (100, 5000, 1)] == [4096, 8192, 8192]


def test_refused_extension_leaves_the_request_as_it_was(session):
    handle = session.open_request(b"a", slots=100)
    unknown = request_pb2.RequestHandle(index=handle.index, generation=handle.generation + 1)
    results = session.extend((handle, 8193), (handle, 0), (unknown, 10), (handle, 5000))
    assert_item_refused(results[0], "INVALID_FIELD", "items[0].slots")
    assert_item_refused(results[1], "INVALID_FIELD", "items[1].slots")
    assert_item_refused(results[2], "UNKNOWN_REQUEST", "items[2].handle")
    assert results[0].handle == handle  # stays valid
    assert results[3].capacity_slots == 8192


def test_closing_is_idempotent_and_takes_handles_or_keys(session):
    a, b = session.open_request(b"a"), session.open_request(b"b")
    session.open_request(b"c")
    assert session.close_requests(a, a, keys=[b"c", b"unknown"]) == 2
    assert session.close_requests(a, keys=[b"c"]) == 0
    assert session.info().open_requests == 1
    assert session.close_requests(b) == 1


def test_key_may_be_used_again_at_once_and_the_old_handle_stays_dead(session):
    old = session.open_request(b"a")
    session.close_requests(old)
    new = session.open_request(b"a")
    assert (new.index, new.generation) != (old.index, old.generation)
    assert session.close_requests(old) == 0
    assert session.info().open_requests == 1


def test_memory_of_a_closed_request_waits_for_the_engines_timeline(spind, session):
    handle = session.open_request(b"a", slots=4096)
    held = spind.metric("spin_state_bytes")
    session.close_requests(handle, after_timeline=5)
    assert session.info().open_requests == 0
    assert spind.metric("spin_state_bytes") == held
    session.slab.engine_done(4)
    session.close_requests(handle)  # any call that closes or opens looks again
    assert spind.metric("spin_state_bytes") == held
    session.slab.engine_done(5)
    session.close_requests(handle)
    assert spind.metric("spin_state_bytes") == held - page_bytes(session)


def test_fork_of_a_fork_and_close_in_any_order(session):
    parent = session.open_request(b"p", slots=4096)
    child = session.open_request(b"c", fork=dict(parent=parent))
    grandchild = session.open_request(b"g", fork=dict(parent=child))
    assert session.close_requests(parent, grandchild) == 2
    assert_item_refused(session.open_requests(dict(key=b"x", fork=dict(parent=parent)))[0], "UNKNOWN_REQUEST",
                        "items[0].fork.parent")
    assert session.close_requests(child) == 1


def test_fork_and_extension_of_one_parent_at_the_same_time_do_no_harm(start_spind, connect):
    spind = start_spind(slab_bytes="64MiB")
    session = RawSession(connect(spind), layers=1, max_slots=1 << 18, max_requests=64, executor="INLINE")
    stub = session.client.stub
    for _ in range(20):
        parent = session.open_request(b"parent", slots=4096)
        calls = []
        for i in range(30):
            calls.append(stub.OpenRequests.future(request_pb2.OpenRequestsRequest(
                session_id=session.id, items=[dict(key=b"child %d" % i, fork=dict(parent=parent))]), timeout=10))
            calls.append(stub.ExtendRequests.future(request_pb2.ExtendRequestsRequest(
                session_id=session.id, items=[dict(handle=parent, slots=4096 * (2 + 2 * i))]), timeout=10))
        assert not any(call.result().results[0].HasField("error") for call in calls)
        session.close_requests(parent, keys=[b"child %d" % i for i in range(30)])
    assert spind.process.poll() is None, spind.log


@pytest.mark.parametrize("count", [0, 513])
def test_batches_hold_1_to_512_items(session, count):
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "items"):
        session.open_requests(*[b"k"] * count)
    handle = request_pb2.RequestHandle()
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "items"):
        session.extend(*[(handle, 1)] * count)
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "handles and keys"):
        session.close_requests(*[handle] * (count // 2), keys=[b"k"] * (count - count // 2))


def test_512_requests_open_and_close_in_one_call(start_spind, connect):
    session = RawSession(connect(start_spind(slab_bytes="64MiB")), layers=1, max_requests=512, max_slots=64,
                         executor="INLINE", topk=1)
    results = session.open_requests(*[dict(key=str(i).encode(), slots=0) for i in range(512)])
    assert not any(result.HasField("error") for result in results)
    assert session.close_requests(*[result.handle for result in results]) == 512
