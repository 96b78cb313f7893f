"""Request bodies, and limits on running requests, streams and sessions that one client cannot use up."""

import asyncio
import inspect
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from mcpkit import HttpOptions, Limits, Principal, Server, Timeouts
from mcpkit._utils.exceptions import RegistrationError
from mcpkit.requests.requests_to_client import NO_HEADERS
from mcpkit.storage import Memory
from mcpkit.transports.http import request
from mcpkit.transports.http.app_options import ASGI_OPTIONS, Settings
from mcpkit.transports.http.request import Bodies
from mcpkit.transports.http.response import Exchange, RefusedError
from tests.helpers.raw_client import PING, Answer, Client, Serve, initialize, lifespan
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock, until


async def read_body(
    *parts: bytes, is_cut: bool = False, headers: Mapping[bytes, bytes] = NO_HEADERS
) -> bytes:
    """Read a body from its parts; `is_cut` for a client that disconnects after them."""
    received: asyncio.Queue[Any] = asyncio.Queue()
    for number, part in enumerate(parts, 1):
        more = is_cut or number < len(parts)
        received.put_nowait({"type": "http.request", "body": part, "more_body": more})
    if is_cut:
        received.put_nowait({"type": "http.disconnect"})

    async def send(message: object) -> None:
        raise AssertionError("reading sends no response")

    return await Bodies(Limits(), Timeouts()).read(Exchange(received.get, send, 15, headers))


async def test_body_of_disconnected_client_is_refused() -> None:
    for parts in ([b"{"], []):
        with pytest.raises(RefusedError, match="before the end of the request body"):
            await read_body(*parts, is_cut=True)


async def test_body_reader_propagates_cancellation() -> None:
    reading = asyncio.ensure_future(read_body())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@each_row(("headers", "parts"), [
    (headers, parts)
    for headers in ({b"content-length": b"2"}, {b"transfer-encoding": b"chunked"})
    for parts in ([b""], [b"", b""])
])  # fmt: skip
async def test_announced_empty_body_is_refused_with_cause(headers, parts) -> None:
    with pytest.raises(RefusedError, match=r"although the headers announce one\. Send a body") as refusal:
        await read_body(*parts, headers=headers)
    assert refusal.value.status == 400
    with pytest.raises(RefusedError, match="uvicorn with --http h11"):
        await read_body(*parts, headers={**headers, b"upgrade": b"h2c"})
    assert await read_body(*parts, headers={b"content-length": b"0", b"upgrade": b"h2c"}) == b""


@each_row(("headers", "status"), [
    *(
        ({"content-type": name}, 200)
        for name in ("application/json", "application/json; charset=utf-8", "APPLICATION/JSON")
    ),
    *(
        ({"content-type": name}, 415)
        for name in (
            None, "", "text/plain", "application/x-www-form-urlencoded", "application/json-rpc",
            "multipart/form-data; boundary=application/json",
        )
    ),
    ({"content-encoding": "gzip"}, 415),
])  # fmt: skip
async def test_post_requires_json_without_encoding(headers, status, client) -> None:
    assert (await client.call_tool("echo", {"text": "hi"}, headers=headers).whole()).status == status


