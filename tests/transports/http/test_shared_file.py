"""Workers of uvicorn and gunicorn that share a file or a Redis: whichever a client reaches, it is one server."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
needs_gunicorn = pytest.mark.skipif(find_spec("gunicorn") is None, reason="no gunicorn is installed")

PROGRAM = """
import json, os
from mcpkit import Context, Redis, Server, Sqlite
from starlette.responses import PlainTextResponse

secret = json.loads(os.environ.get("SECRETS", "null"))
if "REDIS" in os.environ:
    shared = Redis(os.environ["REDIS"], prefix=os.environ["PREFIX"])
else:
    shared = Sqlite(os.environ["FILE"])
server = Server("notes", version="1", secret=secret, shared=shared)

@server.route("/pid")
async def pid(request):
    return PlainTextResponse(str(os.getpid()))

@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("What?", str)
    return f"{os.getpid()} {answer.value}"

@server.tool(single_use=True)
async def once(ctx: Context) -> str:
    answer = await ctx.elicit("What?", str)
    return f"{os.getpid()} {answer.value}"

@server.tool
async def change(uri: str) -> str:
    server.resource_updated(uri)
    return str(os.getpid())

@server.tool
async def count(ctx: Context) -> int:
    while True:
        stored = await ctx.store.get("notes/count")
        number = 1 if stored is None else int(stored.value) + 1
        version = None if stored is None else stored.version
        if await ctx.store.put("notes/count", str(number).encode(), version=version, ttl=600) is not None:
            return number

@server.resource("note://{name}")
async def note(name: str) -> str:
    return name

