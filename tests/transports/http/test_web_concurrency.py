"""Three workers because `WEB_CONCURRENCY` says so, which share an engine: one server, whichever of them is reached."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.redis_server import common_server
from tests.helpers.serving import PATIENCE, Served

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the workers are killed as a group"),
    pytest.mark.slow,
]

PROGRAM = """
import os
from mcpkit import Context, Redis, Server, Sqlite
from mcpkit.middlewares import RateLimit

place = os.environ["PLACE"]
shared = Redis(place, prefix=os.environ["PREFIX"]) if place.startswith("redis:") else Sqlite(place)
server = Server("notes", version="1", shared=shared)
server.middleware(RateLimit(0.001, burst=30, methods=["tools/call"], key=lambda ctx: "all"))

@server.tool
async def who(ctx: Context) -> str:
    return str(os.getpid())

@server.tool(single_use=True)
async def once(ctx: Context) -> str:
    return str((await ctx.elicit("What?", str, key="what")).value)

app = server.asgi(health="/health", live="/live")
"""
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
needs_gunicorn = pytest.mark.skipif(find_spec("gunicorn") is None, reason="no gunicorn is installed")


def command(runner: str, folder: Path) -> list[str]:
    if runner == "uvicorn":
        return [*(sys.executable, "-m", "uvicorn", "--app-dir", str(folder), "--port", "0"), "program:app"]
    worker = ("-b", "127.0.0.1:0", "-k", "uvicorn_worker.UvicornWorker")
    return [*(sys.executable, "-m", "gunicorn", "--chdir", str(folder)), *worker, "program:app"]


@pytest.fixture(params=["uvicorn", pytest.param("gunicorn", marks=needs_gunicorn)])
def runner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["sqlite", "redis"])
def served(request: pytest.FixtureRequest, runner: str, tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "program.py").write_text(PROGRAM)
    place = common_server().url if request.param == "redis" else str(tmp_path / "notes.db")
    settings = {"PLACE": place, "PREFIX": f"{os.urandom(4).hex()}:", "MCPKIT_SECRET": "a secret of the notes"}
    with Served(command(runner, tmp_path), WEB_CONCURRENCY=3, **settings) as started:
        started.wait_for("Application startup complete", times=3)
        yield started
        started.stop()
        assert "share nothing" not in started.notes


def origin_of(served: Served, runner: str) -> str:
    if runner == "uvicorn":
        return served.origin
    return served.notes.split("Listening at: ")[1].split()[0]


def post(origin: str, method: str, params: dict[str, Any], **headers: str) -> httpx2.Response:
    """Post a request on a connection of its own, which any of the workers accepts."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accepted = {"accept": "application/json, text/event-stream", **headers}
    return httpx2.post(f"{origin}/mcp", json=message, headers=accepted, timeout=PATIENCE, trust_env=False)


def stateless(origin: str, name: str, **more: Any) -> httpx2.Response:
    params = {"name": name, "arguments": {}, "_meta": STATELESS, **more}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    return post(origin, "tools/call", params, **headers)


def test_they_are_one_server(served: Served, runner: str) -> None:
    origin = origin_of(served, runner)
    for path in ("/health", "/live"):
        assert httpx2.get(f"{origin}{path}", timeout=PATIENCE, trust_env=False).status_code == 200
    session = post(origin, "initialize", CLIENT).headers["mcp-session-id"]
    state = stateless(origin, "once").json()["result"]["requestState"]
    answers = {"what": {"action": "accept", "content": {"value": "this"}}}
    outcomes = [
        stateless(origin, "once", requestState=state, inputResponses=answers).json() for _ in range(9)
    ]
    assert sum("result" in each for each in outcomes) == 1

    found: dict[str, int] = {}
    refused = 0
    for _ in range(25):
        answer = post(origin, "tools/call", {"name": "who"}, **{"mcp-session-id": session})
        if answer.status_code == 503:
            refused += 1
        else:
            text = answer.json()["result"]["content"][0]["text"]
            found[text] = found.get(text, 0) + 1
    assert sum(found.values()) == 20, "ten of thirty were used before"
    assert refused == 5
    assert len(found) > 1, "more than one of them has been reached"
