"""Cached results and lists of several pages: how long they hold, what invalidates them, and their limits."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest

from mcpkit import CacheHint, Client, ProtocolError, Server, ServerOptions
from mcpkit.client.cache_and_pagination import MAX_PAGES, ResultCache, all_pages
from mcpkit.exceptions import IncompleteListError
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

LIST_CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


class CountingServer:
    """A server behind a cache, which answers with the number of the request.

    Attributes:
        requests: How many requests have come.
        gate: What answers wait for.
    """

    def __init__(self, cache: ResultCache | None = None, **hints: Any) -> None:
        self.cache = ResultCache() if cache is None else cache
        self.hints = {"ttlMs": 1000, "cacheScope": "private", **hints}
        self.requests = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self) -> dict[str, Any]:
        self.requests += 1
        number = self.requests
        await self.gate.wait()
        return {"number": number, "tools": [{"name": "a"}], **self.hints}

    async def get(self, method: str = "tools/list", **params: Any) -> int:
        """Return the number of the request whose answer this is."""
        number: int = (await self.cache.answer(method, params, self.answer))["number"]
        return number

    async def read(self, uri: str, **params: Any) -> int:
        return await self.get("resources/read", uri=uri, **params)


async def test_cached_result_expires_after_ttl() -> None:
    clock = Clock()
    server = CountingServer(ResultCache(clock=clock), ttlMs=1500)
    assert await server.get() == 1
    clock.now += 1.499
    assert await server.get() == 1
    clock.now += 0.001
    assert await server.get() == 2


@each_row("ttl", [0, -5, None, True, "1000"])
async def test_result_without_valid_ttl_is_not_cached(ttl: Any) -> None:
    server = CountingServer(ttlMs=ttl)
    assert [await server.get() for _ in range(2)] == [1, 2]
    assert len(server.cache) == 0


async def test_input_required_rounds_bypass_cache() -> None:
    server = CountingServer(resultType="input_required")
    assert [await server.read("x://a") for _ in range(2)] == [1, 2]
    server.hints["resultType"] = "complete"
    assert [await server.read("x://a") for _ in range(2)] == [3, 3]
    assert [await server.read("x://a", inputResponses={}) for _ in range(2)] == [4, 5]
    assert [await server.read("x://a", requestState="s") for _ in range(2)] == [6, 7]
    assert await server.read("x://a") == 3


@each_row(("scope", "numbers"), [("public", [1, 1]), ("private", [1, 2]), ("PUBLIC", [1, 2]), (None, [1, 2])])
async def test_private_results_are_not_cached_under_several_authorizations(scope, numbers) -> None:
    server = CountingServer(ResultCache(keeps_private=False), cacheScope=scope)
    assert [await server.get() for _ in range(2)] == numbers


async def test_error_is_not_cached_and_keeps_old_result() -> None:
    server = CountingServer()

    async def fail() -> dict[str, Any]:
        raise ProtocolError(-32603, "no")

    for _ in range(2):
        with pytest.raises(ProtocolError):
            await server.cache.answer("tools/list", {}, fail)
    assert await server.get() == 1
    with pytest.raises(ProtocolError):
        await server.cache.answer("tools/list", {}, fail, fresh=True)
    assert await server.get() == 1


async def test_cached_result_is_copied_for_each_caller() -> None:
    server = CountingServer()
    for _ in range(3):
        answer = await server.cache.answer("tools/list", {}, server.answer)
        assert answer["tools"] == [{"name": "a"}]
        answer["tools"][0]["name"] = "spoilt"
        answer["tools"].append("spoilt")
    assert server.requests == 1


@each_row(("notification", "stale"), [
    (LIST_CHANGED, ["tools/list"]), ("notifications/prompts/list_changed", ["prompts/list"]),
    ("notifications/resources/list_changed", ["resources/list", "resources/templates/list"]),
    ("notifications/message", []), (UPDATED, []),
])  # fmt: skip
async def test_list_changed_invalidates_its_lists(notification: str, stale: list[str]) -> None:
    server = CountingServer()
    lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
    before = {method: [await server.get(method), await server.get(method, cursor="2")] for method in lists}
    server.cache.on_notification(notification, {})
    after = {method: [await server.get(method), await server.get(method, cursor="2")] for method in lists}
    assert [method for method in lists if after[method] != before[method]] == stale
    assert server.requests == 10 + 2 * len(stale)


async def test_resource_updated_invalidates_resource_and_parents() -> None:
    server = CountingServer()
    uris = ["file:///a", "file:///a/", "file:///a/b", "file:///ab", "file:///a/b/c", "other:a"]
    assert [await server.read(uri) for uri in uris] == [1, 2, 3, 4, 5, 6]
    server.cache.on_notification(UPDATED, {"uri": "file:///a/b"})
    assert [await server.read(uri) for uri in uris] == [7, 8, 9, 4, 5, 6]
    server.cache.on_notification(UPDATED, {"uri": "file:///ab"})
    for malformed in ({}, {"uri": None}, {"uri": ["file:///a"]}):
        server.cache.on_notification(UPDATED, malformed)
    assert [await server.read(uri) for uri in uris] == [7, 8, 9, 10, 5, 6]


async def test_answer_requested_before_change_is_not_cached() -> None:
    server = CountingServer()
    server.gate.clear()
    before = asyncio.create_task(server.get())
    await asyncio.sleep(0)
    server.cache.on_notification(LIST_CHANGED, {})
    after = asyncio.create_task(server.get())
    await asyncio.sleep(0)
    assert server.requests == 2, "the request after the change does not share the answer from before"
    server.gate.set()
    assert (await before, await after) == (1, 2)
    assert await server.get() == 2


async def test_concurrent_equal_requests_are_sent_once() -> None:
    server = CountingServer()
    server.gate.clear()
    requests = [asyncio.create_task(server.cache.answer("tools/list", {}, server.answer)) for _ in range(5)]
    await asyncio.sleep(0)
    server.gate.set()
    answers = await asyncio.gather(*requests)
    assert [each["number"] for each in answers] == [1] * 5
    assert len({id(each["tools"]) for each in answers}) == 5


async def test_max_size_limits_cached_bytes() -> None:
    server = CountingServer(ResultCache(max_size=10_000), text="x" * 3000)
    assert [await server.read(uri) for uri in "abcd"] == [1, 2, 3, 4]
    assert len(server.cache) == 3
    assert [await server.read(uri) for uri in "bcd"] == [2, 3, 4]
    server.hints["text"] = "x" * 20_000
    assert [await server.read("long") for _ in range(2)] == [5, 6]
    assert [await server.read(uri) for uri in "bcd"] == [2, 3, 4], "a result that is too long evicts no other"
    server.cache.on_notification(UPDATED, {"uri": "b"})
    server.hints["text"] = "x" * 3000
    assert [await server.read(uri) for uri in "ecd"] == [7, 3, 4], "an invalidated result leaves its room"


CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


def cacheable_server(scope: Literal["private", "public"] = "public") -> tuple[Server, list[str]]:
    """Return a server with lists and resources that are fresh for an hour, and the methods that it has received."""
    hints = {**dict.fromkeys(CACHED, CacheHint(ttl=3600)), "resources/read": CacheHint(3600, scope)}
    server = Server("cacheable", options=ServerOptions(cache=hints))
    received: list[str] = []

    @server.middleware
    async def count(request: Any, proceed: Callable[..., Any]) -> Any:
        received.append(request.method)
        return await proceed(request)

    @server.tool(name="a")
    @server.prompt(name="a")
    @server.resource("x://a", name="a")
    def text() -> str:
        return "text"

    @server.resource("x://a/{part}")
    def part(part: str) -> str:
        return part

    return server, received


async def test_client_caches_lists_and_resources() -> None:
    server, received = cacheable_server()
    async with Client(server) as client:
        received.clear()
        for _ in range(3):
            for request in (client.list_tools, client.list_prompts, client.list_resources):
                assert [each["name"] for each in await request()] == ["a"]
            assert len(await client.list_resource_templates()) == 1
            assert (await client.read_resource("x://a"))[0]["text"] == "text"
        assert received == list(CACHED)
        received.clear()
        for _ in range(2):
            await client.call_tool("a")
            await client.get_prompt("a")
        assert received == ["tools/call", "prompts/get"] * 2


@pytest.mark.parametrize(
    "options", [{"cache": False}, {"protocol_version": "2025-11-25"}], ids=["off", "handshake"]
)
async def test_client_without_cache_sends_every_request(options: dict[str, Any]) -> None:
    server, received = cacheable_server()
    async with Client(server, **options) as client:
        received.clear()
        for _ in range(2):
            await asyncio.gather(client.list_tools(), client.list_tools(), client.read_resource("x://a"))
        assert sorted(received) == ["resources/read"] * 2 + ["tools/list"] * 4


@each_row(("options", "requests"), [
    ({}, 1), ({"token": "one"}, 1), ({"auth": ("user", "password")}, 1),
    ({"token": lambda: "of the current user"}, 2), ({"auth": lambda request: request}, 2),
])  # fmt: skip
async def test_client_caches_private_results_under_constant_authorization(options, requests) -> None:
    server, received = cacheable_server("private")
    async with Client(server.asgi(), **options) as client:
        for _ in range(2):
            await client.read_resource("x://a")
            await client.list_tools()
    assert received.count("resources/read") == requests
    assert received.count("tools/list") == 1, "the list is public"


Answer = Callable[[dict[str, Any]], dict[str, Any]]


async def listed(answer: Answer) -> dict[str, Any]:
    async def send(params: dict[str, Any]) -> dict[str, Any]:
        return answer(params)

    return await all_pages("tools/list", "tools", send, changes=lambda: 0, clock=lambda: 0.0)


def page(number: int, **members: Any) -> dict[str, Any]:
    return {"tools": [{"n": number}], **members}


async def test_all_pages_joins_items() -> None:
    """An empty cursor is a cursor, and null is none."""
    pages = {
        None: page(0, nextCursor="", other=1),
        "": page(1, nextCursor="2"),
        "2": page(2, nextCursor=None),
    }
    whole = await listed(lambda params: pages[params.get("cursor")])
    items = [{"n": 0}, {"n": 1}, {"n": 2}]
    assert whole == {"tools": items, "other": 1, "ttlMs": 0, "cacheScope": "private"}


async def test_all_pages_invalid_cursor_starts_over() -> None:
    sent: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        sent.append(params)
        if len(sent) == 2:
            raise ProtocolError(-32602, "no such cursor")
        return page(len(sent)) if params else page(len(sent), nextCursor="2")

    assert (await listed(answer))["tools"] == [{"n": 3}, {"n": 4}]
    assert sent == [{}, {"cursor": "2"}, {}, {"cursor": "2"}]


@each_row(("malformed", "expected"), [
    ({}, "an array of objects as tools"), ({"tools": None}, "an array of objects as tools"),
    ({"tools": [1]}, "an array of objects as tools"), ({"tools": {"a": 1}}, "an array of objects as tools"),
    ({"tools": [], "nextCursor": 1}, "a string as nextCursor"),
])  # fmt: skip
async def test_all_pages_malformed_page_is_error(malformed: dict[str, Any], expected: str) -> None:
    with pytest.raises(ProtocolError, match=f"answer to tools/list is malformed: expected {expected}"):
        await listed(lambda _: malformed)


@each_row("cursor", ["", "same", "x" * 10_000])
async def test_all_pages_repeated_cursor_raises_incomplete_list(cursor: str) -> None:
    with pytest.raises(IncompleteListError, match="repeats the cursor") as caught:
        await listed(lambda params: page(len(params), nextCursor=cursor))
    assert caught.value.cursor == cursor
    assert caught.value.items == [{"n": 0}, {"n": 1}]
    assert repr(cursor)[:100] in str(caught.value)
    assert len(str(caught.value)) < 500


async def test_all_pages_are_limited() -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0)) + 1
        return page(number, nextCursor=str(number))

    with pytest.raises(IncompleteListError, match="more than 10,000 pages") as caught:
        await listed(answer)
    assert len(caught.value.items) == MAX_PAGES + 1
