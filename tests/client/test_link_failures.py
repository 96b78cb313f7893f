"""Connections that fail: requests sent again, requests that must not be, and servers that restart."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Client, Retries
from mcpkit.client.client_messages import OutgoingMessage
from mcpkit.client.http.http_transports import HttpTransport
from mcpkit.exceptions import AuthorizationError, OutcomeUnknownError, StatusError, TransportError
from tests.helpers.scripted_http import HttpRequest, Reply, greeting, scripted
from tests.helpers.scripted_http import text as text_content
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, error, initialized, text
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, until

REVISIONS = ["2025-11-25", "2026-07-28"]
Fault = Callable[[ScriptedTransport], None]
HINTS = {
    "bake": {},
    "taste": {"readOnlyHint": True},
    "clean": {"idempotentHint": True},
    "sell": {"readOnlyHint": False},
}
TOOLS = [{"name": n, "inputSchema": {"type": "object"}, "annotations": hints} for n, hints in HINTS.items()]


class UnstableServer(ScriptedTransport):
    """A server that fails at a method, once for each fault, and then works."""

    def __init__(self, method: str = "", *faults: Fault, revision: str = "2026-07-28") -> None:
        super().__init__(self._answer)
        self.received: Counter[str] = Counter()
        self.method = method
        self.faults = list(faults)
        self.revision = revision

    def _answer(self, transport: ScriptedTransport, message: Message) -> list[Message]:
        method = message["method"]
        self.received[method] += 1
        if method == self.method and self.faults:
            self.faults.pop(0)(self)
            return []
        if method in ("server/discover", "initialize"):
            if (method == "server/discover") != (self.revision == "2026-07-28"):
                return [error(message, -32601)]
            answer = discovered(message) if method == "server/discover" else initialized(message)
            answer["result"]["capabilities"] = {"tools": {"listChanged": True}}
            return [answer]
        if method == "tools/list":
            return [{"id": message["id"], "result": {"tools": TOOLS}}]
        return [text(message, "ok")] if method == "tools/call" else []


def dies(transport: ScriptedTransport) -> None:
    """End after the request was read."""
    transport.die()


def raises(error: TransportError) -> Fault:
    def fault(transport: ScriptedTransport) -> None:
        raise error

    return fault


def refuses(**members: Any) -> Fault:
    return raises(TransportError("it was refused", may_have_begun=False, **members))


def answers(status: int, **members: Any) -> Fault:
    return raises(StatusError(f"HTTP {status}", status, may_have_begun=status >= 500, **members))


UNAUTHORIZED = raises(AuthorizationError("it wants a token", 401, "Bearer"))


@each_row(("tool", "fault", "times", "raised"), [
    (None, dies, 2, None), (None, refuses(), 2, None), (None, answers(503), 2, None),
    (None, UNAUTHORIZED, 1, AuthorizationError), ("bake", dies, 1, OutcomeUnknownError),
    ("bake", answers(502), 1, OutcomeUnknownError), ("unlisted", dies, 1, OutcomeUnknownError),
    ("sell", dies, 1, OutcomeUnknownError), ("taste", dies, 2, None), ("clean", dies, 2, None),
    ("bake", refuses(), 2, None), ("bake", answers(429), 2, None),
    ("bake", refuses(session_is_gone=True), 2, None), ("bake", answers(404), 1, StatusError),
    ("bake", refuses(may_pass=False), 1, TransportError),
])  # fmt: skip
async def test_request_is_retried_unless_it_may_have_begun_or_error_is_permanent(tool, fault, times, raised):
    """A list is requested where the name of the tool is None."""
    server = UnstableServer("tools/call" if tool else "tools/list", fault)
    async with Client(server) as client:

        async def send() -> None:
            if tool:
                assert (await client.call_tool(tool)).text == "ok"
            else:
                assert len(await client.list_tools()) == 4

        if tool:
            await client.list_tools()
        if raised is None:
            await send()
        else:
            with pytest.raises(raised, match=r"may have executed|HTTP 404|it was refused|it wants a token"):
                await send()
        assert server.received[server.method] == times
        await send()  # the server works now


async def test_tries_limits_attempts() -> None:
    server = UnstableServer("tools/call", *[refuses()] * 9)
    async with Client(server, retries=Retries(attempts=4)) as client:
        with pytest.raises(TransportError, match="it was refused"):
            await client.call_tool("bake")
    assert server.received["tools/call"] == 4


async def test_retry_after_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", slept)
    faults = answers(503, retry_after=7), answers(429, retry_after=2.5)
    async with Client(UnstableServer("tools/list", *faults)) as client:
        await client.list_tools()
    assert waited == [7, 2.5]


async def test_call_to_server_that_does_not_start_has_not_begun(revision: str) -> None:
    server = UnstableServer(revision=revision)
    async with Client(server, protocol_version=revision) as client:
        server.method = "initialize" if revision == "2025-11-25" else "server/discover"
        server.faults = [dies] * 100
        server.die()
        with pytest.raises(TransportError, match="the server has ended") as caught:
            await client.call_tool("bake")
        assert not isinstance(caught.value, OutcomeUnknownError)
        assert not caught.value.may_have_begun
        assert server.opened == 4, "three tries, and no more"
        server.faults = [dies]
        assert (await client.call_tool("bake")).text == "ok"
    assert server.received["tools/call"] == 1


@pytest.mark.parametrize(("before", "after"), [REVISIONS, REVISIONS[::-1]])
async def test_server_may_restart_with_another_revision(before: str, after: str) -> None:
    server = UnstableServer(revision=before)
    async with Client(server) as client:
        assert client.protocol_version == before
        server.revision = after
        server.die()
        assert (await client.call_tool("bake")).text == "ok"
        assert client.protocol_version == after


async def test_concurrent_calls_reopen_lost_connection_once(revision: str) -> None:
    server = UnstableServer(revision=revision)
    async with Client(server, protocol_version=revision) as client:
        server.die()
        results = await asyncio.gather(*(client.call_tool("bake") for _ in range(20)))
    assert [result.text for result in results] == ["ok"] * 20
    assert server.opened == 2


async def test_watch_of_lost_session_joins_the_next() -> None:
    server = UnstableServer(revision="2025-11-25")
    async with Client(server, protocol_version="2025-11-25") as client:
        server.die()
        watch = client.listen(tools_list_changed=True)
        joining = asyncio.ensure_future(watch.__aenter__())
        while not client._session.is_open:
            await asyncio.sleep(0)
        server.die()  # before the watch has had its turn
        await joining
        server.deliver({"method": "notifications/tools/list_changed"})
        assert (await asyncio.wait_for(anext(watch), 30)).kind == "tools"
        assert server.opened == 3
        await watch.aclose()


@pytest.mark.parametrize("options", [{"retry": True}, {}], ids=["may be repeated", "may not"])
async def test_pending_call_of_expired_session_is_repeated_only_if_allowed(options: Any) -> None:
    """The call that finds the session expired opens a new one, which ends the pending call of the old one."""
    pending: list[Reply] = []

    async def script(request: HttpRequest, reply: Reply) -> None:
        name = request.message["params"]["name"]
        if name == "finds out" and len(server.of("POST", "initialize")) == 1:
            await reply.send(404)
        elif name == "waits" and not pending:
            pending.append(reply)
            await reply.hang_up()
        else:
            await reply.result(text_content(name))

    async with (
        scripted(greeting(script)) as server,
        Client(HttpTransport(server.url), protocol_version="2025-11-25") as client,
    ):
        first = asyncio.ensure_future(client.call_tool("waits", **options))
        await until(lambda: pending)
        assert (await client.call_tool("finds out")).text == "finds out"
        assert len(server.of("POST", "initialize")) == 2
        if options:
            assert (await first).text == "waits"
        else:
            with pytest.raises(OutcomeUnknownError):
                await first


async def test_response_at_timeout_counts() -> None:
    """The time is over while the transport is still at work, and the answer is there."""

    class Slow(UnstableServer):
        async def send(self, message: OutgoingMessage) -> None:  # type: ignore[override]
            super().send(message)
            if message.method == "tools/call":
                clock.ahead += 100
                await asyncio.Event().wait()

    async with Client(Slow()) as client:
        clock = LoopClock()
        assert (await client.call_tool("bake", timeout=50)).text == "ok"
