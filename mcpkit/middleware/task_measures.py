"""Measurements of tasks, by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import WeakSet

from ..storage.base import TaskMeter

if TYPE_CHECKING:
    from opentelemetry import metrics

    from ..storage.base import Waits
    from ..storage.queue import QueueStats

_BUCKETS = (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200, 14400)
"""Seconds: a task takes what it takes."""


class TaskMeasures(TaskMeter):
    """Measures runs of tasks, and the number of waiting tasks, by tool.

    All processes share one queue, and each reports its size: aggregate with the maximum, not the sum.

    Args:
        meter: Meter for the instruments.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        self._task_meter = meter
        self._tasks: WeakSet[Waits] = WeakSet()
        self._is_observed = False
        self._waits = meter.create_histogram(
            "mcpkit.task.wait.duration",
            unit="s",
            description="Time that tasks waited for their runs.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._runs = meter.create_histogram(
            "mcpkit.task.run.duration",
            unit="s",
            description="Duration of runs of tasks.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._attempts = meter.create_histogram(
            "mcpkit.task.attempts",
            unit="{run}",
            description="Number of runs of a task until it ended.",
            explicit_bucket_boundaries_advisory=(1, 2, 3, 4, 5, 10, 20),
        )

    def attach_tasks(self, tasks: Waits) -> None:
        """Add a task queue to the observable gauges.

        Args:
            tasks: The queue; a weak reference is kept.
        """
        self._tasks.add(tasks)
        if self._is_observed:
            return
        self._is_observed = True
        seen: list[tuple[str, str, str, Callable[[QueueStats], float]]] = [
            ("ready", "{task}", "Tasks that are ready to run.", lambda each: each.ready),
            (
                "held",
                "{task}",
                "Tasks that are running, wait for an answer, or are scheduled for later.",
                lambda each: each.held,
            ),
            (
                "age",
                "s",
                "Time that the oldest task has been ready to run.",
                lambda each: each.oldest,
            ),
        ]
        for name, unit, description, value in seen:
            self._task_meter.create_observable_gauge(
                f"mcpkit.task.queue.{name}",
                callbacks=[self._observer(value, max if name == "age" else lambda one, two: one + two)],
                unit=unit,
                description=description,
            )

    def _observer(
        self, value: Callable[[QueueStats], float], together: Callable[[float, float], float]
    ) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
        """Return a gauge callback that combines the values of all versions of a tool."""

        def observe(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            from opentelemetry.metrics import Observation

            found: dict[str, float] = {}
            for tasks in tuple(self._tasks):
                for tool, each in tasks.waiting():
                    found[tool] = together(found[tool], value(each)) if tool in found else value(each)
            return [Observation(number, {"gen_ai.tool.name": tool}) for tool, number in found.items()]

        return observe

    def run_began(self, tool: str, seconds: float) -> None:
        """Record the time that a task waited for its run."""
        self._waits.record(seconds, {"gen_ai.tool.name": tool})

    def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
        """Record the duration of a run, and the number of runs if the task has ended."""
        attributes = {"gen_ai.tool.name": tool, "mcpkit.task.outcome": outcome}
        self._runs.record(seconds, attributes)
        if outcome in {"completed", "failed", "cancelled", "given_up"}:
            self._attempts.record(attempt, attributes)
