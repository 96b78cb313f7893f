"""A child that a function forks answers nobody, and ends where the function ends."""

from __future__ import annotations

import asyncio
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mcpkit.calls.workers.processes import Processes
from tests.helpers import process_functions as work
from tests.helpers.process_client import ROOT, call
from tests.helpers.serving import from_text, serving
from tests.helpers.waiting import until

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork"), pytest.mark.long]

WHERE = ["function", "thread", "generator", "coroutine"]
HOW = ["return", "exit", "_exit", "raise", "interrupt", "exec"]


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def processes() -> Processes:
    return Processes(1)


def made(value: Any) -> Any:
    return value


@pytest.mark.anyio
async def test_no_child_answers_for_a_worker(processes: Processes) -> None:
    workers, children = set(), []
    for token, (where, how) in enumerate(product(WHERE, ["return", "_exit", "interrupt", "exec"])):
        kwargs = {"where": where, "how": how, "token": token}
        number, worker, child = await processes.run(work.fork, kwargs, made)
        assert number == token, (where, how)
        workers.add(worker)
        children.append(child)
    assert len(workers) == 1
    await until(lambda: not any(map(is_alive, children)))


@pytest.mark.anyio
async def test_an_answer_to_another_call_is_dropped(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    assert await processes.run(work.forge, {"number": 0}) == "real"
    assert "sent two results for one call, as after a fork" in caplog.text


PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.helpers import process_functions as work
from mcpkit import Server

server = Server("forking")
server.tool(work.fork)
server.tool(work.fork, name="quick", run_in="loop")
app = server.asgi()
"""


def test_no_child_keeps_the_port() -> None:
    import httpx

    with serving(from_text(PROGRAM)) as served:
        with httpx.Client(base_url=served.origin, headers={"Accept": "application/json"}) as client:
            for number, (name, where, how) in enumerate(product(["fork", "quick"], WHERE, HOW)):
                if (name, where) == ("quick", "thread"):
                    continue
                request = call(number, name, where=where, how=how, token=0)
                headers = {"Mcp-Method": "tools/call", "Mcp-Name": name, "MCP-Protocol-Version": "2026-07-28"}
                answer = client.post("/mcp", json=request, headers=headers).json()
                assert answer["id"] == number
                child = answer["result"]["content"][0]["text"].strip("[]").split(",")[-1]
                asyncio.run(until(lambda child=child: not is_alive(int(child))))
        assert "ValueError: in the child" in served.notes
