"""Running requests: each in a task of its own, which the client can cancel at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, KeysView
from functools import partial
from typing import Any, cast

from .._utils.current import current
from .._utils.errors import BusyError, ProtocolError
from ..execution import forks
from ..execution.coroutines import cancellations, first_step, go_on, is_cancelled_from_outside, uncancel
from ..execution.threads import is_fatal
from ..identity.principal import Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Outcome
from .call import Call
from .failures import error_response

Reply = Callable[[bytes | None, BaseException | None], None]
"""Takes the response to one message, or None when there will be none; and what went wrong, if something did."""

OVER = object()
"""In place of what a request waits for: it has been answered."""

_start: Callable[..., asyncio.Task[None]] = cast("Any", asyncio.Task)
if sys.version_info >= (3, 12):
    # A handler that never waits is answered in the same turn of the loop.
    _start = partial(asyncio.Task, eager_start=True)


class Calls:
    """The running requests of one client, or of all clients without sessions, by key.

    Attributes:
        keys: Keys of the running requests; a live view.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: dict[Hashable, _Entry] = {}
        self._stopping: set[_Entry] = set()  # which were cancelled, and have not stopped yet
        self.keys: KeysView[Hashable] = self._running.keys()
        self._idle: asyncio.Future[None] | None = None
        self._generation = forks.generation

    def start(self, key: Hashable, call: Call, outcome: Coroutine[Any, Any, Outcome], reply: Reply) -> None:
        """Run a request in a task of its own.

        Args:
            key: Key of the request, for `cancel`.
            call: The request.
            outcome: Awaitable of its result.
            reply: Called with the response, maybe before this method returns.

        Raises:
            BusyError: Too many requests are running.
        """
        running = call.runtime.running
        if (
            4 * running.taken >= call.runtime.limits.concurrent_requests
        ):  # asked here first, as each call comes by
            self.check_room(call, outcome)
        entry = _Entry(key, call, reply)
        entry.unstarted = outcome
        self._running[key] = entry
        if entry.caller is None:  # as `take` does: most calls are those of the only client
            running.taken += 1
        else:
            running.take(entry.caller)
        call.loop = self._loop
        entry.task = _start(self._run(entry, outcome), loop=self._loop, name=call.method)
        if entry.is_cancelled:  # by what its first step led to: a client in the same process hears at once
            entry.task.cancel()

    def begin(self, call: Call, outcome: Coroutine[Any, Any, Outcome], reply: Reply) -> Any:
        """Run a request in the current task until its handler waits. The caller must have checked for room.

        Args:
            call: The request.
            outcome: Awaitable of its result.
            reply: Called with the response.

        Returns:
            The object that it waits for, for `go_on`; `OVER` if it has been answered.
        """
        call.loop = self._loop
        token = current.set(call)
        try:
            is_over, value = first_step(outcome)
            if not is_over:
                return value
            message = jsonrpc.result(call.request_id, value)
        except BaseException as error:
            if forks.generation != self._generation:
                forks.end_child(error)
            message = error_response(call, error)
            call.end(is_answered=True)
            reply(message, error)
            if is_fatal(error):
                raise
        else:
            if forks.generation != self._generation:
                forks.end_child(None)
            call.end(is_answered=True)
            reply(message, None)
        finally:
            current.reset(token)
        return OVER

    async def go_on(
        self,
        key: Hashable,
        call: Call,
        outcome: Coroutine[Any, Any, Outcome],
        awaited: Any,
        reply: Reply,
    ) -> None:
        """Run the rest of a request after `begin`, in the same task.

        The task is busy until the handler has ended, even if the request is cancelled before.

        Args:
            key: Key of the request, for `cancel`.
            call: The request.
            outcome: Awaitable of its result.
            awaited: The object that it waits for.
            reply: Called with the response.
        """
        entry = _Entry(key, call, reply)
        entry.task = task = asyncio.current_task()
        self._running[key] = entry
        call.runtime.running.take(entry.caller)
        token = current.set(call)
        try:
            await self._run(entry, go_on(outcome, awaited, cancellations(task)), is_task_lent=True)
        finally:
            current.reset(token)
        if entry.is_cancelled and task is not None and uncancel(task) > 0:
            raise asyncio.CancelledError  # whoever owns the task has cancelled it, too

    def cancel(self, key: Hashable) -> bool:
        """Cancel a request. The client gets no response, and its key is free at once, even if the handler stops later.

        Returns:
            Whether it was running.
        """
        entry = self._running.get(key)
        if entry is not None:
            self._cancel(entry)
        return entry is not None

    async def drain(self) -> None:
        """Wait until all requests have been answered, also those that start meanwhile."""
        while self._running:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def cancel_all(self, problem: ProtocolError | None = None) -> list[_Entry]:
        """Cancel every request, and return them.

        Args:
            problem: Error for the clients; None for no response.
        """
        calls = list(self._running.values())
        for entry in calls:
            self._cancel(entry, problem)
        return calls

    def cancel_of(self, is_meant: Callable[[Principal], bool], problem: ProtocolError) -> None:
        """Cancel the requests of some principals, with an error response.

        Args:
            is_meant: Returns whether a principal's requests are cancelled.
            problem: Error for the clients.
        """
        for entry in tuple(self._running.values()):
            if is_meant(entry.call.channel.principal):
                self._cancel(entry, problem)

    async def aclose(self, problem: ProtocolError | None = None) -> None:
        """Cancel all requests, and wait until all cancelled ones have stopped; see `cancel_all`."""
        self.cancel_all(problem)
        await self._stopped(self._stopping)

    async def ended(self) -> None:
        """Wait until all requests that run now have stopped, without those that start meanwhile."""
        await self._stopped((*self._running.values(), *self._stopping))

    async def _stopped(self, entries: Iterable[_Entry]) -> None:
        waiting: list[asyncio.Future[None]] = []
        for entry in entries:
            if entry.stopped is None:
                entry.stopped = self._loop.create_future()
            waiting.append(entry.stopped)
        if waiting:
            await asyncio.wait(waiting)

    def __len__(self) -> int:
        """Count the requests that run."""
        return len(self._running)

    def check_room(self, call: Call, outcome: Coroutine[Any, Any, Outcome]) -> None:
        """Reject a request if too many are running, in total or of one client.

        Args:
            call: The request.
            outcome: Coroutine of its result, which is closed if it is rejected.

        Raises:
            BusyError: Too many are running.
        """
        running, limit = call.runtime.running, call.runtime.limits.concurrent_requests
        if 4 * running.taken < limit:  # nobody has as many as are left for others
            return
        try:
            running.check(limit, call.channel.caller, "requests are running")
        except BusyError:
            outcome.close()
            raise

    async def _run(self, entry: _Entry, outcome: Awaitable[Outcome], *, is_task_lent: bool = False) -> None:
        call = entry.call
        entry.unstarted = None
        current.set(call)
        message: bytes | None = None
        problem: BaseException | None = None
        try:
            message = jsonrpc.result(call.request_id, await outcome)
        except BaseException as error:
            # Whoever lends the task may cancel it; a task of the call's own is cancelled here, or by its handler.
            is_outside = is_task_lent and not entry.is_cancelled and is_cancelled_from_outside(error)
            if not (entry.is_cancelled or is_outside):
                message, problem = error_response(call, error), error
            if is_outside or is_fatal(error):
                raise
        finally:
            if entry.caller is None:
                call.runtime.running.taken -= 1
            else:
                call.runtime.running.give_back(entry.caller)
            if entry.is_cancelled:
                self._stopping.discard(entry)
            else:
                self._settle(entry, message, problem)
            if entry.stopped is not None:
                entry.stopped.set_result(None)
            del problem

    def _cancel(self, entry: _Entry, problem: ProtocolError | None = None) -> None:
        entry.is_cancelled = True
        if entry.task is not None:
            entry.task.cancel()
        if entry.unstarted is None:
            self._stopping.add(entry)
        else:  # its task ends without ever running
            entry.unstarted.close()
            entry.call.runtime.running.give_back(entry.caller)
            if entry.stopped is not None:
                entry.stopped.set_result(None)
        self._settle(entry, None if problem is None else error_response(entry.call, problem), problem)

    def _settle(self, entry: _Entry, message: bytes | None, problem: BaseException | None) -> None:
        if forks.generation != self._generation:
            forks.end_child(problem)
        del self._running[entry.key]
        entry.call.end(is_answered=message is not None)
        entry.reply(message, problem)
        if not self._running and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None


def server_ended() -> BusyError:
    """Return the error for a call that is cut off by the end of the server."""
    return BusyError("The server stopped before the call finished")


class _Entry:
    """A request that runs."""

    __slots__ = ("call", "caller", "is_cancelled", "key", "reply", "stopped", "task", "unstarted")

    def __init__(self, key: Hashable, call: Call, reply: Reply) -> None:
        self.key = key
        self.call = call
        self.caller = call.channel.caller
        self.reply = reply
        self.task: asyncio.Task[Any] | None = None
        self.unstarted: Coroutine[Any, Any, Outcome] | None = None
        self.stopped: asyncio.Future[None] | None = None
        self.is_cancelled = False
