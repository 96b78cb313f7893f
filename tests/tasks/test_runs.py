"""Runs of tasks: request data, middleware, telemetry, audit, and revoked users."""

import asyncio
import logging
import secrets
import threading
import time
from contextvars import ContextVar
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from mcpkit import Depends, Extension, FromHeader, Principal, RegistrationError, Server, TaskOptions
from mcpkit.auth import AuditEvent, StaticTokens
from mcpkit.middleware import AccessLog, CallTool, TaskMeter, Telemetry, ToolCall, ToolCallResult
from mcpkit.storage import Memory
from mcpkit.storage.encryption_keys import Keys
from mcpkit.tasks.task_records import TaskStore
from mcpkit.testing import connect
from tests.helpers.task_client import KNOWS_TASKS, begin, get_task, until
from tests.helpers.waiting import until as eventually

ADA, EVE = Principal("ada"), Principal("eve")
SECRET = "a secret of sixteen and more"


@pytest.mark.parametrize("name", ["Authorization", "cookie"])
async def test_credential_headers_are_refused_in_tasks(name: str) -> None:
    server = Server("work")

    def session(value: str | None = FromHeader(name)) -> str | None:
        return value

    def work(who: str | None = Depends(session)) -> None: ...

    server.tool(work)
    message = rf"tool 'task': a task does not store credentials.*{name.lower()}"
    with pytest.raises(RegistrationError, match=message):
        server.tool(work, name="task", task=True)


async def test_middleware_context_and_arguments_apply_to_the_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpkit.access")
    server = Server("work")
    tenant: ContextVar[str] = ContextVar("tenant")
    seen: list[str] = []

    @server.middleware
    async def set_tenant(request: Any, call_next: Any) -> Any:
        tenant.set("acme")
        result = await call_next(request)
        seen.append(f"{request.method} {result.type} {result.get('status')}")
        return result

    @server.middleware("tools/call")
    async def shorten(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        return await call_next(call.with_arguments({"n": min(call.arguments["n"], 3)}))

    server.middleware(AccessLog())
    server.tool(lambda n: f"{n} of {tenant.get()}", name="count", task=True)
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "count", {"n": 50})
        finished = await until(client, task, "completed")
    assert finished["result"]["content"][0]["text"] == "3 of acme"
    assert seen[1] == "tools/call task working"
    assert "tools/call complete None" in seen
    assert seen[-1] == "tasks/get complete completed"
    lines = [record for record in caplog.records if record.getMessage().startswith("tools/call")]
    assert [vars(record)["mcp_attempt"] for record in lines] == [None, 1]
    assert lines[1].getMessage().startswith("tools/call 'count' run 1 ok")


# Telemetry and audit


