"""Prompts: their arguments, and the messages that they return."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mcpkit import (
    Context,
    EmbeddedResource,
    Image,
    Message,
    ProtocolError,
    RegistrationError,
    Server,
    assistant,
    user,
)
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


class Unit(Enum):
    CELSIUS = "c"


@pytest.fixture
def server() -> Server:
    return Server("s")


async def test_arguments_come_from_the_signature(server: Server) -> None:
    @server.prompt(title="Plan")
    def plan_trip(city: str, days: Annotated[int, Field(title="Days")] = 3) -> str:
        """Plan a trip.

        Args:
            city: Where to go.
            days: How long.
        """
        return ""

    async with connect(server) as client:
        (prompt,) = await client.list_prompts()
        assert prompt == {
            "name": "plan_trip",
            "title": "Plan",
            "description": "Plan a trip.",
            "arguments": [
                {"name": "city", "description": "Where to go.", "required": True},
                {"name": "days", "title": "Days", "description": "How long."},
            ],
        }


async def test_a_prompt_without_arguments_lists_none(server: Server) -> None:
    @server.prompt
    def hello(ctx: Context) -> str:
        return ""

    async with connect(server) as client:
        assert await client.list_prompts() == [{"name": "hello"}]


async def test_arguments_are_parsed_from_their_text(server: Server) -> None:
    @server.prompt
    def plan(
        days: int,
        start: date,
        unit: Unit,
        kind: Literal["short", 1],
        warm: bool = False,
        tags: list[str] = [],
    ) -> str:
        return f"{days + 1} {start.year} {unit.name} {kind!r} {warm} {tags}"

    async with connect(server) as client:
        (message,) = await client.get_prompt(
            "plan",
            {"days": "3", "start": "2026-01-02", "unit": "c", "kind": "1", "warm": "true", "tags": '["a"]'},
        )
        assert message["content"]["text"] == "4 2026 CELSIUS 1 True ['a']"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "days"),
        ({"days": "three"}, "days"),
        ({"days": "3", "dayz": "4"}, "dayz"),
        ({"days": "3.5"}, "days"),
    ],
)
async def test_arguments_that_do_not_fit_are_invalid_params_that_name_them(
    server: Server, arguments: dict[str, str], named: str
) -> None:
    @server.prompt
    def plan(days: int) -> str:
        return ""

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match=named) as caught:
            await client.get_prompt("plan", arguments)
        assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", [("user", "text")]),
        (user("text"), [("user", "text")]),
        (assistant("text"), [("assistant", "text")]),
        (["a", assistant("b"), user("c")], [("user", "a"), ("assistant", "b"), ("user", "c")]),
        ((user("a"), "b"), [("user", "a"), ("user", "b")]),
        ({"x": 1}, [("user", '{"x":1}')]),
        (user({"x": 1}), [("user", '{"x":1}')]),
        ([], []),
    ],
)
async def test_what_is_returned_becomes_messages(
    server: Server, value: Any, expected: list[tuple[str, str]]
) -> None:
    server.prompt(lambda: value, name="p")
    async with connect(server) as client:
        messages = await client.get_prompt("p")
        assert [(message["role"], message["content"]["text"]) for message in messages] == expected


async def test_messages_hold_content_of_any_kind(server: Server) -> None:
    server.prompt(
        lambda: [user(Image(data=PNG)), assistant(EmbeddedResource("data://x", text="x")), user(PNG)],
        name="p",
    )
    async with connect(server) as client:
        messages = await client.get_prompt("p")
        assert [message["content"]["type"] for message in messages] == ["image", "resource", "image"]


async def test_content_of_several_parts_becomes_several_messages(server: Server) -> None:
    server.prompt(lambda: assistant([Image(data=PNG), "caption"]), name="p")
    async with connect(server) as client:
        assert [
            (message["role"], message["content"]["type"]) for message in await client.get_prompt("p")
        ] == [("assistant", "image"), ("assistant", "text")]


def test_a_message_is_said_by_user_or_assistant() -> None:
    with pytest.raises(ValueError, match="role"):
        Message("system", "text")  # type: ignore[arg-type]  # on purpose


def test_a_prompt_has_a_name(server: Server) -> None:
    with pytest.raises(RegistrationError, match="not empty"):

        @server.prompt(name="")
        def nameless() -> str:
            return ""


def test_open_keyword_arguments_are_refused(server: Server) -> None:
    def plan(**extra: str) -> str:
        return ""

    with pytest.raises(RegistrationError, match=r"\*\*kwargs"):
        server.prompt(plan)


async def test_async_prompts_and_the_context(server: Server) -> None:
    @server.prompt
    async def who(ctx: Context) -> str:
        return f"{ctx.method} for {ctx.client.name}"

    async with connect(server, info={"name": "tests", "version": "1"}) as client:
        (message,) = await client.get_prompt("who")
        assert message["content"]["text"] == "prompts/get for tests"


async def test_disabled_prompts_are_unknown(server: Server) -> None:
    server.prompt(lambda: "", name="p")
    server.prompts.disable("p")
    async with connect(server) as client:
        assert await client.list_prompts() == []
        with pytest.raises(ProtocolError, match="Unknown prompt"):
            await client.get_prompt("p")
