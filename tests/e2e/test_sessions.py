# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The raw contract: sessions, from opening to their end, and who may touch them."""

import json
import os
import re

from eventually import eventually
from raw_client import Attachment, RawSession
from refusal import CODE, assert_refused, refused
from slab import MappedSession
from spin.v1 import policy_pb2, request_pb2, session_pb2, step_pb2

SLAB_MAGIC = 0x42414C534E495053


def assert_ended(attachment, code, reason, field=None):
    error = attachment.end()
    assert error is not None, "the stream had a good end"
    assert_refused(error, code, reason, field)


def test_opening_says_all_that_is_needed_to_map_the_slab(client):
    opened = client.open_session(layers=3, block_slots=32, topk=100, max_slots=5000, max_requests=4, max_next_n=2)
    header = MappedSession(opened).header
    assert (header["magic"], header["layout_version"]) == (SLAB_MAGIC, 4)
    assert (header["epoch"], header["bytes"]) == (opened.slab.epoch, opened.slab.bytes)
    assert opened.slab.device_uuid == "CPU"
    assert (opened.layout.layout_version, opened.layout.max_blocks) == (4, 157)
    assert opened.layout.staging_stride == 157 * 32
    offsets = [getattr(opened.layout, name) for name in (
        "records", "counters", "audits", "headers", "lists", "masks", "timeline", "staging")]
    assert all(0 < offset < opened.slab.bytes and offset % 256 == 0 for offset in offsets)


def test_unset_fields_come_back_with_their_defaults(client):
    opened = client.open_session(executor="UNSPECIFIED")
    assert opened.executor == session_pb2.EXECUTOR_INLINE
    assert opened.geometry.state_dtype == opened.geometry.score_dtype == session_pb2.DTYPE_F32
    assert opened.layout.staging == 0
    assert opened.policy_epoch == 1
    for field in policy_pb2.Policy.DESCRIPTOR.fields:
        assert field.name == "layer_sparsity" or opened.policy.HasField(field.name), field.name


def test_policy_of_the_command_line_is_the_default_and_a_session_may_override_it(start_spind, connect):
    client = connect(start_spind("--sparsity", "0.25", "--seed", "7", "--audit-every", "3", "--disabled"))
    plain = client.open_session().policy
    assert (plain.sparsity, plain.seed, plain.audit_every, plain.enabled) == (0.25, 7, 3, False)
    own = client.open_session(policy=dict(sparsity=0.5, enabled=True)).policy
    assert (own.sparsity, own.seed, own.audit_every, own.enabled) == (0.5, 7, 3, True)


def test_right_nonce_attaches_and_brings_the_policy(client):
    session = RawSession(client, attach=False, policy=dict(sparsity=0.6))
    assert not session.info().attached
    attachment = Attachment(client, session.id, session.slab.nonce)
    assert attachment.next().policy.sparsity == 0.6
    assert session.info().attached


def test_wrong_nonce_is_refused_and_the_session_lives_on(client):
    session = RawSession(client, attach=False)
    assert_ended(Attachment(client, session.id, session.slab.nonce ^ 1), CODE.FAILED_PRECONDITION, "NONCE_MISMATCH",
                 "nonce")
    assert not session.info().attached
    Attachment(client, session.id, session.slab.nonce).next()


def test_second_stream_of_a_session_is_refused_and_the_first_stays(client, session):
    assert_ended(Attachment(client, session.id, session.slab.nonce), CODE.ALREADY_EXISTS, "INVALID_FIELD",
                 "session_id")
    assert session.info().attached


def test_attaching_to_an_unknown_session_is_refused(client):
    assert_ended(Attachment(client, 12345, 1), CODE.NOT_FOUND, "UNKNOWN_SESSION", "session_id")


def test_session_id_may_not_change_within_a_stream(client, session):
    session.attachment.send(session_id=session.id + 1)
    assert_ended(session.attachment, CODE.INVALID_ARGUMENT, "INVALID_FIELD", "session_id")


def test_closing_ends_the_stream_with_aborted_and_forgets_the_session(client, session):
    session.open_request(b"a")
    session.close()
    assert_ended(session.attachment, CODE.ABORTED, "CLOSED")
    assert client.sessions() == []
    with refused(CODE.NOT_FOUND, "UNKNOWN_SESSION", "session_id"):
        session.info()


def test_goodbye_on_the_stream_frees_at_once(spind, client, session):
    used = spind.metric("spin_state_bytes")
    session.attachment.send(closing=True)
    session.attachment.end()
    assert used > 0
    assert spind.metric("spin_state_bytes") == 0
    assert spind.metric("spin_session_ends_total", reason="closed") == 1


def test_end_of_the_stream_ends_the_session_and_its_memory_comes_back(spind, client, session):
    session.open_request(b"a")
    session.attachment.cancel()
    eventually(lambda: client.sessions() == [], within=1)
    assert spind.metric("spin_session_ends_total", reason="detached") == 1
    eventually(lambda: spind.metric("spin_state_bytes") == 0, within=2)


def test_session_that_never_attached_ends_with_its_connection(spind, connect):
    first, second = connect(spind), connect(spind)
    first.open_session()
    assert len(second.sessions()) == 1
    first.close()
    eventually(lambda: second.sessions() == [], within=1)
    assert spind.metric("spin_session_ends_total", reason="connection_lost") == 1