def metrics(reader: InMemoryMetricReader) -> dict[str, dict[tuple[str, ...], Any]]:
    """Return the counts or sums of the task metrics by name and values of attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name.removeprefix("mcpkit.task."): {
            tuple(map(str, point.attributes.values())): getattr(point, "count", None) or point.value
            for point in metric.data.data_points
        }
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name.startswith("mcpkit.task.")
    }


async def test_runs_and_waiting_tasks_are_measured() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    server = Server("lab/1", storage=Memory(), tasks=TaskOptions(slots=2))
    server.middleware(Telemetry(meter_provider=provider))
    gate, stopped = asyncio.Event(), asyncio.Event()
    running = 0

    @server.tool(task=True, name="a.work")
    async def work(fails: bool) -> str:
        nonlocal running
        running += 1
        try:
            await gate.wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        if fails:
            raise ValueError("no")
        return "done"

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        tasks = [await begin(client, "a.work", {"fails": number == 0}) for number in range(5)]
        await eventually(lambda: running == 2)
        seen = metrics(reader)
        assert seen["queue.ready"] == {("a.work",): 3}
        assert seen["queue.held"] == {("a.work",): 2}
        assert 0 < seen["queue.age"]["a.work",] < 60
        await client.request("tasks/cancel", {"taskId": tasks[1]["taskId"]})
        await stopped.wait()
        gate.set()
        for task in (tasks[0], *tasks[2:]):
            await until(client, task, "completed")
        await eventually(lambda: sum(metrics(reader)["run.duration"].values()) == 5)
        seen = metrics(reader)
    assert seen["wait.duration"] == {("a.work",): 5}
    assert seen["run.duration"] == {("a.work", "completed"): 4, ("a.work", "cancelled"): 1}
    assert seen["attempts"] == seen["run.duration"]
    assert not seen.get("queue.ready")
    provider.shutdown()


def test_removed_middleware_measures_no_tasks() -> None:
    class Meter(TaskMeter):
        async def __call__(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    server, extension = Server("lab"), Extension("com.example/meter")
    meter = Meter()
    extension.middleware(meter)
    inclusion = server.include(extension)
    assert server.engine.runtime.task_meters == (meter,)
    inclusion.remove()
    assert server.engine.runtime.task_meters == ()


async def test_cancellation_is_audited_once() -> None:
    server = Server("lab", storage=Memory())
    events: list[AuditEvent] = []
    server.on_audit(events.append)
    server.tool(asyncio.Event().wait, name="work", task=True)
    server.tool(lambda: None, name="quick", task=True)
    async with connect(server, capabilities=KNOWS_TASKS, principal=ADA) as ada:
        task, over = await begin(ada, "work"), await begin(ada, "quick")
        await until(ada, over, "completed")
        for each in (task, task, over):
            await ada.request("tasks/cancel", {"taskId": each["taskId"]})
        assert (await get_task(ada, task))["status"] == "cancelled"
    assert events == [AuditEvent("cancellation", "ada", detail="a task of work")]


@pytest.mark.limit("look at tasks that wait, by who measures")
def test_measurement_does_not_wait_for_a_queue_without_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Memory):
        async def list_queues(self, server: str) -> list[Any]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr("mcpkit.tasks.task_records._STATISTICS_TIMEOUT", 0.01)
    assert TaskStore(Hanging(), Keys(SECRET, "lab"), TaskOptions()).waiting() == []


async def test_run_is_touched_in_its_own_event_loop_only() -> None:
    storage = Memory()
    server = Server("lab", storage=storage)
    began, ended, problems = asyncio.Event(), asyncio.Event(), list[dict[str, Any]]()

    @server.tool(task=True)
    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def serve(is_running: threading.Event, is_over: threading.Event) -> None:
        async def run() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
            async with server.running():
                is_running.set()
                while not is_over.is_set():
                    await asyncio.sleep(0.001)

        asyncio.run(run())

    # In debug mode an event loop raises in a thread that is not its own.
    asyncio.get_running_loop().set_debug(True)
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        task = await begin(client, "work")
        await began.wait()
        is_running, is_over = threading.Event(), threading.Event()
        thread = threading.Thread(target=serve, args=(is_running, is_over))
        thread.start()
        try:
            await eventually(is_running.is_set)
            # The other event loop receives the change first.
            storage.subscribe("lab/tasks", lambda _: time.sleep(0.05), lambda: None)
            await client.request("tasks/cancel", {"taskId": task["taskId"]})
            await ended.wait()
        finally:
            is_over.set()
            thread.join()
    asyncio.get_running_loop().set_debug(False)
    assert problems == []


class WorkingServer:
    """A server with a tool that works until `gate` is set."""

    def __init__(self, engine: Any, **options: Any) -> None:
        self.server = Server(
            "lab",
            secret_key=SECRET,
            storage=engine,
            auth=StaticTokens({secrets.token_urlsafe(32): ADA}),
            **options,
        )
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.gate = asyncio.Event()
        self.server.tool(self.work, task=True)

    async def work(self, label: str) -> str:
        """Work."""
        self.begun.append(label)
        try:
            await self.gate.wait()
        finally:
            self.ended.append(label)
        return label


async def test_shutdown_fails_a_run_that_must_not_be_repeated(engine: Any) -> None:
    front, back = WorkingServer(engine, tasks="workers"), WorkingServer(engine)
    async with connect(front.server, capabilities=KNOWS_TASKS, principal=ADA) as ada:
        async with connect(back.server):
            task = await begin(ada, "work", {"label": "a"})
            await eventually(lambda: back.begun)
        failed = await until(ada, task, "failed")
    assert failed["error"]["message"].startswith(
        "The process that ran the task ended before the task was done"
    )
    assert back.begun == back.ended == ["a"]


async def test_revoke_cancels_running_tasks_of_the_user(engine: Any) -> None:
    front, back = WorkingServer(engine, tasks="workers"), WorkingServer(engine)
    async with (
        connect(front.server, capabilities=KNOWS_TASKS, principal=ADA) as ada,
        connect(front.server, capabilities=KNOWS_TASKS, principal=EVE) as eve,
        connect(back.server),
    ):
        tasks = await begin(ada, "work", {"label": "a"}), await begin(eve, "work", {"label": "e"})
        await eventually(lambda: len(back.begun) == 2)
        await front.server.revoke("ada")
        assert "result" not in await until(ada, tasks[0], "cancelled")
        await eventually(lambda: back.ended == ["a"])
        back.gate.set()
        await until(eve, tasks[1], "completed")


async def test_revoke_cancels_waiting_tasks_and_allows_later_ones(engine: Any) -> None:
    front, back = WorkingServer(engine, tasks="workers"), WorkingServer(engine, tasks=TaskOptions(slots=2))
    back.gate.set()
    async with connect(front.server, capabilities=KNOWS_TASKS, principal=ADA) as ada:
        task = await begin(ada, "work", {"label": "before"})
        await front.server.revoke("ada")
        async with connect(back.server):  # it was not running when access was revoked
            await until(ada, task, "cancelled")
            await until(ada, await begin(ada, "work", {"label": "later"}), "completed")
    assert back.begun == ["later"]


async def test_run_has_the_headers_that_its_tool_reads() -> None:
    server = Server("lab")

    @server.tool(task=True)
    async def work(
        tenant: Annotated[str | None, FromHeader("X-Tenant")],
        other: Annotated[str | None, FromHeader("X-Other")],
    ) -> str:
        return f"{tenant} {other}"

    async with connect(server, capabilities=KNOWS_TASKS, headers={"X-Tenant": "a"}) as client:
        done = await until(client, await begin(client, "work"), "completed")
        assert done["result"]["content"][0]["text"] == "a None"
