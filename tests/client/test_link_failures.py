"""Connections that fail: requests sent again, requests that must not be, and servers that restart."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Client, Retries
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.exceptions import AuthorizationError, OutcomeUnknownError, StatusError, TransportError
from mcpkit.protocol.client import OutgoingMessage
from tests.helpers.scripted_http import Asked, Reply, greeting, scripted
from tests.helpers.scripted_http import text as said
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, error, initialized, text
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio


class RestartingServer(ScriptedTransport):
    """A server of either era that does something at some messages.

    Args:
        revision: Its revision; None for one that does not know the stateless era and does not answer it.
    """

    def __init__(self, revision: str = "2026-07-28") -> None:
        super().__init__(self._answer)
        self.revision = revision
        self.calls = 0
        self.dies_having_opened = 0
        self.dies_at_start = 0
        self.is_silent_on_levels = False

    def _answer(self, transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        is_stateless = self.revision == "2026-07-28"
        if method in {"server/discover", "initialize"} and self.opened > 1 and self.dies_at_start:
            self.dies_at_start -= 1
            self.die()
            return []
        if method == "server/discover":
            if not is_stateless:
                return []  # it passes over what comes before `initialize`
            self.say(discovered(message))
        elif method == "initialize":
            self.say(error(message, -32601) if is_stateless else initialized(message))
        elif method == "logging/setLevel":
            return [] if self.is_silent_on_levels else [{"id": message["id"], "result": {}}]
        elif method == "tools/call":
            self.calls += 1
            return [text(message, "done")]
        is_last_message = method == ("server/discover" if is_stateless else "notifications/initialized")
        if is_last_message and self.opened > 1 and self.dies_having_opened:
            self.dies_having_opened -= 1
            self.die()
        return []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_call_to_a_server_that_does_not_start_has_not_begun(revision: str) -> None:
    server = RestartingServer(revision)
    async with Client(server, protocol_version=revision) as client:
        server.dies_at_start = 1
        server.die()
        assert (await client.call_tool("bake")).text == "done"
        assert server.opened == 3
        server.dies_at_start = 100
        server.die()
        with pytest.raises(TransportError, match="the server has ended") as caught:
            await client.call_tool("bake")
        assert not isinstance(caught.value, OutcomeUnknownError)
        assert not caught.value.may_have_begun
        assert server.opened == 6, "three tries, and no more"
        server.dies_at_start = 0
        assert (await client.call_tool("bake")).text == "done"
    assert server.calls == 2


@pytest.mark.parametrize("before", ["2025-11-25", "2026-07-28"])
async def test_server_may_restart_with_another_revision(before: str) -> None:
    after = "2025-11-25" if before == "2026-07-28" else "2026-07-28"
    server = RestartingServer("2026-07-28")
    server.revision = before
    clock = LoopClock()

    async def advance_until_done(client: Any) -> Any:
        opening = asyncio.ensure_future(client)
        while not opening.done():
            if (
                server.methods()
                and server.methods()[-1] == "server/discover"
                and server.revision == "2025-11-25"
            ):
                clock.ahead += 11  # it does not answer that
            await asyncio.sleep(0.001)
        return opening.result()

    client = Client(server)
    await advance_until_done(client.__aenter__())
    assert client.protocol_version == before
    server.revision = after
    server.die()
    assert (await advance_until_done(client.call_tool("bake"))).text == "done"
    assert client.protocol_version == after
    await client.close()


async def test_watch_of_a_lost_session_joins_the_next() -> None:
    class Session(RestartingServer):
        def _answer(self, transport: ScriptedTransport, message: Message) -> list[Message]:
            if message["method"] == "initialize":
                answer = initialized(message)
                answer["result"]["capabilities"] = {"tools": {"listChanged": True}}
                return [answer]
            return super()._answer(transport, message)

    server = Session("2025-11-25")
    async with Client(server, protocol_version="2025-11-25") as client:
        server.die()
        watch = client.listen(tools_list_changed=True)
        joining = asyncio.ensure_future(watch.__aenter__())
        while not client._link.is_open:
            await asyncio.sleep(0)
        server.die()  # before the watch has had its turn
        await joining
        server.say({"method": "notifications/tools/list_changed"})
        change = await asyncio.wait_for(watch.__anext__(), 30)
        assert change.kind == "tools"
        assert server.opened == 3
        await watch.aclose()


async def test_calls_of_an_expired_session_are_repeated_only_if_allowed() -> None:
    """The one that finds out opens a new session; what others have asked in the old one is cut off by that."""
    waiting: list[Reply] = []
    is_gone = False

    async def script(request: Asked, reply: Reply) -> None:
        nonlocal is_gone
        name = request.message["params"]["name"]
        if name == "finds out" and not is_gone:
            is_gone = True
            await reply.send(404)
        elif name == "waits" and not waiting:
            waiting.append(reply)
            await reply.hang_up()
        else:
            await reply.result(said(name))

    async with (
        scripted(greeting(script)) as server,
        Client(HttpTransport(server.url), protocol_version="2025-11-25") as client,
    ):
        first = asyncio.ensure_future(client.call_tool("waits", retry=True))
        await until(lambda: waiting)
        assert (await client.call_tool("finds out")).text == "finds out"
        assert (await first).text == "waits"
        assert len(server.of("POST", "initialize")) == 2
        waiting.clear()
        is_gone = False
        first = asyncio.ensure_future(client.call_tool("waits"))
        await until(lambda: waiting)
        assert (await client.call_tool("finds out")).text == "finds out"
        with pytest.raises(OutcomeUnknownError):
            await first


async def test_response_at_the_timeout_counts() -> None:
    """The time is over while the transport is still at work, and the answer is there."""

    class Slow(RestartingServer):
        async def send(self, message: OutgoingMessage) -> None:  # type: ignore[override]
            super().send(message)
            if message.method == "tools/call":
                clock.ahead += 100
                await asyncio.Event().wait()

    async with Client(Slow()) as client:
        clock = LoopClock()
        assert (await client.call_tool("bake", timeout=50)).text == "done"


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
