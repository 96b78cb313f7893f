"""Requests that are sent again after the connection failed, and those that must not be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Client, Retries
from mcpkit.exceptions import AuthorizationError, OutcomeUnknownError, StatusError, TransportError
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized, text

pytestmark = pytest.mark.anyio

Fault = Callable[[ScriptedTransport], None]
TOOLS = [
    {"name": "bake", "inputSchema": {"type": "object"}},
    {"name": "taste", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "clean", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
    {"name": "sell", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}},
]


def dies(transport: ScriptedTransport) -> None:
    """End after the request was read."""
    transport.die()


def refuses(**members: Any) -> Fault:
    """Refuse to take the request."""

    def fault(transport: ScriptedTransport) -> None:
        raise TransportError("it was refused", may_have_begun=False, **members)

    return fault


def answers(status: int, **members: Any) -> Fault:
    def fault(transport: ScriptedTransport) -> None:
        raise StatusError(f"HTTP {status}", status, may_have_begun=status >= 500, **members)

    return fault


class Failing(ScriptedTransport):
    """A server that fails so often and then works.

    Args:
        method: At which method.
        faults: How, in this order.
    """

    def __init__(self, method: str, *faults: Fault, revision: str = "2026-07-28") -> None:
        super().__init__(self._answer)
        self.done: Counter[str] = Counter()
        self._method = method
        self._faults = list(faults)
        self._revision = revision

    def _answer(self, transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        if method == "server/discover":
            return [discovered(message)]
        if method == "initialize":
            return [initialized(message)]
        if "id" not in message:
            return []
        self.done[method] += 1
        if method == self._method and self._faults:
            self._faults.pop(0)(self)
            return []
        return [
            {"id": message["id"], "result": {"tools": TOOLS}}
            if method == "tools/list"
            else text(message, "ok")
        ]


@pytest.mark.parametrize("fault", [dies, refuses(), answers(503)])
async def test_list_request_is_retried(fault: Fault) -> None:
    server = Failing("tools/list", fault)
    async with Client(server) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["bake", "taste", "clean", "sell"]
    assert server.done == {"tools/list": 2}


@pytest.mark.parametrize("name", ["bake", "unlisted"])
@pytest.mark.parametrize("fault", [dies, answers(502)])
async def test_call_with_unknown_outcome_is_not_retried(fault: Fault, name: str) -> None:
    server = Failing("tools/call", fault)
    async with Client(server) as client:
        await client.list_tools()
        with pytest.raises(OutcomeUnknownError, match="the server may have executed"):
            await client.call_tool(name)
        assert server.done["tools/call"] == 1
        assert (await client.call_tool(name)).text == "ok"  # the next one finds the server as it is now


@pytest.mark.parametrize("name", ["taste", "clean"])
@pytest.mark.parametrize("fault", [dies])
async def test_idempotent_tool_call_is_retried(fault: Fault, name: str) -> None:
    server = Failing("tools/call", fault)
    async with Client(server) as client:
        await client.list_tools()
        assert (await client.call_tool(name)).text == "ok"
    assert server.done["tools/call"] == 2


@pytest.mark.parametrize("fault", [refuses(), answers(429), refuses(session_is_gone=True)])
async def test_call_that_never_began_is_retried(fault: Fault) -> None:
    server = Failing("tools/call", fault)
    async with Client(server) as client:
        assert (await client.call_tool("bake")).text == "ok"
    assert server.done["tools/call"] == 2


async def test_tries_limits_attempts() -> None:
    server = Failing("tools/call", *[refuses()] * 9)
    async with Client(server, retries=Retries(attempts=4)) as client:
        with pytest.raises(TransportError, match="it was refused"):
            await client.call_tool("bake")
    assert server.done["tools/call"] == 4


@pytest.mark.parametrize("fault", [answers(404), refuses(may_pass=False)])
async def test_permanent_error_is_not_retried(fault: Fault) -> None:
    server = Failing("tools/call", fault)
    async with Client(server) as client:
        with pytest.raises(TransportError):
            await client.call_tool("bake")
    assert server.done["tools/call"] == 1


async def test_authorization_error_is_raised_at_once() -> None:
    def fault(transport: ScriptedTransport) -> None:
        raise AuthorizationError("it wants a token", 401, "Bearer")

    server = Failing("tools/list", fault)
    async with Client(server) as client:
        with pytest.raises(AuthorizationError, match="it wants a token") as caught:
            await client.list_tools()
    assert (caught.value.status, caught.value.challenge) == (401, "Bearer")
    assert server.done["tools/list"] == 1


async def test_retry_after_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", slept)
    server = Failing("tools/list", answers(503, retry_after=7), answers(429, retry_after=2.5))
    async with Client(server) as client:
        await client.list_tools()
    assert waited == [7, 2.5]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_concurrent_calls_reopen_lost_connection_once(revision: str) -> None:
    server = Failing("tools/call", revision=revision)
    async with Client(server, protocol_version=revision) as client:
        server.die()
        results = await asyncio.gather(*(client.call_tool("bake") for _ in range(20)))
    assert [result.text for result in results] == ["ok"] * 20
    assert server.opened == 2
