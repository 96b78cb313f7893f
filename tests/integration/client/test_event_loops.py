"""Clients in other event loops, forked processes, trio and interrupted threads: each fails at once with a reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers import elsewhere

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


def select(outcomes: dict[tuple[str, str, str], str], *situations: str) -> Iterator[tuple[str, str, str]]:
    """Yield target, operation and outcome of some situations."""
    found = [(*key[1:], outcome) for key, outcome in outcomes.items() if key[0] in situations]
    assert found
    yield from found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_no_operation_hangs(outcomes: dict[tuple[str, str, str], str]) -> None:
    assert [key for key, outcome in outcomes.items() if outcome == "hangs"] == []
    assert len(outcomes) > 120


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
@pytest.mark.parametrize(("situation", "text"), [
    ("forked", "was opened by the process that this one was forked from"),
    ("sync_forked", "was opened by the process that this one was forked from"),
    ("closed_loop", "was opened in an event loop that has been closed since: make another one"),
    ("abandoned_loop", "was opened in an event loop that has been closed since: make another one"),
])  # fmt: skip
def test_lost_client_is_error_and_can_be_left(
    outcomes: dict[tuple[str, str, str], str], situation: str, text: str
) -> None:
    for target, operation, outcome in select(outcomes, situation):
        expected = "returns NoneType" if operation in LEAVING else text
        assert expected in outcome, (target, operation)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_forked_in_loop_is_error(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in select(outcomes, "forked_in_loop"):
        assert operation in LEAVING or "forked" in outcome, (target, operation, outcome)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_other_loop_is_error(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in select(outcomes, "other_loop"):
        assert "the client is open in another event loop" in outcome, (target, operation)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_closed_client_is_error_and_reopens(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in select(outcomes, "closed"):
        if operation in {*LEAVING, "enter"}:
            assert outcome.startswith("returns"), (target, operation)
        else:
            assert "the client is not open: write" in outcome, (target, operation)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_forked_child_can_open_new_clients(outcomes: dict[tuple[str, str, str], str]) -> None:
    assert {outcome for *_, outcome in select(outcomes, "new_in_fork")} == {"returns NoneType"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_blocking_calls_in_running_loop_are_errors(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, _, outcome in select(outcomes, "in_loop"):
        assert "an event loop is running in this thread" in outcome
        assert "write `a" in outcome, target


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
def test_forked_child_does_not_serve_stdio(outcomes: dict[tuple[str, str, str], str]) -> None:
    assert "forked from one that serves over stdio" in outcomes["served_by_parent", "stdio", "run"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.slow
@pytest.mark.skipif(find_spec("trio") is None, reason="trio is not installed")
def test_trio_is_error(outcomes: dict[tuple[str, str, str], str]) -> None:
    for target, operation, outcome in select(outcomes, "trio"):
        assert "trio runs" in outcome, (target, operation)
        assert "asyncio.run(main())" in outcome or "trio.to_thread.run_sync" in outcome, (target, operation)
    assert outcomes["trio_thread", "memory", "SyncClient"] == "returns str"


INTERRUPTED = """
import asyncio, os, signal, threading
from mcpkit import Server, SyncClient
server = Server("bakery")
@server.tool
async def bake() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)
try:
    with SyncClient(server) as client:
        client.call("bake")
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_sync_client_interrupted_cancels_call() -> None:
    assert signal.SIGINT
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout.split("\n")[:2] == ["cancelled", "interrupted 1"]
    assert told.stderr == ""
