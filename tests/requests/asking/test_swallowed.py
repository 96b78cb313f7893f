"""Questions of the stateless era that a handler does not let end its round: they are asked all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcpkit import Context, Server, ToolError
from mcpkit.testing import connect
from tests.helpers.asked import ELICITING, Person, outcome, tool

pytestmark = pytest.mark.anyio


async def gather(ctx: Context) -> str:
    both = [ctx.elicit("Who?", str), ctx.elicit("Whose?", str)]
    return " ".join([repr(each) for each in await asyncio.gather(*both, return_exceptions=True)])


async def leave_to_a_task(ctx: Context) -> str:
    task = asyncio.ensure_future(ctx.elicit("Who?", str))
    await asyncio.wait([task])
    return "nobody" if task.exception() else repr(task.result())


async def hold_everything(ctx: Context) -> str:
    try:
        return repr(await ctx.elicit("Who?", str))
    except BaseException:
        return "nobody"


def leave_to_a_thread(ctx: Context) -> str:
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ctx.sync.elicit, "Who?", str)
    return "nobody" if asked.exception() else repr(asked.result())


SWALLOWING = [gather, leave_to_a_task, hold_everything, leave_to_a_thread]
ADA = "Answer('accept', 'Ada')"


@pytest.mark.parametrize("function", SWALLOWING)
@pytest.mark.parametrize("revision", ELICITING)
@pytest.mark.parametrize("options", [{}, {"timeout": 60.0}], ids=["no limits", "limits"])
async def test_what_a_tool_swallows_is_asked(
    revision: str,
    function: Callable[[Context], Any],
    options: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("asking")
    server.tool(function, name="work", **options)
    person = Person({"value": "Ada"}, {"value": "Ada"})
    assert await outcome(server, person, revision) == (f"{ADA} {ADA}" if function is gather else ADA)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    if revision == "2026-07-28":
        what = "'#1', '#2'" if function is gather else "'#1'"
        (warning,) = warnings
        assert warning.startswith(
            f"tools/call 'work' has returned although the client has still to answer {what}; it is asked all the same."
        )
    else:
        assert warnings == []


@pytest.mark.parametrize("revision", ELICITING)
async def test_prompts_and_resources_ask_all_the_same(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("asking")

    @server.prompt
    async def greet(ctx: Context) -> str:
        return await hold_everything(ctx)

    @server.resource("notes://all")
    async def every(ctx: Context) -> str:
        return await hold_everything(ctx)

    @server.resource("notes://{kind}")
    async def notes(kind: str, ctx: Context) -> str:
        return await hold_everything(ctx)

    person = Person({"value": "Ada"}, {"value": "Bob"}, {"value": "Eve"})
    async with connect(server, revision=revision, answers=person) as client:
        assert (await client.get_prompt("greet"))[0]["content"]["text"] == ADA
        assert (await client.read("notes://all"))[0]["text"] == ADA.replace("Ada", "Bob")
        assert (await client.read("notes://day"))[0]["text"] == ADA.replace("Ada", "Eve")
    if revision == "2026-07-28":
        handlers = ["prompts/get 'greet'", "resources/read 'notes://all'", "resources/read 'notes://day'"]
        assert [record.getMessage().partition(" has returned")[0] for record in caplog.records] == handlers


async def test_a_task_that_nobody_waits_for_asks_too() -> None:
    tasks: list[Awaitable[Any]] = []

    async def ask(ctx: Context) -> str:
        tasks.append(asyncio.ensure_future(ctx.elicit("Who?", str)))
        await asyncio.sleep(0)
        return "done"

    person = Person({"value": "Ada"})
    assert await outcome(tool(ask), person, "2026-07-28") == "done"
    assert len(person.asked) == 1
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("revision", ELICITING)
async def test_a_default_that_stands_for_a_question_is_no_answer(revision: str) -> None:
    """What is swallowed fits no output schema either, which is not the first thing to say."""

    async def count(ctx: Context) -> int:
        (answer,) = await asyncio.gather(ctx.elicit("How many?", int), return_exceptions=True)
        return answer if isinstance(answer, BaseException) else answer.value  # type: ignore[return-value]  # the mistake

    assert await outcome(tool(count), Person({"value": 3}), revision) == "3"


async def test_an_error_is_said_though_a_question_is_open(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(ctx: Context) -> str:
        await asyncio.gather(ctx.elicit("Who?", str), return_exceptions=True)
        raise ToolError("no paper left")

    assert await outcome(tool(fail), Person(), "2026-07-28") == "error: no paper left"
    assert caplog.records == []
