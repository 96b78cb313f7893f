"""What is measured of tasks, and what the audit is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcpkit import Context, Memory, Principal, Server, Task, Tasks
from mcpkit.auth import AuditEvent
from mcpkit.middlewares import Telemetry
from mcpkit.state.task_meter import TaskMeter
from mcpkit.tasks.measuring import Watched
from mcpkit.testing import connect
from tests.helpers.engines import ENGINES, Engine, close, make_engine
from tests.helpers.task_client import KNOWS_TASKS, answer, begin, look, until
from tests.helpers.waiting import until as eventually

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = make_engine(request.param, tmp_path)
    if not hasattr(made, "take"):
        pytest.skip("it has no jobs yet")
    yield made
    close(made)


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def telemetry(reader: InMemoryMetricReader) -> Iterator[Telemetry]:
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield Telemetry(meter_provider=provider)
    provider.shutdown()


def measured(reader: InMemoryMetricReader) -> dict[str, dict[tuple[str, ...], Any]]:
    """Return by metric and attributes' values what was measured: how often, or how much."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name.removeprefix("mcpkit.task."): {
            tuple(map(str, point.attributes.values())): point.count
            if hasattr(point, "count")
            else point.value  # type: ignore[union-attr]
            for point in metric.data.data_points
        }
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name.startswith("mcpkit.task.")
    }


async def test_runs_are_measured_and_what_waits(
    engine: Engine, reader: InMemoryMetricReader, telemetry: Telemetry
) -> None:
    server = Server("lab/1", secret=SECRET, shared=engine, tasks=Tasks(slots=2))
    server.middleware(telemetry)
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

    @server.tool(task=Task(rerun="safe"))
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Name?", str, key="name")).value)

    async with connect(server, capabilities=KNOWS_TASKS) as client:
        asking = await begin(client, "ask")
        await until(client, asking, "input_required")
        tasks = [await begin(client, "a.work", {"fails": number == 0}) for number in range(5)]
        await eventually(lambda: running == 2)
        seen = measured(reader)
        assert seen["queue.ready"] == {("a.work",): 3, ("ask",): 0}
        assert seen["queue.held"] == {("a.work",): 2, ("ask",): 1}
        assert 0 < seen["queue.age"]["a.work",] < 60
        await client.request("tasks/cancel", {"taskId": tasks[1]["taskId"]})
        await stopped.wait()
        gate.set()
        for task in (tasks[0], *tasks[2:]):
            await until(client, task, "completed")
        await answer(client, asking, name="Ada")
        await until(client, asking, "completed")
        await eventually(lambda: not server.engine.runtime.running.taken)
        seen = measured(reader)
    assert seen["wait.duration"] == {("a.work",): 5, ("ask",): 2}
    assert seen["run.duration"] == {
        ("a.work", "completed"): 4,
        ("a.work", "cancelled"): 1,
        ("ask", "input_required"): 1,
        ("ask", "completed"): 1,
    }
    assert seen["attempts"] == {
        ("a.work", "completed"): 4,
        ("a.work", "cancelled"): 1,
        ("ask", "completed"): 1,
    }
    assert not seen.get("queue.ready")


async def test_a_queue_that_cannot_be_reached_has_no_numbers(
    tmp_path: Path, reader: InMemoryMetricReader, telemetry: Telemetry
) -> None:
    engine = make_engine("sqlite", tmp_path / "absent")
    server = Server("lab", secret=SECRET, shared=engine)
    server.middleware(telemetry)
    server.tool(lambda: "", name="work", task=True)
    async with server.running():
        await asyncio.sleep(0)
        data = reader.get_metrics_data()
    assert data is None or not [
        each for each in data.resource_metrics[0].scope_metrics[0].metrics if each.data.data_points
    ]
    close(engine)


async def test_a_run_is_told_from_the_call_that_has_made_the_task() -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    server = Server("lab")
    server.middleware(Telemetry(tracer_provider=tracers, meter_provider=meters))
    server.tool(lambda: "done", name="work", task=True)
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        await until(client, await begin(client, "work"), "completed")
        await eventually(lambda: not server.engine.runtime.running.taken)
    calls = [
        dict(each.attributes or {}) for each in spans.get_finished_spans() if each.name == "tools/call work"
    ]
    told = [(each.get("mcpkit.task.run"), each.get("mcpkit.task.attempt")) for each in calls]
    assert sorted(told, key=str) == [(None, None), (True, 1)]
    assert "mcpkit.task.run" in str(reader.get_metrics_data())
    meters.shutdown()


@pytest.mark.limit("look at tasks that wait, by who measures")
def test_a_queue_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Memory):
        async def waiting(self, server: str) -> list[Any]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr("mcpkit.tasks.measuring._PATIENCE", 0.01)
    assert Watched(Hanging(), "lab", str).waiting() == []


async def test_a_meter_of_ones_own_is_told(tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []

    class Own(TaskMeter):
        def run_began(self, tool: str, seconds: float) -> None:
            told.append((tool, seconds >= 0))

        def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
            told.append((tool, outcome, attempt, seconds >= 0))

        async def __call__(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    server = Server("lab")
    server.middleware(Own())
    server.tool(lambda: "done", name="work", task=True)
    async with connect(server, capabilities=KNOWS_TASKS) as client:
        await until(client, await begin(client, "work"), "completed")
        await eventually(lambda: len(told) == 2)
    assert told == [("work", True), ("work", "completed", 1, True)]


async def test_the_audit_hears_once_who_has_cancelled_a_task(engine: Engine) -> None:
    server = Server("lab", secret=SECRET, shared=engine)
    events: list[AuditEvent] = []
    server.on_audit(events.append)

    @server.tool(task=True)
    async def work() -> None:
        await asyncio.Event().wait()

    @server.tool(task=True)
    async def quick() -> None: ...

    async with connect(server, capabilities=KNOWS_TASKS, principal=Principal("ada")) as ada:
        task = await begin(ada, "work")
        for _ in range(3):
            await ada.request("tasks/cancel", {"taskId": task["taskId"]})
        over = await begin(ada, "quick")
        await until(ada, over, "completed")
        await ada.request("tasks/cancel", {"taskId": over["taskId"]})
        assert (await look(ada, task))["status"] == "cancelled"
    assert events == [AuditEvent("cancellation", "ada", detail="a task of work")]
