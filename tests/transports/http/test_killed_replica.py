"""Processes that share a store are killed: what is told to who comes back to another one."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.event_streams import EventStream
from tests.helpers.redis_server import common_server
from tests.helpers.serving import PATIENCE, Served, from_text

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="processes are killed"), pytest.mark.slow]

PROGRAM = """
import asyncio, os
from mcpkit import Context, Redis, Server, Sqlite
from mcpkit.state import presence

presence.BEAT = 0.1
place = os.environ["PLACE"]
shared = Sqlite(place) if place.endswith(".db") else Redis(place, prefix=os.environ["PREFIX"])
server = Server("killed", version="1", shared=shared)

@server.tool
async def work(ctx: Context) -> str:
    await ctx.progress(1)
    await asyncio.sleep(3600)

@server.tool
async def touch(uri: str) -> str:
    server.resource_updated(uri)

@server.resource("thing://{name}")
async def thing(name: str) -> str:
    return name

app = server.asgi(grace=0.5)
"""
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Process:
    """One of the processes, and what its clients do."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.url = served.origin + "/mcp"

    def post(self, method: str, params: Any, session: str | None = None) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": "asked", "method": method, "params": params}
        headers = {"accept": "application/json, text/event-stream"}
        named = {} if session is None else {"mcp-session-id": session}
        with httpx2.Client(timeout=PATIENCE, trust_env=False) as http:
            return http.post(self.url, json=message, headers=headers | named)

    def call(self, session: str) -> EventStream:
        params = {"name": "work", "arguments": {}, "_meta": {"progressToken": 1}}
        message = {"jsonrpc": "2.0", "id": "lost", "method": "tools/call", "params": params}
        return EventStream(self.url, "POST", message, {"Mcp-Session-Id": session})

    def listen(self, session: str, after: str | None = None) -> EventStream:
        more = {} if after is None else {"Last-Event-ID": after}
        return EventStream(self.url, "GET", None, {"Mcp-Session-Id": session, **more})

    def kill(self) -> None:
        os.kill(self.served.process.pid, signal.SIGKILL)
        self.served.wait()


@contextmanager
def process(settings: dict[str, str]) -> Iterator[Process]:
    with Served(from_text(PROGRAM), **settings) as served:
        yield Process(served)


@pytest.fixture(params=["sqlite", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    place = str(tmp_path / "killed.db") if request.param == "sqlite" else common_server().url
    return {"PLACE": place, "PREFIX": f"{tmp_path.name}:", "MCPKIT_SECRET": "a secret of the killed"}


def test_a_call_of_a_process_that_is_killed_ends_in_an_error(settings: dict[str, str]) -> None:
    with process(settings) as here, process(settings) as there:
        session = here.post("initialize", CLIENT).headers["mcp-session-id"]
        with here.call(session) as stream:
            first = stream.event()["id"]
            assert stream.message()["method"] == "notifications/progress"
            with there.listen(session, first) as back:  # until then it is written down
                assert back.message()["method"] == "notifications/progress"
            here.kill()
        with there.listen(session, first) as back:
            *_, last = back.rest()
        assert (last["id"], last["error"]["code"]) == ("lost", -32603)
        assert "may or may not have happened" in last["error"]["message"]
        assert there.post("ping", {}, session).status_code == 200


def test_a_call_that_a_restart_cuts_off_is_told_so_elsewhere(settings: dict[str, str]) -> None:
    with process(settings) as here, process(settings) as there:
        session = here.post("initialize", CLIENT).headers["mcp-session-id"]
        with here.call(session) as stream:
            first = stream.event()["id"]
        here.served.signal(signal.SIGTERM)
        with there.listen(session, first) as back:
            *_, last = back.rest()
        here.served.wait()
        assert (last["id"], last["error"]["code"]) == ("lost", -32603)
        assert "ended before the call was finished" in last["error"]["message"]


def test_a_stream_is_told_what_changes_when_the_process_of_the_newer_one_is_killed(
    settings: dict[str, str],
) -> None:
    with process(settings) as here, process(settings) as there:
        session = here.post("initialize", CLIENT).headers["mcp-session-id"]
        here.post("resources/subscribe", {"uri": "thing://a"}, session)
        with here.listen(session) as old:
            old.event()
            with there.listen(session) as new:
                new.event()
                params = {"name": "touch", "arguments": {"uri": "thing://a"}}
                here.post("tools/call", params, session)
                assert new.message()["params"]["uri"] == "thing://a"
                there.kill()
            methods = {json.dumps(old.message().get("params", {})) for _ in range(3)}
            assert '{"uri": "thing://a"}' in methods, "it may have changed meanwhile"
            here.post("tools/call", params, session)
            assert old.message()["params"]["uri"] == "thing://a"
