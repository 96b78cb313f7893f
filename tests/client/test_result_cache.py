"""Cached results and lists of several pages: how long they hold, what invalidates them, and their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest

from mcpkit import CacheHint, Client, ProtocolError, Server, ServerOptions
from mcpkit.client.link.cache import ResultCache
from mcpkit.client.link.pages import MAX_PAGES, all_pages
from mcpkit.exceptions import IncompleteListError
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio

LISTED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


class CountingServer:
    """Answers with the number of the request; holds answers back where a test wants it."""

    def __init__(self, **hints: Any) -> None:
        self.hints = hints
        self.asked = 0
        self.held: asyncio.Event | None = None

    async def __call__(self) -> dict[str, Any]:
        self.asked += 1
        number = self.asked
        if self.held is not None:
            await self.held.wait()
        return {"number": number, "tools": [{"name": "a"}], **self.hints}


def cacheable(**hints: Any) -> CountingServer:
    return CountingServer(**{"ttlMs": 1000, "cacheScope": "private", **hints})


async def number(cache: ResultCache, server: CountingServer, method: str = "tools/list", **more: Any) -> int:
    params = more.pop("params", {})
    answer = await cache.answer(method, params, server, **more)
    assert isinstance(answer["number"], int)
    return answer["number"]


async def test_cached_result_expires_after_ttl() -> None:
    clock, server = Clock(), cacheable(ttlMs=1500)
    cache = ResultCache(clock=clock)
    assert await number(cache, server) == 1
    clock.now += 1.499
    assert await number(cache, server) == 1
    clock.now += 0.001
    assert await number(cache, server) == 2


@pytest.mark.parametrize("ttl", [
    0, -5, None, True, "1000",
], ids=["zero", "negative", "null", "bool", "text"])  # fmt: skip
async def test_result_without_valid_ttl_is_not_cached(ttl: Any) -> None:
    cache, server = ResultCache(), cacheable(ttlMs=ttl)
    assert [await number(cache, server) for _ in range(2)] == [1, 2]
    assert len(cache) == 0


async def test_input_required_rounds_bypass_cache() -> None:
    cache, asking = ResultCache(), cacheable(resultType="input_required")
    uri = {"uri": "weather://oslo"}
    assert [await number(cache, asking, "resources/read", params=uri) for _ in range(2)] == [1, 2]
    server = cacheable(resultType="complete")
    await number(cache, server, "resources/read", params=uri)
    for more in ({"inputResponses": {}}, {"requestState": "s"}):
        before = server.asked
        for _ in range(2):
            await number(cache, server, "resources/read", params={**uri, **more})
        assert server.asked == before + 2
    assert await number(cache, server, "resources/read", params=uri) == 1


async def test_private_results_are_not_cached_under_several_authorizations() -> None:
    cache, server = ResultCache(keeps_private=False), cacheable(cacheScope="public")
    assert [await number(cache, server) for _ in range(2)] == [1, 1]
    for scope in ("private", "PUBLIC", None):  # what is unknown is private
        cache.clear()
        server.hints["cacheScope"] = scope
        before = server.asked
        assert [await number(cache, server) for _ in range(2)] == [before + 1, before + 2]


async def test_error_is_not_cached_and_keeps_old_result() -> None:
    cache, server = ResultCache(), cacheable()

    async def fail() -> dict[str, Any]:
        raise ProtocolError(-32603, "no")

    for _ in range(2):
        with pytest.raises(ProtocolError):
            await cache.answer("tools/list", {}, fail)
    assert await number(cache, server) == 1
    with pytest.raises(ProtocolError):
        await cache.answer("tools/list", {}, fail, fresh=True)
    assert await number(cache, server) == 1


async def test_cached_result_is_copied_for_each_caller() -> None:
    cache, server = ResultCache(), cacheable()
    for _ in range(3):
        answer = await cache.answer("tools/list", {}, server)
        assert answer["tools"] == [{"name": "a"}]
        answer["tools"][0]["name"] = "spoilt"
        answer["tools"].append("spoilt")
    assert server.asked == 1


@pytest.mark.parametrize(("reported", "stale"), [
    (LISTED, {"tools/list"}),
    ("notifications/prompts/list_changed", {"prompts/list"}),
    ("notifications/resources/list_changed", {"resources/list", "resources/templates/list"}),
    ("notifications/message", set()),
    ("notifications/resources/updated", set()),
])  # fmt: skip
async def test_list_changed_invalidates_its_lists(reported: str, stale: set[str]) -> None:
    cache, server = ResultCache(), cacheable()
    lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
    for method in lists:
        await number(cache, server, method)
        await number(cache, server, method, params={"cursor": "2"})
    cache.hear(reported, {})
    for method in lists:
        for params in ({}, {"cursor": "2"}):
            before = server.asked
            await number(cache, server, method, params=params)
            assert (server.asked > before) == (method in stale), method


async def test_resource_updated_invalidates_resource_and_parents() -> None:
    cache, server = ResultCache(), cacheable()
    uris = ["file:///a", "file:///a/", "file:///a/b", "file:///ab", "file:///a/b/c", "other:a"]
    for uri in uris:
        await number(cache, server, "resources/read", params={"uri": uri})
    cache.hear(UPDATED, {"uri": "file:///a/b"})
    stale = []
    for uri in uris:
        before = server.asked
        await number(cache, server, "resources/read", params={"uri": uri})
        if server.asked > before:
            stale.append(uri)
    assert stale == ["file:///a", "file:///a/", "file:///a/b"]
    cache.hear(UPDATED, {"uri": "file:///ab"})
    before = server.asked
    for uri in uris:
        await number(cache, server, "resources/read", params={"uri": uri})
    assert server.asked == before + 1
    for odd in ({}, {"uri": None}, {"uri": ["file:///a"]}):
        cache.hear(UPDATED, odd)


async def test_answer_requested_before_change_is_not_cached() -> None:
    cache, server = ResultCache(), cacheable()
    server.held = asyncio.Event()
    before = asyncio.create_task(number(cache, server))
    await asyncio.sleep(0)
    cache.hear(LISTED, {})
    after = asyncio.create_task(number(cache, server))
    await asyncio.sleep(0)
    assert (
        server.asked == 2
    )  # who asks after the change does not wait for the answer to what was asked before
    server.held.set()
    assert (await before, await after) == (1, 2)
    assert await number(cache, server) == 2


async def test_concurrent_equal_requests_are_sent_once() -> None:
    cache, server = ResultCache(), cacheable()
    server.held = asyncio.Event()
    wanting = [asyncio.create_task(cache.answer("tools/list", {}, server)) for _ in range(5)]
    await asyncio.sleep(0)
    server.held.set()
    answers = await asyncio.gather(*wanting)
    assert [each["number"] for each in answers] == [1] * 5
    assert len({id(each["tools"]) for each in answers}) == 5
    assert server.asked == 1


async def test_max_size_limits_cached_bytes() -> None:
    cache, server = ResultCache(max_size=10_000), cacheable(text="x" * 3000)

    async def read(uri: str) -> int:
        return await number(cache, server, "resources/read", params={"uri": uri})

    for uri in "abcd":
        await read(uri)
    assert len(cache) == 3
    assert [await read(uri) for uri in "bcd"] == [2, 3, 4]
    server.hints["text"] = "x" * 20_000
    assert [await read("long") for _ in range(2)] == [5, 6]
    assert [await read(uri) for uri in "bcd"] == [2, 3, 4]  # what is too long has driven nothing out
    cache.hear(UPDATED, {"uri": "b"})
    server.hints["text"] = "x" * 3000
    assert [await read(uri) for uri in "ecd"] == [7, 3, 4]  # what was dropped has left its room


CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


class Counted:
    """A server whose lists and resources hold for an hour, and the requests that have reached it."""

    def __init__(self, scope: Literal["private", "public"] = "public", **options: Any) -> None:
        caches = {**dict.fromkeys(CACHED, CacheHint(ttl=3600)), "resources/read": CacheHint(3600, scope)}
        self.server = Server("counted", options=ServerOptions(cache=caches), **options)
        self.asked: list[str] = []

        @self.server.middleware
        async def count(request: Any, proceed: Callable[..., Any]) -> Any:
            self.asked.append(request.method)
            return await proceed(request)

        for name in "abc":
            self.server.tool(name=name)(_nothing)
            self.server.prompt(name=name)(_text)
            self.server.resource(f"x://{name}", name=name)(_text)
            self.server.resource(f"x://{name}/{{part}}", name=f"{name}s")(_part)


def _nothing() -> None:
    """Do nothing."""


def _text() -> str:
    return "text"


def _part(part: str) -> str:
    return part


async def test_client_caches_lists_and_resources() -> None:
    counted = Counted()
    async with Client(counted.server) as client:
        counted.asked.clear()
        for _ in range(3):
            assert len(await client.list_tools()) == 3
            assert len(await client.list_prompts()) == 3
            assert len(await client.list_resources()) == 3
            assert len(await client.list_resource_templates()) == 3
            assert (await client.read_resource("x://a"))[0]["text"] == "text"
        assert counted.asked == list(CACHED)
        await client.call_tool("a")
        await client.call_tool("a")
        await client.get_prompt("a")
        await client.get_prompt("a")
        assert counted.asked[5:] == ["tools/call"] * 2 + ["prompts/get"] * 2


@pytest.mark.parametrize(
    "options", [{"cache": False}, {"protocol_version": "2025-11-25"}], ids=["off", "handshake"]
)
async def test_client_without_cache_sends_every_request(options: dict[str, Any]) -> None:
    counted = Counted()
    async with Client(counted.server, **options) as client:
        counted.asked.clear()
        await asyncio.gather(
            *(client.list_tools() for _ in range(3)), *(client.read_resource("x://a") for _ in range(3))
        )
        assert sorted(counted.asked) == ["resources/read"] * 3 + ["tools/list"] * 3


@pytest.mark.parametrize(("options", "asked"), [
    ({}, 1),
    ({"token": "one"}, 1),
    ({"auth": ("user", "password")}, 1),
    ({"token": lambda: "whose it is now"}, 2),
    ({"auth": lambda request: request}, 2),
], ids=["nobody", "token", "user", "a function for the token", "a function for the request"])  # fmt: skip
async def test_client_caches_private_results_under_constant_authorization(
    options: dict[str, Any], asked: int
) -> None:
    counted = Counted("private")
    async with Client(counted.server.asgi(), **options) as client:
        for _ in range(2):
            await client.read_resource("x://a")
        assert counted.asked.count("resources/read") == asked
        for _ in range(2):
            await client.list_tools()
        assert counted.asked.count("tools/list") == 1  # which is public


Ask = Callable[[dict[str, Any]], dict[str, Any]]


async def listed(
    answer: Ask, cache: ResultCache | None = None, clock: Callable[[], float] = lambda: 0.0
) -> Any:
    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        return answer(params)

    received = ResultCache() if cache is None else cache
    whole = await all_pages(
        "tools/list", "tools", ask, changes=lambda: received.changes("tools/list"), clock=clock
    )
    return {**whole, "tools": [each["n"] for each in whole["tools"]]}


def pages(*all_: dict[str, Any]) -> Ask:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        more = {"nextCursor": str(number + 1)} if number + 1 < len(all_) else {}
        return {"tools": [{"n": number}], **more, **all_[number]}

    return answer


async def test_all_pages_joins_items() -> None:
    whole = await listed(pages({"other": 1}, {}, {}))
    assert whole == {"tools": [0, 1, 2], "other": 1, "ttlMs": 0, "cacheScope": "private"}
    assert (await listed(pages({})))["tools"] == [0]


async def test_all_pages_empty_cursor_is_a_cursor_and_null_is_none() -> None:
    def answer(params: dict[str, Any]) -> dict[str, Any]:
        return (
            {"tools": [{"n": 1}], "nextCursor": None}
            if params == {"cursor": ""}
            else {"tools": [{"n": 0}], "nextCursor": ""}
        )

    assert (await listed(answer))["tools"] == [0, 1]


async def test_all_pages_invalid_cursor_starts_over() -> None:
    asked: list[dict[str, Any]] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        if len(asked) == 2:
            raise ProtocolError(-32602, "no such cursor")
        return {"tools": [{"n": len(asked)}]} if params else {"tools": [{"n": len(asked)}], "nextCursor": "2"}

    assert (await listed(answer))["tools"] == [3, 4]
    assert asked == [{}, {"cursor": "2"}, {}, {"cursor": "2"}]


@pytest.mark.parametrize(("page", "output"), [
    ({}, "an array of objects as tools"),
    ({"tools": None}, "an array of objects as tools"),
    ({"tools": [1]}, "an array of objects as tools"),
    ({"tools": {"a": 1}}, "an array of objects as tools"),
    ({"tools": [], "nextCursor": 1}, "a string as nextCursor"),
])  # fmt: skip
async def test_all_pages_malformed_page_is_error(page: dict[str, Any], output: str) -> None:
    with pytest.raises(
        ProtocolError, match=f"the server's answer to tools/list is malformed: expected {output}"
    ):
        await listed(lambda _: page)


@pytest.mark.parametrize("cursor", ["", "same", "x" * 10_000])
async def test_all_pages_repeated_cursor_raises_incomplete_list(cursor: str) -> None:
    with pytest.raises(IncompleteListError, match="repeats the cursor") as caught:
        await listed(lambda params: {"tools": [{"n": len(params)}], "nextCursor": cursor})
    assert caught.value.cursor == cursor
    assert caught.value.items == [{"n": 0}, {"n": 1}]
    assert repr(cursor)[:100] in str(caught.value)
    assert len(str(caught.value)) < 500


async def test_all_pages_are_limited() -> None:
    asked = 0

    def answer(_: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"tools": [{"n": asked}], "nextCursor": str(asked)}

    with pytest.raises(IncompleteListError, match="more than 10,000 pages") as caught:
        await listed(answer)
    assert asked == MAX_PAGES + 1
    assert len(caught.value.items) == asked
