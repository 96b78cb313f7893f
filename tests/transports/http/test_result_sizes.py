"""A result of any size arrives: as JSON, on an event stream, in a session and over HTTP+SSE, under both parsers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit.transports.http import exchange
from mcpkit.transports.http.options import Settings
from mcpkit.transports.http.sessions import events
from tests.helpers.asgi_answer import Answer
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.serving import in_thread
from tests.helpers.waiting import until

pytestmark = pytest.mark.long

BOUNDS = (exchange._PIECE, exchange._MUCH, Settings.max_kept // events.SHARE, exchange.MOST_QUEUED)
SIZES = st.one_of(
    st.integers(0, 4096),
    st.builds(lambda bound, off: bound + off, st.sampled_from(BOUNDS), st.integers(-400, 400)),
    st.integers(exchange.MOST_QUEUED, 2 * exchange.MOST_QUEUED),
)
TOKEN = {"progressToken": "p"}
STATELESS_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FAR = exchange.MOST_QUEUED + 5_000_000


def make_server() -> Server:
    server = Server("large")

    @server.tool(structured=False)
    async def give(size: int, reports: int, ctx: Context) -> str:
        """Return a text of some length, after some reports."""
        for number in range(reports):
            await ctx.progress(number + 1)
        return "x" * size

    waiting: list[asyncio.Event] = []

    @server.tool(structured=False)
    async def give_together(size: int, calls: int) -> str:
        """Return a text when so many calls wait for one."""
        waiting.append(asyncio.Event())
        if len(waiting) == calls:
            for event in waiting:
                event.set()
        await waiting[-1].wait()
        return "x" * size

    return server


def message(size: int, reports: int, **meta: Any) -> dict[str, Any]:
    params = {"name": "give", "arguments": {"size": size, "reports": reports}, "_meta": TOKEN | meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def messages_of(lines: Iterator[str]) -> Iterator[Any]:
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def posted(http: httpx2.Client, body: dict[str, Any], headers: dict[str, str]) -> list[Any]:
    """Post a request, and return what comes: the messages of the stream, or the one that is the answer."""
    with http.stream("POST", "/mcp", json=body, headers=headers) as answer:
        assert answer.status_code == 200
        if answer.headers["content-type"] == "text/event-stream":
            return list(messages_of(answer.iter_lines()))
        answer.read()
        return [answer.json()]


def stateless(http: httpx2.Client) -> Callable[[int, int], list[Any]]:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "give"}
    return lambda size, reports: posted(http, message(size, reports, **STATELESS_META), headers)


def session(http: httpx2.Client) -> Callable[[int, int], list[Any]]:
    opened = http.post("/mcp", json=initialize())
    headers = {"mcp-session-id": opened.headers["mcp-session-id"]}
    return lambda size, reports: posted(http, message(size, reports), headers)


def sse(http: httpx2.Client) -> Callable[[int, int], list[Any]]:
    def call(size: int, reports: int) -> list[Any]:
        with http.stream("GET", "/sse") as stream:
            lines = stream.iter_lines()
            path = next(line for line in lines if line.startswith("data: ")).removeprefix("data: ")
            found = messages_of(lines)
            assert http.post(path, json=initialize("2024-11-05")).status_code == 202
            assert next(found)["id"] == "initialize"
            assert http.post(path, json=message(size, reports)).status_code == 202
            told = [next(found)]
            while "id" not in told[-1]:
                told.append(next(found))
            return told

    return call


@pytest.mark.parametrize("way", [stateless, session, sse])
@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_a_result_of_any_size_arrives(
    parser: str, way: Callable[[httpx2.Client], Callable[[int, int], list[Any]]]
) -> None:
    with (
        in_thread(make_server().asgi(), http=parser) as url,
        httpx2.Client(base_url=url, timeout=30) as http,
    ):
        call = way(http)

        @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
        @given(SIZES, st.sampled_from([0, 1, 3]))
        @example(exchange.MOST_QUEUED, 1)
        @example(FAR, 0)
        @example(FAR, 1)
        def arrives(size: int, reports: int) -> None:
            *told, last = call(size, reports)
            assert [each["method"] for each in told] == ["notifications/progress"] * reports
            assert last["id"] == 7
            (block,) = last["result"]["content"]
            assert len(block["text"]) == size

        arrives()


@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_large_results_that_come_together_arrive_on_one_stream(parser: str) -> None:
    """Each alone would find room, and together they are more than may wait."""
    with (
        in_thread(make_server().asgi(), http=parser) as url,
        httpx2.Client(base_url=url, timeout=30) as http,
        http.stream("GET", "/sse") as stream,
    ):
        lines = stream.iter_lines()
        path = next(line for line in lines if line.startswith("data: ")).removeprefix("data: ")
        found = messages_of(lines)
        http.post(path, json=initialize("2024-11-05"))
        next(found)
        for number in range(6):
            call = {"name": "give_together", "arguments": {"size": 6_000_000, "calls": 6}}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
            assert http.post(path, json=body).status_code == 202
        assert sorted(next(found)["id"] for _ in range(6)) == list(range(6))


@pytest.mark.anyio
async def test_who_does_not_read_is_asked_to_before_it_sends_more(serve: Serve) -> None:
    async with serve(make_server()) as client:
        stream = client.open("GET", "/sse")
        stream.judge.revision = "2024-11-05"
        first = await stream.event()
        assert first is not None
        assert first.data is not None
        path = first.data

        async def post(body: dict[str, Any]) -> Answer:
            stream.judge.expect(body)
            return await client.post(body, path=path, judge=stream.judge).whole()

        assert (await post(initialize("2024-11-05"))).status == 202
        await stream.message()
        stream.stop_reading()
        for number in range(2):  # the first is being sent, the second waits
            assert (await post(message(exchange.MOST_QUEUED, 0) | {"id": number})).status == 202
        pipe = next(iter(client.app.door()._begin().pipes.values()))
        await until(lambda: pipe.is_behind)
        refused = await post(message(1, 0))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        stream.read_on()
        assert sorted([(await stream.message())["id"] for _ in range(2)]) == [0, 1]
        assert (await post(message(1, 0))).status == 202
        assert (await stream.message())["id"] == 7
