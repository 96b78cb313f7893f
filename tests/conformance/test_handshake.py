"""The start of a session (basic/lifecycle), and requests that carry everything in `_meta` (basic/index, "_meta")."""

from typing import Any

import pytest

from mcpkit import Context, Server
from tests.helpers.pipe import HANDSHAKE, META, REMOVED, Wire, initialize, message, stateless_meta


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
        return ctx.protocol_version

    return server


BASE = {"name", "version"}
MEMBERS = {
    **dict.fromkeys(("2024-11-05", "2025-03-26"), BASE),
    "2025-06-18": BASE | {"title"},
    "2025-11-25": BASE | {"title", "description", "icons", "websiteUrl"},
}


@pytest.mark.parametrize("version", MEMBERS)
async def test_initialize_negotiates_each_version(server: Server, wire: Wire, version: str) -> None:
    async with wire(server, version, initialize=False) as pipe:
        result = await pipe.initialize()
        assert result["protocolVersion"] == version
        assert result["serverInfo"].keys() == MEMBERS[version]
        assert (result["serverInfo"]["name"], result["serverInfo"]["version"]) == ("weather", "1.2.3")
        assert result["instructions"] == "Ask for a city."
        assert await pipe.text("revision") == version
        assert await pipe.result("ping") == {}
        unknown = (
            "server/discover", "subscriptions/listen", "tools/unknown", "", "notifications/initialized",
        )  # fmt: skip
        for method in unknown:
            assert (await pipe.error(method, {"notifications": {}}))["code"] == -32601, method


async def test_initialize_with_other_version_offers_latest_handshake_version(server, wire) -> None:
    for version in ("2026-07-28", "1999-01-01", "2099-01-01", "", "latest"):
        async with wire(server, "2025-11-25", initialize=False) as pipe:
            result = await pipe.initialize(protocolVersion=version)
            assert result["protocolVersion"] == "2025-11-25", version
            assert await pipe.text("revision") == "2025-11-25"


async def test_initialize_with_malformed_params_names_them_and_can_be_repeated(server, wire) -> None:
    valid = initialize()["params"]
    malformed: list[dict[str, Any]] = [
        *({"protocolVersion": version} for version in (None, 3)),
        *({"capabilities": capabilities} for capabilities in (None, [])),
        *({"clientInfo": info} for info in (None, {"name": "x"}, {"name": "x", "version": 1})),
    ]
    async with wire(server, initialize=False) as pipe:
        for params in malformed:
            error = await pipe.error("initialize", valid | params)
            assert (error["code"], next(iter(params)) in error["message"]) == (-32602, True), params
        assert (await pipe.initialize())["protocolVersion"] == "2025-11-25"


async def test_before_initialize_only_ping_is_answered(server: Server, wire: Wire) -> None:
    async with wire(server, initialize=False) as pipe:
        for method in ("tools/list", "tools/call", "logging/setLevel", "server/discover", "unknown/method"):
            error = await pipe.error(method)
            assert (error["code"], "initialize" in error["message"]) == (-32600, True), method
            assert error["message"].endswith("of revision 2026-07-28")
        assert await pipe.result("ping") == {}
        pipe.notify("notifications/initialized")
        pipe.notify("notifications/cancelled", {"requestId": 1})
        pipe.notify("notifications/unknown", {"x": 1})
        await pipe.quiet()
        await pipe.result("initialize", initialize()["params"])
        assert await pipe.text("revision") == "2025-11-25", "before notifications/initialized, too"


REVISION = "2026-07-28"


@pytest.fixture
def stateless_server() -> Server:
    server = Server("weather", version="1", title="Weather", instructions="Ask for a city.")

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.protocol_version} {ctx.client.name}"

    return server


async def test_stateless_results_have_server_info_and_errors_have_their_codes(stateless_server, wire) -> None:
    async with wire(stateless_server, REVISION) as pipe:
        listed, called = await pipe.result("tools/list"), await pipe.call_tool("envelope")
        for result in (listed, called):
            info = {"name": "weather", "title": "Weather", "version": "1"}
            assert result["_meta"][META + "serverInfo"] == info
            assert result["resultType"] == "complete"
        assert (listed["ttlMs"], listed["cacheScope"]) == (0, "public")
        assert not {"ttlMs", "cacheScope"} & called.keys()
        assert called["content"][0]["text"] == "2026-07-28 wire"
        for version in (*HANDSHAKE, "2099-01-01", "", "x" * 500):
            error = await pipe.error("tools/list", None, **{META + "protocolVersion": version})
            data = {"supported": [REVISION], "requested": version[:100]}
            assert (error["code"], error["data"]) == (-32022, data)
        for method in (*REMOVED, "tools/unknown"):
            error = await pipe.error(method, {"level": "info", "uri": "x://y"})
            assert error["code"] == -32601, method


async def test_stateless_malformed_meta_is_invalid_params(stateless_server: Server, wire: Wire) -> None:
    malformed: list[tuple[str, Any]] = [
        *(("protocolVersion", value) for value in (20260728, None)),
        *(("clientCapabilities", value) for value in (None, [])),
        *(("clientInfo", value) for value in ("wire", {"name": "wire"})),
        *(("logLevel", value) for value in ("loud", 3)),
    ]
    async with wire(stateless_server, REVISION) as pipe:
        for field, value in malformed:
            error = await pipe.error("tools/list", None, **{META + field: value})
            assert error["code"] == -32602, (field, value)
        for field, present in (("clientCapabilities", REVISION), ("protocolVersion", {})):
            other = {"clientCapabilities": "protocolVersion", "protocolVersion": "clientCapabilities"}[field]
            pipe.send(message("tools/list", {"_meta": {META + other: present}}))
            error = (await pipe.receive())["error"]
            assert (error["code"], META + field in error["message"]) == (-32602, True)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_session_and_stateless_requests_on_one_pipe(stateless_server, wire, revision) -> None:
    async with wire(stateless_server, revision) as pipe:
        assert await pipe.text("envelope") == f"{revision} test"
        meta = stateless_meta(**{META + "clientInfo": {"name": "other", "version": "2"}})
        params = {"name": "envelope", "_meta": meta}
        pipe.send(message("tools/call", params, "s"))
        assert (await pipe.receive())["result"]["content"][0]["text"] == "2026-07-28 other"
        assert await pipe.text("envelope") == f"{revision} test"
