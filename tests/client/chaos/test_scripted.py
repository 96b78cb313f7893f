"""Two hundred rounds against a server whose faults are drawn; `python tests/client/chaos/run.py` plays many more.

Time passes at once in them, so that nothing depends on it. What fails names its seed; `chaos.rounds` says what holds.
"""

from __future__ import annotations

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("looks at /proc", allow_module_level=True)

from tests.helpers.chaos.rounds import PIPE, WAYS, play_block

pytestmark = pytest.mark.long

BLOCK = 10
ROUNDS = {way: 80 if way == PIPE else 40 for way in WAYS}


@pytest.fixture(autouse=True, scope="module")
def what_is_imported_once() -> None:
    """Import what a client imports when it is first used, and leave what that keeps open out of the count."""
    for way in WAYS:
        try:
            play_block(way, [0])
        except AssertionError:
            continue  # the rounds below say so


@pytest.mark.parametrize(
    ("way", "first"), [(way, first) for way in WAYS for first in range(0, ROUNDS[way], BLOCK)]
)
def test_each_call_ends_and_nothing_is_done_twice_that_must_not_be(way: str, first: int) -> None:
    figures = play_block(way, range(first, first + BLOCK))
    assert figures["rounds"] == BLOCK
    assert figures["faults"] > BLOCK / 2
