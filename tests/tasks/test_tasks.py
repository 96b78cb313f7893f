"""Tool calls that become tasks (ext-tasks, 2026-07-28): creation, status, cancellation, access and options."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import pytest

from mcpkit import Context, Principal, ProtocolError, Scope, Server, Task, TaskOptions, ToolError
from mcpkit.extensions import BaseTool
from mcpkit.storage import Memory
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, TASKS, begin, look, until

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


@pytest.fixture
def server() -> Server:
    return make_server(Memory())


def make_server(shared: Any = None, **options: Any) -> Server:
    server = Server("lab", secret_key=SECRET, storage=shared, **options)

    @server.tool
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    @server.tool(task=True)
    async def slow(label: str, ctx: Context) -> str:
        await gate(server).wait()
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

    gates[server] = asyncio.Event()
    return server


gates: dict[Server, asyncio.Event] = {}


def gate(server: Server) -> asyncio.Event:
    return gates[server]


async def test_call_creates_a_task_that_completes(server: Server) -> None:
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


async def test_required_task_without_the_extension_names_the_missing_capability(server: Server) -> None:
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


async def test_task_ends_with_a_result_an_error_or_a_timeout(server: Server) -> None:
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


async def test_cancel_is_final_and_idempotent(server: Server) -> None:
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


async def test_task_of_another_principal_is_unknown_without_a_lookup() -> None:
    server = make_server(Memory())
    gate(server).set()
    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as ada:
        task = await begin(ada, "quick", {"label": "a"})
        await until(ada, task, "completed")
        engine: Any = server.engine.runtime.storage
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


async def test_task_requests_require_the_scopes_of_the_tool() -> None:
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


async def test_idempotency_key_creates_one_task(server: Server) -> None:
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


async def test_open_tasks_are_limited_per_owner_and_in_total() -> None:
    server = make_server(Memory(), tasks=TaskOptions(max_open_per_owner=2, max_open=3))
    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as ada:
        tasks = [await begin(ada, "slow", {"label": "a"}) for _ in range(2)]
        with pytest.raises(ProtocolError, match="You have 2 open tasks"):
            await begin(ada, "slow", {"label": "a"})
        async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("bob")) as bob:
            await begin(bob, "slow", {"label": "b"})
            with pytest.raises(ProtocolError, match="The server has too many open tasks"):
                await begin(bob, "slow", {"label": "b"})
            await ada.request("tasks/cancel", {"taskId": tasks[0]["taskId"]})
            await begin(bob, "slow", {"label": "b"})
        gate(server).set()


async def test_subscription_receives_the_status_of_a_task(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "slow", {"label": "a"})
        acknowledged, statuses = await subscribe(client, [task["taskId"], "x" * 64])
        assert acknowledged == {"taskIds": [task["taskId"]]}
        first = await statuses.get()
        assert (first["taskId"], first["status"]) == (task["taskId"], "working")
        gate(server).set()
        while (last := await statuses.get())["status"] != "completed":
            assert last["status"] == "working"
        seen = await look(client, task)
        assert {**last, "_meta": 0} == {name: v for name, v in seen.items() if name != "resultType"} | {
            "_meta": 0
        }


async def subscribe(client: Any, ids: list[str]) -> tuple[dict[str, Any], asyncio.Queue[dict[str, Any]]]:
    statuses: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def listener(method: str, params: dict[str, Any] | None) -> None:
        if method == "notifications/subscriptions/acknowledged" and params is not None:
            answered.set_result(params["notifications"])
        elif method == "notifications/tasks" and params is not None:
            statuses.put_nowait(params)

    client._link.listeners.add(listener)
    subscribe = asyncio.ensure_future(
        client.request("subscriptions/listen", {"notifications": {"taskIds": ids}})
    )
    streams.append(subscribe)
    return await answered, statuses


streams: list[Any] = []


# Lost messages


async def test_subscription_without_the_scope_receives_no_status() -> None:
    shared, gate = Memory(), asyncio.Event()
    before = Server("lab", storage=shared)
    now = Server("lab", storage=shared, tasks="workers", scopes={"run": Scope("Run")})

    async def work() -> str:
        await gate.wait()
        return "done"

    before.tool(work, task=True)
    now.tool(work, task=True, scopes="run")
    poor, rich = Principal("ada"), Principal("ada", {"run"})
    async with AsyncExitStack() as stack:
        maker, *listeners = [
            await stack.enter_async_context(connect(server, capabilities=KNOWS_TASKS, principal=principal))
            for server, principal in ((before, poor), (now, poor), (now, rich))
        ]
        task = await begin(maker, "work")
        with pytest.raises(ProtocolError):
            await look(listeners[0], task)
        wanted: dict[str, Any] = {"taskIds": [task["taskId"]]}
        streams = [
            asyncio.ensure_future(each.request("subscriptions/listen", {"notifications": wanted}))
            for each in listeners
        ]
        for each in listeners:
            await each.notification("notifications/subscriptions/acknowledged")
        gate.set()
        while (await listeners[1].notification("notifications/tasks"))["status"] != "completed":
            pass
        assert not [each for each in listeners[0].notifications if each["method"] == "notifications/tasks"]
        for stream in streams:
            stream.cancel()


async def test_plain_tools_and_invalid_arguments_create_no_task(server: Server) -> None:
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        plain = await begin(client, "greet", {"name": "Ada"}, task={"ttl": 5})
        assert plain["resultType"] == "complete"
        wrong = await begin(client, "slow", {"lable": "a"})
        assert (wrong["resultType"], wrong["isError"]) == ("complete", True)
        assert "label" in wrong["content"][0]["text"]


@pytest.mark.parametrize(
    "task",
    [
        5,
        "yes",
        Task(timeout=0),
        Task(result_ttl=-1),
        Task(attempts=0),
        Task(rerun="often"),  # type: ignore[arg-type]
        Task(required=1),  # type: ignore[arg-type]
    ],
)
def test_invalid_task_option_is_refused(task: Any) -> None:
    with pytest.raises(Exception, match="task="):
        Server("lab").tool(lambda: None, name="work", task=task)


def test_rerun_follows_the_annotations_of_the_tool() -> None:
    for hint in ("readOnlyHint", "idempotentHint"):
        assert Task().reruns({hint: True}) == "safe"
        assert Task().reruns({hint: False}) == "never"
    assert Task().reruns(None) == "never"
    assert Task(rerun="never").reruns({"readOnlyHint": True}) == "never"


async def test_tools_of_your_own_are_served_beside_tasks(server: Server) -> None:
    class Echo(BaseTool):
        async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": "echo"}]}

    server.include(Echo("echo", input_schema={"type": "object"}))
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "quick", {"label": "a"})
        await until(client, task, "completed")
        assert (await client.call_tool("echo")).text == "echo"
