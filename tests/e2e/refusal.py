# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Typed refusals of the raw contract."""

import contextlib

import grpc
import pytest
from spin.v1 import error_pb2

CODE = grpc.StatusCode
REASON = error_pb2.ErrorReason


def detail_of(error: grpc.RpcError) -> error_pb2.ErrorDetail:
    """The ErrorDetail that travels in the trailing metadata of a refused call."""
    found = [value for key, value in error.trailing_metadata() or () if key == "spin-error-bin"]
    assert len(found) == 1, f"{error.code()}: {error.details()!r} came without spin-error-bin"
    return error_pb2.ErrorDetail.FromString(found[0])


def assert_refused(error: grpc.RpcError, code, reason: str, field: str | None = None):
    assert error.code() == code, f"{error.code()}: {error.details()}"
    detail = detail_of(error)
    assert REASON.Name(detail.reason) == f"ERROR_REASON_{reason}", detail
    assert detail.message
    if field is not None:
        assert detail.field == field
        assert error.details() == (f"{field}: {detail.message}" if field else detail.message)


@contextlib.contextmanager
def refused(code, reason: str, field: str | None = None):
    """The block's call is refused with this code, reason (without its prefix) and field."""
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert_refused(caught.value, code, reason, field)


def assert_item_refused(result, reason: str, field: str):
    """One item or row of a batched call was refused."""
    assert REASON.Name(result.error.reason) == f"ERROR_REASON_{reason}", result
    assert result.error.field == field, result
    assert result.error.message
