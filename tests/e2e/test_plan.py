# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""spinctl plan: what it says is enough."""

import pytest

SHAPE = dict(layers=8, topk=256, tokens_per_slot=1)
REQUESTS, CONTEXT = 8, 32768


def words(**flags) -> list:
    return [word for flag, value in flags.items() for word in (f"--{flag.replace('_', '-')}", value)]


@pytest.mark.parametrize("state", [{}, {"state": "f32"}], ids=str)
def test_spind_as_printed_has_room_for_all_requests(spinctl, start_spind, start_engine, state):
    plan = spinctl("plan", *words(**SHAPE, context="32K", requests=REQUESTS, **state))
    program, *flags = plan.out.splitlines()[-1].split()
    assert (program, flags[::2]) == ("spind", ["--slab-bytes", "--state-dtype"])
    given = dict(zip(flags[::2], flags[1::2]))
    spind = start_spind("--state-dtype", given["--state-dtype"], slab_bytes=given["--slab-bytes"])
    engine = start_engine(spind, **SHAPE, max_slots=CONTEXT, max_requests=REQUESTS)
    engine.ready()
    for request in range(REQUESTS):
        assert engine.open(request, CONTEXT)["capacity"] == CONTEXT
