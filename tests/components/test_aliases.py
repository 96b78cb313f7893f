"""Arguments with aliases: published, validated, completed and documented by the alias, passed by the parameter."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, AliasPath, Field

from mcpkit import RegistrationError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ALIASES = {
    "alias": Field(alias="$from"),
    "validation_alias": Field(validation_alias="$from"),
    "AliasPath": Field(validation_alias=AliasPath("$from")),
    "AliasChoices": Field(validation_alias=AliasChoices(AliasPath("a", 0), "$from", "other")),
}


@pytest.mark.parametrize("field", ALIASES.values(), ids=ALIASES)
async def test_a_tool_takes_an_argument_by_its_alias(field: Any) -> None:
    server = Server("aliases")

    def find(start: int, limit: Annotated[int, Field(alias="$limit")] = 5) -> list[int]:
        """Find.

        Args:
            start: The start.
            $limit: The limit.
        """
        return [start, limit]

    find.__annotations__["start"] = Annotated[int, field]
    server.tool(find)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
        properties = tool["inputSchema"]["properties"]
        assert {name: each["description"] for name, each in properties.items()} == {
            "$from": "The start.",
            "$limit": "The limit.",
        }
        assert tool["inputSchema"]["required"] == ["$from"]
        assert (await client.call("find", {"$from": 3})).text == "[3,5]"
        assert (await client.call("find", {"$from": 3, "$limit": 4})).text == "[3,4]"
        assert "start: unknown argument" in (await client.call("find", {"start": 3})).text


async def test_prompts_and_templates_take_arguments_by_their_aliases() -> None:
    server = Server("aliases")

    @server.prompt(complete={"from": ["Rome", "Oslo"]})
    def travel(start: Annotated[str, Field(alias="from")]) -> str:
        return start

    @server.resource("trip://{from}")
    def trip(start: Annotated[str, Field(alias="from")]) -> str:
        return start

    async with connect(server) as client:
        (prompt,) = await client.list_prompts()
        assert prompt["arguments"] == [{"name": "from", "required": True}]
        assert (await client.get_prompt("travel", {"from": "Rome"}))[0]["content"]["text"] == "Rome"
        assert (await client.read("trip://Oslo"))[0]["text"] == "Oslo"


async def test_a_default_factory_takes_the_arguments_before_it() -> None:
    server = Server("aliases")

    @server.tool
    def pair(
        first: Annotated[int, Field(alias="1st")],
        second: Annotated[int, Field(alias="2nd", default_factory=lambda data: data["first"] + 1)],
    ) -> list[int]:
        return [first, second]

    async with connect(server) as client:
        assert (await client.call("pair", {"1st": 3})).text == "[3,4]"


async def test_a_default_factory_takes_plain_defaults_before_it() -> None:
    server = Server("aliases")

    @server.tool
    def page(
        size: int = 10,
        last: int = Field(default_factory=lambda data: data["size"] - 1),
    ) -> list[int]:
        return [size, last]

    async with connect(server) as client:
        assert (await client.call("page", {})).text == "[10,9]"
        assert (await client.call("page", {"size": 5})).text == "[5,4]"


async def test_a_plain_default_before_a_default_factory_is_not_copied() -> None:
    server, guards = Server("aliases"), [threading.Lock()]

    @server.tool
    def count(
        held: list[int] = guards,  # type: ignore[assignment]  # what cannot be copied
        last: int = Field(default_factory=lambda data: len(data["held"])),
    ) -> list[bool | int]:
        return [held is guards, last]

    async with connect(server) as client:
        assert (await client.call("count", {})).text == "[true,1]"


def test_an_alias_that_is_a_path_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"find: .*'start'.*Use an alias that is a single name"):

        @Server("aliases").tool
        def find(start: Annotated[int, Field(validation_alias=AliasPath("a", "b"))]) -> int:
            return start


def test_two_arguments_of_one_name_are_refused() -> None:
    with pytest.raises(RegistrationError, match=r"find: .*'start' and 'end' are both sent as 'end'"):

        @Server("aliases").tool
        def find(start: Annotated[int, Field(alias="end")], end: int) -> int:
            return start


def test_an_alias_beside_keyword_arguments_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"find: .*'start'.*Remove the alias or \*\*kwargs"):

        @Server("aliases").tool
        def find(start: Annotated[int, Field(alias="from")], **rest: int) -> int:
            return start
