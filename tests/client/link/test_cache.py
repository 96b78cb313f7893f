"""What the client keeps of results: for how long, for whom, how much, and what drops it sooner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import ProtocolError
from mcpkit.client.link.cache import MAX_TTL, ResultCache
from tests.helpers.clock import Clock
from tests.helpers.waiting import over

pytestmark = pytest.mark.anyio

LISTED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


class Server:
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


def kept(**hints: Any) -> Server:
    return Server(**{"ttlMs": 1000, "cacheScope": "private", **hints})


async def number(cache: ResultCache, server: Server, method: str = "tools/list", **more: Any) -> int:
    params = more.pop("params", {})
    answer = await cache.answer(method, params, server, **more)
    assert isinstance(answer["number"], int)
    return answer["number"]


async def test_a_result_is_fresh_for_its_time_and_not_a_moment_longer() -> None:
    clock, server = Clock(), kept(ttlMs=1500)
    cache = ResultCache(clock=clock)
    assert await number(cache, server) == 1
    clock.now += 1.499
    assert await number(cache, server) == 1
    clock.now += 0.001
    assert await number(cache, server) == 2


@pytest.mark.parametrize(
    "ttl",
    [0, -5, None, True, "1000", [1], {}],
    ids=["zero", "negative", "null", "bool", "text", "list", "object"],
)
async def test_what_does_not_say_how_long_it_holds_is_not_kept(ttl: Any) -> None:
    cache, server = ResultCache(), kept(ttlMs=ttl)
    assert [await number(cache, server) for _ in range(2)] == [1, 2]
    assert len(cache) == 0


async def test_no_result_is_kept_for_more_than_a_day_whatever_is_said() -> None:
    clock, server = Clock(), kept(ttlMs=10**400)
    cache = ResultCache(clock=clock)
    assert await number(cache, server) == 1
    clock.now += MAX_TTL / 1000 - 1
    assert await number(cache, server) == 1
    clock.now += 1
    assert await number(cache, server) == 2


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete", "x-own/method"])
async def test_of_methods_that_the_specification_does_not_name_nothing_is_kept(method: str) -> None:
    cache, server = ResultCache(), kept()
    assert [await number(cache, server, method) for _ in range(2)] == [1, 2]


async def test_rounds_are_neither_kept_nor_answered_from_what_is_kept() -> None:
    cache, asking = ResultCache(), kept(resultType="input_required")
    uri = {"uri": "weather://oslo"}
    assert [await number(cache, asking, "resources/read", params=uri) for _ in range(2)] == [1, 2]
    server = kept(resultType="complete")
    await number(cache, server, "resources/read", params=uri)
    for more in ({"inputResponses": {}}, {"requestState": "s"}):
        before = server.asked
        for _ in range(2):
            await number(cache, server, "resources/read", params={**uri, **more})
        assert server.asked == before + 2
    assert await number(cache, server, "resources/read", params=uri) == 1


async def test_results_of_other_params_methods_and_cursors_are_others() -> None:
    cache, server = ResultCache(), kept()
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("tools/list", {"cursor": "1"}),
        ("tools/list", {"cursor": "2"}),
        ("prompts/list", {}),
        ("resources/read", {"uri": "a:1"}),
        ("resources/read", {"uri": "a:2"}),
    ]
    for _ in range(2):
        assert [await number(cache, server, method, params=params) for method, params in asked] == [
            1,
            2,
            3,
            4,
            5,
            6,
        ]


async def test_a_request_with_members_of_its_own_in_meta_is_asked_each_time() -> None:
    cache, server = ResultCache(), kept()
    assert [await number(cache, server, params={"_meta": {"com.example/a": 1}}) for _ in range(2)] == [1, 2]


async def test_the_context_of_a_trace_keeps_nobody_from_what_is_kept() -> None:
    cache, server = ResultCache(), kept()
    for span in ("1", "2"):
        trace = {"traceparent": f"00-{span}-{span}-01", "tracestate": "a=1", "baggage": "b=2"}
        assert await number(cache, server, params={"_meta": trace}) == 1
    assert await number(cache, server) == 1


async def test_under_several_authorizations_only_what_is_public_is_kept() -> None:
    cache, server = ResultCache(keeps_private=False), kept(cacheScope="public")
    assert [await number(cache, server) for _ in range(2)] == [1, 1]
    for scope in ("private", "PUBLIC", None):  # what is unknown is private
        cache.clear()
        server.hints["cacheScope"] = scope
        before = server.asked
        assert [await number(cache, server) for _ in range(2)] == [before + 1, before + 2]


async def test_an_error_is_not_kept_and_what_was_kept_before_stays() -> None:
    cache, server = ResultCache(), kept()

    async def fail() -> dict[str, Any]:
        raise ProtocolError(-32603, "no")

    for _ in range(2):
        with pytest.raises(ProtocolError):
            await cache.answer("tools/list", {}, fail)
    assert await number(cache, server) == 1
    with pytest.raises(ProtocolError):
        await cache.answer("tools/list", {}, fail, fresh=True)
    assert await number(cache, server) == 1


async def test_fresh_asks_and_replaces_what_is_kept() -> None:
    cache, server = ResultCache(), kept()
    assert await number(cache, server) == 1
    assert await number(cache, server, fresh=True) == 2
    assert await number(cache, server) == 2
    server.hints["ttlMs"] = 0
    assert await number(cache, server, fresh=True) == 3
    assert await number(cache, server) == 4


async def test_nobody_spoils_what_is_kept_for_others() -> None:
    cache, server = ResultCache(), kept()
    for _ in range(3):
        answer = await cache.answer("tools/list", {}, server)
        assert answer["tools"] == [{"name": "a"}]
        answer["tools"][0]["name"] = "spoilt"
        answer["tools"].append("spoilt")
    assert server.asked == 1


@pytest.mark.parametrize(
    ("told", "stale"),
    [
        (LISTED, {"tools/list"}),
        ("notifications/prompts/list_changed", {"prompts/list"}),
        ("notifications/resources/list_changed", {"resources/list", "resources/templates/list"}),
        ("notifications/message", set()),
        ("notifications/resources/updated", set()),
    ],
)
async def test_a_change_drops_the_lists_that_it_is_about(told: str, stale: set[str]) -> None:
    cache, server = ResultCache(), kept()
    lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"]
    for method in lists:
        await number(cache, server, method)
        await number(cache, server, method, params={"cursor": "2"})
    cache.hear(told, {})
    for method in lists:
        for params in ({}, {"cursor": "2"}):
            before = server.asked
            await number(cache, server, method, params=params)
            assert (server.asked > before) == (method in stale), method


async def test_an_update_drops_the_resource_and_those_that_it_is_part_of() -> None:
    cache, server = ResultCache(), kept()
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


async def test_an_answer_that_was_asked_for_before_a_change_is_not_kept() -> None:
    cache, server = ResultCache(), kept()
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


async def test_everything_is_dropped_with_the_answers_on_their_way() -> None:
    cache, server = ResultCache(), kept()
    await number(cache, server, "server/discover")
    server.held = asyncio.Event()
    on_its_way = asyncio.create_task(number(cache, server))
    await asyncio.sleep(0)
    cache.clear()
    server.held.set()
    assert await on_its_way == 2
    assert [await number(cache, server, each) for each in ("server/discover", "tools/list")] == [3, 4]


async def test_of_many_who_want_the_same_one_asks() -> None:
    cache, server = ResultCache(), kept()
    server.held = asyncio.Event()
    wanting = [asyncio.create_task(cache.answer("tools/list", {}, server)) for _ in range(5)]
    await asyncio.sleep(0)
    server.held.set()
    answers = await asyncio.gather(*wanting)
    assert [each["number"] for each in answers] == [1] * 5
    assert len({id(each["tools"]) for each in answers}) == 5
    assert server.asked == 1


async def test_who_waits_for_another_asks_when_that_one_is_cancelled_or_fails() -> None:
    for fails in (False, True):
        cache, server, is_over = ResultCache(), kept(), asyncio.Event()

        async def fail(is_over: asyncio.Event = is_over) -> dict[str, Any]:
            await is_over.wait()
            raise ProtocolError(-32603, "no")

        first = asyncio.create_task(cache.answer("tools/list", {}, fail))
        await asyncio.sleep(0)
        second = asyncio.create_task(number(cache, server))
        await asyncio.sleep(0)
        assert server.asked == 0
        if fails:
            is_over.set()
            with pytest.raises(ProtocolError):
                await first
        else:
            await over(first)
        assert await second == 1


async def test_who_waits_for_another_may_give_up_without_it() -> None:
    cache, server = ResultCache(), kept()
    server.held = asyncio.Event()
    first = asyncio.create_task(number(cache, server))
    await asyncio.sleep(0)
    second = asyncio.create_task(number(cache, server))
    await asyncio.sleep(0)
    await over(second)
    server.held.set()
    assert await first == 1
    assert second.cancelled()


async def test_nobody_waits_twice_for_an_answer_that_is_for_one_alone() -> None:
    cache, server = ResultCache(), kept(ttlMs=0)
    for in_flight in (1, 3):  # the second time it is known
        server.held = asyncio.Event()
        before = server.asked
        wanting = [asyncio.create_task(number(cache, server)) for _ in range(3)]
        await asyncio.sleep(0)
        assert server.asked == before + in_flight
        server.held.set()
        assert sorted(await asyncio.gather(*wanting)) == [before + 1, before + 2, before + 3]


async def test_a_private_answer_is_given_to_nobody_else_under_several_authorizations() -> None:
    cache, server = ResultCache(keeps_private=False), kept()
    server.held = asyncio.Event()
    wanting = [asyncio.create_task(number(cache, server)) for _ in range(3)]
    await asyncio.sleep(0)
    server.held.set()
    assert sorted(await asyncio.gather(*wanting)) == [1, 2, 3]


async def test_a_request_that_is_not_shared_waits_for_nobody_and_nobody_for_it() -> None:
    cache, server = ResultCache(), kept()
    server.held = asyncio.Event()
    wanting = [asyncio.create_task(number(cache, server, is_shared=each)) for each in (False, True, False)]
    await asyncio.sleep(0)
    assert server.asked == 3
    server.held.set()
    await asyncio.gather(*wanting)
    assert await number(cache, server, is_shared=False) == 3


async def test_a_late_answer_does_not_replace_a_later_one() -> None:
    cache, server = ResultCache(), kept()
    server.held = held = asyncio.Event()
    slow = asyncio.create_task(number(cache, server))
    await asyncio.sleep(0)
    server.held = None
    assert await number(cache, server, fresh=True) == 2
    held.set()
    assert await slow == 1
    assert await number(cache, server) == 2


async def test_as_many_results_are_kept_as_there_is_room_for_and_the_least_used_goes() -> None:
    cache, server = ResultCache(max_entries=3), kept()

    async def read(uri: str) -> int:
        return await number(cache, server, "resources/read", params={"uri": uri})

    assert [await read(uri) for uri in "abcad"] == [1, 2, 3, 1, 4]
    assert len(cache) == 3
    assert [await read(uri) for uri in "acd"] == [1, 3, 4]
    assert await read("b") == 5


async def test_no_more_bytes_are_kept_than_there_is_room_for() -> None:
    cache, server = ResultCache(max_size=10_000), kept(text="x" * 3000)

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


async def test_who_polls_what_is_kept_lets_others_run() -> None:
    cache, server, is_seen = ResultCache(), kept(), asyncio.Event()
    await number(cache, server)
    asyncio.get_running_loop().call_soon(is_seen.set)
    for _ in range(3):
        await number(cache, server)
    assert is_seen.is_set()
