"""Calls that become tasks: how they are made, looked at, cancelled, and how they end (ext-tasks)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Principal, ProtocolError, Scope, Server, Task, Tasks, ToolError
from mcpkit.testing import connect
from tests.helpers.engines import ENGINES, close, make_engine
from tests.helpers.task_client import KNOWS_TASKS, TASKS, begin, look, until

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    engine = make_engine(request.param, tmp_path)
    yield make_server(engine)
    close(engine)


def make_server(shared: Any = None, **options: Any) -> Server:
    server = Server("lab", secret=SECRET, shared=shared, **options)

    @server.tool
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    @server.tool(task=True)
    async def slow(label: str, ctx: Context) -> str:
        await gate(server).wait()
        return f"{label} in attempt {ctx.attempt}"

    @server.tool(task=True)
    async def quick(label: str, ctx: Context) -> dict[str, Any]:
        return {"label": label, "call": ctx.call_id, "attempt": ctx.attempt}

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

    gates[server] = asyncio.Event()
    return server


gates: dict[Server, asyncio.Event] = {}


def gate(server: Server) -> asyncio.Event:
    return gates[server]


async def test_a_call_becomes_a_task_that_is_found_at_once_and_completes(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "slow", {"label": "a"})
        assert task["resultType"] == "task"
        assert set(task) == {
            *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt"),
            *("ttlMs", "pollIntervalMs", "_meta"),
        }
        assert (task["status"], task["ttlMs"]) == ("working", None)
        assert isinstance(task["pollIntervalMs"], int)
        assert datetime.fromisoformat(task["createdAt"].replace("Z", "+00:00")).tzinfo is not None
        seen = await look(client, task)
        assert (seen["resultType"], seen["status"], seen["taskId"]) == (
            *("complete", "working"),
            task["taskId"],
        )
        gate(server).set()
        done = await until(client, task, "completed")
        assert done["resultType"] == "complete"
        assert done["result"]["content"] == [{"type": "text", "text": "a in attempt 1"}]
        assert done["ttlMs"] >= 86_400_000
        assert await look(client, task) == done


async def test_the_server_says_that_it_has_tasks_by_the_extension_alone(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        assert client.server_capabilities["extensions"] == {TASKS: {}}
        assert "tasks" not in client.server_capabilities


async def test_a_server_without_such_tools_has_no_tasks() -> None:
    server = Server("plain")

    @server.tool
    def nothing() -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        assert "extensions" not in client.server_capabilities
        with pytest.raises(ProtocolError) as caught:
            await client.request("tasks/get", {"taskId": "x"})
        assert caught.value.code == -32601


async def test_who_does_not_know_tasks_waits_for_the_result(server: Server) -> None:
    async with connect(server) as client:
        assert (await client.call("quick", {"label": "a"})).structured["attempt"] == 1


async def test_a_tool_for_tasks_alone_says_what_is_missing(server: Server) -> None:
    async with connect(server) as client:
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


async def test_other_tools_and_wrong_arguments_make_no_task(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        plain = await begin(client, "greet", {"name": "Ada"}, task={"ttl": 5})
        assert plain["resultType"] == "complete"
        wrong = await begin(client, "slow", {"lable": "a"})
        assert (wrong["resultType"], wrong["isError"]) == ("complete", True)
        assert "label" in wrong["content"][0]["text"]


async def test_ends(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
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


async def test_cancelling_ends_it_for_good_and_as_often_as_one_likes(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "slow", {"label": "a"})
        for _ in range(2):
            acknowledged = await client.request("tasks/cancel", {"taskId": task["taskId"]})
            assert acknowledged.keys() == {"resultType", "_meta"}
            assert (await look(client, task))["status"] == "cancelled"
        gate(server).set()
        done = await begin(client, "quick", {"label": "b"})
        await until(client, done, "completed")
        assert (await look(client, task))["status"] == "cancelled"
        await client.request("tasks/cancel", {"taskId": done["taskId"]})
        assert (await look(client, done))["status"] == "completed"


async def test_a_cancelled_function_is_stopped() -> None:
    server = Server("lab")
    stopped = asyncio.Event()
    began = asyncio.Event()

    @server.tool(task=True)
    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await began.wait()
        await client.request("tasks/cancel", {"taskId": task["taskId"]})
        await stopped.wait()


async def test_methods_of_the_other_generation_are_unknown(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        for method in ("tasks/result", "tasks/list"):
            with pytest.raises(ProtocolError) as caught:
                await client.request(method, {"taskId": "x"})
            assert caught.value.code == -32601


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"taskId": 5},
        {"taskId": ""},
        {"taskId": "x" * 64},
        {"taskId": "é" * 64},
        {"taskId": "x" * 100_000},
        {"taskId": None},
    ],
)
async def test_ids_that_are_none_are_unknown(server: Server, params: dict[str, Any]) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(ProtocolError) as caught:
                await client.request(method, params)
            assert caught.value.code == -32602


async def test_an_id_is_worth_nothing_to_somebody_else_and_the_store_is_not_asked(tmp_path: Path) -> None:
    server = make_server(make_engine("memory", tmp_path))
    gate(server).set()
    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as ada:
        task = await begin(ada, "quick", {"label": "a"})
        await until(ada, task, "completed")
        engine: Any = server.engine.runtime.shared
        looked: list[str] = []

        async def look_at(key: str) -> None:
            looked.append(key)

        for other in (Principal("bob"), Principal(), Principal("ada", client_id="other")):
            async with connect(server, capabilities=KNOWS_TASKS, principal=other) as client:
                engine.look = look_at
                for method in ("tasks/get", "tasks/cancel"):
                    with pytest.raises(ProtocolError) as caught:
                        await client.request(method, {"taskId": task["taskId"]})
                    assert caught.value.code == -32602
                    assert caught.value.message.startswith("Unknown task")
                del engine.look
        assert looked == []
        assert (await look(ada, task))["status"] == "completed"


async def test_every_request_needs_the_scopes_of_today() -> None:
    server = Server("lab", scopes={"run": Scope("Run")})

    @server.tool(task=True, scopes="run")
    def work() -> str:
        return "done"

    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada", {"run"})) as ada:
        task = await begin(ada, "work")
        await until(ada, task, "completed")
        async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as poorer:
            for method in ("tasks/get", "tasks/cancel"):
                with pytest.raises(ProtocolError) as caught:
                    await poorer.request(method, {"taskId": task["taskId"]})
                assert "run" in str(caught.value.data) + caught.value.message


async def test_asking_twice_under_one_key_makes_one_task(server: Server) -> None:
    gate(server).set()
    meta = {"mcpkit/idempotencyKey": "order 7"}
    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as client:
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
        async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("bob")) as bob:
            others.append(await begin(bob, "quick", {"label": "a"}, _meta=meta))
        assert len({first["taskId"], *(each["taskId"] for each in others)}) == 5
        for wrong in ("", 5, "x" * 201):
            with pytest.raises(ProtocolError, match="idempotencyKey"):
                await begin(client, "quick", {"label": "a"}, _meta={"mcpkit/idempotencyKey": wrong})


async def test_there_is_a_bound_for_each_owner_and_one_for_all(tmp_path: Path) -> None:
    server = make_server(make_engine("sqlite", tmp_path), tasks=Tasks(per_owner=2, most=3))
    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as ada:
        tasks = [await begin(ada, "slow", {"label": "a"}) for _ in range(2)]
        with pytest.raises(ProtocolError, match="You have 2 tasks open"):
            await begin(ada, "slow", {"label": "a"})
        async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("bob")) as bob:
            await begin(bob, "slow", {"label": "b"})
            with pytest.raises(ProtocolError, match="Too many tasks are open"):
                await begin(bob, "slow", {"label": "b"})
            await ada.request("tasks/cancel", {"taskId": tasks[0]["taskId"]})
            await begin(bob, "slow", {"label": "b"})
        gate(server).set()


async def test_progress_is_told_by_the_status_message(server: Server) -> None:
    @server.tool(task=True)
    async def count(ctx: Context) -> int:
        await ctx.progress(1, 3, "counting")
        await gate(server).wait()
        return 3

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "count")
        while (seen := await look(client, task)).get("statusMessage") != "counting (1 of 3)":
            assert seen["status"] == "working"
            await asyncio.sleep(0.005)
        gate(server).set()
        assert (await until(client, task, "completed")).get("statusMessage") is None


async def test_a_tool_that_comes_later_has_tasks_as_well() -> None:
    server = Server("lab")
    async with connect(server, capabilities=KNOWS_TASKS) as client:

        @server.tool(task=True)
        def late() -> str:
            return "done"

        done = await until(client, await begin(client, "late"), "completed")
        assert done["result"]["content"][0]["text"] == "done"


async def test_a_tool_of_an_included_server_finds_its_state() -> None:
    from contextlib import asynccontextmanager

    inner = Server("inner", lifespan=lambda _: entered())

    @asynccontextmanager
    async def entered() -> Any:
        yield "the state"

    @inner.tool(task=True)
    def tell(ctx: Context[str]) -> str:
        return ctx.state

    outer = Server("outer")
    outer.include(inner, prefix="in")
    async with connect(outer, capabilities=KNOWS_TASKS) as client:
        (name,) = [tool["name"] for tool in (await client.request("tools/list"))["tools"]]
        done = await until(client, await begin(client, name), "completed")
        assert done["result"]["structuredContent"] == "the state"


async def test_whoever_listens_is_told_how_the_task_is_and_becomes(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "slow", {"label": "a"})
        acknowledged, told = await listening(client, [task["taskId"], "x" * 64])
        assert acknowledged == {"taskIds": [task["taskId"]]}
        first = await told.get()
        assert (first["taskId"], first["status"]) == (task["taskId"], "working")
        gate(server).set()
        while (last := await told.get())["status"] != "completed":
            assert last["status"] == "working"
        seen = await look(client, task)
        assert {**last, "_meta": 0} == {name: v for name, v in seen.items() if name != "resultType"} | {
            "_meta": 0
        }


async def listening(client: Any, ids: list[str]) -> tuple[dict[str, Any], asyncio.Queue[dict[str, Any]]]:
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def hear(method: str, params: dict[str, Any] | None) -> None:
        if method == "notifications/subscriptions/acknowledged" and params is not None:
            answered.set_result(params["notifications"])
        elif method == "notifications/tasks" and params is not None:
            told.put_nowait(params)

    client._link.listeners.add(hear)
    listening = asyncio.ensure_future(
        client.request("subscriptions/listen", {"notifications": {"taskIds": ids}})
    )
    streams.append(listening)
    return await answered, told


streams: list[Any] = []


@pytest.mark.parametrize(
    "task",
    [
        5,
        "yes",
        Task(timeout=0),
        Task(keep=-1),
        Task(attempts=0),
        Task(rerun="often"),  # type: ignore[arg-type]
        Task(required=1),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_task_is_refused(task: Any) -> None:
    with pytest.raises(Exception, match="task="):
        Server("lab").tool(lambda: None, name="work", task=task)


@pytest.mark.parametrize("tasks", [5, "worker", Tasks(slots=0), Tasks(lease=0), Tasks(by="me")])  # type: ignore[arg-type]
def test_what_is_no_place_for_tasks_is_refused(tasks: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"tasks must be|Tasks\("):
        Server("lab", tasks=tasks)


@pytest.mark.parametrize(
    ("options", "rerun"),
    [
        ({}, "never"),
        ({"annotations": {"readOnlyHint": True}}, "safe"),
        ({"annotations": {"idempotentHint": True}}, "safe"),
        ({"annotations": {"readOnlyHint": False, "idempotentHint": False}}, "never"),
    ],
)
def test_whether_it_is_run_again_follows_the_annotations(options: Any, rerun: str) -> None:
    assert Task().reruns(options.get("annotations")) == rerun
    assert Task(rerun="safe").reruns(None) == "safe"
    assert Task(rerun="never").reruns({"readOnlyHint": True}) == "never"
