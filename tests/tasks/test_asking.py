"""What a task asks its client, what it does once, and what becomes of both when it is run again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from mcpkit import Ask, Context, Elicit, ProtocolError, Server, Task
from mcpkit.testing import Client, connect
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.task_client import KNOWS_TASKS, accepted, answer, begin, look, until

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    engine = make_engine(request.param, tmp_path)
    yield Server("lab", secret=SECRET, shared=engine, question_timeout=600)
    close(engine)


def tool(server: Server, rerun: str) -> Callable[[Any], Any]:
    return server.tool(task=Task(rerun=rerun))  # type: ignore[arg-type]


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_a_question_waits_for_its_answer_and_what_was_done_once_is_not_done_again(
    server: Server, rerun: str
) -> None:
    did: list[str] = []

    @tool(server, rerun)
    async def train(data: str, ctx: Context) -> dict[str, Any]:
        def fit() -> str:
            did.append("fit")
            return data + " fitted"

        did.append("run")
        path = await ctx.once("fit", fit)
        if (await ctx.elicit("Publish?", bool)).value:
            await ctx.once("publish", lambda: did.append("publish"))
        return {"path": path, "attempt": ctx.attempt}

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "train", {"data": "a"})
        asking = await until(client, task, "input_required")
        assert asking["inputRequests"]["#1"]["method"] == "elicitation/create"
        assert asking["inputRequests"]["#1"]["params"]["message"] == "Publish?"
        assert (await look(client, task))["inputRequests"] == asking["inputRequests"]
        acknowledged = await answer(client, task, **{"#1": True})
        assert acknowledged.keys() == {"resultType", "_meta"}
        done = await until(client, task, "completed")
        runs = ["run", "fit", "run", "publish"] if rerun == "safe" else ["run", "fit", "publish"]
        assert did == runs
        assert done["result"]["structuredContent"] == {
            "path": "a fitted",
            "attempt": runs.count("run"),
        }
        await answer(client, task, **{"#1": False})  # too late, which changes nothing
        assert await look(client, task) == done


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_several_questions_are_answered_one_by_one(server: Server, rerun: str) -> None:
    @tool(server, rerun)
    async def ask(ctx: Context) -> list[Any]:
        first, second = await ctx.ask(Elicit("Name?", str, key="name"), Elicit("Sure?", bool, key="sure"))
        return [first.value, second.value]

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        assert (await until(client, task, "input_required"))["inputRequests"].keys() == {"name", "sure"}
        responses = {"name": accepted("Ada"), "unknown": 5, "": None}
        await client.request("tasks/update", {"taskId": task["taskId"], "inputResponses": responses})
        seen = await look(client, task)
        assert (seen["status"], seen["inputRequests"].keys()) == ("input_required", {"sure"})
        await answer(client, task, name="Eve")  # has been answered
        await answer(client, task, sure=True)
        done = await until(client, task, "completed")
        assert done["result"]["structuredContent"] == ["Ada", True]


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_what_does_not_fit_is_asked_again_under_another_key(server: Server, rerun: str) -> None:
    @tool(server, rerun)
    async def ask(ctx: Context) -> int:
        return (await ctx.elicit("How many?", int, key="many")).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        await until(client, task, "input_required")
        await answer(client, task, many="three")
        while (seen := await until(client, task, "input_required"))["inputRequests"].keys() != {"many~1"}:
            await asyncio.sleep(0.005)
        assert 'got "three"' in seen["inputRequests"]["many~1"]["params"]["message"]
        await answer(client, task, many=3)  # a key is used once
        await answer(client, task, **{"many~1": "iv"})
        while (seen := await until(client, task, "input_required"))["inputRequests"].keys() != {"many~2"}:
            await asyncio.sleep(0.005)
        await answer(client, task, **{"many~2": 3})
        assert (await until(client, task, "completed"))["result"]["structuredContent"] in (
            3,
            {"result": 3},
        )


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_a_client_that_declines_is_heard(server: Server, rerun: str) -> None:
    @tool(server, rerun)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).action

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        await until(client, task, "input_required")
        params = {"taskId": task["taskId"], "inputResponses": {"#1": {"action": "decline"}}}
        await client.request("tasks/update", params)
        assert (await until(client, task, "completed"))["result"]["structuredContent"] == "decline"


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_who_never_answers_is_not_waited_for(tmp_path: Path, rerun: str) -> None:
    server = Server("lab", question_timeout=0.1)

    @tool(server, rerun)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        done = await until(client, task, "completed")
        assert done["result"]["isError"] is True
        assert "did not answer within 0.1 s" in done["result"]["content"][0]["text"]


async def test_malformed_answers_are_refused_and_change_nothing(server: Server) -> None:
    @tool(server, "safe")
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        asking = await until(client, task, "input_required")
        for wrong in ({"inputResponses": 5}, {}, {"inputResponses": {"#1": 5}}, {"inputResponses": []}):
            with pytest.raises(ProtocolError) as caught:
                await client.request("tasks/update", {"taskId": task["taskId"], **wrong})
            assert caught.value.code == -32602
        assert await look(client, task) == asking


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_a_task_that_asks_can_be_cancelled(server: Server, rerun: str) -> None:
    @tool(server, rerun)
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        await until(client, task, "input_required")
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        seen = await look(client, task)
        assert seen["status"] == "cancelled"
        assert "inputRequests" not in seen
        await answer(client, task, **{"#1": "Ada"})
        assert await look(client, task) == seen


async def test_what_a_parameter_asks_is_asked_before_there_is_a_task(server: Server) -> None:
    @server.tool(task=Task(required=True))
    async def greet(name: Annotated[str, Ask("Your name?")], ctx: Context) -> str:
        again = await ctx.elicit("And the town?", str)
        return f"{name} of {again.value}"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        first = await begin(client, "greet")
        assert first["resultType"] == "input_required"
        (key,) = first["inputRequests"]
        task = await begin(
            client, "greet", requestState=first["requestState"], inputResponses={key: accepted("Ada")}
        )
        assert task["resultType"] == "task"
        asking = await until(client, task, "input_required")
        (key,) = asking["inputRequests"]
        assert asking["inputRequests"][key]["params"]["message"] == "And the town?"
        await answer(client, task, **{key: "Ely"})
        done = await until(client, task, "completed")
        assert done["result"]["content"][0]["text"] == "Ada of Ely"


async def test_a_function_in_a_thread_asks_and_does_things_once(server: Server) -> None:
    did: list[str] = []

    @server.tool(task=Task(rerun="safe"))
    def work(ctx: Context) -> str:
        name = ctx.sync.once("name", lambda: did.append("x") or "Ada")
        return f"{name} {ctx.sync.elicit('Sure?', bool).value}"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await until(client, task, "input_required")
        await answer(client, task, **{"#1": True})
        done = await until(client, task, "completed")
        assert done["result"]["content"][0]["text"] == "Ada True"
        assert did == ["x"]


async def test_once_wants_json_before_it_takes_the_effect_for_done(server: Server) -> None:
    @server.tool(task=Task(rerun="safe"))
    async def work(ctx: Context) -> str:
        try:
            await ctx.once("x", lambda: (1, 2))
        except TypeError as error:
            return str(error)
        return "?"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        done = await until(client, await begin(client, "work"), "completed")
        assert "a tuple" in done["result"]["content"][0]["text"]


async def test_a_client_that_cannot_be_asked_is_told_so(server: Server) -> None:
    @server.tool(task=Task(rerun="safe"))
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    knows = {"extensions": KNOWS_TASKS["extensions"]}
    async with connect(server, capabilities=knows) as client:
        task = await begin(client, "ask")
        failed = await until(client, task, "failed", "completed")
        assert "elicitation" in str(failed)


async def race(client: Client, task: dict[str, Any]) -> None:
    await asyncio.gather(*(answer(client, task, **{"#1": True}) for _ in range(20)))


async def test_many_answers_at_once_are_one(server: Server) -> None:
    runs: list[int] = []

    @tool(server, "safe")
    async def ask(ctx: Context) -> bool:
        runs.append(ctx.attempt)
        return (await ctx.elicit("Sure?", bool)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        await until(client, task, "input_required")
        await race(client, task)
        await until(client, task, "completed")
        assert runs == [1, 2]


async def test_a_question_that_was_another_one_before_is_told_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool(task=Task(rerun="safe"))
    async def fickle(ctx: Context) -> str:
        return (await ctx.elicit(f"Name, in attempt {ctx.attempt}?", str)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "fickle")
        await until(client, task, "input_required")
        await answer(client, task, **{"#1": "Ada"})
        failed = await until(client, task, "failed")
        assert "under '#1' it asked something else before" in failed["error"]["message"]
    assert (
        "tools/call 'fickle' is not deterministic: the question '#1', now elicitation/create(value)"
        in caplog.text
    )


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_what_is_said_of_the_progress_right_before_a_question_is_kept(
    server: Server, rerun: str
) -> None:
    @tool(server, rerun)
    async def work(ctx: Context) -> bool:
        if ctx.attempt == 1:
            await ctx.progress(1, 3)
            await ctx.progress(2, 3)
        return (await ctx.elicit("Sure?", bool)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await until(client, task, "input_required")
        keeper: Any = server.engine.methods.tasks

        async def said() -> Any:
            return (await keeper.ledger.look(task["taskId"])).record.progress

        while rerun == "never" and (await said() or {}).get("progress") != 2:  # it is written within a second
            await asyncio.sleep(0.01)
        assert await said() == {"progress": 2, "total": 3}
        await answer(client, task, **{"#1": True})
        await until(client, task, "completed")
