"""Questions and keys that are written wrong: the error names the mistake and what to write instead."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import Field

from mcpkit import Context, RegistrationError, ResourceLink, user
from mcpkit.elicitation import ElicitationResult, ElicitRequest, SamplingRequest
from tests.helpers.elicitation import REVISIONS, ScriptedAnswers, call_tool, make_server
from tests.helpers.tables import each_row


@dataclass
class City:
    name: str


@dataclass
class Wishes:
    meals: list[Literal["lunch", "dinner"]]


async def error_of(function: Callable[[Context], Any], revision: str, *answers: Any) -> str:
    """Return the text of the error that a tool's function raises."""

    async def tool(ctx: Context) -> str:
        with pytest.raises((TypeError, ValueError)) as error:
            await function(ctx)
        return str(error.value)

    return await call_tool(make_server(tool), ScriptedAnswers(*answers), revision)


Form: Any = ElicitRequest
Sampling: Any = SamplingRequest
LONG_KEY = "key must be a string of 1 to 100 characters"


@each_row(("make", "error", "message"), [
    (lambda: Form("Which city?", City("Rome")), RegistrationError,
     r"a form needs a type, such as a dataclass .*, got City\(name='Rome'\)"),
    (lambda: Form("Which city?", Optional[City]), RegistrationError,  # noqa: UP045 - as some write it
     "remove `None`: an `ElicitationResult` that was not accepted has no value"),
    (lambda: Form(str, "Which city?"), TypeError, "message must be a string, got"),
    (lambda: Form("A?", str, key=3), ValueError, LONG_KEY),
    (lambda: Form("A?", str, key="k" * 101), ValueError, LONG_KEY),
    (lambda: Form("Who?", str, key="#1"), ValueError,
     "key must not begin with #, which is reserved for generated keys"),
    (lambda: Sampling([user("Hello"), user({"a": object()})], max_tokens=5), ValueError,
     r"messages\[1\]\.content\.a cannot be converted to JSON: an object; return"),
    (lambda: Sampling(3, max_tokens=5), TypeError, "messages must be a string, or a list of user"),
    (lambda: Sampling([user(ResourceLink("notes://day", "day"))], max_tokens=5), TypeError,
     "the content of a sampling message must be text, image, audio, .*, got 'resource_link'"),
    (lambda: Sampling([{"role": "user", "content": "Hello"}], max_tokens=5), TypeError,
     "each message must be user"),
    (lambda: Sampling("Hello", max_tokens=5, tools=[print]), TypeError,
     "tools must be dicts in the form of a tools/list result"),
])  # fmt: skip
def test_question_constructor_invalid_argument_raises(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


PATTERN = "protocol version 2026-07-28 has no `pattern` for a string"
CHOICE = "protocol version 2025-06-18 has no multiple choice"


@each_row(("type_", "revision", "lack", "advice"), [
    (Wishes, "2025-06-18", CHOICE, f"Wishes: the field 'meals' is not possible: {CHOICE}; use a single"),
    (Annotated[str, Field(pattern="^a")], "2026-07-28", PATTERN, f"{PATTERN}; describe the pattern in words"),
])  # fmt: skip
async def test_elicit_type_that_the_revision_lacks_is_named_and_logged(type_, revision, lack, advice, caplog):
    async def plan(ctx: Context) -> str:
        return (await ctx.elicit("What do you want?", type_)).action

    text = await call_tool(make_server(plan), ScriptedAnswers(), revision)
    assert text == f"error: The client does not support this request: {lack}"
    assert advice in caplog.text


ALL = "Write ctx.ask(ElicitRequest(...), UrlElicitRequest(...), SamplingRequest(...), ListRootsRequest())"


@each_row(("make", "problem"), [
    (lambda ctx: "A?", "a str. Write ctx.ask(ElicitRequest('A?', bool)), or another type in place of bool"),
    (lambda ctx: ctx.list_roots(),
     "a coroutine. Write ctx.ask(ListRootsRequest(...), ...), as ctx.list_roots(...) sends a request of its own"),
    (lambda ctx: [Form("A?", bool), Form("B?", bool)], "a list. Write ctx.ask(*questions)"),
    (lambda ctx: Form, f"the class ElicitRequest. {ALL}"),
    (lambda ctx: ElicitationResult("accept", "a password"), f"an ElicitationResult. {ALL}"),
])  # fmt: skip
async def test_ask_wrong_argument_names_what_to_write(revision, make, problem) -> None:
    async def ask(ctx: Context) -> None:
        # A coroutine that stays open would be warned of, which fails the test.
        await ctx.ask(Form("First?", bool), make(ctx), ctx.sample("Hello", max_tokens=5))  # type: ignore[arg-type]

    assert await error_of(ask, revision) == f"ctx.ask takes requests to the client, got {problem}"


async def is_paid() -> bool:
    return True


@each_row(("make", "kind"), [(lambda: True, "a bool"), (is_paid, "a coroutine")])
async def test_elicit_url_done_must_be_a_function(revision: str, make: Callable[[], Any], kind: str) -> None:
    async def pay(ctx: Context) -> None:
        await ctx.elicit_url("Pay", "https://example.com", done=make())

    assert await error_of(pay, revision) == (
        f"done= must be a function that returns whether the step is complete, got {kind}. Write done=is_paid, or "
        "done=lambda: ..."
    )


# Keys: each is used once in a run of the handler


async def ask_in_a_loop(ctx: Context) -> None:
    while (await ctx.elicit("Another?", bool, key="more")).value:
        pass


async def ask_at_once(ctx: Context) -> None:
    await ctx.ask(ElicitRequest("This?", bool, key="more"), ElicitRequest("That?", bool, key="more"))


async def ask_pages(ctx: Context) -> None:
    for _ in range(2):
        await ctx.elicit_url("Pay", "https://example.com", key="more")


ORDERS: list[int] = []


async def place_order() -> None:
    await asyncio.sleep(0)
    ORDERS.append(1)


async def order_twice(ctx: Context) -> None:
    for _ in range(2):
        await ctx.once("more", place_order)


async def order_concurrently(ctx: Context) -> None:
    await asyncio.gather(ctx.once("more", place_order), ctx.once("more", place_order))


@each_row(("function", "what", "answer"), [
    (ask_in_a_loop, "question", {"value": True}), (ask_at_once, "question", {}),
    (ask_pages, "question", {"action": "accept"}), (order_twice, "ctx.once", {}),
    (order_concurrently, "ctx.once", {}),
])  # fmt: skip
async def test_key_used_twice_raises(revision: str, function: Any, what: str, answer: dict[str, Any]) -> None:
    ORDERS.clear()
    assert await error_of(function, revision, answer) == (
        f"this call already has a {what} with the key 'more'. Give each its own key, in a loop for example "
        'f"more-{number}"'
    )
    assert len(ORDERS) == (what == "ctx.once")


# Values of `ctx.once`: those that come back in a later round as they are

LOOP: list[Any] = []
LOOP.append(LOOP)
NOT_JSON: list[tuple[Any, str]] = [
    ((1, 2), "a tuple"), (date(2026, 7, 28), "a date"), (Decimal("1.5"), "a Decimal"), ({1, 2}, "a set"),
    (City("Rome"), "a City"), (b"raw", "a bytes"), (object(), "an object"), ("\ud800", "a str"),
    (float("nan"), "a float"), ([1, (2, 3)], "a list with values of other types"),
    ({1: "one"}, "a dict with values of other types"), (LOOP, "a list with values of other types"),
]  # fmt: skip
JSON: list[Any] = [None, True, 0, 10**30, 1.5, "Ä\n😀", [], [1, [None]], {"a": {"b": [1.0]}}]


@each_row(("value", "kind"), NOT_JSON)
async def test_once_value_that_is_not_json_raises(value: Any, kind: str) -> None:
    for revision in REVISIONS:
        assert await error_of(lambda ctx: ctx.once("order", lambda: value), revision) == (
            f"the function of ctx.once('order', ...) returned {kind}, which does not survive a round trip through "
            "JSON. Return a string, number, boolean or None, or a list or dict with string keys of these"
        )


@each_row("key", [3, "", "k" * 101])
async def test_once_wrong_key_raises(key: Any) -> None:
    assert LONG_KEY in await error_of(lambda ctx: ctx.once(key, lambda: 7), REVISIONS[-1])


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
