"""Questions of tasks: elicitation, answers, `ctx.once`, and limits of what a task stores."""

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import pytest

from mcpkit import Ask, Context, ProtocolError, Server, Task, Timeouts
from mcpkit.tasks import task_records as store
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, accepted, answer, begin, get_task, until


@pytest.fixture
def server() -> Server:
    return Server("lab", timeouts=Timeouts(client_request=600))


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_answer_resumes_the_task_and_once_is_not_repeated(server: Server, rerun: Any) -> None:
    did: list[str] = []

    @server.tool(task=Task(rerun=rerun))
    async def train(data: str, ctx: Context) -> dict[str, Any]:
        def fit() -> str:
            did.append("fit")
            return data + " fitted"

        did.append("run")
        path = await ctx.once("fit", fit)
        if (await ctx.elicit("Publish?", bool)).value:
            await ctx.once("publish", lambda: did.append("publish"))
        return {"path": path, "attempt": ctx.task.attempt}

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "train", {"data": "a"})
        asking = await until(client, task, "input_required")
        assert asking["inputRequests"]["#1"]["method"] == "elicitation/create"
        assert asking["inputRequests"]["#1"]["params"]["message"] == "Publish?"
        assert (await get_task(client, task))["inputRequests"] == asking["inputRequests"]
        acknowledged = await answer(client, task, **{"#1": True})
        assert acknowledged.keys() == {"resultType", "_meta"}
        done = await until(client, task, "completed")
        runs = ["run", "fit", "run", "publish"] if rerun == "safe" else ["run", "fit", "publish"]
        assert did == runs
        assert done["result"]["structuredContent"] == {"path": "a fitted", "attempt": runs.count("run")}
        await answer(client, task, **{"#1": False})  # too late
        assert await get_task(client, task) == done


async def test_invalid_answer_repeats_request_under_another_key(server: Server) -> None:
    @server.tool(task=Task(rerun="safe"))
    async def ask(ctx: Context) -> int:
        return (await ctx.elicit("How many?", int, key="many")).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        for key, value in (("many", "three"), ("many~1", "iv"), ("many~2", 3)):
            while (seen := await until(client, task, "input_required"))["inputRequests"].keys() != {key}:
                await asyncio.sleep(0.005)
            is_repeated = 'got "three"' in seen["inputRequests"][key]["params"]["message"]
            assert is_repeated == (key == "many~1")
            if key == "many~1":
                await answer(client, task, many=3)  # a key is used once
            await answer(client, task, **{key: value})
        assert (await until(client, task, "completed"))["result"]["structuredContent"] in (3, {"result": 3})


async def test_unanswered_question_times_out() -> None:
    server = Server("lab", timeouts=Timeouts(client_request=0.1))

    @server.tool(task=Task(rerun="safe"))
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "ask")
        done = await until(client, task, "completed")
        assert done["result"]["isError"] is True
        assert "did not answer within 0.1 s" in done["result"]["content"][0]["text"]


async def test_question_of_a_parameter_precedes_the_task(server: Server) -> None:
    @server.tool(task=Task(required=True))
    async def greet(name: Annotated[str, Ask("Your name?")], ctx: Context) -> str:
        again = await ctx.elicit("And the town?", str)
        return f"{name} of {again.value}"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        first = await begin(client, "greet")
        assert first["resultType"] == "input_required"
        (key,) = first["inputRequests"]
        answers = {"requestState": first["requestState"], "inputResponses": {key: accepted("Ada")}}
        task = await begin(client, "greet", **answers)
        assert task["resultType"] == "task"
        asking = await until(client, task, "input_required")
        (key,) = asking["inputRequests"]
        assert asking["inputRequests"][key]["params"]["message"] == "And the town?"
        await answer(client, task, **{key: "Ely"})
        done = await until(client, task, "completed")
        assert done["result"]["content"][0]["text"] == "Ada of Ely"


async def test_answer_from_before_the_task_counts_for_one_request(server: Server) -> None:
    @server.tool(task=Task(required=True))
    async def greet(name: Annotated[str, Ask("Your name?")], ctx: Context) -> str:
        again = await ctx.elicit("Your name?", str)
        return f"{name}, {again.value}"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        first = await begin(client, "greet")
        (key,) = first["inputRequests"]
        answers = {"requestState": first["requestState"], "inputResponses": {key: accepted("Ada")}}
        task = await begin(client, "greet", **answers)
        asking = await until(client, task, "input_required")
        assert [*asking["inputRequests"].values()] == [*first["inputRequests"].values()]
        await answer(client, task, **dict.fromkeys(asking["inputRequests"], "Bob"))
        done = await until(client, task, "completed")
        assert done["result"]["content"][0]["text"] == "Ada, Bob"


async def test_task_with_full_record_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_RECORD", 4000)
    server = Server("lab")

    @server.tool(task=True)
    async def work(text: str) -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task, size = None, 4000
        while task is None:
            size -= 1
            with suppress(ProtocolError):
                task = await begin(client, "work", {"text": "a" * size})
        failed = await until(client, task, "failed")
        assert "the limit is 4,000. Store large data elsewhere" in failed["error"]["message"]