def test_attached_session_outlives_the_connection_it_was_opened_on(spind, connect):
    first, second = connect(spind), connect(spind)
    session = RawSession(first, attach=False)
    attachment = Attachment(second, session.id, session.slab.nonce)
    attachment.next()
    first.close()
    eventually(lambda: spind.metric("spin_connections") == 1)
    assert [info.attached for info in second.sessions()] == [True]
    second.close()
    eventually(lambda: spind.metric("spin_sessions") == 0, within=1)


def test_sixty_four_sessions_fit_and_the_next_waits_for_a_place(client):
    tiny = dict(layers=1, max_slots=64, max_requests=1, topk=1)
    opened = [client.open_session(**tiny) for _ in range(64)]
    with refused(CODE.RESOURCE_EXHAUSTED, "CAPACITY", ""):
        client.open_session(**tiny)
    client.CloseSession(session_pb2.CloseSessionRequest(session_id=opened[17].session_id))
    client.open_session(**tiny)
    assert len(client.sessions()) == 64


def test_region_that_does_not_fit_is_refused_and_what_fits_is_served(client):
    with refused(CODE.RESOURCE_EXHAUSTED, "CAPACITY", "geometry"):
        client.open_session(layers=128, max_slots=4194304, max_requests=512, max_next_n=8)
    client.open_session()


def test_refused_session_is_in_the_log_once_with_what_it_needs_however_often_it_is_asked_for(spind, client):
    for _ in range(5):
        with refused(CODE.RESOURCE_EXHAUSTED, "CAPACITY", "geometry"):
            client.open_session(layers=128, max_slots=4194304, max_requests=512, max_next_n=8)
    said = eventually(lambda: [line for line in spind.log.splitlines() if "refused a session" in line])
    assert len(said) == 1 and "warn" in said[0]
    assert re.search(rf"to pid {os.getpid()}, .* needs \d+ bytes of the slab, which has \d+ left; .*--slab-bytes", said[0])
    assert spind.metric("spin_rpcs_total", method="OpenSession", code="RESOURCE_EXHAUSTED") == 5


def test_sessions_are_described_and_listed_in_order_of_opening(spind, client):
    first = RawSession(client, model_name="first", policy=dict(sparsity=0.3))
    second = RawSession(client, model_name="second", executor="INLINE")
    first.open_request(b"a", slots=4096)
    info = first.info()
    assert (info.model_name, info.client_name, info.executor) == ("first", "raw", session_pb2.EXECUTOR_SIDECAR)
    assert (info.open_requests, info.attached, info.policy.sparsity) == (1, True, 0.3)
    assert info.peer_process_id > 0
    assert info.state_bytes >= 2 * 2 * 4096 * 4
    listed = client.ListSessions(session_pb2.ListSessionsRequest())
    assert [session.session_id for session in listed.sessions] == [first.id, second.id]
    assert listed.server.admin_address == spind.admin
    assert listed.server.process_id == spind.pid
    assert listed.server.device_uuid == "CPU"
    assert listed.server.epoch == first.opened.slab.epoch
    assert listed.server.slab_used_bytes == sum(session.state_bytes for session in listed.sessions)


def test_session_belongs_to_the_process_that_opened_it(spind, client, session, start_script):
    handle = session.open_request(b"a")
    other = start_script("raw_process.py", spind.socket, "opened")
    theirs = json.loads(other.stdout.readline())["session_id"]
    handles = [request_pb2.RequestHandle(index=handle.index, generation=handle.generation)]
    calls = [
        (client.CloseSession, session_pb2.CloseSessionRequest()),
        (client.OpenRequests, request_pb2.OpenRequestsRequest(items=[dict(key=b"k")])),
        (client.ExtendRequests, request_pb2.ExtendRequestsRequest(items=[dict(handle=handle, slots=1)])),
        (client.CloseRequests, request_pb2.CloseRequestsRequest(handles=handles)),
        (client.Step, step_pb2.StepRequest(rows=[dict(handle=handle)])),
        (client.CommitDrafts, step_pb2.CommitDraftsRequest(rows=[dict(handle=handle)])),
    ]
    for call, request in calls:
        request.session_id = theirs
        with refused(CODE.PERMISSION_DENIED, "NOT_OWNER", "session_id"):
            call(request)
    assert_ended(Attachment(client, theirs, session.slab.nonce), CODE.PERMISSION_DENIED, "NOT_OWNER", "session_id")
    seen = client.GetSession(session_pb2.GetSessionRequest(session_id=theirs)).session  # looking is free
    assert seen.peer_process_id == other.pid


def test_calls_may_come_over_any_connection_of_the_process(spind, connect, session):
    other = RawSession.__new__(RawSession)
    other.client, other.id = connect(spind), session.id
    assert not other.open_requests(b"a")[0].HasField("error")


def test_steps_of_an_inline_session_are_refused(client):
    session = RawSession(client, executor="INLINE")
    handle = session.open_request(b"a")
    with refused(CODE.FAILED_PRECONDITION, "WRONG_EXECUTOR", "session_id"):
        session.step(step_pb2.StepRow(handle=handle))
    with refused(CODE.FAILED_PRECONDITION, "WRONG_EXECUTOR", "session_id"):
        client.CommitDrafts(step_pb2.CommitDraftsRequest(session_id=session.id,
                                                         rows=[step_pb2.CommitRow(handle=handle)]))
