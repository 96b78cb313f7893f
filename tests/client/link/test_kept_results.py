"""A client uses results again where its server lets it, and asks in any case where its user wants that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest

from mcpkit import Cache, Client, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


class Counted:
    """A server whose lists and resources hold for an hour, and the requests that have reached it."""

    def __init__(self, scope: Literal["private", "public"] = "public", **options: Any) -> None:
        caches = {**dict.fromkeys(CACHED, Cache(ttl=3600)), "resources/read": Cache(3600, scope)}
        self.server = Server("counted", cache=caches, **options)
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


async def test_each_list_and_what_is_read_is_asked_for_once() -> None:
    counted = Counted()
    async with Client(counted.server) as client:
        counted.asked.clear()
        for _ in range(3):
            assert len(await client.list_tools()) == 3
            assert len(await client.list_prompts()) == 3
            assert len(await client.list_resources()) == 3
            assert len(await client.list_resource_templates()) == 3
            assert (await client.read("x://a"))[0]["text"] == "text"
        assert counted.asked == list(CACHED)
        await client.call("a")
        await client.call("a")
        await client.get_prompt("a")
        await client.get_prompt("a")
        assert counted.asked[5:] == ["tools/call"] * 2 + ["prompts/get"] * 2


async def test_fresh_asks_in_any_case() -> None:
    counted = Counted()
    async with Client(counted.server) as client:
        for ask in (
            client.list_tools,
            client.list_prompts,
            client.list_resources,
            client.list_resource_templates,
        ):
            await ask()
            counted.asked.clear()
            await ask(fresh=True)
            await ask()
            assert len(counted.asked) == 1
        await client.read("x://a")
        counted.asked.clear()
        await client.read("x://a", fresh=True)
        await client.request("resources/read", {"uri": "x://a"}, fresh=True)
        await client.request("resources/read", {"uri": "x://a"})
        assert counted.asked == ["resources/read"] * 2


@pytest.mark.parametrize("options", [{"cache": False}, {"revision": "2025-11-25"}], ids=["off", "handshake"])
async def test_each_request_is_sent_where_nothing_is_kept(options: dict[str, Any]) -> None:
    counted = Counted()
    async with Client(counted.server, **options) as client:
        counted.asked.clear()
        await asyncio.gather(
            *(client.list_tools() for _ in range(3)), *(client.read("x://a") for _ in range(3))
        )
        assert sorted(counted.asked) == ["resources/read"] * 3 + ["tools/list"] * 3


async def test_tests_of_servers_keep_nothing() -> None:
    counted = Counted()
    async with connect(counted.server) as client:
        counted.asked.clear()
        for _ in range(2):
            await client.list_tools()
            await client.read("x://a")
        assert counted.asked == ["tools/list", "resources/read"] * 2


async def test_a_list_of_several_pages_is_kept_as_a_whole() -> None:
    counted = Counted(page_size=1)
    async with Client(counted.server) as client:
        counted.asked.clear()
        tools = await client.list_tools()
        assert [tool["name"] for tool in tools] == ["a", "b", "c"]
        assert counted.asked == ["tools/list"] * 3
        tools.pop()
        assert [tool["name"] for tool in await client.list_tools()] == ["a", "b", "c"]
        assert len(counted.asked) == 3
        page = await client.request("tools/list")
        again = await client.request("tools/list", {"cursor": page["nextCursor"]})
        assert await client.request("tools/list") == page
        assert await client.request("tools/list", {"cursor": page["nextCursor"]}) == again
        assert len(counted.asked) == 5


async def test_many_who_list_at_once_ask_once() -> None:
    counted = Counted(page_size=1)
    async with Client(counted.server) as client:
        counted.asked.clear()
        lists = await asyncio.gather(*(client.list_tools() for _ in range(5)))
        assert counted.asked == ["tools/list"] * 3
        assert all(each == lists[0] for each in lists)


async def test_a_client_that_is_opened_again_knows_nothing_of_before() -> None:
    counted = Counted()
    client = Client(counted.server)
    for _ in range(2):
        async with client:
            await client.list_tools()
    assert counted.asked.count("tools/list") == 2


async def test_a_log_level_keeps_nobody_from_what_is_kept() -> None:
    counted = Counted()
    async with Client(counted.server, log_level="info") as client:
        counted.asked.clear()
        for _ in range(2):
            await client.list_tools()
            await client.read("x://a")
        assert counted.asked == ["tools/list", "resources/read"]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, 1),
        ({"token": "one"}, 1),
        ({"auth": ("user", "password")}, 1),
        ({"token": lambda: "whose it is now"}, 2),
        ({"auth": lambda request: request}, 2),
    ],
    ids=["nobody", "token", "user", "a function for the token", "a function for the request"],
)
async def test_what_is_private_is_kept_where_all_requests_go_under_one_authorization(
    options: dict[str, Any], asked: int
) -> None:
    counted = Counted("private")
    async with Client(counted.server.asgi(), **options) as client:
        for _ in range(2):
            await client.read("x://a")
        assert counted.asked.count("resources/read") == asked
        for _ in range(2):
            await client.list_tools()
        assert counted.asked.count("tools/list") == 1  # which is public
