"""How a client and a server agree upon a revision, at a pipe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Client, ProtocolError, Server, TransportError
from mcpkit.client.link import negotiation
from mcpkit.protocol.revisions import ALL, HANDSHAKE
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, error, initialized

pytestmark = pytest.mark.anyio


def old(transport: ScriptedTransport, message: Message) -> list[Message]:
    """Answer as a server of the handshake era."""
    if message["method"] == "initialize":
        return [initialized(message)]
    return [error(message, -32601)] if "id" in message else []


def answers(to_discover: Any) -> ScriptedTransport:
    """Answer `server/discover` in some way, and `initialize` as it should be."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            return [{"id": message["id"], **to_discover}]
        return old(transport, message)

    return ScriptedTransport(script)


@pytest.mark.parametrize("revision", ALL)
async def test_a_revision_can_be_asked_for(revision: str) -> None:
    async with Client(Server("bakery", version="7"), revision=revision) as client:
        assert client.revision == revision
        assert client.revision_reason == "as asked for"
        assert client.server_info == {"name": "bakery", "version": "7"}


async def test_without_one_it_is_the_newest() -> None:
    async with Client(Server("bakery", instructions="Ask for bread.")) as client:
        assert client.revision == ALL[-1]
        assert client.instructions == "Ask for bread."
        assert "tools" not in client.server_capabilities


def test_there_must_be_such_a_revision() -> None:
    with pytest.raises(ValueError, match="unknown revision '2027-01-01': there are 2024-11-05"):
        Client(Server("bakery"), revision="2027-01-01")


@pytest.mark.parametrize(
    ("to_discover", "reason"),
    [
        ({"error": {"code": -32601, "message": "no"}}, "answered with error -32601"),
        ({"error": {"code": -32602, "message": "no"}}, "answered with error -32602"),
        ({"error": {"code": -32000, "message": "no"}}, "answered with error -32000"),
        ({"error": {"code": 0, "message": "no"}}, "answered with error 0"),
        ({"result": {}}, "without supportedVersions"),
        ({"result": {"supportedVersions": "2026-07-28"}}, "without supportedVersions"),
        ({"result": {"supportedVersions": ["2025-11-25"]}}, "the server knows 2025-11-25"),
        (
            {"error": {"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"]}}},
            "the server knows 2025-06-18",
        ),
    ],
)
async def test_servers_of_the_handshake_era_are_initialized(to_discover: Any, reason: str) -> None:
    transport = answers(to_discover)
    async with Client(transport) as client:
        assert client.revision == "2025-11-25"
        assert reason in client.revision_reason
        assert client.server_info == {"name": "scripted", "version": "1"}
    assert transport.methods() == ["server/discover", "initialize", "notifications/initialized"]
    assert transport.sent[1]["params"]["protocolVersion"] == "2025-11-25"
    assert "_meta" not in transport.sent[1]["params"]


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_an_error_of_the_stateless_era_is_no_reason_to_fall_back(code: int) -> None:
    transport = answers({"error": {"code": code, "message": "what is wrong"}})
    with pytest.raises(ProtocolError, match="what is wrong"):
        async with Client(transport):
            pass
    assert transport.methods() == ["server/discover"]
    assert not transport.is_open


@pytest.mark.parametrize("supported", [["2030-01-01"], [], None, "2026-07-28", [7]])
async def test_where_no_revision_is_known_to_both_that_is_said(supported: Any) -> None:
    transport = answers({"error": {"code": -32022, "message": "no such", "data": {"supported": supported}}})
    with pytest.raises(ProtocolError):
        async with Client(transport):
            pass


async def test_a_server_that_refuses_what_it_says_it_speaks_is_asked_once_more() -> None:
    refused: list[Message] = []

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if refused:
            return [discovered(message)]
        refused.append(message)
        return [error(message, -32022, data={"supported": ["2026-07-28"], "requested": "2026-07-28"})]

    transport = ScriptedTransport(script)
    async with Client(transport) as client:
        assert client.revision == "2026-07-28"
        assert client.revision_reason == "the newest that both know"
    assert transport.methods() == ["server/discover"] * 2


async def test_a_server_that_refuses_it_again_is_not_asked_a_third_time() -> None:
    transport = answers(
        {"error": {"code": -32022, "message": "no such", "data": {"supported": ["2026-07-28"]}}}
    )
    with pytest.raises(ProtocolError, match="no such"):
        async with Client(transport):
            pass
    assert transport.methods() == ["server/discover"] * 2


@pytest.mark.parametrize("agreed", ["2030-01-01", "2026-07-28", 7, None])
async def test_a_counter_offer_that_is_not_known_is_refused(agreed: Any) -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "initialize":
            return [initialized(message, agreed)]
        return old(transport, message)

    transport = ScriptedTransport(script)
    with pytest.raises(ProtocolError, match="there is no revision that both know"):
        async with Client(transport):
            pass
    assert "notifications/initialized" not in transport.methods()


@pytest.mark.parametrize("offered", HANDSHAKE[:-1])
async def test_a_counter_offer_that_is_known_is_taken(offered: str) -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "initialize":
            return [initialized(message, offered)]
        return old(transport, message)

    async with Client(ScriptedTransport(script)) as client:
        assert client.revision == offered
        assert client.revision_reason.endswith(f"the server answered initialize with {offered}")


