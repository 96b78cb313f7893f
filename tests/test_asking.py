"""Questions to the client, alike in every revision that has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from mcpkit import (
    AnswerError,
    Complete,
    Context,
    Elicit,
    ElicitationError,
    ListRoots,
    ProtocolError,
    Sample,
    Server,
    ToolError,
    user,
)
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ELICITING = ["2025-06-18", "2025-11-25", "2026-07-28"]
EVERY = ["2024-11-05", "2025-03-26", *ELICITING]


@dataclass
class City:
    name: str
    days: int


class Person:
    """Whoever answers, and remembers what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = list(answers)

    def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((method, params))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if method == "elicitation/create" and "action" not in answer:
            return {"action": "accept", "content": answer}
        return answer


def said(text: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": "m",
        "stopReason": "endTurn",
    }


def tool(function: Callable[..., Any]) -> Server:
    server = Server("asking", secret="a secret of the tests")
    server.tool(function)
    return server


async def outcome(server: Server, person: Person | None, revision: str, **options: Any) -> str:
    """Call the server's one tool, and return what it says, with what it failed with in front."""
    async with connect(server, revision=revision, answers=person, **options) as client:
        (name,) = [each["name"] for each in await client.list_tools()]
        try:
            result = await client.call(name)
        except ProtocolError as error:
            return f"{error.code}: {error.message}"
        return f"error: {result.text}" if result.is_error else result.text


@pytest.mark.parametrize("revision", ELICITING)
async def test_three_questions_each_of_which_needs_the_one_before(revision: str) -> None:
    orders: list[str] = []

    async def plan(ctx: Context) -> str:
        city = (await ctx.elicit("Which city?", City)).value
        number = await ctx.once("order", lambda: orders.append(city.name) or len(orders))
        warmth = (await ctx.elicit(f"How warm is it in {city.name}?", float)).value
        words = await ctx.sample([user(f"{warmth} degrees")], max_tokens=50, system="Be brief.")
        return f"{city.days} days in {city.name} at {warmth}: {words.text}, order {number}"

    person = Person({"name": "Paris", "days": 3}, {"value": 21.5}, said("mild"))
    assert await outcome(tool(plan), person, revision) == "3 days in Paris at 21.5: mild, order 1"
    assert orders == ["Paris"]
    assert [method for method, _ in person.asked] == [
        "elicitation/create",
        "elicitation/create",
        "sampling/createMessage",
    ]
    assert person.asked[1][1]["message"] == "How warm is it in Paris?"


