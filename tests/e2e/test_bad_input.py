# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Bad input of every kind to every rpc: refused by name, and the server stays up."""

import random

import grpc
import pytest
from eventually import eventually
from google.protobuf import message_factory
from raw_client import TIMEOUT, RawSession, open_session_request, step_row
from refusal import CODE, detail_of, refused
from spin.v1 import policy_pb2, request_pb2, service_pb2, session_pb2, stats_pb2

METHODS = {method.name: method for method in service_pb2.DESCRIPTOR.services_by_name["SpinService"].methods}
HUGE = 2**64 - 1  # what -1 becomes in an unsigned field
ANYTHING = 12345  # a session that never was
HANDLE = request_pb2.RequestHandle(index=1, generation=1)
UNKNOWN_FIELD = b"\xba\x3e\x01x"  # field 999, one byte long

CODES_OF_BAD_INPUT = {CODE.INVALID_ARGUMENT, CODE.NOT_FOUND}


def new_request(rpc: str):
    return message_factory.GetMessageClass(METHODS[rpc].input_type)()


def call_raw(client, rpc: str, payload: bytes):
    """Sends bytes as the request (for streams: the first message) of an rpc; raises what the call ends with."""
    method = METHODS[rpc]
    path = f"/spin.v1.SpinService/{rpc}"
    if method.client_streaming:
        replies = client.channel.stream_stream(path)(iter([payload]), timeout=TIMEOUT)
        return list(replies)
    if method.server_streaming:
        return next(client.channel.unary_stream(path)(payload, timeout=TIMEOUT))
    return client.channel.unary_unary(path)(payload, timeout=TIMEOUT)


def call(client, rpc: str, request):
    return call_raw(client, rpc, request.SerializeToString())


@pytest.fixture
def still_serves(spind, client):
    """After the test the same process still serves all of its life."""
    yield
    assert spind.process.poll() is None, spind.log
    session = RawSession(client)
    assert session.step(step_row(session.open_request(b"a"), 10))[0].observed
    session.close()


pytestmark = pytest.mark.usefixtures("still_serves")

NEEDS_SESSION = ("Attach", "CloseSession", "GetSession", "OpenRequests", "ExtendRequests", "CloseRequests", "Step",
                 "CommitDrafts", "UpdatePolicy", "StartRecording", "StopRecording", "WatchStats")


def plausible(rpc: str):
    """A request that nothing is wrong with but its session."""
    request = new_request(rpc)
    if rpc == "OpenSession":
        return open_session_request()
    if rpc != "ListSessions":
        request.session_id = ANYTHING
    if rpc in ("OpenRequests", "ExtendRequests"):
        item = request.items.add(slots=10)
        if rpc == "OpenRequests":
            item.key = b"k"
        else:
            item.handle.CopyFrom(HANDLE)
    if rpc == "CloseRequests":
        request.handles.append(HANDLE)
    if rpc in ("Step", "CommitDrafts"):
        request.rows.add(handle=HANDLE)
    return request


@pytest.mark.parametrize("rpc", NEEDS_SESSION)
def test_unknown_session_is_not_found(client, rpc):
    with refused(CODE.NOT_FOUND, "UNKNOWN_SESSION", "session_id"):
        call(client, rpc, plausible(rpc))


# WatchStats and UpdatePolicy take session 0 for all sessions.
@pytest.mark.parametrize("rpc", [rpc for rpc in METHODS if rpc not in ("ListSessions", "UpdatePolicy", "WatchStats")])
def test_empty_message_is_refused_by_the_field_that_is_missing(client, rpc):
    with pytest.raises(grpc.RpcError) as caught:
        call_raw(client, rpc, b"")
    assert caught.value.code() in CODES_OF_BAD_INPUT
    assert detail_of(caught.value).field


@pytest.mark.parametrize("rpc", METHODS)
def test_unknown_field_is_refused_by_its_number(client, rpc):
    name = METHODS[rpc].input_type.name
    with refused(CODE.INVALID_ARGUMENT, "UNKNOWN_FIELD", f"{name}.999"):
        call_raw(client, rpc, plausible(rpc).SerializeToString() + UNKNOWN_FIELD)


NESTED = {
    "Geometry.999": ("OpenSession", 2), "Policy.999": ("OpenSession", 5), "OpenRequestItem.999": ("OpenRequests", 2),
    "ExtendRequestItem.999": ("ExtendRequests", 2), "RequestHandle.999": ("CloseRequests", 2),
    "StepRow.999": ("Step", 2), "CommitRow.999": ("CommitDrafts", 2), "ClientReport.999": ("Attach", 3),
    "Duration.999": ("WatchStats", 2)}


@pytest.mark.parametrize("field", NESTED)
def test_unknown_field_inside_of_a_field_is_refused(client, field):
    rpc, number = NESTED[field]
    nested = bytes([number << 3 | 2, len(UNKNOWN_FIELD)]) + UNKNOWN_FIELD
    with refused(CODE.INVALID_ARGUMENT, "UNKNOWN_FIELD", field):
        call_raw(client, rpc, plausible(rpc).SerializeToString() + nested)