async def test_a_server_that_does_not_speak_what_is_asked_for_says_so() -> None:
    with pytest.raises(ProtocolError, match=r"does not speak 2026-07-28: .* error -32601"):
        async with Client(ScriptedTransport(old), revision="2026-07-28"):
            pass


async def test_a_server_that_ends_when_it_is_probed_is_started_again() -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            transport.die()
        return old(transport, message) if transport.is_open else []

    transport = ScriptedTransport(script)
    async with Client(transport) as client:
        assert client.revision == "2025-11-25"
        assert "server/discover ended the server" in client.revision_reason
    assert transport.opened == 2


async def test_a_server_that_passes_over_the_probe_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negotiation, "PROBE", 0.01)

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        return [] if message["method"] == "server/discover" else old(transport, message)

    async with Client(ScriptedTransport(script)) as client:
        assert client.revision == "2025-11-25"
        assert "was not answered within" in client.revision_reason


async def test_a_server_that_only_takes_long_to_start_speaks_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(negotiation, "PROBE", 0.01)
    probes: list[Message] = []

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            probes.append(message)
            return []
        if message["method"] == "initialize":
            return [discovered(probes[0]), error(message, -32601)]
        return []

    transport = ScriptedTransport(script)
    async with Client(transport) as client:
        assert client.revision == "2026-07-28"
        assert client.server_info["name"] == "scripted"
    assert "notifications/initialized" not in transport.methods()


@pytest.mark.parametrize("seconds", [0.05, 0.5])
async def test_a_short_connect_timeout_leaves_time_for_initialize(seconds: float) -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        return [] if message["method"] == "server/discover" else old(transport, message)

    async with Client(ScriptedTransport(script), connect_timeout=seconds) as client:
        assert client.revision == "2025-11-25"
        assert f"not answered within {seconds / 2:g} s" in client.revision_reason


async def test_max_timeout_bounds_the_opening_and_all_tries_together() -> None:
    is_silent = False

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if is_silent:
            return []
        if message["method"] == "tools/list":
            transport.die()
            return []
        return old(transport, message)

    loop = asyncio.get_running_loop()
    transport = ScriptedTransport(script)
    async with Client(transport, max_timeout=0.2, tries=100) as client:
        began = loop.time()
        with pytest.raises(TimeoutError, match="tools/list"):
            await client.request("tools/list")
        is_silent = True
        transport.die()
        with pytest.raises(TimeoutError, match="tools/call"):
            await client.call("bake")
        assert loop.time() - began < 5


async def test_a_try_that_is_quiet_for_too_long_is_not_said_to_exceed_max_timeout() -> None:
    asked: list[Message] = []

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "tools/list":
            asked.append(message)
            if len(asked) == 1:
                transport.die()
            return []
        return old(transport, message)

    async with Client(ScriptedTransport(script), timeout=0.05, max_timeout=60, tries=2) as client:
        with pytest.raises(TimeoutError) as raised:
            await client.request("tools/list")
    assert len(asked) == 2
    assert "60" not in str(raised.value)


async def test_it_is_bounded_in_time() -> None:
    with pytest.raises(TimeoutError, match=r"has not answered within 0\.05 s"):
        async with Client(ScriptedTransport(lambda transport, message: []), connect_timeout=0.05):
            pass


async def test_the_era_is_kept_when_it_is_opened_anew() -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        return (
            [{"id": message["id"], "result": {}}] if message["method"] == "ping" else old(transport, message)
        )

    transport = ScriptedTransport(script)
    async with Client(transport) as client:
        transport.die()
        await client.request("ping")
    assert transport.methods() == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "initialize",
        "notifications/initialized",
        "ping",
    ]


async def test_a_server_that_has_become_another_one_is_asked_anew() -> None:
    newer = False

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if newer:
            is_probe = message["method"] == "server/discover"
            return [discovered(message) if is_probe else error(message, -32601)]
        return old(transport, message)

    transport = ScriptedTransport(script)
    async with Client(transport) as client:
        assert client.revision == "2025-11-25"
        newer = True
        transport.die()
        with pytest.raises(ProtocolError):
            await client.request("tools/list")
        assert client.revision == "2026-07-28"


async def test_where_there_is_no_way_that_is_told() -> None:
    class Nowhere(ScriptedTransport):
        async def open(self, receiver: object) -> None:
            raise TransportError("there is nobody", may_have_begun=False)

    with pytest.raises(TransportError, match="there is nobody"):
        async with Client(Nowhere(old)):
            pass


async def test_opening_can_be_given_up() -> None:
    transport = ScriptedTransport(lambda transport, message: [])
    client = Client(transport)
    opening = asyncio.create_task(client.__aenter__())
    while not transport.sent:
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not transport.is_open


async def test_a_session_whose_beginning_cannot_be_told_does_not_begin() -> None:
    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "notifications/initialized":
            raise TransportError("it is refused", may_have_begun=False, may_pass=False)
        return old(transport, message)

    with pytest.raises(TransportError, match="it is refused"):
        async with Client(ScriptedTransport(script)):
            pass