@pytest.mark.parametrize("revision", EVERY)
async def test_the_roots_are_listed(revision: str) -> None:
    async def where(ctx: Context) -> str:
        return ", ".join(f"{root.uri} ({root.name})" for root in await ctx.list_roots())

    person = Person({"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]})
    assert await outcome(tool(where), person, revision) == "file:///a (A), file:///b (None)"


@pytest.mark.parametrize("revision", ELICITING)
async def test_several_things_are_asked_at_once(revision: str) -> None:
    async def much(ctx: Context) -> str:
        city, words, roots = await ctx.ask(
            Elicit("Which city?", City), Sample("Hello", max_tokens=5), ListRoots()
        )
        return f"{city.value.name} {words.text} {len(roots)}"

    person = Person({"name": "Rome", "days": 1}, said("hi"), {"roots": []})
    assert await outcome(tool(much), person, revision) == "Rome hi 0"


@pytest.mark.parametrize("revision", ELICITING)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_no_is_told_from_no_answer(revision: str, action: str) -> None:
    async def choose(ctx: Context) -> str:
        answer = await ctx.elicit("Red?", bool)
        if not answer:
            return answer.action
        return str(answer.value)

    async def insist(ctx: Context) -> str:
        return str((await ctx.elicit("Red?", bool)).value)

    assert await outcome(tool(choose), Person({"action": action}), revision) == action
    what = "declined" if action == "decline" else "cancelled"
    assert await outcome(tool(insist), Person({"action": action}), revision) == f"error: The user {what}"
    assert await outcome(tool(choose), Person({"value": False}), revision) == "False"


@pytest.mark.parametrize("revision", ELICITING)
async def test_entries_that_do_not_fit_are_asked_for_again(revision: str) -> None:
    async def days(ctx: Context) -> str:
        return str((await ctx.elicit("How long?", int)).value)

    person = Person({"value": "long"}, {"value": 4})
    assert await outcome(tool(days), person, revision) == "4"
    assert len(person.asked) == 2


@pytest.mark.parametrize(
    "answer", [{"action": "perhaps"}, {"action": "accept", "content": 5}, {"action": ["accept"]}]
)
@pytest.mark.parametrize("revision", ELICITING)
async def test_an_answer_that_is_none_is_an_error(revision: str, answer: dict[str, Any]) -> None:
    async def days(ctx: Context) -> str:
        return str((await ctx.elicit("How long?", int)).value)

    told = await outcome(tool(days), Person(answer), revision)
    assert told.startswith("-32602: inputResponses.q1: " if revision == "2026-07-28" else "error: ")
    assert "The client's answer does not fit: " in told


@pytest.mark.parametrize("revision", EVERY)
async def test_a_client_that_cannot_is_told_what_it_lacks(revision: str) -> None:
    async def days(ctx: Context) -> str:
        return str((await ctx.elicit("How long?", int)).value)

    told = await outcome(tool(days), None, revision)
    assert told.startswith("-32021: " if revision == "2026-07-28" else "error: ")
    assert "elicitation.form" in told


async def test_a_revision_without_forms_is_not_asked_whatever_its_client_declares() -> None:
    async def days(ctx: Context) -> str:
        return str((await ctx.elicit("How long?", int)).value)

    assert "elicitation.form" in await outcome(tool(days), Person(), "2025-03-26")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_a_client_that_refuses_is_an_error_of_the_call(revision: str) -> None:
    async def say(ctx: Context) -> str:
        try:
            return (await ctx.sample("Hello", max_tokens=5)).text
        except AnswerError as error:
            return f"{error} ({error.code})"

    person = Person(ProtocolError(-1, "User rejected sampling request"))
    told = await outcome(tool(say), person, revision)
    assert told == "The client refused to answer: User rejected sampling request (-1)"


async def test_a_client_that_never_answers_is_told_that_it_need_not() -> None:
    server = Server("slow", question_timeout=0.01)

    @server.tool
    async def say(ctx: Context) -> str:
        return (await ctx.sample("Hello", max_tokens=5)).text

    async def never(method: str, params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async with connect(server, revision="2025-11-25", answers=never) as client:
        result = await client.call("say")
        assert result.text == "The client did not answer within 0.01 s"
        assert (await client.notification("notifications/cancelled"))["requestId"] == "1"


async def test_a_call_that_is_cancelled_takes_its_question_back() -> None:
    asked = asyncio.Event()

    async def say(ctx: Context) -> str:
        return (await ctx.sample("Hello", max_tokens=5)).text

    async def never(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connect(tool(say), revision="2025-11-25", answers=never) as client:
        call = asyncio.ensure_future(client.call("say"))
        await asked.wait()
        call.cancel()
        assert (await client.notification("notifications/cancelled"))["requestId"] == "1"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_page_is_asked_for_until_it_is_done(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.asking.asking._POLLS", ())
    done = [False, False, True]

    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay", "https://example.com/pay", done=lambda: done.pop(0))
        more = await ctx.elicit("A receipt?", bool)
        return f"{answer.action} {more.value}"

    person = Person({"action": "accept"}, {"action": "accept"}, {"action": "accept"}, {"value": True})
    if revision == "2026-07-28":
        done += [True]  # the last round looks again
    async with connect(tool(pay), revision=revision, answers=person) as client:
        assert (await client.call("pay")).text == "accept True"
        assert {params["url"] for _, params in person.asked[:3]} == {"https://example.com/pay"}
        if revision == "2025-11-25":
            completed = await client.notification("notifications/elicitation/complete")
            assert completed["elicitationId"] == person.asked[0][1]["elicitationId"]
        else:
            assert "elicitationId" not in person.asked[0][1]


@pytest.mark.parametrize("revision", ELICITING)
async def test_prompts_and_resources_ask_too(revision: str) -> None:
    server = Server("asking", secret="a secret of the tests")

    @server.prompt
    async def greet(ctx: Context) -> str:
        return f"Greet {(await ctx.elicit('Whom?', str)).value}"

    @server.resource("notes://{kind}")
    async def notes(kind: str, ctx: Context) -> str:
        return f"{kind} of {(await ctx.elicit('Whose?', Literal['Ada', 'Bob'])).value}"

    async with connect(
        server, revision=revision, answers=Person({"value": "Ada"}, {"value": "Bob"})
    ) as client:
        assert (await client.get_prompt("greet"))[0]["content"]["text"] == "Greet Ada"
        assert (await client.read("notes://day"))[0]["text"] == "day of Bob"


failures: list[str] = []


async def names(value: str, ctx: Context) -> list[str]:
    try:
        await ctx.elicit("Whom?", str)
    except RuntimeError as error:
        failures.append(str(error))
    return []


async def test_completion_has_no_place_for_questions() -> None:
    failures.clear()
    server = Server("asking")

    @server.prompt
    async def greet(name: Annotated[str, Complete(names)]) -> str:
        return name

    async with connect(server, answers=Person()) as client:
        await client.complete("greet", "name", "A")
    assert "completion/complete has no place for questions" in failures[0]


# The rounds of the stateless era


async def rounds(server: Server, name: str, **params: Any) -> dict[str, Any]:
    """Make one round of a call."""
    async with connect(server, capabilities={"elicitation": {}}) as client:
        return await client.request("tools/call", {"name": name, "arguments": {}, **params})


async def ask_name(ctx: Context) -> str:
    return (await ctx.elicit("Who?", str, key="who")).value


WHO = {"who": {"action": "accept", "content": {"value": "Ada"}}}


async def test_an_answer_may_come_with_the_first_call_and_what_is_unknown_is_ignored() -> None:
    result = await rounds(tool(ask_name), "ask_name", inputResponses={**WHO, "other": {"x": 1}})
    assert result["content"][0]["text"] == "Ada"
    result = await rounds(tool(ask_name), "ask_name", inputResponses={"other": {}})
    assert result["resultType"] == "input_required"
    assert list(result["inputRequests"]) == ["who"]


@pytest.mark.parametrize("responses", [5, [], "x", {"who": 5}, {"who": None}])
async def test_answers_of_another_form_are_refused(responses: Any) -> None:
    with pytest.raises(ProtocolError) as error:
        await rounds(tool(ask_name), "ask_name", inputResponses=responses)
    assert error.value.code == -32602


async def test_a_state_is_good_for_its_request_and_its_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = tool(ask_name)

    @server.tool
    async def other(x: int = 0) -> str:
        return "other"

    state = (await rounds(server, "ask_name"))["requestState"]
    assert (await rounds(server, "ask_name", inputResponses=WHO, requestState=state))[
        "resultType"
    ] == "complete"
    for name, given, why in (
        ("ask_name", state + "x", "none that this server has given"),
        ("ask_name", "A" + state[1:], "none that this server has given"),
        ("ask_name", "", "none that this server has given"),
        ("ask_name", "ä", "none that this server has given"),
        ("ask_name", 5, "expected the string"),
        ("other", state, "another request"),
    ):
        with pytest.raises(ProtocolError, match=why) as error:
            await rounds(server, name, inputResponses=WHO, requestState=given)
        assert error.value.code == -32602
    with pytest.raises(ProtocolError, match="another request"):
        await rounds(server, "ask_name", arguments={"x": 1}, requestState=state)
    with pytest.raises(ProtocolError, match="none that this server"):
        await rounds(tool_with_secret("another secret of the tests"), "ask_name", requestState=state)
    monkeypatch.setattr("mcpkit.asking.rounds.time.time", lambda: 4e9)
    with pytest.raises(ProtocolError, match="expired"):
        await rounds(server, "ask_name", inputResponses=WHO, requestState=state)


def tool_with_secret(secret: str) -> Server:
    server = Server("asking", secret=secret)
    server.tool(ask_name)
    return server


async def test_another_process_with_the_same_secret_goes_on() -> None:
    state = (await rounds(tool(ask_name), "ask_name"))["requestState"]
    result = await rounds(tool(ask_name), "ask_name", inputResponses=WHO, requestState=state)
    assert result["content"][0]["text"] == "Ada"


async def test_a_handler_that_asks_something_else_in_the_next_round_is_told_so() -> None:
    order = ["a", "b"]

    async def fickle(ctx: Context) -> str:
        order.reverse()
        return " ".join([(await ctx.elicit(each, str)).value for each in order])

    told = await outcome(tool(fickle), Person({"value": "1"}, {"value": "2"}), "2026-07-28")
    assert told.startswith("-32602: The handler is not deterministic: under 'q1' it asked something else")


async def test_keys_let_the_order_differ() -> None:
    order = ["a", "b"]

    async def fickle(ctx: Context) -> str:
        order.reverse()
        return " ".join(sorted([(await ctx.elicit(each, str, key=each)).value for each in order]))

    told = await outcome(tool(fickle), Person({"value": "1"}, {"value": "2"}), "2026-07-28")
    assert told == "1 2"


@pytest.mark.parametrize("revision", ELICITING)
async def test_questions_in_tasks_of_their_own_are_asked(revision: str) -> None:
    async def both(ctx: Context) -> str:
        async def one(name: str) -> str:
            return (await ctx.elicit(name, str, key=name)).value

        async with asyncio_group() as group:
            tasks = [group.start(one(name)) for name in ("a", "b")]
        return " ".join([task.result() for task in tasks])

    assert await outcome(tool(both), Person({"value": "1"}, {"value": "2"}), revision) == "1 2"


class asyncio_group:
    """What `asyncio.TaskGroup` does, as far as it matters here: its failures come as one group."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, coroutine: Any) -> asyncio.Task[Any]:
        self._tasks.append(asyncio.ensure_future(coroutine))
        return self._tasks[-1]

    async def __aenter__(self) -> asyncio_group:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wait(self._tasks)
        if failures := [task.exception() for task in self._tasks if task.exception() is not None]:
            raise Failures(failures)


class Failures(BaseException):
    def __init__(self, failures: list[Any]) -> None:
        self.exceptions = tuple(failures)


async def test_what_happens_once_happens_once_and_what_does_not_in_each_round() -> None:
    counts = {"once": 0, "each": 0}
    ids: list[str] = []

    async def order(ctx: Context) -> str:
        counts["each"] += 1
        ids.append(ctx.call_id)

        async def place() -> dict[str, int]:
            counts["once"] += 1
            return {"number": 7}

        placed = await ctx.once("order", place)
        size = (await ctx.elicit("Size?", int)).value
        colour = (await ctx.elicit("Colour?", str)).value
        return f"{placed['number']} {size} {colour}"

    assert await outcome(tool(order), Person({"value": 1}, {"value": "red"}), "2026-07-28") == "7 1 red"
    assert counts == {"once": 1, "each": 3}
    assert len(set(ids)) == 1


async def test_what_the_client_would_have_to_carry_is_bounded() -> None:
    async def much(ctx: Context) -> str:
        await ctx.once("much", lambda: "x" * 20_000)
        return (await ctx.elicit("Size?", str)).value

    assert (await outcome(tool(much), Person(), "2026-07-28")).startswith("-32603: Internal error (ref ")


async def test_lists_never_ask() -> None:
    async with connect(tool(ask_name), capabilities={"elicitation": {}}) as client:
        for method in ("tools/list", "server/discover"):
            result = await client.request(method, {"inputResponses": {}, "requestState": "x"})
            assert result["resultType"] == "complete"


async def test_the_state_is_readable_and_says_nothing_of_the_server() -> None:
    import base64

    state = (await rounds(tool(ask_name), "ask_name"))["requestState"]
    told = json.loads(base64.urlsafe_b64decode(state)[32:])
    assert sorted(told) == ["answered", "asked", "exp", "id", "of", "once"]


async def test_errors_that_are_the_handler_s_own_stay_what_they_are() -> None:
    async def fail(ctx: Context) -> str:
        answer = await ctx.elicit("Size?", int)
        raise ToolError(f"no size {answer.value}")

    assert await outcome(tool(fail), Person({"value": 1}), "2026-07-28") == "error: no size 1"
    assert issubclass(ElicitationError, Exception)


@pytest.mark.parametrize("revision", ELICITING)
async def test_functions_in_threads_ask_too(revision: str) -> None:
    orders: list[str] = []

    def plan(ctx: Context) -> str:
        city = ctx.sync.elicit("Which city?", City).value
        number = ctx.sync.once("order", lambda: orders.append(city.name) or len(orders))
        words, roots = ctx.sync.ask(Sample(city.name, max_tokens=5), ListRoots())
        assert ctx.sync.list_roots(key="again") == []
        assert ctx.sync.sample("more", max_tokens=5).text == "more"
        assert not ctx.sync.elicit_url("Pay", "https://example.com")
        return f"{city.days} {number} {words.text} {len(roots)}"

    person = Person(
        {"name": "Paris", "days": 3},
        said("fine"),
        {"roots": []},
        {"roots": []},
        said("more"),
        {"action": "decline"},
    )
    if revision == "2025-06-18":
        told = await outcome(tool(plan), person, revision)
        assert "elicitation.url" in told or "The client cannot be asked this" in told
        return
    assert await outcome(tool(plan), person, revision) == "3 1 fine 0"
    assert orders == ["Paris"]
