"""Clients and servers in other event loops, processes and libraries than their own: each says so at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers import elsewhere

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"), pytest.mark.slow]

LEAVING = {"exit", "close"}
"""Operations that do nothing where nothing can be left."""


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str, str], str]:
    """What has become of each operation, by situation, target and operation."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(elsewhere.__file__)), "use"],
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(situation, target, operation): outcome for situation, target, operation, outcome in lines}


def of(outcomes: dict[tuple[str, str, str], str], *situations: str) -> Iterator[tuple[str, str, str]]:
    """Yield target, operation and outcome of some situations."""
    found = [(*key[1:], outcome) for key, outcome in outcomes.items() if key[0] in situations]
    assert found
    yield from found


def test_nothing_hangs(outcomes: dict[tuple[str, str, str], str]) -> None:
    assert [key for key, outcome in outcomes.items() if outcome == "hangs"] == []
    assert len(outcomes) > 120


@pytest.mark.parametrize(
    ("situation", "text"),
    [
        ("forked", "was opened by the process that this one was forked from"),
        ("sync_forked", "was opened by the process that this one was forked from"),
        ("closed_loop", "was opened in an event loop that has been closed since: make another one"),
        ("abandoned_loop", "was opened in an event loop that has been closed since: make another one"),
    ],
)
def test_a_client_that_is_lost_says_so_and_can_be_left(
    outcomes: dict[tuple[str, str, str], str], situation: str, text: str
) -> None:
    for target, operation, outcome in of(outcomes, situation):
        expected = "returns NoneType" if operation in LEAVING else text
        assert expected in outcome, (target, operation)


def test_a_child_forked_in_a_running_loop_is_told_that_it_has_none(
    outcomes: dict[tuple[str, str, str], str],
) -> None:
    for target, operation, outcome in of(outcomes, "forked_in_loop"):
        assert operation in LEAVING or "forked" in outcome, (target, operation, outcome)


def test_a_client_is_used_and_left_in_its_own_loop_alone(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in of(outcomes, "other_loop"):
        assert "the client is open in another event loop" in outcome, (target, operation)


def test_a_closed_client_says_so_and_can_be_opened_again(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in of(outcomes, "closed"):
        if operation in {*LEAVING, "enter"}:
            assert outcome.startswith("returns"), (target, operation)
        else:
            assert "the client is not open: write" in outcome, (target, operation)


def test_a_forked_child_has_clients_threads_and_workers_of_its_own(
    outcomes: dict[tuple[str, str, str], str],
) -> None:
    assert {outcome for *_, outcome in of(outcomes, "new_in_fork")} == {"returns NoneType"}


def test_what_waits_refuses_a_running_loop(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, _, outcome in of(outcomes, "in_loop"):
        assert "an event loop is running in this thread" in outcome
        assert "write `a" in outcome, target


def test_a_child_forked_by_a_tool_does_not_serve_the_host(outcomes: dict[tuple[str, str, str], str]) -> None:
    assert "forked from one that serves over stdio" in outcomes["served_by_parent", "stdio", "run"]


@pytest.mark.skipif(find_spec("trio") is None, reason="trio is not installed")
def test_under_trio_everything_says_what_it_needs(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in of(outcomes, "trio"):
        assert "trio runs" in outcome, (target, operation)
        assert "asyncio.run(main())" in outcome or "trio.to_thread.run_sync" in outcome, (target, operation)
    assert outcomes["trio_thread", "memory", "SyncClient"] == "returns str"
