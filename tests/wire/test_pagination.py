"""Lists: their order, their pages and their cache (utilities/pagination)."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from mcpkit import Server, Tool
from tests.helpers.pipe import Pipe
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def handler() -> str:
    """Do nothing."""
    return ""


def item(name: str) -> str:
    """Do nothing with a name."""
    return name


def serve(names: str, page_size: int | None) -> Server:
    """Return a server with one of each kind for each letter of `names`."""
    server = Server("s", page_size=page_size)
    for name in names:
        server.tool(handler, name=name)
        server.prompt(handler, name=name)
        server.resource(f"data://{name}", name=name)(handler)
        server.resource(f"data://{name}/{{name}}", name=name)(item)
    return server


async def pages(pipe: Pipe, method: str) -> list[str]:
    """Return the names of each page as one string."""
    found, cursor = [], None
    while True:
        result = await pipe.result(method, {"cursor": cursor} if cursor else None)
        found.append("".join(entry["name"] for entry in result[LISTS[method]]))
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


@pytest.mark.parametrize("method", LISTS)
async def test_a_list_comes_in_pages_in_order_of_registration(wire: Wire, revision: str, method: str) -> None:
    async with wire(serve("cabfe", 2), revision) as pipe:
        assert await pages(pipe, method) == ["ca", "bf", "e"]


@pytest.mark.parametrize(
    ("size", "expected"), [(None, ["abcd"]), (4, ["abcd"]), (3, ["abc", "d"]), (1, [*"abcd"])]
)
async def test_the_page_size_is_the_servers(wire: Wire, size: int | None, expected: list[str]) -> None:
    async with wire(serve("abcd", size)) as pipe:
        assert await pages(pipe, "tools/list") == expected


@pytest.mark.parametrize("size", [0, -1])
def test_a_page_holds_at_least_one_entry(size: int) -> None:
    with pytest.raises(ValueError, match="page_size"):
        Server("s", page_size=size)


async def test_a_cursor_survives_additions_and_removals_and_skips_nothing(wire: Wire) -> None:
    server = serve("abcdef", 2)
    async with wire(server) as pipe:
        first = await pipe.result("tools/list")
        server.tools.remove("a")
        server.tools.remove("b")  # the entry that the cursor names
        server.tools.remove("d")
        server.tool(handler, name="g")
        second = await pipe.result("tools/list", {"cursor": first["nextCursor"]})
        assert [tool["name"] for tool in second["tools"]] == ["c", "e"]
        third = await pipe.result("tools/list", {"cursor": second["nextCursor"]})
        assert [tool["name"] for tool in third["tools"]] == ["f", "g"]
        assert "nextCursor" not in third


async def test_what_replaces_an_entry_keeps_its_place(wire: Wire) -> None:
    server = serve("abc", None)
    async with wire(server) as pipe:
        server.tool(item, name="b", replace=True)
        assert await pages(pipe, "tools/list") == ["abc"]


async def test_what_is_removed_and_added_again_comes_last(wire: Wire) -> None:
    server = serve("abc", None)
    async with wire(server) as pipe:
        server.tool(server.tools.remove("a").function, name="a")
        assert await pages(pipe, "tools/list") == ["bca"]


async def test_what_is_disabled_is_left_out_and_comes_back_to_its_place(wire: Wire) -> None:
    server = serve("abc", None)
    async with wire(server) as pipe:
        server.tools.disable("b")
        assert await pages(pipe, "tools/list") == ["ac"]
        server.tools.enable("b")
        assert await pages(pipe, "tools/list") == ["abc"]


async def test_an_empty_list_is_a_page_without_entries(wire: Wire, revision: str) -> None:
    async with wire(Server("s", offers=["tools", "resources", "prompts"], page_size=2), revision) as pipe:
        for method, member in LISTS.items():
            result = await pipe.result(method)
            assert result[member] == []
            assert "nextCursor" not in result


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "1",
        "???",
        "é",
        "MTI",
        base64.b64encode(b"x:y").decode(),
        base64.b64encode(b"\xff:").decode(),
        base64.b64encode(b"-1:").decode(),
        base64.b64encode(b"9" * 5000 + b":").decode(),
        "\0",
        "A" * 100_000,
    ],
)
@pytest.mark.parametrize("method", LISTS)
async def test_a_bad_cursor_is_invalid_params(wire: Wire, method: str, cursor: str) -> None:
    async with wire(serve("ab", 1)) as pipe:
        assert (await pipe.error(method, {"cursor": cursor}))["code"] == -32602


async def test_a_list_is_rendered_once_for_each_state_of_the_registry(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[str] = []
    describe = Tool.describe

    def counted(tool: Tool, revision: str) -> dict[str, Any]:
        described.append(tool.name)
        return describe(tool, revision)

    monkeypatch.setattr(Tool, "describe", counted)
    server = serve("ab", None)
    async with wire(server) as pipe:
        first = await pipe.result("tools/list")
        assert described == ["a", "b"]
        assert await pipe.result("tools/list") == first
        assert described == ["a", "b"]
        server.tool(handler, name="c")
        await pipe.result("tools/list")
        assert described == ["a", "b", "a", "b", "c"]


@pytest.mark.parametrize("change", ["add", "remove", "disable", "replace"])
async def test_a_list_is_never_stale(wire: Wire, change: str) -> None:
    server = serve("ab", None)
    async with wire(server) as pipe:
        assert await pages(pipe, "tools/list") == ["ab"]
        if change == "add":
            server.tool(handler, name="c")
            expected = "abc"
        elif change == "remove":
            server.tools.remove("a")
            expected = "b"
        elif change == "disable":
            server.tools.disable("b")
            expected = "a"
        else:
            server.tool(handler, name="a", description="another", replace=True)
            expected = "ab"
        assert await pages(pipe, "tools/list") == [expected]
        tools = (await pipe.result("tools/list"))["tools"]
        assert tools[0].get("description") == ("another" if change == "replace" else "Do nothing.")


async def test_the_cache_of_one_revision_is_not_served_to_another(wire: Wire) -> None:
    server = Server("s")
    server.tool(handler, title="A title")
    async with wire(server, "2025-11-25") as new, wire(server, "2024-11-05") as old:
        assert "title" in (await new.result("tools/list"))["tools"][0]
        assert "title" not in (await old.result("tools/list"))["tools"][0]
        assert "title" in (await new.result("tools/list"))["tools"][0]


@pytest.mark.slow
async def test_any_number_of_cursors_does_not_fill_the_memory(wire: Wire) -> None:
    server = serve("a", 1)
    async with wire(server) as pipe:
        for number in range(600):
            cursor = base64.urlsafe_b64encode(f"{number}:".encode()).decode()
            await pipe.result("tools/list", {"cursor": cursor})
        assert len(server.engine.listing._pages) <= 256


async def test_a_list_may_be_asked_for_while_threads_change_it(wire: Wire) -> None:
    server = serve("a", 3)
    stop = threading.Event()

    def change(number: int) -> None:
        while not stop.is_set():
            server.tool(handler, name=f"t{number}")
            server.tools.disable(f"t{number}")
            server.tools.remove(f"t{number}")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(3)]
    async with wire(server) as pipe:
        for thread in threads:
            thread.start()
        try:
            for _ in range(50):
                names = await pages(pipe, "tools/list")
                assert names[0].startswith("a")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert await pages(pipe, "tools/list") == ["a"]


async def test_the_text_of_a_cursor_is_not_kept(wire: Wire) -> None:
    server = serve("abc", page_size=1)
    async with wire(server) as pipe:
        page = await pipe.result("tools/list")
        place = base64.b64decode(page["nextCursor"])
        following = await pipe.result("tools/list", {"cursor": page["nextCursor"]})
        kept = len(server.engine.listing._pages)
        for more in (b"x", b"y" * 10_000):
            cursor = base64.b64encode(place + more).decode()
            assert await pipe.result("tools/list", {"cursor": cursor}) == following
        assert len(server.engine.listing._pages) == kept
