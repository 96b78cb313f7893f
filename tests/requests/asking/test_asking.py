"""Questions to the client, alike in every revision that has them."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import pytest

from mcpkit import (
    AnswerError,
    Complete,
    Context,
    Elicit,
    ListRoots,
    ProtocolError,
    Sample,
    Server,
    ToolError,
    user,
)
from mcpkit.engine.connection import Connection
from mcpkit.testing import connect
from tests.helpers.asked import ELICITING, EVERY, City, Person, outcome, said, tool

pytestmark = pytest.mark.anyio


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
    assert told.startswith("-32602: inputResponses.#1: " if revision == "2026-07-28" else "error: ")
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


async def test_a_client_that_does_not_read_has_no_more_time() -> None:
    server = Server("slow", question_timeout=0.01)
    answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    @server.tool
    async def say(ctx: Context) -> str:
        return (await ctx.sample("Hello", max_tokens=5)).text

    def take(line: bytes) -> None:
        message = json.loads(line)
        if "method" not in message:
            answers.put_nowait(message["result"])

    async def never() -> None:
        await asyncio.Event().wait()

    connection = Connection(server, take, ready=never)
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }
    for id_, method, params in ((1, "initialize", opening), (2, "tools/call", {"name": "say"})):
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        connection.receive(json.dumps(message).encode())
    await answers.get()
    result = await asyncio.wait_for(answers.get(), 10)
    assert result["content"][0]["text"] == "The client did not answer within 0.01 s"
    await connection.aclose()


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
    monkeypatch.setattr("mcpkit.calls.asking.api._POLLS", ())
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


@pytest.mark.parametrize("revision", ELICITING)
async def test_questions_in_tasks_of_their_own_are_asked(revision: str) -> None:
    async def both(ctx: Context) -> str:
        async def one(name: str) -> str:
            return (await ctx.elicit(name, str, key=name)).value

        async with Group() as group:
            tasks = [group.start(one(name)) for name in ("a", "b")]
        return " ".join([task.result() for task in tasks])

    assert await outcome(tool(both), Person({"value": "1"}, {"value": "2"}), revision) == "1 2"


class Group:
    """What `asyncio.TaskGroup` does, as far as it matters here: its failures come as one group."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, coroutine: Any) -> asyncio.Task[Any]:
        self._tasks.append(asyncio.ensure_future(coroutine))
        return self._tasks[-1]

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wait(self._tasks)
        if failures := [task.exception() for task in self._tasks if task.exception() is not None]:
            raise Failures(failures)


class Failures(BaseException):
    def __init__(self, failures: list[Any]) -> None:
        self.exceptions = tuple(failures)


async def test_errors_that_are_the_handler_s_own_stay_what_they_are() -> None:
    async def fail(ctx: Context) -> str:
        answer = await ctx.elicit("Size?", int)
        raise ToolError(f"no size {answer.value}")

    assert await outcome(tool(fail), Person({"value": 1}), "2026-07-28") == "error: no size 1"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
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
    assert await outcome(tool(plan), person, revision) == "3 1 fine 0"
    assert orders == ["Paris"]


async def test_a_revision_without_pages_is_not_asked_to_show_one() -> None:
    async def pay(ctx: Context) -> str:
        return (await ctx.elicit_url("Pay", "https://example.com/pay")).action

    told = await outcome(tool(pay), Person(), "2025-06-18")
    assert told == "error: The client cannot be asked this: revision 2025-06-18 has no elicitation by URL"
