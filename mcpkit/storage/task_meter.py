"""Base class of meters of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .queue import QueueStats


class Waits(Protocol):
    """Source of queue statistics for a `TaskMeter`."""

    def waiting(self) -> Sequence[tuple[str, QueueStats]]:
        """Return statistics of the queues, each with the name of its tool. It blocks while it reads the storage.

        Returns:
            Names of tools with their statistics; empty if the storage does not answer.
        """
        ...


class TaskMeter:
    """Base class of meters of tasks. Its methods do nothing.

    A middleware that derives from it receives the measurements, as `Telemetry` does. The methods are called in the
    event loop, so they must not block.
    """

    def attach_tasks(self, tasks: Waits) -> None:
        """Receive the source of queue statistics of a server. It may be called several times.

        Args:
            tasks: The source. Hold it by a weak reference.
        """

    def run_began(self, tool: str, seconds: float) -> None:
        """Receive the start of a run of a task.

        Args:
            tool: Name of the tool.
            seconds: Seconds since the task was last changed.
        """

    def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
        """Receive the end of a run of a task.

        Args:
            tool: Name of the tool.
            outcome: Outcome of the task: `completed`, `failed`, `cancelled`, `given_up` (too many attempts, or too
                late) or `input_required`. Outcome of the run, if the task continues: `drained` (handed back to the
                queue), `lost` (another worker has it) or `put_off` (no capacity).
            attempt: Number of times that the task was taken.
            seconds: Duration in seconds.
        """
