"""Questions that are written wrong: what is said says what to change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Optional

import pytest

from mcpkit import Context, Elicit, ElicitUrl, RegistrationError, Sample, Server, user
from mcpkit.errors import InputRequired
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


@dataclass
class City:
    name: str


@pytest.mark.parametrize(
    ("type_", "problem"),
    [
        (City("Rome"), r"a form asks for a type, such as a dataclass .*, not for City\(name='Rome'\)"),
        ({"type": "object"}, "a form asks for a type, .*, not for {'type': 'object'}"),
        (
            Optional[City],  # noqa: UP045 - as some write it
            "leave `None` out: an `Answer` that is not accepted has no value",
        ),
        (City | None, "leave `None` out"),
    ],
)
async def test_a_form_asks_for_a_type(type_: Any, problem: str) -> None:
    with pytest.raises(RegistrationError, match=problem):
        Elicit("Which city?", type_)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Elicit(str, "Which city?"),  # type: ignore[call-overload]  # the wrong way round
        lambda: ElicitUrl(3, "https://example.org"),  # type: ignore[arg-type]  # a mistake of authors'
    ],
)
async def test_a_message_is_a_string(make: Any) -> None:
    with pytest.raises(TypeError, match="message must be a string, got"):
        make()


async def test_a_key_is_a_short_string() -> None:
    keys: list[Any] = [3, "", "k" * 101]
    for key in keys:
        with pytest.raises(ValueError, match="key must be a string of 1 to 100 characters"):
            Elicit("Which city?", str, key=key)


@pytest.mark.parametrize("messages", [3, user("Hello")])
async def test_messages_are_a_text_or_a_list(messages: Any) -> None:
    with pytest.raises(TypeError, match="messages are a string, or a list of user"):
        Sample(messages, max_tokens=5)


async def test_tools_of_a_model_are_dicts() -> None:
    def clock() -> str:
        return "noon"

    tools: Any = [clock]
    with pytest.raises(TypeError, match="tools are written as tools/list shows them, each a dict"):
        Sample("Hello", max_tokens=5, tools=tools)


async def test_a_round_that_is_caught_says_what_it_is() -> None:
    server = Server("asking")
    caught: list[BaseException] = []

    @server.tool
    async def ask(ctx: Context) -> str:
        question = asyncio.ensure_future(ctx.elicit("Whom?", str))
        await asyncio.wait([question])
        error = question.exception()
        assert error is not None
        caught.append(error)
        raise error

    async with connect(server, capabilities={"elicitation": {}}) as client:
        result = await client.request("tools/call", {"name": "ask", "arguments": {}})
    assert result["resultType"] == "input_required"
    assert isinstance(caught[0], InputRequired)
    assert "let this pass" in str(caught[0])
