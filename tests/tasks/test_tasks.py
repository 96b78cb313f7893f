"""Tool calls that become tasks (ext-tasks, 2026-07-28): creation, status, cancellation, access and options."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime
from typing import Annotated, Any

import pytest

from mcpkit import (
    Ask,
    Context,
    Principal,
    ProtocolError,
    Scope,
    Server,
    Task,
    TaskOptions,
    Timeouts,
    ToolError,
)
from mcpkit.storage import Memory
from mcpkit.storage.encryption_keys import Keys
from mcpkit.tasks import task_records as store
from mcpkit.tasks.task_records import is_task_id, new_task_id
from mcpkit.testing import TestClient, connect
from tests.helpers.task_client import KNOWS_TASKS, TASKS, accepted, answer, begin, get_task, until

ADA, BOB = Principal("ada"), Principal("bob")


class Lab:
    """A server with tools as tasks, and the gate that `slow` waits for."""

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("lab", storage=Memory(), **options)
        self.gate = asyncio.Event()
        server.tool(lambda name: f"Hello, {name}!", name="greet")

        @server.tool(task=True)
        async def slow(label: str, ctx: Context) -> str:
            await self.gate.wait()
            return f"{label} in attempt {ctx.task.attempt}"

        @server.tool(task=True)
        async def quick(label: str, ctx: Context) -> dict[str, Any]:
            return {"label": label, "call": ctx.idempotency_key, "attempt": ctx.task.attempt}

        @server.tool(task=Task(required=True))
        def failing() -> None:
            raise ToolError("it is broken")

        @server.tool(task=True)
        def refusing() -> None:
            raise ProtocolError(-32001, "not like that", {"why": "so"})

        @server.tool(task=True)
        def breaking() -> None:
            raise KeyError("a secret of the inside")

        @server.tool(task=Task(timeout=0.05))
        async def endless() -> None:
            await asyncio.Event().wait()

    def connect(self, principal: Principal = ADA) -> AbstractAsyncContextManager[TestClient]:
        return connect(self.server, capabilities=KNOWS_TASKS, principal=principal)


@pytest.fixture
def lab() -> Lab:
    return Lab()


async def test_call_creates_a_task_that_completes(lab: Lab) -> None:
    async with lab.connect() as client:
        task = await begin(client, "slow", {"label": "a"})
        assert task["resultType"] == "task"
        assert set(task) == {
            *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt"),
            *("ttlMs", "pollIntervalMs", "_meta"),
        }
        assert (task["status"], task["ttlMs"]) == ("working", None)
        assert isinstance(task["pollIntervalMs"], int)
        assert datetime.fromisoformat(task["createdAt"].replace("Z", "+00:00")).tzinfo is not None
        seen = await get_task(client, task)
        assert (seen["resultType"], seen["status"]) == ("complete", "working")
        assert seen["taskId"] == task["taskId"]
        lab.gate.set()
        done = await until(client, task, "completed")
        assert done["resultType"] == "complete"
        assert done["result"]["content"] == [{"type": "text", "text": "a in attempt 1"}]
        assert done["ttlMs"] >= 86_400_000
        assert await get_task(client, task) == done


async def test_required_task_without_the_extension_names_the_missing_capability(lab: Lab) -> None:
    async with connect(lab.server) as client:
        for method, params in [
            ("tools/call", {"name": "failing", "arguments": {}}),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("tasks/cancel", {"taskId": "x"}),
        ]:
            with pytest.raises(ProtocolError) as caught:
                await client.request(method, params)
            assert caught.value.code == -32021
            assert caught.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_task_ends_with_a_result_an_error_or_a_timeout(lab: Lab) -> None:
    async with lab.connect() as client:
        failing = await until(client, await begin(client, "failing"), "completed")
        assert failing["result"]["isError"] is True
        assert failing["result"]["content"][0]["text"] == "it is broken"
        refused = await until(client, await begin(client, "refusing"), "failed")
        assert refused["error"] == {"code": -32001, "message": "not like that", "data": {"why": "so"}}
        assert refused["statusMessage"] == "not like that"
        assert "result" not in refused
        broken = await until(client, await begin(client, "breaking"), "completed")
        assert re.fullmatch(r"Internal error \(ref \w+\)", broken["result"]["content"][0]["text"])
        late = await until(client, await begin(client, "endless"), "failed")
        assert late["error"]["code"] == -32603
        assert "timed out after 0.05 s" in late["error"]["message"]


async def test_cancel_is_final_and_idempotent(lab: Lab) -> None:
    async with lab.connect() as client:
        task = await begin(client, "slow", {"label": "a"})
        for _ in range(2):
            acknowledged = await client.request("tasks/cancel", {"taskId": task["taskId"]})
            assert acknowledged.keys() == {"resultType", "_meta"}
            assert (await get_task(client, task))["status"] == "cancelled"
        lab.gate.set()
        done = await begin(client, "quick", {"label": "b"})
        await until(client, done, "completed")
        assert (await get_task(client, task))["status"] == "cancelled"
        await client.request("tasks/cancel", {"taskId": done["taskId"]})
        assert (await get_task(client, done))["status"] == "completed"


async def test_task_of_another_principal_is_unknown_without_a_lookup(lab: Lab) -> None:
    looked: list[str] = []

    async def get_job(key: str) -> None:
        looked.append(key)

    async with lab.connect() as ada:
        task = await begin(ada, "quick", {"label": "a"})
        await until(ada, task, "completed")
        engine: Any = lab.server.engine.runtime.storage
        for other in (BOB, Principal(), Principal("ada", client_id="other")):
            async with lab.connect(other) as client:
                engine.get_job = get_job
                for method in ("tasks/get", "tasks/cancel"):
                    with pytest.raises(ProtocolError, match=r"^Unknown task") as caught:
                        await client.request(method, {"taskId": task["taskId"]})
                    assert caught.value.code == -32602
                del engine.get_job
        assert looked == []
        assert (await get_task(ada, task))["status"] == "completed"


async def test_task_requests_require_the_scopes_of_the_tool() -> None:
    server = Server("lab", scopes={"run": Scope("Run")})
    server.tool(lambda: "done", name="work", task=True, scopes="run")
    async with (
        connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada", {"run"})) as ada,
        connect(server, capabilities=KNOWS_TASKS, principal=ADA) as without_scope,
    ):
        task = await begin(ada, "work")
        await until(ada, task, "completed")
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(ProtocolError) as caught:
                await without_scope.request(method, {"taskId": task["taskId"]})
            assert "run" in str(caught.value.data) + caught.value.message


async def test_idempotency_key_creates_one_task(lab: Lab) -> None:
    meta = {"mcpkit/idempotencyKey": "order 7"}
    async with lab.connect() as client:
        first = await begin(client, "quick", {"label": "a"}, _meta=meta)
        again = await begin(client, "quick", {"label": "a"}, _meta=meta)
        assert again["taskId"] == first["taskId"]
        await until(client, first, "completed")
        again = await begin(client, "quick", {"label": "a"}, _meta=meta)
        assert (again["taskId"], again["status"]) == (first["taskId"], "completed")
        assert "result" not in again
        others = [
            await begin(client, "quick", {"label": "b"}, _meta=meta),
            await begin(client, "slow", {"label": "a"}, _meta=meta),
            await begin(client, "quick", {"label": "a"}, _meta={"mcpkit/idempotencyKey": "order 8"}),
        ]
        async with lab.connect(BOB) as bob:
            others.append(await begin(bob, "quick", {"label": "a"}, _meta=meta))
        assert len({first["taskId"], *(each["taskId"] for each in others)}) == 5
        for wrong in ("", 5, "x" * 201):
            with pytest.raises(ProtocolError, match="idempotencyKey"):
                await begin(client, "quick", {"label": "a"}, _meta={"mcpkit/idempotencyKey": wrong})


def test_task_id_is_no_option_of_a_command() -> None:
    keys = Keys("a secret of sixteen and more", "lab")
    ids = [new_task_id(keys, "ada") for _ in range(1000)]
    assert [each for each in ids if each.startswith("-")] == []
    assert all(is_task_id(keys, "ada", each) and not is_task_id(keys, "bob", each) for each in ids)


async def test_open_tasks_are_limited_per_owner_and_in_total() -> None:
    lab = Lab(tasks=TaskOptions(max_open_per_owner=2, max_open=3))
    async with lab.connect() as ada, lab.connect(BOB) as bob:
        task, _ = [await begin(ada, "slow", {"label": "a"}) for _ in range(2)]
        with pytest.raises(ProtocolError, match="You have 2 open tasks"):
            await begin(ada, "slow", {"label": "a"})
        await begin(bob, "slow", {"label": "b"})
        with pytest.raises(ProtocolError, match="The server has too many open tasks"):
            await begin(bob, "slow", {"label": "b"})
        await ada.request("tasks/cancel", {"taskId": task["taskId"]})
        await begin(bob, "slow", {"label": "b"})
        lab.gate.set()


@asynccontextmanager
async def subscribed(client: TestClient, *ids: str) -> AsyncIterator[dict[str, Any]]:
    """Subscribe to the status of tasks, and give the acknowledged filter."""
    params = {"notifications": {"taskIds": [*ids]}}
    stream = asyncio.ensure_future(client.request("subscriptions/listen", params))
    acknowledged = await client.notification("notifications/subscriptions/acknowledged")
    yield acknowledged["notifications"]
    stream.cancel()


async def test_subscription_receives_the_status_of_a_task(lab: Lab) -> None:
    async with lab.connect() as client:
        task = await begin(client, "slow", {"label": "a"})
        async with subscribed(client, task["taskId"], "x" * 64) as acknowledged:
            assert acknowledged == {"taskIds": [task["taskId"]]}
            first = await client.notification("notifications/tasks")
            assert (first["taskId"], first["status"]) == (task["taskId"], "working")
            lab.gate.set()
            while (last := await client.notification("notifications/tasks"))["status"] != "completed":
                assert last["status"] == "working"
        seen = await get_task(client, task)
        assert {**last, "_meta": 0, "resultType": "complete"} == {**seen, "_meta": 0}


async def test_subscription_without_the_scope_receives_no_status() -> None:
    shared, gate = Memory(), asyncio.Event()
    before = Server("lab", storage=shared)
    now = Server("lab", storage=shared, tasks="workers", scopes={"run": Scope("Run")})

    async def work() -> str:
        await gate.wait()
        return "done"

    before.tool(work, task=True)
    now.tool(work, task=True, scopes="run")
    with_scope = Principal("ada", {"run"})
    async with (
        connect(before, capabilities=KNOWS_TASKS, principal=ADA) as maker,
        connect(now, capabilities=KNOWS_TASKS, principal=ADA) as poor,
        connect(now, capabilities=KNOWS_TASKS, principal=with_scope) as rich,
    ):
        task = await begin(maker, "work")
        with pytest.raises(ProtocolError):
            await get_task(poor, task)
        async with subscribed(poor, task["taskId"]), subscribed(rich, task["taskId"]):
            gate.set()
            while (await rich.notification("notifications/tasks"))["status"] != "completed":
                pass
            assert "notifications/tasks" not in [each["method"] for each in poor.notifications]


async def test_plain_tools_and_invalid_arguments_create_no_task(lab: Lab) -> None:
    async with lab.connect() as client:
        plain = await begin(client, "greet", {"name": "Ada"}, task={"ttl": 5})
        assert plain["resultType"] == "complete"
        wrong = await begin(client, "slow", {"lable": "a"})
        assert (wrong["resultType"], wrong["isError"]) == ("complete", True)
        assert "label" in wrong["content"][0]["text"]


@pytest.mark.parametrize("task", [
    *(5, "yes", Task(timeout=0), Task(result_ttl=-1), Task(attempts=0)),
    *(Task(rerun="often"), Task(required=1)),  # type: ignore[arg-type]
])  # fmt: skip
def test_invalid_task_option_is_refused(task: Any) -> None:
    with pytest.raises(Exception, match="task="):
        Server("lab").tool(lambda: None, name="work", task=task)


def test_rerun_follows_the_annotations_of_the_tool() -> None:
    for hint in ("readOnlyHint", "idempotentHint"):
        assert Task().reruns({hint: True}) == "safe"
        assert Task().reruns({hint: False}) == "never"
    assert Task().reruns(None) == "never"
    assert Task(rerun="never").reruns({"readOnlyHint": True}) == "never"


# Questions of tasks: elicitation, answers, `ctx.once`, and limits of what a task stores


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