REFUSED = [
    ("POST", "/mcp", {"origin": "https://evil.example"}, 403),
    ("POST", "/mcp", {"host": "evil.example"}, 421), ("PUT", "/mcp", {}, 405),
    ("GET", "/mcp", {"accept": "text/html"}, 406), ("DELETE", "/mcp", {}, 400),
    ("POST", "/mcp", {"accept": "text/html"}, 406), ("POST", "/mcp", {"content-type": "text/plain"}, 415),
    ("POST", "/mcp", {"origin": "http://localhost", "content-type": "text/plain"}, 415),
    ("POST", "/sse", {}, 405), ("POST", "/messages", {}, 404),
    ("POST", "/own", {"host": "evil.example"}, 421), ("POST", "/nothing", {}, 404),
]  # fmt: skip
JSON = {"content-type": "application/json"}
LONG, CHUNKED = {"content-length": str(64 * 1024 + 1)}, {"transfer-encoding": "chunked"}


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the rest of a refused body for longer than a test takes."""
    monkeypatch.setattr(request, "_SHORT_BODY_TIME", 60)
    monkeypatch.setattr(request, "_DROP_TIME", 60)


@pytest.mark.usefixtures("short_timeout")
@pytest.mark.limit("body of a request that is refused")
@each_row(("method", "path", "headers", "status"), REFUSED)
async def test_refused_request_with_long_body_closes_connection(method, path, headers, status, client):
    short = JSON | {"content-length": "6"} | headers
    answer = client.open(method, path, headers=short, body=None).feed(b"123", more=True)
    answer = await answer.feed(b"456").whole()
    assert (answer.status, answer.headers.get("connection")) == (status, None)
    for size in (LONG, CHUNKED):
        answer = await client.open(method, path, headers=JSON | size | headers, body=None).head()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        answer.feed(b"x" * 64 * 1024, more=True).feed(b"x")
        assert (await answer.whole()).body


@pytest.mark.limit("time for a body")
@each_row(("body", "size", "options", "status", "version", "connection"), [
    (body, size, options, status, version, connection)
    for body, size, options, status in (
        (None, {"content-length": "101"}, {"limits": Limits(max_request_body_size=100)}, 413),
        (None, LONG, {"limits": Limits(max_request_body_size=100)}, 413),
        (b"x" * 101, CHUNKED, {"limits": Limits(max_request_body_size=100)}, 413),
        (b"{", {"content-length": "2"}, {"timeouts": Timeouts(request_body=0.01)}, 408),
    )
    for version, connection in (("1.1", "close"), ("2", None))
])  # fmt: skip
async def test_large_or_slow_body_closes_connection(
    body: bytes | None,
    size: dict[str, str],
    options: dict[str, Any],
    status: int,
    version: str,
    connection: str | None,
    server: Server,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request, "_SHORT_BODY_TIME", 0.01)
    monkeypatch.setattr(request, "_DROP_TIME", 0.01)
    async with serve(server, **options) as client:
        answer = client.open("POST", headers=JSON | size, body=None, http_version=version)
        if body is not None:
            answer.feed(body, more=True)
        assert ((await answer.whole()).status, answer.headers.get("connection")) == (status, connection)


EVE: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
ADA: dict[str, Any] = {"client": ("203.0.113.8", 50000)}
PLACES = 8


class Gate:
    """Tool that keeps its place until the gate opens."""

    def __init__(self) -> None:
        self.count = 0
        self.opened = asyncio.Event()

    async def wait_open(self) -> str:
        self.count += 1
        await self.opened.wait()
        return "ended"


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture
async def limited(gate: Gate) -> Server:
    server = Server("fair", limits=Limits(concurrent_requests=PLACES))
    server.tool(gate.wait_open)
    server.tool(lambda: "quick", name="quick")
    return server


def by_user(scope: Any) -> Principal | None:
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode())


@pytest.mark.parametrize(
    ("eve", "ada", "name"),
    [
        (EVE, ADA, "address 203.0.113.7"),
        ({"headers": {"x-user": "eve"}} | EVE, {"headers": {"x-user": "ada"}} | EVE, "principal 'eve'"),
    ],
    ids=["address", "principal"],
)
async def test_calls_of_one_client_leave_places_for_others(limited, gate, serve, eve, ada, name) -> None:
    async with serve(limited, http=HttpOptions(principal=by_user)) as client:
        calls = [client.call_tool("wait_open", **eve) for _ in range(PLACES)]
        await until(lambda: gate.count + sum(each.task.done() for each in calls) == PLACES)
        assert (await client.call_tool("quick", **ada).whole()).status == 200
        assert gate.count == PLACES // 2
        gate.opened.set()
        assert sorted([(await each.whole()).status or 0 for each in calls]) == [200] * 4 + [503] * 4
        excess = f"4 from {name}; one client has at most as many of 8 as are left for others"
        for refused in calls:
            if refused.status == 503:
                message = f"Too many requests are running ({excess}). Try again in 1 s"
                assert (refused.error()["message"], refused.headers["retry-after"]) == (message, "1")


@pytest.mark.limit("requests that run")
async def test_calls_from_loopback_may_use_all_places(limited: Server, gate: Gate, serve: Serve) -> None:
    async with serve(limited) as client:
        calls = [client.call_tool("wait_open") for _ in range(PLACES)]
        await until(lambda: gate.count == PLACES)
        refused = await client.call_tool("quick").whole()
        assert refused.error()["message"] == "Too many requests are running (8). Try again in 1 s"
        gate.opened.set()
        assert {(await each.whole()).status for each in calls} == {200}


async def open_session(http: Client, **scope: Any) -> dict[str, str]:
    opening = await http.post(initialize(), **scope).whole()
    return {"mcp-session-id": opening.headers["mcp-session-id"]}


@pytest.mark.limit("places of one client")
async def test_streams_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async def listen(http: Client, **scope: Any) -> Answer:
        headers = {"accept": "text/event-stream", **await open_session(http, **scope)}
        return await http.open("GET", headers=headers, **scope).head()

    async with serve(limited, limits=Limits(max_streams=PLACES)) as client:
        for _ in range(2):  # closed streams release their places
            streams = [
                await (listen(client, **EVE) if number % 2 else client.open("GET", "/sse", **EVE).head())
                for number in range(PLACES)
            ]
            assert [stream.status for stream in streams] == [200] * 4 + [503] * 4
            assert b"(4 from address 203.0.113.7; one client" in (await streams[-1].whole()).body
            assert (await listen(client, **ADA)).status == 200
            await client.aclose()
        assert client.app.router()._service().loop_state.stream_shares.taken == 0  # type: ignore[attr-defined]


async def test_sessions_of_one_client_leave_places_for_others(limited: Server, serve: Serve) -> None:
    async with serve(limited, limits=Limits(max_sessions=PLACES)) as client:
        sessions = [await open_session(client, **EVE) for _ in range(4)]
        for session in sessions:
            assert (await client.post(PING, session, **EVE).whole()).status == 200
        refused = await client.post(initialize(), **EVE).whole()
        assert refused.status == 503
        assert b"Too many sessions are open (4 from address 203.0.113.7; one client has" in refused.body
        assert (await client.post(initialize(), **ADA).whole()).status == 200
        await client.open("DELETE", headers=sessions[0], **EVE).whole()
        assert (await client.post(initialize(), **EVE).whole()).status == 200


# Options of the app, `run("http")`, and readiness


@each_row(("options", "error", "text"), [
    ({"pth": "/x"}, TypeError, "no option 'pth'. Did you mean 'path'?"),
    ({"zzz": 1}, TypeError, "no option 'zzz'. Its options are path, public_url,"),
    ({"sse": False}, TypeError, "Write server.asgi(http=HttpOptions(sse=...))"),
    ({"max_sessions": 3}, TypeError, "Write Server(limits=Limits(max_sessions=...))"),
    ({"http": {}}, TypeError, "http must be HttpOptions(...)"),
    ({"path": "mcp"}, ValueError, "path must begin with a slash"),
    ({"stateless": "yes"}, TypeError, "stateless must be True or False, got 'yes'"),
    ({"allowed_hosts": "x.com"}, ValueError, "allowed_hosts must be a list such as ['x.com']"),
    ({"allowed_origins": [1]}, TypeError, "allowed_origins must be a list of texts such as 'https://"),
    ({"public_url": 1}, TypeError, "public_url must be a URL such as 'https://example.com/mcp', got 1"),
    ({"public_url": "https://example.com:99999"}, ValueError, "Port out of range 0-65535"),
    ({"path": "/sse"}, ValueError, "path='/sse' is a path of the HTTP+SSE transport"),
    ({"http": HttpOptions(readiness_path="/mcp/")}, ValueError, "'/mcp/' is the path of path='/mcp' too"),
])  # fmt: skip
def test_invalid_option_is_refused_with_advice(options, error, text) -> None:
    with pytest.raises(error, match=re.escape(text)):
        Server("s").asgi(**options)


def test_secret_in_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for secret in ("", "short"):
        monkeypatch.setenv("MCPKIT_SECRET", secret)
        with pytest.raises(
            ValueError, match=r"MCPKIT_SECRET must have at least 16 bytes, got .*generate one"
        ):
            Server("s").asgi()


def test_option_has_check_and_documented_default() -> None:
    displayed = inspect.signature(Server("s").asgi).parameters
    settings = Settings()
    assert tuple(displayed) == ASGI_OPTIONS
    for name in displayed:
        with pytest.raises(TypeError, match=f"^{name} must be "):
            Settings(**{name: object()})
        assert getattr(settings, name) == displayed[name].default


def test_app_mounts_before_and_after_first_request():
    outer, first, second = (Server(name).asgi() for name in ("outer", "first", "second"))
    outer.mount("/first", first)
    with pytest.raises(RegistrationError, match="such as '/other', got 'second'"):
        outer.mount("second", second)
    client = TestClient(outer, base_url="http://127.0.0.1:8000")
    assert client.get("/first/mcp").status_code == 400
    outer.mount("/second", second)
    assert client.get("/second/mcp").status_code == 400
    assert client.get("/third/mcp").status_code == 404


@pytest.fixture
def uvicorn_configs(monkeypatch: pytest.MonkeyPatch) -> list[uvicorn.Config]:
    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets=None: configs.append(self.config))
    return configs


def test_run_listens_on_loopback_in_one_process(uvicorn_configs, monkeypatch, caplog) -> None:
    with pytest.raises(ValueError, match="`uvicorn module:app --workers 3`"):
        Server("several").run("http", workers=3)
    Server("local").run("sse")
    Server("local").run("http", workers=1, reload=False)
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    Server("one").run("http", log_config=None)
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert "WEB_CONCURRENCY=3 is ignored" in caplog.text
    assert "and run `uvicorn module:app`" in caplog.text
    assert [(config.host, config.port) for config in uvicorn_configs] == [("127.0.0.1", 8000)] * 3
    assert uvicorn_configs[-1].workers == 1


@each_row(("option", "message"), [
    ("prot", "server.run() has no option 'prot'. Did you mean 'port'?"),
    ("max_message_size", "Write Server(limits=Limits(max_message_size=...))"),
    ("shutdown", "Write Server(timeouts=Timeouts(shutdown=...))"),
    ("sse", "Write server.run(http=HttpOptions(sse=...))"),
    ("storage", "Pass it to the server: Server(storage=...)"),
    ("ssl_keyfil", "Did you mean 'ssl_keyfile'?"),
])  # fmt: skip
def test_run_refuses_unknown_option(option: str, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        Server("s").run("http", **{option: 1})  # type: ignore[arg-type]  # misspelt


READY = {"status": "ready"}
LIVE = (200, {"status": "live"})
PROBES = HttpOptions(readiness_path="/health", liveness_path="/live")


def not_ready(reason: str) -> tuple[int, dict[str, str]]:
    return 503, {"status": "not ready", "reason": reason}


class UnreliableStore(Memory):
    def __init__(self) -> None:
        super().__init__()
        self.mode = "up"
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, key: str) -> Mapping[str, str]:
        if key.endswith("/ready"):
            self.reads += 1
            await self.gate.wait()
            if self.mode == "down":
                raise ConnectionError("the engine is down")
            if self.mode == "hanging":
                await asyncio.Event().wait()
        return await super().read(key)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mcpkit.transports.http.service.monotonic", clock)
    return clock


async def probe(client: Client, path: str = "/health") -> tuple[int | None, Any]:
    answer = await client.open("GET", path, headers={"host": "10.0.0.5:8000"}).whole()
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(
    ("mode", "reason"), [("down", "the engine is down"), ("hanging", "it took longer than 0.01 seconds")]
)
async def test_readiness_follows_shared_store(mode, reason, serve, clock, caplog, monkeypatch) -> None:
    monkeypatch.setattr("mcpkit.transports.http.service._CHECK_TIMEOUT", 0.02)
    engine = UnreliableStore()
    server = Server("s", storage=engine, secret_key="a secret of some length")
    async with serve(server, http=PROBES) as client:
        assert await probe(client) == (200, READY)
        engine.mode = mode
        clock.now += 1
        for _ in range(3):
            assert await probe(client) == not_ready("the shared store does not answer")
            clock.now += 1
        assert await probe(client, "/live") == LIVE
        assert await probe(client, "/health?exclude=shared") == (200, READY)
        assert (await client.ask("server/discover").whole()).status == 200
        engine.mode = "up"
        assert await probe(client) == (200, READY)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == [
        f"not ready: the shared store does not answer ({reason})",
        "ready again: the shared store answers",
    ]


@pytest.mark.limit("look whether the shared store answers")
async def test_readiness_probes_read_store_once_a_second(serve: Serve, clock: Clock) -> None:
    engine = UnreliableStore()
    server = Server("s", storage=engine, secret_key="a secret of some length")
    async with serve(server, http=PROBES) as client:
        for second in range(1, 4):
            engine.gate.clear()
            probes = [asyncio.create_task(probe(client)) for _ in range(20)]
            await until(lambda second=second: engine.reads == second)
            engine.gate.set()
            assert await asyncio.gather(*probes) == [(200, READY)] * 20
            clock.now += 0.5
            assert await probe(client) == (200, READY)
            assert engine.reads == second
            clock.now += 0.5


async def test_readiness_reports_start_and_shutdown(schema_dir: Path) -> None:
    entered, running, released, ending = (asyncio.Event() for _ in range(4))

    @asynccontextmanager
    async def enter(_: Server) -> AsyncIterator[None]:
        await entered.wait()
        yield

    server = Server("s", lifespan=enter)

    @server.tool
    async def last() -> None:
        running.set()
        await released.wait()

    app = server.asgi(http=PROBES)
    client = Client(app, schema_dir)

    async def serve() -> None:
        async with lifespan(app):
            await ending.wait()

    serving = asyncio.create_task(serve())
    assert await probe(client) == not_ready("starting")
    assert await probe(client, "/live") == LIVE
    entered.set()
    await server.engine.ready()
    call = client.call_tool("last")
    await running.wait()
    assert await probe(client) == (200, READY)
    ending.set()
    while (answer := await probe(client)) == (200, READY):
        pass
    assert answer == not_ready("shutting down")
    assert await probe(client, "/live") == LIVE
    released.set()
    assert (await call.whole()).status == 200
    await serving


async def test_failed_lifespan_is_reported_to_the_asgi_server() -> None:
    @asynccontextmanager
    async def enter(_: Server) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    sent: asyncio.Queue[Any] = asyncio.Queue()
    received: asyncio.Queue[Any] = asyncio.Queue()
    received.put_nowait({"type": "lifespan.startup"})
    with pytest.raises(OSError, match="no database"):
        await Server("s", lifespan=enter).asgi()({"type": "lifespan"}, received.get, sent.put)
    assert sent.get_nowait() == {"type": "lifespan.startup.failed", "message": "OSError: no database"}
    assert sent.empty()