app = server.asgi(health="/health")
"""
SECRET = "a secret of the notes"
BOTH = {"accept": "application/json, text/event-stream"}
CLIENT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


class Worker:
    """Connections to one of the workers.

    Args:
        pid: Which.
        connections: Each stays with the worker that has accepted it.
    """

    def __init__(self, pid: str, connections: list[httpx2.Client]) -> None:
        self.pid = pid
        self.http, *self.others = connections
        self._ids = 0

    def headers(self, session: str | None) -> dict[str, str]:
        return BOTH | ({} if session is None else {"mcp-session-id": session})

    def message(self, method: str, params: Any) -> dict[str, Any]:
        self._ids += 1
        return {"jsonrpc": "2.0", "id": f"{self.pid}-{self._ids}", "method": method, "params": params}

    def initialize(self) -> str:
        answer = self.http.post("/mcp", json=self.message("initialize", CLIENT), headers=BOTH)
        session = answer.headers["mcp-session-id"]
        self.send(session, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return str(session)

    def send(self, session: str, message: Any) -> int:
        return self.http.post("/mcp", json=message, headers=self.headers(session)).status_code

    def ask(self, session: str, method: str, params: Any) -> httpx2.Response:
        return self.http.post("/mcp", json=self.message(method, params), headers=self.headers(session))

    def call(self, session: str, name: str, **arguments: Any) -> Any:
        answer = self.ask(session, "tools/call", {"name": name, "arguments": arguments}).json()
        return answer["result"]["content"][0]["text"]

    def call_stateless(self, name: str, **more: Any) -> httpx2.Response:
        message = self.message("tools/call", {"name": name, "arguments": {}, "_meta": META, **more})
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
        return self.http.post("/mcp", json=message, headers=BOTH | headers)


@contextmanager
def stream(
    worker: Worker, session: str | None, verb: str, message: Any = None, *, method: str | None = None
) -> Iterator[Iterator[Any]]:
    """Open an event stream, and give its messages."""
    headers = worker.headers(session) | ({"accept": "text/event-stream"} if verb == "GET" else {})
    if method is not None:
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    with worker.others.pop().stream(verb, "/mcp", json=message, headers=headers) as response:
        assert response.status_code == 200
        lines = response.iter_lines()
        yield (json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip())


def command(folder: Path, *, runner: str = "uvicorn") -> list[str]:
    if runner == "uvicorn":
        return [
            sys.executable,
            "-m",
            "uvicorn",
            "--app-dir",
            str(folder),
            "--port",
            "0",
            "--workers",
            "2",
            "program:app",
        ]
    options = [
        "-w",
        "2",
        *(["--preload"] if runner == "preloaded" else []),
        "-k",
        "uvicorn_worker.UvicornWorker",
    ]
    return [
        sys.executable,
        "-m",
        "gunicorn",
        "--chdir",
        str(folder),
        "-b",
        "127.0.0.1:0",
        *options,
        "program:app",
    ]


@contextmanager
def two_workers(origin: str) -> Iterator[tuple[Worker, Worker]]:
    """Connect to two workers that accept connections of one port."""
    with ExitStack() as stack:
        found: dict[str, list[httpx2.Client]] = defaultdict(list)
        for _ in range(1000):
            only_one = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
            http = httpx2.Client(base_url=origin, timeout=PATIENCE, trust_env=False, limits=only_one)
            stack.enter_context(http)
            found[http.get("/pid").text].append(http)
            if len(found) == 2 and min(map(len, found.values())) >= 4:
                here, there = (Worker(pid, connections) for pid, connections in found.items())
                yield here, there
                return
        pytest.fail("one of the workers accepts nothing")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(params=["sqlite", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "redis":
        place = {"REDIS": common_server().url, "PREFIX": f"{tmp_path.name}-{os.urandom(4).hex()}:"}
    else:
        place = {"FILE": str(tmp_path / "notes.db")}
    return {"MCPKIT_SECRET": SECRET, **place}


@pytest.fixture
def workers(folder: Path, settings: dict[str, str]) -> Iterator[tuple[Worker, Worker]]:
    with Served(command(folder), **settings) as served:
        served.wait_for("Application startup complete", times=2)
        with two_workers(served.origin) as both:
            yield both
        assert "share nothing" not in served.notes


def test_a_session_is_the_same_at_both(workers: tuple[Worker, Worker]) -> None:
    here, there = workers
    session = here.initialize()
    assert there.call(session, "count") == "1"
    assert here.call(session, "count") == "2"
    assert there.http.delete("/mcp", headers=there.headers(session)).status_code == 204
    assert here.ask(session, "ping", {}).status_code == 404
    assert there.ask(session, "ping", {}).status_code == 404


@pytest.mark.parametrize("listens", ["GET", "subscriptions/listen"])
def test_what_changes_at_one_is_heard_at_the_other(listens: str, workers: tuple[Worker, Worker]) -> None:
    here, there = workers
    session = here.initialize()
    if listens == "GET":
        there.ask(session, "resources/subscribe", {"uri": "note://a"})
        listening = stream(there, session, "GET")
    else:
        filters = {"notifications": {"resourceSubscriptions": ["note://a"]}, "_meta": META}
        listening = stream(
            there, None, "POST", there.message("subscriptions/listen", filters), method="subscriptions/listen"
        )
    with listening as messages:
        if listens != "GET":
            assert next(messages)["method"] == "notifications/subscriptions/acknowledged"
        for _ in range(2):
            start = time.monotonic()
            assert here.call(session, "change", uri="note://a") == here.pid
            told = next(messages)
            assert told["method"] == "notifications/resources/updated"
            assert told["params"]["uri"] == "note://a"
            assert time.monotonic() - start < 5
        if listens == "GET":
            assert here.http.delete("/mcp", headers=here.headers(session)).status_code == 204
            assert list(messages) == [], "its end is heard, too"


def test_a_question_is_answered_at_the_other(workers: tuple[Worker, Worker]) -> None:
    here, there = workers
    session = here.initialize()
    call = here.message("tools/call", {"name": "ask", "arguments": {}})
    with stream(here, session, "POST", call) as messages:
        question = next(messages)
        assert question["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"value": "blue"}}
        assert there.send(session, {"jsonrpc": "2.0", "id": question["id"], "result": answer}) == 202
        assert next(messages)["result"]["content"][0]["text"] == f"{here.pid} blue"


def test_a_state_is_taken_once_by_whichever(workers: tuple[Worker, Worker]) -> None:
    here, there = workers
    asked = here.call_stateless("once").json()["result"]
    (key,) = asked["inputRequests"]
    answer = {
        "inputResponses": {key: {"action": "accept", "content": {"value": "blue"}}},
        "requestState": asked["requestState"],
    }
    taken = there.call_stateless("once", **answer).json()
    assert taken["result"]["content"][0]["text"] == f"{there.pid} blue"
    for worker in workers:
        refused = worker.call_stateless("once", **answer)
        assert refused.status_code == 400
        assert "used already" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "runner",
    [
        "uvicorn",
        pytest.param("gunicorn", marks=needs_gunicorn),
        pytest.param("preloaded", marks=needs_gunicorn),
    ],
)
def test_a_restart_loses_nothing(runner: str, folder: Path, settings: dict[str, str]) -> None:
    session = ""
    for turn in range(2):
        with Served(command(folder, runner=runner), **settings) as served:
            served.wait_for("Application startup complete", times=2)
            with two_workers(origin_of(served, runner)) as (here, there):
                session = session or here.initialize()
                assert here.call(session, "count") == str(2 * turn + 1)
                assert there.call(session, "count") == str(2 * turn + 2)
            if turn == 0:
                served.signal(signal.SIGKILL, group=True)
            else:
                served.stop()


def test_a_session_outlives_the_secret_that_its_id_was_signed_under(
    folder: Path, settings: dict[str, str]
) -> None:
    del settings["MCPKIT_SECRET"]
    old, new = "the old secret of the notes", "the new secret of the notes"
    session = ""
    for turn, secrets in enumerate(([old], [new, old], [new])):
        with Served(command(folder), SECRETS=json.dumps(secrets), **settings) as served:
            served.wait_for("Application startup complete", times=2)
            with two_workers(served.origin) as (here, there):
                session = session or here.initialize()
                assert here.call(session, "count") == str(2 * turn + 1)
                assert there.call(session, "count") == str(2 * turn + 2)
            served.stop()


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_a_file_that_cannot_be_used_is_said_and_what_needs_none_is_served(
    folder: Path, settings: dict[str, str]
) -> None:
    file = Path(settings["FILE"])
    file.write_bytes(b"no database " * 100)
    with Served(command(folder), **settings) as served:
        served.wait_for("Application startup complete", times=2)
        with two_workers(served.origin) as (here, _):
            served.wait_for("the shared store does not answer", times=2)
            assert f"{file} is damaged, or no database: move it away" in served.notes
            refused = here.http.post("/mcp", json=here.message("initialize", CLIENT), headers=BOTH)
            assert refused.status_code == 503
            assert str(file) not in refused.text
            assert here.http.get("/health").status_code == 503
            assert here.http.get("/health?exclude=shared").status_code == 200
            assert here.call_stateless("change").json()["result"]["isError"], "its arguments are wrong"
            file.unlink()
            assert here.call(here.initialize(), "count") == "1"


def origin_of(served: Served, runner: str) -> str:
    if runner == "uvicorn":
        return served.origin
    served.wait_for("Listening at: http")
    found = re.search(r"http://127\.0\.0\.1:\d+", served.notes)
    assert found is not None
    return found[0]
