"""Aliases of `typing` without brackets are what they stand for: `List` is `list`, at any place."""

# ruff: noqa: UP006 - the old spellings are what is tested
from __future__ import annotations

import collections
import typing
from typing import Any, NoReturn, get_origin

import pytest
from typing_extensions import Never

from mcpkit import Image, Server, ToolError
from mcpkit.schema import Output
from mcpkit.schema.hints import describe
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

NAMES = [
    *("List", "Dict", "Set", "FrozenSet", "Tuple", "Mapping", "MutableMapping", "Sequence", "Iterable", "Iterator"),
    *("Deque", "DefaultDict", "OrderedDict", "Counter", "Collection", "AbstractSet", "Generator"),
]  # fmt: skip
OBJECTS = {"Dict", "Mapping", "MutableMapping", "DefaultDict", "OrderedDict", "Counter"}


@pytest.mark.parametrize("name", NAMES)
def test_an_alias_is_the_class(name: str) -> None:
    alias = getattr(typing, name)
    schema = describe(alias).schema
    assert schema == describe(get_origin(alias)).schema
    assert describe(typing.List[alias]).schema == {"type": "array", "items": schema}
    assert schema["type"] == ("object" if name in OBJECTS else "array")
    assert (Output.of(alias) is None) == (Output.of(get_origin(alias)) is None)


async def test_old_spellings_take_and_give_what_they_say() -> None:
    server = Server("old")
    received: list[Any] = []

    @server.tool
    def keep(rows: typing.List[typing.Dict], pair: typing.Tuple, counts: typing.DefaultDict) -> typing.List:
        """Keep some rows."""
        received.extend((rows, pair, counts))
        return ["kept", Image(data=bytes.fromhex("89504e470d0a1a0a"))]

    async with connect(server) as client:
        result = await client.call("keep", {"rows": [{"a": 1}], "pair": [1, "a"], "counts": {"a": 1}})
    assert received == [[{"a": 1}], (1, "a"), {"a": 1}]
    assert type(received[2]) is collections.defaultdict
    assert [block["type"] for block in result.content] == ["text", "image"]


@pytest.mark.parametrize("annotation", [NoReturn, Never])
async def test_a_function_that_never_returns_promises_nothing(annotation: Any) -> None:
    server = Server("never")

    def refuse() -> Any:
        raise ToolError("not today")

    refuse.__annotations__ = {"return": annotation}
    server.tool(refuse)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
        assert "outputSchema" not in tool
        assert (await client.call("refuse")).text == "not today"
