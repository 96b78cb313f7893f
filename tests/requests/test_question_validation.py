"""Questions and keys that are written wrong: the error names the mistake and what to write instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import Field

from mcpkit import Context, RegistrationError, ResourceLink, user
from mcpkit.elicitation import ElicitationResult, ElicitRequest, SamplingRequest
from tests.helpers.elicitation import REVISIONS, ScriptedAnswers, call_tool, make_server

pytestmark = pytest.mark.anyio


@dataclass
class City:
    name: str


@dataclass
class Wishes:
    meals: list[Literal["lunch", "dinner"]]


def clock() -> str:
    return "noon"


LONG_KEY = "key must be a string of 1 to 100 characters"
INVALID: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "value for a type": (
        lambda: ElicitRequest("Which city?", City("Rome")),  # type: ignore[call-overload]
        RegistrationError,
        r"a form needs a type, such as a dataclass .*, got City\(name='Rome'\)",
    ),
    "optional type": (
        lambda: ElicitRequest("Which city?", Optional[City]),  # noqa: UP045 - as some write it
        RegistrationError,
        "remove `None`: an `ElicitationResult` that was not accepted has no value",
    ),
    "arguments swapped": (
        lambda: ElicitRequest(str, "Which city?"),  # type: ignore[call-overload]
        TypeError,
        "message must be a string, got",
    ),
    "number for a key": (lambda: ElicitRequest("A?", str, key=3), ValueError, LONG_KEY),  # type: ignore[arg-type]
    "long key": (lambda: ElicitRequest("A?", str, key="k" * 101), ValueError, LONG_KEY),
    "key of another question": (
        lambda: ElicitRequest("Who?", str, key="#1"),
        ValueError,
        "key must not begin with #, which is reserved for generated keys",
    ),
    "message without JSON": (
        lambda: SamplingRequest([user("Hello"), user({"a": object()})], max_tokens=5),
        ValueError,
        r"messages\[1\]\.content\.a cannot be converted to JSON: an object; return",
    ),
    "number for messages": (
        lambda: SamplingRequest(3, max_tokens=5),  # type: ignore[arg-type]
        TypeError,
        "messages must be a string, or a list of user",
    ),
    "resource link": (
        lambda: SamplingRequest([user(ResourceLink("notes://day", "day"))], max_tokens=5),
        TypeError,
        "the content of a sampling message must be text, image, audio, .*, got 'resource_link'",
    ),
    "content as text": (
        lambda: SamplingRequest([{"role": "user", "content": "Hello"}], max_tokens=5),  # type: ignore[list-item]
        TypeError,
        "each message must be user",
    ),
    "function for a tool": (
        lambda: SamplingRequest("Hello", max_tokens=5, tools=[clock]),  # type: ignore[list-item]
        TypeError,
        "tools must be dicts in the form of a tools/list result",
    ),
}


def test_question_constructor_invalid_argument_raises() -> None:
    faults = []
    for name, (make, error, message) in INVALID.items():
        try:
            with pytest.raises(error, match=message):
                make()
        except (AssertionError, Exception, pytest.fail.Exception) as fault:
            faults.append((name, fault))
    assert not faults


PATTERN = "protocol version 2026-07-28 has no `pattern` for a string"
CHOICE = "protocol version 2025-06-18 has no multiple choice"


@pytest.mark.parametrize(
    ("type_", "revision", "lack", "advice"),
    [
        (Wishes, "2025-06-18", CHOICE, f"Wishes: the field 'meals' is not possible: {CHOICE}; use a single"),
        (
            Annotated[str, Field(pattern="^a")],
            "2026-07-28",
            PATTERN,
            "has no `pattern` for a string; describe the pattern in words",
        ),
    ],
)
async def test_elicit_type_that_the_revision_lacks_is_named_and_logged(
    type_: Any, revision: str, lack: str, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def plan(ctx: Context) -> str:
        return (await ctx.elicit("What do you want?", type_)).action

    text = await call_tool(make_server(plan), ScriptedAnswers(), revision)
    assert text == f"error: The client does not support this request: {lack}"
    assert advice in caplog.text


ALL_FOUR = (
    "Write ctx.ask(ElicitRequest(...), UrlElicitRequest(...), SamplingRequest(...), ListRootsRequest())"
)
NOT_QUESTIONS: dict[str, Callable[[Context], Any]] = {
    "a str. Write ctx.ask(ElicitRequest('A?', bool)), or another type in place of bool": lambda ctx: "A?",
    "a coroutine. Write ctx.ask(ElicitRequest(...), ...), as ctx.elicit(...) sends a request of its own": (
        lambda ctx: ctx.elicit("A?", bool)
    ),
    "a coroutine. Write ctx.ask(ListRootsRequest(...), ...), as ctx.list_roots(...) sends a request of its own": (
        lambda ctx: ctx.list_roots()
    ),
    "a list. Write ctx.ask(*questions)": lambda ctx: [ElicitRequest("A?", bool), ElicitRequest("B?", bool)],
    f"the class ElicitRequest. {ALL_FOUR}": lambda ctx: ElicitRequest,
    f"an ElicitationResult. {ALL_FOUR}": lambda ctx: ElicitationResult("accept", "a password"),
}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("problem", NOT_QUESTIONS)
async def test_ask_wrong_argument_names_what_to_write(revision: str, problem: str) -> None:
    async def ask(ctx: Context) -> str:
        wrong = NOT_QUESTIONS[problem](ctx)
        try:
            # A coroutine that stays open would be warned of, which fails the test.
            await ctx.ask(ElicitRequest("First?", bool), wrong, ctx.sample("Hello", max_tokens=5))  # type: ignore[arg-type]
        except TypeError as error:
            return str(error)
        return ""

    text = await call_tool(make_server(ask), ScriptedAnswers(), revision)
    assert text == f"ctx.ask takes requests to the client, got {problem}"


async def is_paid() -> bool:
    return True


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("make", "kind"), [(lambda: True, "a bool"), (is_paid, "a coroutine")])
async def test_elicit_url_done_must_be_a_function(revision: str, make: Callable[[], Any], kind: str) -> None:
    async def pay(ctx: Context) -> str:
        try:
            await ctx.elicit_url("Pay", "https://example.com", done=make())
        except TypeError as error:
            return str(error)
        return ""

    answers = ScriptedAnswers()
    assert await call_tool(make_server(pay), answers, revision) == (
        f"done= must be a function that returns whether the step is complete, got {kind}. Write "
        "done=is_paid, or done=lambda: ..."
    )
    assert answers.requests == []


# Keys: each is used once in a run of the handler

USED = (
    "this call already has a {what} with the key {key!r}. Give each its own key, "
    'in a loop for example f"{key}-{{number}}"'
)
QUESTION_USED = USED.format(what="question", key="more")
ONCE_USED = USED.format(what="ctx.once", key="order")


async def ask_in_a_loop(ctx: Context) -> None:
    while (await ctx.elicit("Another?", bool, key="more")).value:
        pass


async def ask_at_once(ctx: Context) -> None:
    await ctx.ask(ElicitRequest("This?", bool, key="more"), ElicitRequest("That?", bool, key="more"))


async def ask_pages(ctx: Context) -> None:
    for _ in range(2):
        await ctx.elicit_url("Pay", "https://example.com", key="more")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("function", "answer"),
    [(ask_in_a_loop, {"value": True}), (ask_at_once, {}), (ask_pages, {"action": "accept"})],
)
async def test_question_key_used_twice_raises(revision: str, function: Any, answer: dict[str, Any]) -> None:
    async def ask(ctx: Context) -> str:
        try:
            await function(ctx)
        except ValueError as error:
            return str(error)
        return ""

    assert await call_tool(make_server(ask), ScriptedAnswers(answer), revision) == QUESTION_USED


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_concurrent", [True, False])
async def test_once_key_used_twice_runs_one_function(revision: str, is_concurrent: bool) -> None:
    done: list[int] = []

    async def order(ctx: Context) -> str:
        async def place() -> None:
            await asyncio.sleep(0)
            done.append(1)

        if is_concurrent:
            both = [ctx.once("order", place), ctx.once("order", place)]
            return str((await asyncio.gather(*both, return_exceptions=True))[1])
        await ctx.once("order", place)
        try:
            await ctx.once("order", place)
        except ValueError as error:
            return str(error)
        return ""

    assert await call_tool(make_server(order), ScriptedAnswers(), revision) == ONCE_USED
    assert done == [1]


# Values of `ctx.once`: those that come back in a later round as they are

LOOP: list[Any] = []
LOOP.append(LOOP)
NOT_JSON: list[tuple[Any, str]] = [
    ((1, 2), "a tuple"),
    (date(2026, 7, 28), "a date"),
    (Decimal("1.5"), "a Decimal"),
    ({1, 2}, "a set"),
    (City("Rome"), "a City"),
    (Path("/srv"), f"a {type(Path()).__name__}"),
    (b"raw", "a bytes"),
    (object(), "an object"),
    ("\ud800", "a str"),
    (float("nan"), "a float"),
    ([1, (2, 3)], "a list with values of other types"),
    ({1: "one"}, "a dict with values of other types"),
    (LOOP, "a list with values of other types"),
]
JSON: list[Any] = [None, True, 0, 10**30, 1.5, "Ä\n😀", [], [1, [None]], {"a": {"b": [1.0]}}]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_once_value_that_is_not_json_raises(revision: str) -> None:
    errors: list[str] = []

    async def order(ctx: Context) -> None:
        for number, (value, _) in enumerate(NOT_JSON):
            with pytest.raises(TypeError) as error:
                await ctx.once(f"order {number}", lambda value=value: value)
            errors.append(str(error.value))
        for key in (3, "", "k" * 101):
            with pytest.raises(ValueError, match=LONG_KEY):
                await ctx.once(key, lambda: 7)  # type: ignore[arg-type]

    assert await call_tool(make_server(order), None, revision) == ""
    assert errors == [
        f"the function of ctx.once('order {number}', ...) returned {kind}, which does not survive a round trip "
        "through JSON. Return a string, number, boolean or None, or a list or dict with string keys of these"
        for number, (_, kind) in enumerate(NOT_JSON)
    ]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_once_value_that_is_json_returns_unchanged_in_each_round(revision: str) -> None:
    calls: list[int] = []
    values: list[Any] = []

    async def order(ctx: Context) -> str:
        def place(value: Any) -> Any:
            calls.append(1)
            return value

        values.extend([await ctx.once(f"key {n}", lambda v=v: place(v)) for n, v in enumerate(JSON)])
        return (await ctx.elicit("Who?", str)).value

    assert await call_tool(make_server(order), ScriptedAnswers({"value": "Ada"}), revision) == "Ada"
    assert repr(values) == repr(JSON * (2 if revision == "2026-07-28" else 1))
    assert len(calls) == len(JSON)
