# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A client process of the raw contract, to be killed: opens a session, goes on to the stage asked for, says so, waits.

Usage: raw_process.py SOCKET opened|attached|requests|stepping|watching
"""

import json
import sys

from raw_client import RawClient, RawSession, step_row
from spin.v1 import stats_pb2


def go_on_to(stage: str, session: RawSession):
    if stage in ("requests", "stepping"):
        handles = [session.open_request(key, slots=8192) for key in (b"a", b"b", b"c")]
    if stage == "stepping":  # a step that waits for a word that never comes
        session.client.stub.Step.future(session.step_request(step_row(handles[0], 100), wait=1))
    if stage == "watching":  # as fast as it goes, and does not read
        request = stats_pb2.WatchStatsRequest()
        request.interval.FromMilliseconds(100)
        session.watches = [session.client.stub.WatchStats(request) for _ in range(10)]


def main(socket: str, stage: str):
    client = RawClient(socket)
    session = RawSession(client, attach=stage != "opened", model_name="victim")
    go_on_to(stage, session)
    print(json.dumps({"session_id": session.id}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
