"""Lists: their order, their pages and their cache (utilities/pagination)."""

from __future__ import annotations

import base64

import pytest

from mcpkit import Server
from tests.conformance.conftest import Wire
from tests.helpers.pipe import Pipe

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


async def test_lists_come_in_pages_in_order_of_registration(wire: Wire, revision: str) -> None:
    async with wire(serve("cabfe", 2), revision) as pipe:
        for method in LISTS:
            assert await pages(pipe, method) == ["ca", "bf", "e"], method
    for size, expected in ((None, ["abcd"]), (4, ["abcd"]), (3, ["abc", "d"]), (1, [*"abcd"])):
        async with wire(serve("abcd", size), revision) as pipe:
            assert await pages(pipe, "tools/list") == expected, size
    for size in (0, -1):
        with pytest.raises(ValueError, match="page_size"):
            Server("s", page_size=size)


async def test_changed_registry_is_listed_in_its_order(wire: Wire) -> None:
    server = serve("abc", None)
    async with wire(server) as pipe:
        assert await pages(pipe, "tools/list") == ["abc"]
        server.tool(item, name="b", description="another", replace=True)
        assert await pages(pipe, "tools/list") == ["abc"]
        assert (await pipe.result("tools/list"))["tools"][1]["description"] == "another"
        server.tool(server.tools.remove("a").function, name="a")
        assert await pages(pipe, "tools/list") == ["bca"]
        server.tools.disable("b")
        assert await pages(pipe, "tools/list") == ["ca"]
        server.tools.enable("b")
        server.tool(handler, name="d")
        assert await pages(pipe, "tools/list") == ["bcad"]


async def test_invalid_cursor_is_invalid_params_and_cursors_are_not_kept(wire: Wire) -> None:
    encoded = [base64.b64encode(text).decode() for text in (b"x:y", b"\xff:", b"-1:", b"9" * 5000 + b":")]
    server = serve("ab", 1)
    async with wire(server) as pipe:
        for cursor in ("", "x", "1", "???", "é", "MTI", *encoded, "\0", "A" * 100_000):
            for method in LISTS:
                error = await pipe.error(method, {"cursor": cursor})
                assert error["code"] == -32602, (method, cursor[:20])
        for number in range(300):
            cursor = base64.urlsafe_b64encode(f"{number}:".encode()).decode()
            await pipe.result("tools/list", {"cursor": cursor})
        assert len(server.engine.listing._pages) <= 256


async def test_cursor_after_changes_skips_nothing(wire: Wire) -> None:
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
