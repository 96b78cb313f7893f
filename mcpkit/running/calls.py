"""The requests that run: each in a task of its own, which whoever asked can end at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ..context import Context
from ..errors import BusyError, ProtocolError
from ..failures import error_response
from ..protocol import jsonrpc
from . import forks
from .current import current
from .execution import is_fatal
from .steps import cancellations, first_step, go_on, is_cancelled_from_outside, uncancel

if TYPE_CHECKING:
    from ..protocol.jsonrpc import Outcome
    from ..server import Server

Reply = Callable[[bytes | None, BaseException | None], None]
"""Takes the response to one message, or None when there will be none; and what went wrong, if something did."""

OVER: Final = object()
"""In place of what a request waits for: it has been answered."""

_start: Callable[..., asyncio.Task[None]] = cast("Any", asyncio.Task)
if sys.version_info >= (3, 12):
    # A handler that never waits is answered in the same turn of the loop.
    _start = partial(asyncio.Task, eager_start=True)


class Calls:
    """The running requests of one client, or of all that share nothing, by whatever tells them apart.

    Args:
        server: Who answers.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._running: dict[Hashable, _Call] = {}
        self._idle: asyncio.Future[None] | None = None
        self._generation = forks.generation

    def start(
        self, key: Hashable, ctx: Context[Any], outcome: Coroutine[Any, Any, Outcome], reply: Reply
    ) -> None:
        """Run a request.

        Args:
            key: What it is cancelled by.
            ctx: The request.
            outcome: Its result, to be awaited.
            reply: Takes the response, as soon as there is one; perhaps before this returns.

        Raises:
            BusyError: Too many requests are running.
        """
        self.check_room(ctx, outcome)
        call = _Call(key, ctx, reply)
        call.unstarted = outcome
        self._running[key] = call
        if call.caller is None:  # as `take` does: most calls are those of the only client
            self._server._running.taken += 1
        else:
            self._server._running.take(call.caller)
        ctx._loop = self._loop
        call.task = _start(self._run(call, outcome), loop=self._loop, name=ctx.method)
        if call.is_cancelled:  # by what its first step led to: a client in the same process hears at once
            call.task.cancel()

    def begin(self, ctx: Context[Any], outcome: Coroutine[Any, Any, Outcome], reply: Reply) -> Any:
        """Run a request, for which there is room, in the current task until its handler waits; most never do.

        Args:
            ctx: The request.
            outcome: Its result, to be awaited.
            reply: Takes the response, as soon as there is one.

        Returns:
            What it waits for, which `go_on` wants; `OVER` where it has been answered.
        """
        ctx._loop = self._loop
        token = current.set(ctx)
        try:
            is_over, value = first_step(outcome)
            if not is_over:
                return value
            message = jsonrpc.result(ctx.request_id, value)
        except BaseException as error:
            if forks.generation != self._generation:
                forks.end_child(error)
            _end(ctx, reply, error_response(ctx, error), error)
            if is_fatal(error):
                raise
        else:
            if forks.generation != self._generation:
                forks.end_child(None)
            _end(ctx, reply, message, None)
        finally:
            current.reset(token)
        return OVER

    async def go_on(
        self,
        key: Hashable,
        ctx: Context[Any],
        outcome: Coroutine[Any, Any, Outcome],
        awaited: Any,
        reply: Reply,
    ) -> None:
        """Run the rest of a request that `begin` has left waiting, in the same task.

        The task is kept from other work until the handler has ended, however early it is cancelled.

        Args:
            key: What it is cancelled by.
            ctx: The request.
            outcome: Its result.
            awaited: What it waits for.
            reply: Takes the response, as soon as there is one.
        """
        call = _Call(key, ctx, reply)
        call.task = task = asyncio.current_task()
        self._running[key] = call
        if call.caller is None:  # as `take` does: most calls are those of the only client
            self._server._running.taken += 1
        else:
            self._server._running.take(call.caller)
        token = current.set(ctx)
        try:
            await self._run(call, go_on(outcome, awaited, cancellations(task)), is_task_lent=True)
        finally:
            current.reset(token)
        if call.is_cancelled and task is not None and uncancel(task) > 0:
            raise asyncio.CancelledError  # whoever owns the task has cancelled it, too

    def cancel(self, key: Hashable) -> bool:
        """Stop a request; whoever asked is free at once and gets no answer, however long it takes to stop.

        Returns:
            Whether it was running.
        """
        call = self._running.get(key)
        if call is not None:
            self._cancel(call)
        return call is not None

    async def drain(self) -> None:
        """Return once everything that runs now, or begins meanwhile, has been answered."""
        while self._running:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def cancel_all(self, problem: ProtocolError | None = None) -> list[_Call]:
        """Stop every request, and return them.

        Args:
            problem: What whoever asked is told; None for no response.
        """
        calls = list(self._running.values())
        for call in calls:
            self._cancel(call, problem)
        return calls

    async def aclose(self, problem: ProtocolError | None = None) -> None:
        """Cancel everything, and wait until it has stopped; see `cancel_all`."""
        calls = [call for call in self.cancel_all(problem) if call.unstarted is None]
        for call in calls:
            call.stopped = self._loop.create_future()
        await asyncio.gather(*(call.stopped for call in calls if call.stopped is not None))

    def __contains__(self, key: Hashable) -> bool:
        """Say whether a request runs under this key."""
        return key in self._running

    def __len__(self) -> int:
        """Count the requests that run."""
        return len(self._running)

    def check_room(self, ctx: Context[Any], outcome: Coroutine[Any, Any, Outcome]) -> None:
        """Refuse a request where too many are running, of all clients or of one.

        Args:
            ctx: The request.
            outcome: Its result, which is not awaited then.

        Raises:
            BusyError: There are.
        """
        running, limit = self._server._running, self._server.max_running
        if 2 * running.taken < limit:  # nobody has as many as are left
            return
        try:
            running.check(limit, ctx._channel.caller, "requests are running")
        except BusyError:
            outcome.close()
            raise

    async def _run(self, call: _Call, outcome: Awaitable[Outcome], *, is_task_lent: bool = False) -> None:
        ctx = call.ctx
        call.unstarted = None
        current.set(ctx)
        message: bytes | None = None
        problem: BaseException | None = None
        try:
            message = jsonrpc.result(ctx.request_id, await outcome)
        except BaseException as error:
            # Whoever lends the task may cancel it; a task of the call's own is cancelled here, or by its handler.
            is_outside = is_task_lent and not call.is_cancelled and is_cancelled_from_outside(error)
            if not (call.is_cancelled or is_outside):
                message, problem = error_response(ctx, error), error
            if is_outside or is_fatal(error):
                raise
        finally:
            if call.caller is None:
                self._server._running.taken -= 1
            else:
                self._server._running.give_back(call.caller)
            if not call.is_cancelled:
                self._settle(call, message, problem)
            if call.stopped is not None:
                call.stopped.set_result(None)
            del problem

    def _cancel(self, call: _Call, problem: ProtocolError | None = None) -> None:
        call.is_cancelled = True
        if call.task is not None:
            call.task.cancel()
        if call.unstarted is not None:  # its task ends without ever running
            call.unstarted.close()
            self._server._running.give_back(call.caller)
        self._settle(call, None if problem is None else error_response(call.ctx, problem), problem)

    def _settle(self, call: _Call, message: bytes | None, problem: BaseException | None) -> None:
        if forks.generation != self._generation:
            forks.end_child(problem)
        del self._running[call.key]
        _end(call.ctx, call.reply, message, problem)
        if not self._running and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None


def _end(ctx: Context[Any], reply: Reply, message: bytes | None, problem: BaseException | None) -> None:
    """End a request: what its handler has said is sent before its response, and nothing after that."""
    ctx.is_ended = True
    ctx._exception = None  # whose traceback refers to the request
    if ctx._reports is not None:
        ctx._reports.end(is_answered=message is not None)
    reply(message, problem)


def server_ended() -> BusyError:
    """Return the error for a call that the end of the server cuts off."""
    return BusyError("The server has ended before the call was finished")


class _Call:
    """A request that runs."""

    __slots__ = ("caller", "ctx", "is_cancelled", "key", "reply", "stopped", "task", "unstarted")

    def __init__(self, key: Hashable, ctx: Context[Any], reply: Reply) -> None:
        self.key = key
        self.ctx = ctx
        self.caller = ctx._channel.caller
        self.reply = reply
        self.task: asyncio.Task[Any] | None = None
        self.unstarted: Coroutine[Any, Any, Outcome] | None = None
        self.stopped: asyncio.Future[None] | None = None
        self.is_cancelled = False
