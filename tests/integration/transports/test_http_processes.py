"""One server in several processes: workers, a restart, a reload, and replicas that share a store."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client as OfficialClient
from mcp.client.streamable_http import streamable_http_client

from mcpkit import Context, Server, SyncClient
from tests.helpers.engines import close, make_engine
from tests.helpers.process_client import EventStream
from tests.helpers.processes import free_port
from tests.helpers.raw_client import accept, initialize, request, text_of
from tests.helpers.servers.full import SECRET
from tests.helpers.serving import DEFAULT_TIMEOUT, Served, from_file, in_thread

pytestmark = pytest.mark.long

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="the processes are killed by signals")

UNSHARED_PROGRAM = """
from mcpkit import Server
from mcpkit.storage import Memory
from starlette.applications import Starlette
from starlette.routing import Mount

app = Server("s", secret_key="s" * 32, storage=Memory()).asgi()
mounted = Starlette(routes=[Mount("/x", app)])
"""


@needs_signals
def test_uvicorn_workers_warn_once_without_shared_store(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(UNSHARED_PROGRAM)
    options = ["--app-dir", str(tmp_path), "--port", "0", "--workers", "2", "program:mounted"]
    with Served([sys.executable, "-m", "uvicorn", *options]) as served:
        served.wait_for("Application startup complete", times=2)
        served.stop()
    assert served.notes.count("2 worker processes serve clients without a shared engine") == 1
    assert "Server(storage=Sqlite(" in served.notes


def serve_at(port: int) -> Served:
    server = Served([*from_file("tests.helpers.servers.slow:app"), "--port", str(port)], MCPKIT_SECRET=SECRET)
    server.wait_for("Uvicorn running on")
    return server


@needs_signals
@pytest.mark.filterwarnings("ignore:.*deprecated")
async def test_official_client_call_succeeds_after_process_restart() -> None:
    port = free_port()
    with serve_at(port) as first:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp")
        async with OfficialClient(transport, mode="legacy") as client:
            before = (await client.call_tool("who", {})).content[0].text
            first.signal(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL
            with serve_at(port) as second:
                after = (await client.call_tool("who", {})).content[0].text
                name = before.partition(" ")[2]
                assert [before, after] == [f"{each.process.pid} {name}" for each in (first, second)]


PROGRAM = """
import os
import sys
from mcpkit import Server

server = Server("edited")


@server.tool
def version() -> str:
    return "first"


if __name__ == "__main__":
    folder = os.path.dirname(__file__)
    server.run("http", port=int(sys.argv[1]), reload=True, reload_dirs=[folder], reload_delay=0.05)
"""


@needs_signals
def test_edited_program_is_served_anew_with_its_arguments(tmp_path: Path) -> None:
    file, port = tmp_path / "server.py", free_port()
    with ExitStack() as stack:
        for number, version in enumerate(("first", "second"), 1):
            file.write_text(PROGRAM.replace("first", version))
            if number == 1:
                served = stack.enter_context(Served([sys.executable, str(file), str(port)]))
            else:
                served.wait_for("the program is started again")
            served.wait_for("Uvicorn running on", times=number)
            with SyncClient(f"http://127.0.0.1:{port}/mcp") as client:
                assert client.call_tool("version").text == version
        served.stop(signal.SIGTERM)
        assert "will not reload" not in served.notes


class Replicas(NamedTuple):
    urls: list[str]
    released: threading.Event
    cancelled: threading.Event

    def make_server(self, name: str, engine: Any) -> Server:
        server = Server("replicas", version="1", secret_key=SECRET, storage=engine)

        @server.tool
        async def ask(ctx: Context) -> str:
            return f"{(await ctx.elicit('Which colour?', str)).value} {name}"

        @server.tool
        async def wait(ctx: Context) -> str:
            await ctx.log("error", "begun")
            try:
                while not self.released.is_set():
                    await asyncio.sleep(0.002)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return name

        return server

    def post(self, index: int, message: Any, session: dict[str, str]) -> httpx2.Response:
        headers = {"accept": "application/json, text/event-stream"} | session
        return httpx2.post(self.urls[index], json=message, headers=headers, timeout=DEFAULT_TIMEOUT)

    def call(self, tool: str, session: dict[str, str]) -> EventStream:
        """Call a tool at the first replica."""
        message = request("tools/call", {"name": tool, "arguments": {}}, id=7)
        return EventStream(self.urls[0], "POST", message, session)


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def started_replicas(request, tmp_path_factory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    replicas = Replicas([], threading.Event(), threading.Event())
    with ExitStack() as stack:
        for name in ("one", "two"):
            engine = make_engine(request.param, folder)
            stack.callback(close, engine)
            app = replicas.make_server(name, engine).asgi()
            replicas.urls.append(stack.enter_context(in_thread(app)) + "/mcp")
        yield replicas


@pytest.fixture
def replicas(started_replicas: Replicas) -> Replicas:
    started_replicas.released.clear()
    started_replicas.cancelled.clear()
    return started_replicas


@pytest.fixture
def session(replicas: Replicas) -> dict[str, str]:
    """Header of a new session of the first replica."""
    opening = replicas.post(0, initialize(capabilities={"elicitation": {}}), {})
    session = {"Mcp-Session-Id": opening.headers["mcp-session-id"]}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert replicas.post(1, note, session).status_code == 202
    return session


def test_replica_accepts_response_to_question_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with replicas.call("ask", session) as stream:
        question = stream.message()
        assert question["method"] == "elicitation/create"
        for id_, status in ((f"{question['id']}0", 400), (question["id"], 202)):
            answer = {"jsonrpc": "2.0", "id": id_, "result": accept("red")}
            assert replicas.post(1, answer, session).status_code == status
        assert text_of(stream.message()) == "red one"


def test_replica_resumes_call_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with replicas.call("wait", session) as stream:
        first = stream.event()["id"]
        assert stream.message()["params"]["data"] == "begun"
    with EventStream(replicas.urls[1], "GET", None, session | {"Last-Event-ID": first}) as resumed:
        assert resumed.message()["params"]["data"] == "begun"
        replicas.released.set()
        *_, last = resumed.rest()
    assert (last["id"], text_of(last)) == (7, "one")


def test_replica_cancels_call_of_other(replicas: Replicas, session: dict[str, str]) -> None:
    with replicas.call("wait", session) as stream:
        assert stream.message()["params"]["data"] == "begun"
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert replicas.post(1, note, session).status_code == 202
        assert replicas.cancelled.wait(DEFAULT_TIMEOUT)
        assert stream.rest() == []
