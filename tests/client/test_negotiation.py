"""Negotiation of the protocol version between client and server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Client, ProtocolError, Retries, Server, Timeout
from mcpkit.client.link import negotiation
from mcpkit.protocol.revisions import ALL
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.scripted_transport import error as error_result

pytestmark = pytest.mark.anyio


def legacy_server(transport: ScriptedTransport, message: Message) -> list[Message]:
    """Answer as a server of the handshake era."""
    if message["method"] == "initialize":
        return [initialized(message)]
    return [error_result(message, -32601)] if "id" in message else []


def discover_answers(to_discover: Any) -> ScriptedTransport:
    """Answer `server/discover` in some way, and `initialize` as it should be."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            return [{"id": message["id"], **to_discover}]
        return legacy_server(transport, message)

    return ScriptedTransport(script)


@pytest.mark.parametrize("revision", ALL)
async def test_revision_requested_is_used(revision: str) -> None:
    async with Client(Server("bakery", version="7"), protocol_version=revision) as client:
        assert client.protocol_version == revision
        assert client.protocol_version_reason == "as requested"
        assert client.server_info == {"name": "bakery", "version": "7"}


def test_revision_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown revision '2027-01-01'\\. Supported are 2024-11-05"):
        Client(Server("bakery"), protocol_version="2027-01-01")


@pytest.mark.parametrize(("to_discover", "reason"), [
    ({"error": {"code": -32601, "message": "no"}}, "server/discover with error -32601"),
    ({"error": {"code": -32602, "message": "no"}}, "server/discover with error -32602"),
    ({"error": {"code": -32000, "message": "no"}}, "server/discover with error -32000"),
    ({"error": {"code": 0, "message": "no"}}, "server/discover with error 0"),
    ({"result": {}}, "without supportedVersions"),
    ({"result": {"supportedVersions": "2026-07-28"}}, "without supportedVersions"),
    ({"result": {"supportedVersions": ["2025-11-25"]}}, "the server supports only the protocol versions 2025-11-25"),
    ({"error": {"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"]}}},
     "the server supports only the protocol versions 2025-06-18"),
])  # fmt: skip
async def test_discover_refused_falls_back_to_initialize(to_discover: Any, reason: str) -> None:
    transport = discover_answers(to_discover)
    async with Client(transport) as client:
        assert client.protocol_version == "2025-11-25"
        assert reason in client.protocol_version_reason
        assert client.server_info == {"name": "scripted", "version": "1"}
    assert transport.methods() == ["server/discover", "initialize", "notifications/initialized"]
    assert transport.sent[1]["params"]["protocolVersion"] == "2025-11-25"
    assert "_meta" not in transport.sent[1]["params"]


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_discover_stateless_error_does_not_fall_back(code: int) -> None:
    transport = discover_answers({"error": {"code": code, "message": "what is wrong"}})
    with pytest.raises(ProtocolError, match="what is wrong"):
        async with Client(transport):
            pass
    assert transport.methods() == ["server/discover"]
    assert not transport.is_open


@pytest.mark.parametrize("supported", [["2030-01-01"], None, [7]])
async def test_discover_without_common_version_is_error(supported: Any) -> None:
    transport = discover_answers(
        {"error": {"code": -32022, "message": "no such", "data": {"supported": supported}}}
    )
    with pytest.raises(ProtocolError):
        async with Client(transport):
            pass


@pytest.mark.parametrize("agreed", ["2026-07-28", 7])
async def test_initialize_unknown_counter_offer_is_refused(agreed: Any) -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "initialize":
            return [initialized(message, agreed)]
        return legacy_server(transport, message)

    transport = ScriptedTransport(script)
    with pytest.raises(ProtocolError, match="client and server have no revision in common"):
        async with Client(transport):
            pass
    assert "notifications/initialized" not in transport.methods()


async def test_discover_ignored_falls_back_to_initialize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "PROBE", 0.01)

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        return [] if message["method"] == "server/discover" else legacy_server(transport, message)

    async with Client(ScriptedTransport(script)) as client:
        assert client.protocol_version == "2025-11-25"
        assert "did not answer server/discover within" in client.protocol_version_reason


async def test_discover_late_answer_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "PROBE", 0.01)
    probes: list[Message] = []

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            probes.append(message)
            return []
        if message["method"] == "initialize":
            return [discovered(probes[0]), error_result(message, -32601)]
        return []

    transport = ScriptedTransport(script)
    async with Client(transport) as client:
        assert client.protocol_version == "2026-07-28"
        assert client.server_info["name"] == "scripted"
    assert "notifications/initialized" not in transport.methods()


async def test_max_timeout_limits_opening_and_retries() -> None:
    is_silent = False

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if is_silent:
            return []
        if message["method"] == "tools/list":
            transport.die()
            return []
        return legacy_server(transport, message)

    loop = asyncio.get_running_loop()
    transport = ScriptedTransport(script)
    async with Client(transport, timeout=Timeout(total=0.2), retries=Retries(attempts=100)) as client:
        began = loop.time()
        with pytest.raises(TimeoutError, match="tools/list"):
            await client.request("tools/list")
        is_silent = True
        transport.die()
        with pytest.raises(TimeoutError, match="tools/call"):
            await client.call_tool("bake")
        assert loop.time() - began < 5
