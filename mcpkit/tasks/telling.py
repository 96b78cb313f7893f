"""Notifications of task changes, in each event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from pydantic_core import from_json

from ..engine.subscriptions.hub import Changes, Hubs
from ..identity.audience import Audience
from ..identity.change import Change
from ..identity.principal import Principal
from .ledger import Ledger, UnreadableTaskError
from .record import Record
from .run import Runs
from .wire import detailed

logger = logging.getLogger(__name__)

NOTIFICATION = "notifications/tasks"

_PAUSE = 1.0
"""Seconds until it is looked again for a task where the engine does not answer."""


class Telling:
    """Receives changes of the tasks of a server from all processes, and publishes them in the event loops of this one.

    Args:
        ledger: Storage of task records.
        hubs: Notify clients, in each event loop.
        needs: Returns the scopes that a client needs today to receive notifications of a task.
    """

    def __init__(self, ledger: Ledger, hubs: Hubs, needs: Callable[[Record], Sequence[str]]) -> None:
        self._ledger = ledger
        self._needs = needs
        self._hubs = hubs
        self._here: dict[asyncio.AbstractEventLoop, _Here] = {}

    def begin(self, runs: Runs) -> Callable[[], None]:
        """Subscribe to changes in the running event loop. Return a function that unsubscribes.

        Args:
            runs: Runs of tasks, which receive changes too.
        """
        loop = asyncio.get_running_loop()
        here = self._here.get(loop)
        if here is None:
            here = self._here[loop] = _Here(loop, self._ledger, self._hubs.here(), runs, self._needs)
        here.users += 1

        def end() -> None:
            here.users -= 1
            if here.users == 0:
                del self._here[loop]
                here.close()

        return end

    def tell_soon(self, ids: Iterable[str]) -> None:
        """Publish the current state of tasks to subscribers in the running event loop, soon."""
        here = self._here.get(asyncio.get_running_loop())
        if here is not None:
            here.look_at(ids)

    def watch(self, id_: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function in the running event loop whenever a task may have changed. Return a function to stop it."""
        here = self._here.get(asyncio.get_running_loop())
        if here is None:
            raise RuntimeError("this event loop does not serve tasks. Enter server.running() in it first")
        return here.watch(id_, changed)


class _Here:
    """Subscription of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ledger: Ledger,
        changes: Changes,
        runs: Runs,
        needs: Callable[[Record], Sequence[str]],
    ) -> None:
        self.users = 0
        self._needs = needs
        self._loop = loop
        self._ledger = ledger
        self._changes = changes
        self._runs = runs
        self._watchers: dict[str, dict[object, Callable[[], None]]] = {}
        self._due: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None
        changes.recovered.add(NOTIFICATION)
        self._unsubscribe = ledger.engine.subscribe(
            ledger.topic, self._heard, lambda: self._in_loop(self._missed)
        )

    def close(self) -> None:
        """Unsubscribe."""
        self._unsubscribe()
        if self._looking is not None:
            self._looking.cancel()

    def _in_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # it has been closed
            self._loop.call_soon_threadsafe(function)

    def _heard(self, message: str) -> None:
        try:
            told = from_json(message)
            id_, status = str(told["id"]), str(told["status"])
        except (ValueError, KeyError, TypeError):
            logger.warning(
                "the shared store delivered a message that is not a task status; it is ignored. "
                "Check that no other program writes to the store: %.200r",
                message,
            )
            return
        self._in_loop(partial(self._tell, id_, status))

    def _tell(self, id_: str, status: str) -> None:
        self._runs.heard(id_, status)
        for changed in tuple(self._watchers.get(id_, {}).values()):
            changed()
        if self._changes.is_wanted(Change(NOTIFICATION, id_)):
            self.look_at([id_])

    def _missed(self) -> None:
        """Read all watched tasks again, because a notification may have been missed."""
        self._runs.look_again()
        for watchers in tuple(self._watchers.values()):
            for changed in tuple(watchers.values()):
                changed()
        self.look_at(
            change.key for change in self._changes.all_wanted(NOTIFICATION) if change.key is not None
        )

    def watch(self, id_: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever a task may have changed. Return a function to stop it."""
        key = object()
        self._watchers.setdefault(id_, {})[key] = changed

        def end() -> None:
            watchers = self._watchers.get(id_, {})
            watchers.pop(key, None)
            if not watchers:
                self._watchers.pop(id_, None)

        return end

    def look_at(self, ids: Iterable[str]) -> None:
        """Read tasks, and publish their state to subscribers."""
        self._due.update(dict.fromkeys(ids))
        if self._due and self._looking is None:
            self._looking = self._loop.create_task(self._look())

    async def _look(self) -> None:
        is_failing = False
        try:
            while self._due:
                id_ = next(iter(self._due))
                del self._due[id_]
                try:
                    held = await self._ledger.look(id_)
                    is_failing = False
                except OSError as error:
                    if not is_failing:
                        logger.error(  # noqa: TRY400
                            "the task records cannot be read, so clients are notified of task "
                            "changes later: %s",
                            error,
                        )
                    is_failing = True
                    self._due[id_] = None
                    await asyncio.sleep(_PAUSE)
                    continue
                except UnreadableTaskError as error:
                    logger.warning(
                        "clients are not notified of a task change, as the task record cannot be read: %s",
                        error,
                    )
                    continue
                if held is not None:
                    audience = _audience(self._needs(held.record))
                    self._changes.tell(Change(NOTIFICATION, id_, audience, detailed(held.record)))
        finally:
            self._looking = None


def _audience(needs: Sequence[str]) -> Audience | None:
    """Return the audience of a task: principals with the scopes that it needs. None for all."""
    if not needs:
        return None

    def may_receive(principal: Principal) -> bool:
        return principal.scopes.issuperset(needs)

    return Audience.of(may_receive)
