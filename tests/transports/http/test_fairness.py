"""One client cannot take all places of a server: not with many calls, nor sessions, nor streams."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest

from mcpkit import Principal, Server
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.serving import in_thread
from tests.helpers.session_server import PING
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

EVE, ADA = {"X-Forwarded-For": "203.0.113.7"}, {"X-Forwarded-For": "203.0.113.8"}
PLACES = 8


class Held:
    """A tool that holds its place until the test lets it go."""

    def __init__(self) -> None:
        self.count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate: asyncio.Event | None = None
        self._lock = threading.Lock()

    async def hold(self) -> str:
        """Hold a place."""
        with self._lock:
            if self._gate is None:
                self._loop, self._gate = asyncio.get_running_loop(), asyncio.Event()
            self.count += 1
        await self._gate.wait()
        return "held"

    def release(self) -> None:
        if self._loop is not None and self._gate is not None:
            with suppress(RuntimeError):  # that loop has ended
                self._loop.call_soon_threadsafe(self._gate.set)


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.release()


def make_server(held: Held, **options: Any) -> Server:
    server = Server("fair", max_running=PLACES, **options)
    server.tool(held.hold)

    @server.tool
    async def quick() -> str:
        await asyncio.sleep(0)
        return "quick"

    return server


class Web:
    """Clients of a real server, in one era."""

    def __init__(self, http: httpx2.AsyncClient, era: str) -> None:
        self.http = http
        self.era = era

    async def opened(self, who: dict[str, str]) -> httpx2.Response:
        """Open a session."""
        return await self.http.post("/mcp", json=initialize(), headers=who)

    async def call(self, name: str, who: dict[str, str]) -> httpx2.Response:
        """Call a tool; where there are sessions, in a new one."""
        params: dict[str, Any] = {"name": name, "arguments": {}}
        if self.era == "stateless":
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
        elif self.era == "guests":
            headers = {"mcp-protocol-version": "2025-06-18"}
        else:
            headers = {"mcp-session-id": (await self.opened(who)).headers["mcp-session-id"]}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return await self.http.post("/mcp", json=message, headers=who | headers)


@asynccontextmanager
async def web(app: Any, parser: str, era: str = "sessions") -> AsyncIterator[Web]:
    with in_thread(app, http=parser) as url:
        async with httpx2.AsyncClient(base_url=url, timeout=30, limits=httpx2.Limits()) as http:
            yield Web(http, era)


def by_user(scope: Any) -> Principal | None:
    user = dict(scope["headers"]).get(b"x-user")
    return None if user is None else Principal(user.decode())


def refusal(answer: httpx2.Response) -> str:
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    return answer.json()["error"]["message"] if answer.text.startswith("{") else answer.text


@pytest.mark.parametrize("era", ["stateless", "sessions", "guests"])
@pytest.mark.parametrize("parser", ["h11", "httptools"])
@pytest.mark.parametrize(
    ("eve", "ada", "name"),
    [
        (EVE, ADA, "address 203.0.113.7"),
        ({"X-User": "eve"}, {"X-User": "ada"}, "principal 'eve'"),
        ({"X-User": "eve"} | EVE, {"X-User": "ada"} | EVE, "principal 'eve'"),  # at one address
    ],
    ids=["addresses", "principals", "both"],
)
async def test_calls_of_one_client_leave_places_for_others(
    held: Held, era: str, parser: str, eve: dict[str, str], ada: dict[str, str], name: str
) -> None:
    app = make_server(held).asgi(principal=by_user, stateless=era == "guests")
    async with web(app, parser, era) as clients:
        calls = [asyncio.create_task(clients.call("hold", eve)) for _ in range(PLACES)]
        await until(lambda: held.count + sum(call.done() for call in calls) == PLACES)
        assert (await clients.call("quick", ada)).status_code == 200
        assert held.count == PLACES // 2
        held.release()
        answers = await asyncio.gather(*calls)
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [503] * 4
    texts = {refusal(answer) for answer in answers if answer.status_code == 503}
    excess = f"4 from {name}; one client has at most as many of 8 as are left for others"
    assert texts == {f"Too many requests are running ({excess}); try again later"}


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_so_do_those_of_one_client_with_many_streams_of_2024(held: Held, parser: str) -> None:
    async with web(make_server(held).asgi(), parser) as clients:
        calls = [asyncio.create_task(call_of_2024(clients.http, "hold", EVE)) for _ in range(PLACES)]
        await until(lambda: held.count + sum(call.done() for call in calls) == PLACES)
        assert "result" in await call_of_2024(clients.http, "quick", ADA)
        assert held.count == PLACES // 2
        held.release()
        answers = await asyncio.gather(*calls)
    texts = [answer["error"]["message"] for answer in answers if "error" in answer]
    assert len(texts) == PLACES // 2
    assert all("(4 from address 203.0.113.7; one client" in text for text in texts)


async def call_of_2024(http: httpx2.AsyncClient, name: str, who: dict[str, str]) -> Any:
    """Call a tool on a stream of its own, and return the response."""
    async with http.stream("GET", "/sse", headers=who) as stream:
        said = (
            line.removeprefix("data: ") async for line in stream.aiter_lines() if line.startswith("data: ")
        )
        path = await anext(said)
        await http.post(path, json=initialize("2024-11-05"), headers=who)
        await anext(said)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
        await http.post(path, json=message, headers=who)
        return json.loads(await anext(said))


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_whoever_comes_from_this_machine_may_be_a_proxy_and_has_all(held: Held, parser: str) -> None:
    async with web(make_server(held).asgi(), parser, "stateless") as clients:
        calls = [asyncio.create_task(clients.call("hold", {})) for _ in range(PLACES)]
        await until(lambda: held.count == PLACES)
        text = refusal(await clients.call("quick", {}))
        held.release()
        assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200}
    assert text == "Too many requests are running (8); try again later"


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_streams_of_one_client_leave_places_for_others(held: Held, parser: str) -> None:
    app = make_server(held).asgi(max_streams=PLACES)

    async def listen(clients: Web, stack: AsyncExitStack, who: dict[str, str]) -> httpx2.Response:
        session = (await clients.opened(who)).headers["mcp-session-id"]
        headers = {"accept": "text/event-stream", "mcp-session-id": session, **who}
        return await stack.enter_async_context(clients.http.stream("GET", "/mcp", headers=headers))

    def sse(clients: Web, stack: AsyncExitStack, who: dict[str, str]) -> Any:
        return stack.enter_async_context(clients.http.stream("GET", "/sse", headers=who))

    ways: list[Callable[..., Any]] = [listen, sse]
    async with web(app, parser) as clients:
        for _ in range(2):  # what has been closed gives its place back
            async with AsyncExitStack() as stack:
                answers = [await ways[number % 2](clients, stack, EVE) for number in range(PLACES)]
                assert [answer.status_code for answer in answers] == [200] * 4 + [503] * 4
                await answers[-1].aread()
                assert "(4 from address 203.0.113.7; one client" in answers[-1].text
                assert (await listen(clients, stack, ADA)).status_code == 200
            streams = next(iter(app.door()._services.values())).environment.streams
            await until(lambda: streams.taken == 0)


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_sessions_of_one_client_leave_places_for_others(held: Held, parser: str) -> None:
    app = make_server(held).asgi(max_sessions=PLACES)

    async def use(clients: Web, opened: httpx2.Response) -> int:
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        return (await clients.http.post("/mcp", json=PING, headers=session)).status_code

    async with web(app, parser) as clients:
        opened = [await clients.opened(EVE) for _ in range(4)]
        assert [await use(clients, each) for each in opened] == [200] * 4
        text = refusal(await clients.opened(EVE))
        assert "Too many sessions are open (4 from address 203.0.113.7; one client has" in text
        ada = await clients.opened(ADA)
        assert await use(clients, ada) == 200
        ended = {"mcp-session-id": opened[0].headers["mcp-session-id"]}
        assert (await clients.http.delete("/mcp", headers=ended)).status_code == 204
        assert (await clients.opened(EVE)).status_code == 200
        assert (await clients.opened(ADA)).status_code == 200


async def test_a_client_with_half_of_all_sessions_makes_room_among_its_own(held: Held, serve: Serve) -> None:
    eve: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
    async with serve(make_server(held), max_sessions=PLACES) as client:
        ada = await client.initialize()
        for _ in range(3 * PLACES):
            assert (await client.post(initialize(), **eve).whole()).status == 200
        sessions = client.app.door()._begin().sessions
        assert len(sessions) == 1 + PLACES // 2
        assert (await ada.post(PING).whole()).status == 200
        assert ada.id in sessions._by_id


async def test_what_goes_on_after_its_time_is_over_keeps_its_place(held: Held, serve: Serve) -> None:
    server = make_server(held, timeout=0.01)
    gate, begun = asyncio.Event(), 0

    @server.tool
    async def stubborn() -> None:
        nonlocal begun
        begun += 1
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await gate.wait()

    eve: dict[str, Any] = {"client": ("203.0.113.7", 50000)}
    call = {"name": "stubborn", "arguments": {}}
    async with serve(server) as client:
        session = await client.initialize()
        opened = await client.post(initialize(), judge=session.judge, **eve).whole()
        headers = {"mcp-session-id": opened.headers["mcp-session-id"]}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
        for _ in range(PLACES // 2):
            answer = client.post(message, headers, judge=session.judge)
            assert (await answer.response())["result"]["content"][0]["text"] == "timed out after 0.01 s"
        refused = await client.post(message, headers, judge=session.judge).whole()
        other = await session.call("quick").whole()
        gate.set()
        assert (refused.status, other.status) == (503, 200)
        await until(lambda: server.engine.runtime.running.taken == 0)
    assert begun == PLACES // 2
