"""What measures tasks; a middleware may be one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .queue import QueueStats


class Waits(Protocol):
    """Tasks that wait to be run."""

    def waiting(self) -> Sequence[tuple[str, QueueStats]]:
        """Return what waits, by the names of the tools; nothing where the engine does not answer. It takes a while."""
        ...


class TaskMeter:
    """Hears of the runs of tasks, and may look at those that wait; by itself it does nothing.

    A middleware that derives from it is told, as `Telemetry` is. Its methods are called in the event loop, so that they
    must not block.
    """

    def attach_tasks(self, tasks: Waits) -> None:
        """Hear of tasks that may be looked at from now on, perhaps again.

        Args:
            tasks: They; not to be kept alive.
        """

    def run_began(self, tool: str, seconds: float) -> None:
        """Hear that a task is run.

        Args:
            tool: The name of its tool.
            seconds: How long nothing has happened to it.
        """

    def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
        """Hear that a run has ended.

        Args:
            tool: The name of the tool.
            outcome: What has become of the task: `completed`, `failed`, `cancelled`, `given_up` as it was taken too
                often or too late, or `input_required`; or of the run, where the task goes on: `drained` where it was
                handed back, `lost` where it is another's, `put_off` where there was no place for it.
            attempt: How many times the task has been taken.
            seconds: How long it took.
        """
