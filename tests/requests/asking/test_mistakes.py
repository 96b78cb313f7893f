"""Questions that are written wrong: what is said says what to change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import Field

from mcpkit import (
    Answer,
    Audio,
    Context,
    Elicit,
    ElicitUrl,
    RegistrationError,
    ResourceLink,
    Sample,
    Server,
    user,
)
from mcpkit.common.errors import InputRequired
from mcpkit.testing import connect
from tests.helpers.asked import Person, outcome, tool

pytestmark = pytest.mark.anyio


@dataclass
class City:
    name: str


@dataclass
class Wishes:
    meals: list[Literal["lunch", "dinner"]]


@pytest.mark.parametrize(
    ("type_", "problem"),
    [
        (City("Rome"), r"a form asks for a type, such as a dataclass .*, not for City\(name='Rome'\)"),
        ({"type": "object"}, 'the JSON Schema of a form says {"type": "object", "properties": '),
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


def test_a_message_without_a_form_in_json_says_where() -> None:
    with pytest.raises(ValueError, match=r"messages\[1\]\.content\.a has no form in JSON: an object; return"):
        Sample([user("Hello"), user({"a": object()})], max_tokens=5)


@pytest.mark.parametrize("messages", [3, user("Hello")])
async def test_messages_are_a_text_or_a_list(messages: Any) -> None:
    with pytest.raises(TypeError, match="messages are a string, or a list of user"):
        Sample(messages, max_tokens=5)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (
            user(ResourceLink("notes://day", "day")),
            "a model is sent text, image, audio, .*, not resource_link",
        ),
        ({"role": "user", "content": {"type": "video"}}, "not video"),
        ({"role": "user", "content": "Hello"}, "messages are written user"),
        ({"role": "user"}, "messages are written user"),
    ],
)
async def test_a_message_holds_what_a_model_is_sent(message: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Sample([message], max_tokens=5)


@pytest.mark.parametrize(
    ("message", "revision", "kind"),
    [
        (user(Audio(data=b"la", mime_type="audio/wav")), "2024-11-05", "audio"),
        (
            {"role": "user", "content": [{"type": "tool_result", "toolUseId": "1", "content": []}]},
            "2025-06-18",
            "tool_result",
        ),
    ],
)
async def test_what_a_revision_does_not_send_to_models_is_named(
    message: Any, revision: str, kind: str
) -> None:
    async def say(ctx: Context) -> str:
        return (await ctx.sample([message], max_tokens=5)).text

    told = await outcome(tool(say), Person(), revision)
    assert told == f"error: The client cannot be asked this: revision {revision} has no {kind} in sampling"


async def test_tools_of_a_model_are_dicts() -> None:
    def clock() -> str:
        return "noon"

    tools: Any = [clock]
    with pytest.raises(TypeError, match="tools are written as tools/list shows them, each a dict"):
        Sample("Hello", max_tokens=5, tools=tools)


SEVERAL = [Elicit("A?", bool), Elicit("B?", bool)]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            lambda ctx: "A?",
            "a str: write ctx.ask(Elicit('A?', bool)), or another type that is to be entered",
        ),
        (
            lambda ctx: ctx.elicit("A?", bool),
            "a coroutine: write ctx.ask(Elicit(...), ...), as ctx.elicit(...) asks by itself",
        ),
        (
            lambda ctx: ctx.list_roots(),
            "a coroutine: write ctx.ask(ListRoots(...), ...), as ctx.list_roots(...) asks by itself",
        ),
        (lambda ctx: SEVERAL, "a list: write ctx.ask(*questions)"),
        (
            lambda ctx: Elicit,
            "the class Elicit: write ctx.ask(Elicit(...), ElicitUrl(...), Sample(...), ListRoots())",
        ),
        (
            lambda ctx: Answer("accept", "a password"),
            "an Answer: write ctx.ask(Elicit(...), ElicitUrl(...), Sample(...), ListRoots())",
        ),
    ],
)
async def test_what_is_no_question_is_named_and_what_to_write_instead(
    revision: str, wrong: Callable[[Context], Any], problem: str
) -> None:
    async def ask(ctx: Context) -> str:
        try:
            # A coroutine that stays open would be warned of, which fails the test.
            await ctx.ask(Elicit("First?", bool), wrong(ctx), ctx.sample("Hello", max_tokens=5))  # type: ignore[arg-type]  # the mistake
        except TypeError as error:
            return str(error)
        return ""

    assert await outcome(tool(ask), Person(), revision) == f"ctx.ask takes questions, not {problem}"


async def test_who_forgets_the_type_in_a_thread_is_told_too() -> None:
    def ask(ctx: Context) -> str:
        try:
            ctx.sync.ask("A?")  # type: ignore[arg-type]  # the mistake
        except TypeError as error:
            return str(error)
        return ""

    told = await outcome(tool(ask), Person(), "2026-07-28")
    assert told.startswith("ctx.ask takes questions, not a str: write ctx.ask(Elicit('A?', bool))")


async def is_paid() -> bool:
    return True


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("make", "kind"), [(lambda: True, "a bool"), (is_paid, "a coroutine")])
async def test_what_says_whether_a_page_is_done_is_a_function(
    revision: str, make: Callable[[], Any], kind: str
) -> None:
    async def pay(ctx: Context) -> str:
        try:
            await ctx.elicit_url("Pay", "https://example.com", done=make())
        except TypeError as error:
            return str(error)
        return ""

    person = Person()
    told = await outcome(tool(pay), person, revision)
    assert told == (
        f"done= takes a function that says whether it is done, not {kind}: write done=is_paid, or done=lambda: ..."
    )
    assert person.asked == []


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


@pytest.mark.parametrize(
    ("type_", "revision", "lack", "advice"),
    [
        (
            Wishes,
            "2025-06-18",
            "revision 2025-06-18 has no multiple choice",
            "Wishes: the field 'meals' cannot be asked: revision 2025-06-18 has no multiple choice; ask for",
        ),
        (
            Annotated[str, Field(pattern="^a")],
            "2026-07-28",
            "revision 2026-07-28 has no `pattern` for a text",
            "has no `pattern` for a text; describe the pattern in words",
        ),
    ],
)
async def test_what_a_form_cannot_say_is_told_to_the_model_and_what_to_do_to_the_author(
    type_: Any, revision: str, lack: str, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def plan(ctx: Context) -> str:
        return (await ctx.elicit("What do you want?", type_)).action

    told = await outcome(tool(plan), Person(), revision)
    assert told == f"error: The client cannot be asked this: {lack}"
    assert advice in caplog.text
