"""A few rounds with real servers that are killed, over each way; `make chaos-clients` plays hundreds."""

from __future__ import annotations

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("looks at /proc", allow_module_level=True)

from tests.helpers.chaos.process_rounds import play_process_block
from tests.helpers.chaos.rounds import WAYS

pytestmark = pytest.mark.long

ROUNDS = 3


@pytest.mark.parametrize("way", WAYS)
def test_each_call_ends_and_nothing_is_done_twice_that_must_not_be(way: str) -> None:
    figures = play_process_block(way, range(ROUNDS))
    assert figures["rounds"] == ROUNDS
    assert figures["results"] >= ROUNDS
