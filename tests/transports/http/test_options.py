"""Options of the app, `run("http")`, and readiness."""

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

from mcpkit import HttpOptions, Server
from mcpkit._utils.exceptions import RegistrationError
from mcpkit.storage import Memory
from mcpkit.transports.http.app_options import ASGI_OPTIONS, Settings
from tests.helpers.raw_client import Client, Serve, lifespan
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock, until


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
