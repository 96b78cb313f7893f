"""Rounds of random calls; `make chaos-clients` runs many more. A failed round names its seed."""

import sys

import pytest

if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

from tests.chaos.client_rounds import run_block

pytestmark = pytest.mark.long

ROUNDS = 100


def test_each_call_ends_and_is_repeated_only_if_allowed() -> None:
    run_block([0], checks_leaks=False)  # what a client keeps open after its first use
    figures = run_block(range(ROUNDS))
    assert figures["rounds"] == ROUNDS
    assert figures["faults"] > ROUNDS / 2
