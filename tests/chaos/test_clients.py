"""Rounds of random calls over each transport; `make chaos-clients` runs many more. A failed round names its seed."""

from __future__ import annotations

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

from tests.chaos.client_rounds import TRANSPORTS, run_block

pytestmark = pytest.mark.long

ROUNDS = 25


@pytest.fixture(autouse=True, scope="module")
def first_use() -> None:
    """Open what a client keeps open after its first use."""
    for transport in TRANSPORTS:
        run_block(transport, [0], checks_leaks=False)


@pytest.mark.parametrize("first", [0, ROUNDS])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_each_call_ends_and_is_repeated_only_if_allowed(transport: str, first: int) -> None:
    figures = run_block(transport, range(first, first + ROUNDS))
    assert figures["rounds"] == ROUNDS
    assert figures["faults"] > ROUNDS / 2
