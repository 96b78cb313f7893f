"""The handshake era: how a session opens, and what works before (basic/lifecycle)."""

from __future__ import annotations

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.middleware import CallNext, Request, Result
from tests.helpers.pipe import HANDSHAKE
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    server = Server(
        "weather",
        version="1.2.3",
        title="Weather",
        description="Forecasts.",
        instructions="Ask for a city.",
        icons=[{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        website_url="https://example.com",
    )

    @server.tool
    async def revision(ctx: Context) -> str:
        return ctx.revision

    return server


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_initialize_agrees_on_each_handshake_revision(
    server: Server, wire: Wire, revision: str
) -> None:
    async with wire(server, revision, initialize=False) as pipe:
        result = await pipe.initialize()
        assert result["protocolVersion"] == revision
        assert result["serverInfo"]["name"] == "weather"
        assert result["serverInfo"]["version"] == "1.2.3"
        assert result["instructions"] == "Ask for a city."
        assert await pipe.text("revision") == revision


@pytest.mark.parametrize(
    ("revision", "members"),
    [
        ("2024-11-05", {"name", "version"}),
        ("2025-03-26", {"name", "version"}),
        ("2025-06-18", {"name", "version", "title"}),
        ("2025-11-25", {"name", "version", "title", "description", "icons", "websiteUrl"}),
    ],
)
async def test_the_server_says_of_itself_what_the_revision_knows(
    server: Server, wire: Wire, revision: str, members: set[str]
) -> None:
    async with wire(server, revision, initialize=False) as pipe:
        assert set((await pipe.initialize())["serverInfo"]) == members


@pytest.mark.parametrize("wanted", ["2026-07-28", "1999-01-01", "2099-01-01", "", "latest"])
async def test_other_revisions_get_the_newest_handshake_revision_as_counter_offer(
    server: Server, wire: Wire, wanted: str
) -> None:
    async with wire(server, "2025-11-25", initialize=False) as pipe:
        result = await pipe.initialize(protocolVersion=wanted)
        assert result["protocolVersion"] == "2025-11-25"
        assert await pipe.text("revision") == "2025-11-25"


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": None},
        {"protocolVersion": 3},
        {"capabilities": None},
        {"capabilities": []},
        {"clientInfo": None},
        {"clientInfo": {"name": "x"}},
        {"clientInfo": {"name": "x", "version": 1}},
    ],
)
async def test_malformed_initialize_is_refused_and_can_be_mended(
    server: Server, wire: Wire, params: dict[str, object]
) -> None:
    async with wire(server, initialize=False) as pipe:
        good = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"},
        }
        error = await pipe.error("initialize", good | params)
        assert error["code"] == -32602
        assert next(iter(params)) in error["message"]
        assert (await pipe.initialize())["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    "method", ["tools/list", "tools/call", "logging/setLevel", "server/discover", "unknown/method"]
)
async def test_before_initialize_requests_are_refused(server: Server, wire: Wire, method: str) -> None:
    async with wire(server, initialize=False) as pipe:
        error = await pipe.error(method)
        assert error["code"] == -32600
        assert "initialize" in error["message"]


async def test_before_initialize_ping_works(server: Server, wire: Wire) -> None:
    async with wire(server, initialize=False) as pipe:
        assert await pipe.result("ping") == {}


async def test_before_initialize_notifications_are_ignored(server: Server, wire: Wire) -> None:
    async with wire(server, initialize=False) as pipe:
        pipe.notify("notifications/initialized")
        pipe.notify("notifications/cancelled", {"requestId": 1})
        pipe.notify("notifications/unheard-of", {"x": 1})
        await pipe.quiet()
        await pipe.initialize()


async def test_requests_are_served_before_the_client_says_initialized(server: Server, wire: Wire) -> None:
    async with wire(server, initialize=False) as pipe:
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"},
        }
        pipe.revision = "2025-06-18"
        await pipe.result("initialize", params)
        assert await pipe.text("revision") == "2025-06-18"


async def test_a_second_initialize_is_refused_and_the_session_stays(server: Server, wire: Wire) -> None:
    async with wire(server, "2025-06-18") as pipe:
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"},
        }
        assert (await pipe.error("initialize", params))["code"] == -32600
        assert await pipe.text("revision") == "2025-06-18"


async def test_an_initialize_that_fails_opens_no_session_and_can_be_sent_again(
    server: Server, wire: Wire
) -> None:
    refusals = [ProtocolError(-1, "not yet")]

    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        if refusals:
            raise refusals.pop()
        return await call_next(request)

    async with wire(server, "2025-06-18", initialize=False) as pipe:
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"},
        }
        assert (await pipe.error("initialize", params))["code"] == -1
        pipe.notify("notifications/initialized")
        server.tool(name="another")(lambda: None)  # of which nobody is told
        await pipe.quiet()
        error = await pipe.error("tools/list")
        assert error["code"] == -32600
        assert "initialize" in error["message"]
        await pipe.initialize()
        assert await pipe.text("revision") == "2025-06-18"


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_ping_is_answered_in_a_session(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        assert await pipe.result("ping") == {}


async def test_the_context_knows_the_client(wire: Wire) -> None:
    server = Server("s")

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.client.name} {ctx.client.version} {sorted(ctx.client.capabilities)} {ctx.era}"

    async with wire(server, "2025-06-18", initialize=False) as pipe:
        await pipe.initialize(capabilities={"roots": {}, "sampling": {}})
        assert await pipe.text("who") == "wire 1 ['roots', 'sampling'] handshake"


@pytest.mark.parametrize(
    "method", ["server/discover", "subscriptions/listen", "tools/unheard-of", "", "notifications/initialized"]
)
@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_methods_that_the_era_does_not_have_are_not_found(
    server: Server, wire: Wire, revision: str, method: str
) -> None:
    async with wire(server, revision) as pipe:
        assert (await pipe.error(method, {"notifications": {}}))["code"] == -32601


async def test_initialize_opens_the_session_before_later_messages_are_read(
    server: Server, wire: Wire
) -> None:
    async with wire(server, "2024-11-05", initialize=False) as pipe:
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"},
        }
        pipe.start("initialize", params)
        pipe.start("tools/call", {"name": "revision"})
        answers = await pipe.answered()
        assert [answer["id"] for answer in answers] == [1, 2]
        assert answers[1]["result"]["content"][0]["text"] == "2024-11-05"
