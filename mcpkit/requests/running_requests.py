"""Running requests: each in a task of its own, which the client can cancel at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, KeysView
from functools import partial
from typing import Any, cast

from .._utils.concurrency import current
from .._utils.exceptions import BusyError, ProtocolError
from ..execution.coroutines import cancellations, is_cancelled_from_outside, resume, uncancel
from ..execution.worker_threads import end_child, forks, is_fatal
from ..identity.principals_and_scopes import Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Outcome
from .access_and_error_responses import error_response
from .request_record import Call

# Takes the response to one message, or None without a response; and the exception behind it, if there is one.
Reply = Callable[[bytes | None, BaseException | None], None]

# In place of the object that a request waits for: it has been answered.
OVER = object()

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
        self._running: dict[Hashable, Call] = {}
        self._stopping: set[Call] = set()  # they were cancelled, and have not stopped yet
        self.keys: KeysView[Hashable] = self._running.keys()
        self._idle: asyncio.Future[None] | None = None
        self._generation = forks.generation

    def __len__(self) -> int:
        """Count the requests that run."""
        return len(self._running)

    # Running

    def check_room(self, call: Call, outcome: Coroutine[Any, Any, Outcome]) -> None:
        """Reject a request if too many are running, in total or of one client.

        Args:
            call: The request.
            outcome: Coroutine of its result, which is closed if it is rejected.

        Raises:
            BusyError: Too many are running.
        """
        running, limit = call.runtime.running, call.runtime.limits.concurrent_requests
        if 4 * running.taken < limit:  # no client has as many as are free for others
            return
        try:
            running.check(limit, call.channel.caller, "requests are running")
        except BusyError:
            outcome.close()
            raise

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
        if 4 * running.taken >= call.runtime.limits.concurrent_requests:  # checked here, as it is rare
            self.check_room(call, outcome)
        call.key, call.reply, call.loop, call.unstarted = key, reply, self._loop, outcome
        self._running[key] = call
        call.caller = call.channel.caller
        if call.caller is None:  # as `take` does: most calls are those of the only client
            running.taken += 1
        else:
            running.take(call.caller)
        task = _start(self._run(call, outcome), loop=self._loop, name=call.method)
        if call.is_cancelled:  # during its first step, by a client in the same process
            task.cancel()
        if not task.done():
            call.task = task

    def begin(self, call: Call, outcome: Coroutine[Any, Any, Outcome], reply: Reply) -> Any:
        """Run a request in the current task until its handler waits. The caller must have checked for room.

        Args:
            call: The request.
            outcome: Awaitable of its result.
            reply: Called with the response.

        Returns:
            The object that it waits for, for `resume`; `OVER` if it has been answered.
        """
        call.loop = self._loop
        token = current.set(call)
        try:
            try:
                return outcome.send(None)
            except StopIteration as end:
                value = end.value
            message = jsonrpc.result(call.request_id, value)
        except BaseException as error:
            if forks.generation != self._generation:
                end_child(error)
            message = error_response(call, error)
            call.end(is_answered=True)
            reply(message, error)
            if is_fatal(error):
                raise
        else:
            if forks.generation != self._generation:
                end_child(None)
            call.end(is_answered=True)
            reply(message, None)
        finally:
            current.reset(token)
        return OVER

    async def resume(
        self, key: Hashable, call: Call, outcome: Coroutine[Any, Any, Outcome], awaited: Any, reply: Reply
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
        call.key, call.reply = key, reply
        self._running[key] = call
        call.caller = call.channel.caller
        call.runtime.running.take(call.caller)
        call.task = task = asyncio.current_task()
        token = current.set(call)
        try:
            await self._run(call, resume(outcome, awaited, cancellations(task)), is_task_lent=True)
        finally:
            current.reset(token)
        if call.is_cancelled and task is not None and uncancel(task) > 0:
            raise asyncio.CancelledError  # the owner of the task has cancelled it, too

    async def _run(self, call: Call, outcome: Awaitable[Outcome], *, is_task_lent: bool = False) -> None:
        call.unstarted = None
        current.set(call)
        message: bytes | None = None
        problem: BaseException | None = None
        try:
            message = jsonrpc.result(call.request_id, await outcome)
        except BaseException as error:
            # The owner of a lent task may cancel it; a task of the call's own is cancelled here, or by its handler.
            is_outside = is_task_lent and not call.is_cancelled and is_cancelled_from_outside(error)
            if not (call.is_cancelled or is_outside):
                message, problem = error_response(call, error), error
            if is_outside or is_fatal(error):
                raise
        finally:
            if call.caller is None:
                call.runtime.running.taken -= 1
            else:
                call.runtime.running.release(call.caller)
            if call.is_cancelled:
                self._stopping.discard(call)
            else:
                self._settle(call, message, problem)
            if call.stopped is not None:
                call.stopped.set_result(None)
            call.task = None  # its context refers to the call
            del problem

    def _settle(self, call: Call, message: bytes | None, problem: BaseException | None) -> None:
        """Send the response, and forget the request."""
        if forks.generation != self._generation:
            end_child(problem)
        del self._running[call.key]
        call.end(is_answered=message is not None)
        call.reply(message, problem)
        if not self._running and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    # Cancelling

    def cancel(self, key: Hashable) -> bool:
        """Cancel a request. The client gets no response, and its key is free at once, even if the handler stops later.

        Returns:
            Whether it was running.
        """
        call = self._running.get(key)
        if call is not None:
            self._cancel(call)
        return call is not None

    def cancel_all(self, problem: ProtocolError | None = None) -> None:
        """Cancel every request.

        Args:
            problem: Error for the clients; None for no response.
        """
        for call in tuple(self._running.values()):
            self._cancel(call, problem)

    def cancel_of(self, matches: Callable[[Principal], bool], problem: ProtocolError) -> None:
        """Cancel the requests of some principals, with an error response.

        Args:
            matches: Returns whether a principal's requests are cancelled.
            problem: Error for the clients.
        """
        for call in tuple(self._running.values()):
            if matches(call.channel.principal):
                self._cancel(call, problem)

    def _cancel(self, call: Call, problem: ProtocolError | None = None) -> None:
        call.is_cancelled = True
        if call.task is not None:
            call.task.cancel()
        if call.unstarted is None:
            self._stopping.add(call)
        else:  # its task ends without ever running
            call.unstarted.close()
            call.task = None
            call.runtime.running.release(call.caller)
            if call.stopped is not None:
                call.stopped.set_result(None)
        self._settle(call, None if problem is None else error_response(call, problem), problem)

    # Waiting

    async def drain(self) -> None:
        """Wait until all requests have been answered, also those that start meanwhile."""
        while self._running:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    async def aclose(self, problem: ProtocolError | None = None) -> None:
        """Cancel all requests, and wait until all cancelled ones have stopped; see `cancel_all`."""
        self.cancel_all(problem)
        await self._stopped(self._stopping)

    async def ended(self) -> None:
        """Wait until all requests that run now have stopped, without those that start meanwhile."""
        await self._stopped((*self._running.values(), *self._stopping))

    async def _stopped(self, calls: Iterable[Call]) -> None:
        waiting: list[asyncio.Future[None]] = []
        for call in calls:
            if call.stopped is None:
                call.stopped = self._loop.create_future()
            waiting.append(call.stopped)
        if waiting:
            await asyncio.wait(waiting)


def server_ended() -> BusyError:
    """Return the error for a call that is cut off by the end of the server."""
    return BusyError("The server stopped before the call finished")
