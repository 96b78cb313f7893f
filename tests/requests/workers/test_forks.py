"""A child that a function forks answers nobody, and ends where the function ends."""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.calls.workers.processes import Processes
from mcpkit.testing import connect
from tests.helpers import process_functions as work
from tests.helpers.process_client import ROOT, Host, call
from tests.helpers.raw_client import text_of
from tests.helpers.serving import from_text, serving
from tests.helpers.waiting import until

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork"), pytest.mark.long]

WHERE = ["function", "thread", "generator", "coroutine"]
HOW = ["return", "exit", "_exit", "raise", "interrupt", "exec", "unseen"]
SEEN = HOW[:-1]
"""Those that Python knows of; in the event loop no other can be told from the server."""


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


@settings(max_examples=25, deadline=None)
@given(forks=st.lists(st.tuples(st.sampled_from(WHERE), st.sampled_from(HOW)), min_size=1, max_size=6))
def test_no_child_answers_for_a_worker(forks: list[tuple[str, str]], processes: Processes) -> None:
    async def check() -> None:
        workers, children = set(), []
        for token, (where, how) in enumerate(forks):
            kwargs = {"where": where, "how": how, "token": token}
            found, worker, child = await processes.run(work.fork, kwargs, made)
            assert found == token
            workers.add(worker)
            children.append(child)
        assert len(workers) == 1
        await until(lambda: not any(map(is_alive, children)))

    asyncio.run(check())


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_users_of_a_worker_get_their_own_answers(revision: str) -> None:
    server = Server("s", processes=1)
    server.tool(process=True)(work.fork)
    async with connect(server, revision=revision) as client:
        for token, how in enumerate(HOW):
            result = await client.call("fork", {"where": "function", "how": how, "token": token})
            assert result.text.startswith(f"[{token},")


@pytest.mark.anyio
async def test_an_answer_to_another_call_is_dropped(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    assert await processes.run(work.forge, {"number": 0}) == "real"
    assert "answered twice; the second answer is dropped" in caplog.text


PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from typing import Annotated
from tests.helpers import process_functions as work
from mcpkit import Depends, Server

server = Server("forking")
server.tool(work.fork)
server.tool(work.fork, name="quick", thread=False)
closed = []

@server.tool
async def fork_later(where: str, how: str, token: int) -> list[int]:
    return work.fork(where, how, token)

def opened():
    yield
    closed.append(1)

@server.tool
def depends(how: str, given: Annotated[None, Depends(opened)]) -> list[int]:
    return work.fork("function", how, 0)
"""


KINDS = [
    *(("fork", where) for where in WHERE),
    *(("quick", where) for where in ("function", "generator", "coroutine")),
    ("fork_later", "function"),
    ("depends", ""),
]


def test_no_child_keeps_the_port() -> None:
    import httpx

    with serving(from_text(f"{PROGRAM}\napp = server.asgi()")) as served:
        with httpx.Client(base_url=served.origin, headers={"Accept": "application/json"}) as client:
            for number, ((name, where), how) in enumerate(product(KINDS, SEEN)):
                arguments = {"how": how} if name == "depends" else {"where": where, "how": how, "token": 0}
                request = call(number, name, **arguments)
                headers = {"Mcp-Method": "tools/call", "Mcp-Name": name, "MCP-Protocol-Version": "2026-07-28"}
                answer = client.post("/mcp", json=request, headers=headers).json()
                assert answer["id"] == number
                child = answer["result"]["content"][0]["text"].strip("[]").split(",")[-1]
                asyncio.run(until(lambda child=child: not is_alive(int(child))))
        assert "ValueError: in the child" in served.notes


class ProgramHost(Host):
    """Starts a program that is given as text."""

    def __init__(self, program: str) -> None:
        super().__init__(prefix=[sys.executable, "-c", program])


def test_no_child_answers_over_stdio() -> None:
    with ProgramHost(f"{PROGRAM}\nserver.run()") as host:
        for number, ((name, where), how) in enumerate(product(KINDS[:-1], SEEN)):
            answer = host.ask(call(number, name, where=where, how=how, token=number))
            assert text_of(answer).startswith(f"[{number},")
        host.close_input()
        assert host.wait() == 0
        assert host.read_output() == b""
