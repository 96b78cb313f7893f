"""The stateless era: each request says all about itself in `_meta` (basic/index, "_meta")."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Cache, Context, Server
from tests.helpers.pipe import HANDSHAKE, META, REMOVED, stateless_meta
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

REVISION = "2026-07-28"


@pytest.fixture
def server() -> Server:
    server = Server("weather", version="1", title="Weather", instructions="Ask for a city.")

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.era} {ctx.revision} {ctx.client.name}"

    return server


async def test_discover_says_what_the_server_is(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        result = await pipe.result("server/discover")
        assert result["supportedVersions"] == [REVISION]
        assert result["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
        assert result["instructions"] == "Ask for a city."
        assert result["resultType"] == "complete"


async def test_every_result_names_the_server(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        for result in (await pipe.result("tools/list"), await pipe.call("envelope")):
            assert result["_meta"][META + "serverInfo"] == {
                "name": "weather",
                "title": "Weather",
                "version": "1",
            }
            assert result["resultType"] == "complete"


async def test_a_request_needs_no_session(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        assert await pipe.text("envelope") == "stateless 2026-07-28 wire"


async def test_client_info_may_be_missing(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        meta = stateless_meta()
        del meta[META + "clientInfo"]
        pipe.send(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "envelope", "_meta": meta},
            }
        )
        assert (await pipe.receive())["result"]["content"][0]["text"] == "stateless 2026-07-28 None"


@pytest.mark.parametrize("wanted", [*HANDSHAKE, "2099-01-01", "", "x" * 500])
async def test_other_revisions_are_unsupported(server: Server, wire: Wire, wanted: str) -> None:
    async with wire(server, REVISION) as pipe:
        error = await pipe.error("tools/list", None, **{META + "protocolVersion": wanted})
        assert error["code"] == -32022
        assert error["data"] == {"supported": [REVISION], "requested": wanted[:100]}
        assert len(error["message"]) < 100


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("protocolVersion", 20260728),
        ("protocolVersion", None),
        ("clientCapabilities", None),
        ("clientCapabilities", []),
        ("clientInfo", "wire"),
        ("clientInfo", {"name": "wire"}),
        ("logLevel", "loud"),
        ("logLevel", 3),
    ],
)
async def test_malformed_fields_of_the_envelope_are_invalid_params(
    server: Server, wire: Wire, field: str, value: Any
) -> None:
    async with wire(server, REVISION) as pipe:
        error = await pipe.error("tools/list", None, **{META + field: value})
        assert error["code"] == -32602


async def test_a_missing_field_of_the_envelope_is_named(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        meta = {META + "protocolVersion": REVISION}
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        error = (await pipe.receive())["error"]
        assert error["code"] == -32602
        assert META + "clientCapabilities" in error["message"]


async def test_a_missing_protocol_version_is_named_where_there_is_no_session(
    server: Server, wire: Wire
) -> None:
    async with wire(server, REVISION) as pipe:
        meta = {META + "clientCapabilities": {}}
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        error = (await pipe.receive())["error"]
        assert error["code"] == -32602
        assert META + "protocolVersion" in error["message"]


@pytest.mark.parametrize(
    "method",
    [
        *REMOVED,
        "tools/unheard-of",
    ],
)
async def test_removed_and_unknown_methods_are_not_found(server: Server, wire: Wire, method: str) -> None:
    async with wire(server, REVISION) as pipe:
        assert (await pipe.error(method, {"level": "info", "uri": "x://y"}))["code"] == -32601


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_both_eras_live_side_by_side_on_one_pipe(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        assert await pipe.text("envelope") == f"handshake {revision} wire"
        meta = stateless_meta(**{META + "clientInfo": {"name": "other", "version": "2"}})
        params = {"name": "envelope", "_meta": meta}
        pipe.send({"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": params})
        assert (await pipe.receive())["result"]["content"][0]["text"] == "stateless 2026-07-28 other"
        assert await pipe.text("envelope") == f"handshake {revision} wire"


async def test_a_stateless_request_does_not_open_a_session(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        await pipe.result("tools/list")
        pipe.send({"jsonrpc": "2.0", "id": "h", "method": "tools/list"})
        assert (await pipe.receive())["error"]["code"] == -32600


async def test_cache_hints_are_public_lists_and_private_contents_both_stale_at_once(wire: Wire) -> None:
    server = Server("s")

    @server.resource("data://x")
    def x() -> str:
        return "x"

    async with wire(server, REVISION) as pipe:
        listed = await pipe.result("resources/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (0, "public")
        read = await pipe.result("resources/read", {"uri": "data://x"})
        assert (read["ttlMs"], read["cacheScope"]) == (0, "private")


async def test_cache_hints_are_configured_by_method_and_by_resource(wire: Wire) -> None:
    server = Server(
        "s", cache={"tools/list": Cache(ttl=300), "resources/read": Cache(ttl=1.5, scope="private")}
    )

    @server.tool
    def t() -> str:
        return ""

    @server.resource("data://x")
    def x() -> str:
        return "x"

    @server.resource("data://y", cache=Cache(ttl=60, scope="public"))
    def y() -> str:
        return "y"

    @server.resource("data://z/{name}", cache=Cache(ttl=5))
    def z(name: str) -> str:
        return name

    async with wire(server, REVISION) as pipe:

        async def hints(method: str, **params: Any) -> tuple[int, str]:
            result = await pipe.result(method, params)
            return result["ttlMs"], result["cacheScope"]

        assert await hints("tools/list") == (300_000, "public")
        assert await hints("resources/read", uri="data://x") == (1500, "private")
        assert await hints("resources/read", uri="data://y") == (60_000, "public")
        assert await hints("resources/read", uri="data://z/1") == (5000, "public")
        assert await hints("server/discover") == (0, "public")


async def test_results_that_cannot_be_cached_have_no_hints(server: Server, wire: Wire) -> None:
    async with wire(server, REVISION) as pipe:
        assert not {"ttlMs", "cacheScope"} & (await pipe.call("envelope")).keys()


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_the_handshake_era_gets_none_of_this(server: Server, wire: Wire, revision: str) -> None:
    async with wire(server, revision) as pipe:
        for result in (await pipe.result("tools/list"), await pipe.call("envelope")):
            assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & result.keys()