def test_unknown_field_deep_inside_is_refused(client):
    parent = b"\x0a" + bytes([len(UNKNOWN_FIELD)]) + UNKNOWN_FIELD  # Fork.parent
    fork = b"\x1a" + bytes([len(parent)]) + parent                  # OpenRequestItem.fork
    item = b"\x12" + bytes([len(fork)]) + fork                      # items
    with refused(CODE.INVALID_ARGUMENT, "UNKNOWN_FIELD", "RequestHandle.999"):
        call_raw(client, "OpenRequests", plausible("OpenRequests").SerializeToString() + item)
    handle = b"\x0a" + bytes([len(UNKNOWN_FIELD)]) + UNKNOWN_FIELD  # StepRow.handle
    row = b"\x12" + bytes([len(handle)]) + handle
    with refused(CODE.INVALID_ARGUMENT, "UNKNOWN_FIELD", "RequestHandle.999"):
        call_raw(client, "Step", plausible("Step").SerializeToString() + row)


@pytest.mark.parametrize("rpc", METHODS)
def test_bytes_that_are_no_message_end_the_call_and_nothing_more(client, rpc):
    for payload in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256)), b"\x12\x05\x0a"):
        try:
            assert call_raw(client, rpc, payload) == []  # a stream may end well; gRPC itself answers for the others
        except grpc.RpcError as error:
            assert error.code() in {CODE.INVALID_ARGUMENT, CODE.UNIMPLEMENTED, CODE.INTERNAL}


def test_unknown_rpc_is_unimplemented(client):
    with pytest.raises(grpc.RpcError) as caught:
        client.channel.unary_unary("/spin.v1.SpinService/Nothing")(b"", timeout=TIMEOUT)
    assert caught.value.code() == CODE.UNIMPLEMENTED


def test_last_of_duplicate_fields_counts(client):
    first, second = open_session_request(), open_session_request(model_name="the second")
    payload = first.SerializeToString() + second.SerializeToString()
    reply = session_pb2.OpenSessionResponse.FromString(call_raw(client, "OpenSession", payload))
    (session,) = client.sessions()
    assert (session.session_id, session.model_name) == (reply.session_id, "the second")


GEOMETRY_LIMITS = dict(layers=(1, 128), topk=(1, 2048), tokens_per_slot=(1, 64), max_slots=(1, 4194304),
                       max_requests=(1, 512), max_next_n=(1, 8))


def bad_geometry() -> dict[str, set]:
    bad = {field: {low - 1, high + 1, 2**31, HUGE if field == "max_slots" else 2**32 - 1}
           for field, (low, high) in GEOMETRY_LIMITS.items()}
    enums = {field: {3, -1, 2**31 - 1} for field in ("state_dtype", "score_dtype")}
    return {**bad, "block_slots": {0, 1, 48, 256, 2**31 + 64, 2**32 - 64}, **enums}


@pytest.mark.parametrize("field", bad_geometry())
def test_geometry_out_of_range_is_refused_by_its_field(client, field):
    for value in bad_geometry()[field]:
        with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", f"geometry.{field}"):
            client.open_session(**{field: value})


BAD_SESSIONS = {
    "model_name": [dict(model_name=""), dict(model_name="m" * 129), dict(model_name='a"b'), dict(model_name="a\\b"),
                   dict(model_name="a\nb"), dict(model_name="\u03c1"), dict(model_name="a\x00b")],
    "client_name": [dict(client_name="c" * 129), dict(client_name="a\x1b[31mb")],
    "device_uuid": [dict(device_uuid="d" * 129), dict(device_uuid="a\nb")],
    "executor": [dict(executor=3), dict(executor=-1)],
    "policy.sparsity": [dict(policy=policy_pb2.Policy(sparsity=value)) for value in (
        1.0, -0.1, 1e308, float("nan"), float("inf"), float("-inf"))],
    "policy.exploration": [dict(policy=policy_pb2.Policy(exploration=value)) for value in (1.1, -1.0, float("nan"))],
    "policy.decay": [dict(policy=policy_pb2.Policy(decay=value)) for value in (1.0, -0.5, float("nan"))],
    "policy.layer_sparsity": [dict(policy=policy_pb2.Policy(layer_sparsity=[0.5] * count)) for count in (1, 3, 1000)],
    "policy.layer_sparsity[1]": [dict(policy=policy_pb2.Policy(layer_sparsity=[0.5, value])) for value in (
        1.0, -0.1, float("nan"))],
}


@pytest.mark.parametrize("field", BAD_SESSIONS)
def test_session_with_a_bad_field_is_refused_by_its_name(client, field):
    for fields in BAD_SESSIONS[field]:
        request = open_session_request()
        request.MergeFrom(session_pb2.OpenSessionRequest(**fields))
        for name, value in fields.items():
            if value == "":
                request.ClearField(name)
        with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", field):
            client.OpenSession(request)
    assert client.sessions() == []


