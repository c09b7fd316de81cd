# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The raw contract, as a client without the library speaks it."""

import queue
import threading

import grpc
from slab import MappedSession
from spin.v1 import policy_pb2, request_pb2, service_pb2_grpc, session_pb2, step_pb2

TIMEOUT = 10  # seconds for every call; none comes near

DEFAULT_GEOMETRY = dict(layers=2, block_slots=64, topk=64, tokens_per_slot=1, max_slots=8192, max_requests=8,
                        max_next_n=1)


def open_session_request(executor="SIDECAR", model_name="test-model", policy=None, device_uuid="",
                         zero_init=False, allow_recording=False, **geometry):
    return session_pb2.OpenSessionRequest(
        model_name=model_name,
        geometry=session_pb2.Geometry(**{**DEFAULT_GEOMETRY, **geometry}),
        executor=f"EXECUTOR_{executor}",
        policy=policy_pb2.Policy(**(policy or {})),
        device_uuid=device_uuid,
        zero_init=zero_init,
        allow_recording=allow_recording,
        client_name="raw")


class RawClient:
    """One connection of its own."""

    def __init__(self, socket, *options):
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), *options])
        self.stub = service_pb2_grpc.SpinServiceStub(self.channel)

    def __getattr__(self, rpc):
        """client.GetSession(request): the unary call of that name."""
        call = getattr(self.stub, rpc)
        return lambda request, timeout=TIMEOUT: call(request, timeout=timeout)

    def open_session(self, **shape) -> session_pb2.OpenSessionResponse:
        return self.OpenSession(open_session_request(**shape))

    def sessions(self) -> list:
        return list(self.ListSessions(session_pb2.ListSessionsRequest()).sessions)

    def close(self):
        self.channel.close()


class Attachment:
    """A liveness stream. What comes down is in `received`, at last its grpc.RpcError, or None after a good end."""

    def __init__(self, client: RawClient, session_id: int, nonce: int):
        self.session_id = session_id
        self.received = queue.Queue()
        self._outgoing = queue.Queue()
        self.send(nonce=nonce)
        self.call = client.stub.Attach(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, **fields):
        fields.setdefault("session_id", self.session_id)
        self._outgoing.put(session_pb2.AttachRequest(**fields))

    def _read(self):
        try:
            for message in self.call:
                self.received.put(message)
            self.received.put(None)
        except grpc.RpcError as error:
            self.received.put(error)

    def next(self):
        return self.received.get(timeout=TIMEOUT)

    def end(self):
        """Waits for the end of the stream; returns its error, or None after a good end."""
        while True:
            message = self.next()
            if message is None or isinstance(message, grpc.RpcError):
                return message

    def cancel(self):
        self.call.cancel()
        self._outgoing.put(None)
        self._reader.join()


class RawSession:
    """An open, mapped and attached session."""

    def __init__(self, client: RawClient, attach=True, **shape):
        self.client = client
        self.opened = client.open_session(**shape)
        self.id = self.opened.session_id
        self.slab = MappedSession(self.opened)
        self.attachment = None
        if attach:
            self.attachment = Attachment(client, self.id, self.slab.nonce)
            assert self.attachment.next().policy_epoch == 1

    def open_requests(self, *items) -> list:
        """Items are keys, or dicts of OpenRequestItem."""
        items = [item if isinstance(item, dict) else dict(key=item, slots=256) for item in items]
        return list(self.client.OpenRequests(request_pb2.OpenRequestsRequest(
            session_id=self.id, items=[request_pb2.OpenRequestItem(**item) for item in items])).results)

    def open_request(self, key: bytes, slots=256, **item):
        (result,) = self.open_requests(dict(key=key, slots=slots, **item))
        assert not result.HasField("error"), result.error
        return result.handle

    def extend(self, *items) -> list:
        return list(self.client.ExtendRequests(request_pb2.ExtendRequestsRequest(
            session_id=self.id,
            items=[request_pb2.ExtendRequestItem(handle=h, slots=slots) for h, slots in items])).results)

    def close_requests(self, *handles, keys=(), after_timeline=0) -> int:
        return self.client.CloseRequests(request_pb2.CloseRequestsRequest(
            session_id=self.id, handles=handles, keys=keys, after_timeline=after_timeline)).closed

    def step_request(self, *rows, wait=0, done=0) -> step_pb2.StepRequest:
        return step_pb2.StepRequest(session_id=self.id, rows=rows, wait_timeline=wait, done_timeline=done)

    def step(self, *rows, **timeline) -> list:
        return list(self.client.Step(self.step_request(*rows, **timeline)).results)

    def info(self) -> session_pb2.SessionInfo:
        return self.client.GetSession(session_pb2.GetSessionRequest(session_id=self.id)).session

    def close(self):
        self.client.CloseSession(session_pb2.CloseSessionRequest(session_id=self.id))


def step_row(handle, position, coverage="ALL", next_n=1, **fields) -> step_pb2.StepRow:
    """A row whose verifier rows are all accepted, unless `accepted` says otherwise (None: not known yet)."""
    accepted = fields.pop("accepted", next_n)
    fields.setdefault("next_position", position + (accepted or 0))
    fields.setdefault("next_next_n", next_n)
    row = step_pb2.StepRow(handle=handle, position=position, next_n=next_n, coverage=f"COVERAGE_{coverage}", **fields)
    if accepted is not None:
        row.accepted = accepted
    return row
