"""Notifications of task changes in one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from pydantic_core import from_json

from ..engine.subscription_filters_and_delivery import SubscriptionHub
from ..identity.principal import Audience, Change, Principal
from .task_execution import TaskRuns
from .task_records import TaskRecord, TaskStore, UnreadableTaskError

logger = logging.getLogger(__name__)

NOTIFICATION = "notifications/tasks"

# Seconds until a task is read again while the storage does not answer
_RETRY_PAUSE = 1.0


class TaskNotifications:
    """Receives changes of tasks from all processes, and publishes them in one event loop.

    Its methods are called in that event loop. It subscribes when it is created, and its runs to revocations.

    Args:
        store: The task records.
        changes: Notifies clients in this event loop.
        runs: Runs of tasks in this event loop, which receive changes too.
        scopes: Returns the scopes that a client needs today to receive notifications of a task.
    """

    def __init__(
        self,
        store: TaskStore,
        changes: SubscriptionHub,
        runs: TaskRuns,
        scopes: Callable[[TaskRecord], Sequence[str]],
    ) -> None:
        self._store = store
        self._changes = changes
        self._runs = runs
        self._scopes = scopes
        self._loop = asyncio.get_running_loop()
        self._watchers: dict[str, dict[object, Callable[[], None]]] = {}
        self._unpublished: dict[str, None] = {}  # ids of tasks
        self._publishing: asyncio.Task[None] | None = None
        changes.recovered.add(NOTIFICATION)
        self._subscriptions = (
            store.storage.subscribe(store.topic, self._on_message, lambda: self._call_in_loop(self._on_gap)),
            runs.watch_revocations(),
        )

    def close(self) -> None:
        """Unsubscribe."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        if self._publishing is not None:
            self._publishing.cancel()

    def watch(self, id_: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever a task may have changed. Return a function that ends it."""
        key = object()
        self._watchers.setdefault(id_, {})[key] = changed

        def end() -> None:
            watchers = self._watchers.get(id_, {})
            watchers.pop(key, None)
            if not watchers:
                self._watchers.pop(id_, None)

        return end

    def schedule(self, ids: Iterable[str]) -> None:
        """Publish the current state of tasks to their subscribers, soon."""
        self._unpublished.update(dict.fromkeys(ids))
        if self._unpublished and self._publishing is None:
            self._publishing = self._loop.create_task(self._publish())

    # Messages of all processes

    def _on_message(self, message: str) -> None:
        """Receive a change, in any thread."""
        try:
            change = from_json(message)
            id_, status = str(change["id"]), str(change["status"])
        except (ValueError, KeyError, TypeError):
            logger.warning(
                "the shared store delivered a message that is not a task status; it is ignored. "
                "Check that no other program writes to the store: %.200r",
                message,
            )
            return
        self._call_in_loop(partial(self._on_change, id_, status))

    def _call_in_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(function)

    def _on_change(self, id_: str, status: str) -> None:
        self._runs.on_change(id_, status)
        for changed in tuple(self._watchers.get(id_, {}).values()):
            changed()
        if self._changes.has_subscribers(Change(NOTIFICATION, id_)):
            self.schedule([id_])

    def _on_gap(self) -> None:
        """Read all watched tasks again, because a notification may have been missed."""
        self._runs.on_gap()
        for watchers in tuple(self._watchers.values()):
            for changed in tuple(watchers.values()):
                changed()
        subscribed = self._changes.subscribed(NOTIFICATION)
        self.schedule(change.key for change in subscribed if change.key is not None)

    async def _publish(self) -> None:
        """Read the tasks of `schedule`, and publish their state."""
        is_failing = False
        try:
            while self._unpublished:
                id_ = next(iter(self._unpublished))
                del self._unpublished[id_]
                try:
                    task = await self._store.get(id_)
                    is_failing = False
                except OSError as error:
                    if not is_failing:
                        logger.error(  # noqa: TRY400
                            "the task records cannot be read, so clients are notified of task "
                            "changes later: %s",
                            error,
                        )
                    is_failing = True
                    self._unpublished[id_] = None
                    await asyncio.sleep(_RETRY_PAUSE)
                    continue
                except UnreadableTaskError as error:
                    logger.warning(
                        "clients are not notified of a task change, as the task record cannot be read: %s",
                        error,
                    )
                    continue
                if task is not None:
                    scopes = self._scopes(task.record)
                    audience = Audience.of(partial(_has_scopes, scopes)) if scopes else None
                    params = task.record.to_detailed_task()
                    self._changes.deliver(Change(NOTIFICATION, id_, audience, params))
        finally:
            self._publishing = None


def _has_scopes(scopes: Sequence[str], principal: Principal) -> bool:
    return principal.scopes.issuperset(scopes)
