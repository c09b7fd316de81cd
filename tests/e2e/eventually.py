# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""How these tests wait for something, and how they vary a moment."""

import time

_INTERVAL = 0.005


def eventually(condition, within: float = 10.0):
    """Calls condition() until it returns something true, and returns that; fails after `within` seconds.

    A condition that raises AssertionError or OSError is tried again; the last such error explains the failure.
    """
    deadline = time.monotonic() + within
    while True:
        late = time.monotonic() >= deadline
        try:
            value = condition()
            if value:
                return value
            why = f"last value: {value!r}"
        except (AssertionError, OSError) as error:
            why = f"last error: {error}"
        if late:
            raise AssertionError(f"not within {within} s; {why}")
        time.sleep(_INTERVAL)


def jitter(seconds: float):
    """Lets some time pass, so that every attempt hits another moment. Nothing is waited for."""
    time.sleep(seconds)