@pytest.mark.parametrize("seconds, nanos", [
    (0, 0), (0, 99_999_999), (-1, 0), (3600, 1), (2**63 - 1, 0), (-(2**63), 0), (0, -(2**31)), (1, -950_000_000)])
def test_interval_out_of_range_is_refused(client, seconds, nanos):
    request = stats_pb2.WatchStatsRequest()
    request.interval.seconds, request.interval.nanos = seconds, nanos
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "interval"):
        next(client.stub.WatchStats(request, timeout=TIMEOUT))


def test_policy_with_more_layers_than_any_session_has_is_refused(client):
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "policy.layer_sparsity"):
        client.UpdatePolicy(session_pb2.UpdatePolicyRequest(policy=policy_pb2.Policy(layer_sparsity=[0.5] * 129)))


def test_absurd_report_does_not_reach_the_metrics(spind, session):
    times = session_pb2.TimeHistogram(buckets=[1] * 500, sum_seconds=float("nan"))
    fallbacks = [session_pb2.FallbackCount(reason=reason, rows=5) for reason in (-1, 0, 99, 2**31 - 1)]
    session.attachment.send(report=session_pb2.ClientReport(predict_time=times, observe_time=times,
                                                            fallback_rows=fallbacks))
    session.attachment.send(closing=True)
    session.attachment.end()
    metrics = spind.metrics()
    assert metrics.value("spin_fallback_rows_total") == 0
    assert metrics.value("spin_predict_duration_seconds_sum") == 0


def random_value(field, seed: random.Random, session_ids):
    kind = field.cpp_type
    if field.name == "session_id" and seed.random() < 0.8:
        return seed.choice(session_ids)
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return seed.choice([0.0, 0.5, -1.0, 1e308, float("nan"), float("inf"), seed.random()])
    if kind == field.CPPTYPE_STRING:
        size = seed.choice([0, 1, 5, 300])
        return seed.randbytes(size) if field.type == field.TYPE_BYTES else "x" * size
    if kind == field.CPPTYPE_BOOL:
        return seed.random() < 0.5
    if kind == field.CPPTYPE_ENUM:
        return seed.choice([0, 1, 2, 3, 99, -1])
    signed = kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    bits = 32 if kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    top = 2 ** (bits - signed) - 1
    return seed.choice([0, 1, 2, 3, 7, 63, 64, 100, 4096, 8191, top, top // 2, seed.randint(0, top)])


def fill(message, seed: random.Random, session_ids, depth=0):
    """Sets a random choice of fields to random, often odd values."""
    for field in message.DESCRIPTOR.fields:
        if seed.random() < 0.2:
            continue
        repeated = field.is_repeated
        count = seed.choice([0, 1, 2, 3, 8, 600 if depth == 0 else 3]) if repeated else 1
        for _ in range(count):
            if field.message_type is not None:
                holder = getattr(message, field.name)
                part = holder.add() if repeated else holder
                part.SetInParent()
                fill(part, seed, session_ids, depth + 1)
            elif repeated:
                getattr(message, field.name).append(random_value(field, seed, session_ids))
            else:
                setattr(message, field.name, random_value(field, seed, session_ids))


EXPECTED_OF_RANDOM_INPUT = CODES_OF_BAD_INPUT | {
    CODE.OK, CODE.RESOURCE_EXHAUSTED, CODE.FAILED_PRECONDITION, CODE.ALREADY_EXISTS, CODE.ABORTED,
    CODE.DEADLINE_EXCEEDED}


@pytest.mark.parametrize("rpc", METHODS)
def test_random_messages_get_documented_answers(start_spind, connect, rpc):
    spind = start_spind("--wait-limit-ms", "1")
    client = connect(spind)
    seed = random.Random(f"spin {rpc}")
    for _ in range(8):
        sessions = [RawSession(client, executor=executor) for executor in ("SIDECAR", "INLINE")]
        sessions[0].open_requests(b"a", b"b")
        for _ in range(15):
            request = new_request(rpc)
            fill(request, seed, [session.id for session in sessions] + [0, ANYTHING])
            try:
                call(client, rpc, request)
            except grpc.RpcError as error:
                assert error.code() in EXPECTED_OF_RANDOM_INPUT, (error.code(), error.details(), request)
                detail_of(error)
        for session in client.sessions():
            client.CloseSession(session_pb2.CloseSessionRequest(session_id=session.session_id))
    assert spind.process.poll() is None, spind.log
    eventually(lambda: spind.metric("spin_state_bytes") == 0, within=2)  # somebody may be looking at a session still


@pytest.mark.parametrize("rpc", METHODS)
def test_damaged_messages_do_no_harm(client, session, rpc):
    seed = random.Random(f"spin damaged {rpc}")
    for _ in range(60):
        request = new_request(rpc)
        fill(request, seed, [session.id, 0])
        payload = bytearray(request.SerializeToString() or b"\x00")
        for _ in range(1 + len(payload) // 50):
            payload[seed.randrange(len(payload))] = seed.randrange(256)
        try:
            call_raw(client, rpc, bytes(payload))
        except grpc.RpcError:
            pass
