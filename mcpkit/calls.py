"""The requests that run: each in a task of its own, which whoever asked can end at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from .context import Context, _current
from .errors import BusyError
from .execution import FATAL
from .failures import error_response
from .protocol import jsonrpc

if TYPE_CHECKING:
    from .methods import Outcome
    from .server import Server

Reply = Callable[[bytes | None, BaseException | None], None]
"""Takes the response to one message, or None when there will be none; and what went wrong, if something did."""

_start: Callable[..., asyncio.Task[None]] = asyncio.Task[None]
if sys.version_info >= (3, 12):
    # A handler that never waits is answered in the same turn of the loop.
    _start = partial(asyncio.Task[None], eager_start=True)


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
        server = self._server
        if server._running_count >= server.max_running:
            outcome.close()
            raise BusyError(f"Too many requests are running ({server.max_running}); try again later")
        call = _Call(key, ctx, outcome, reply)
        self._running[key] = call
        server._running_count += 1
        call.task = _start(self._run(call), loop=self._loop)
        if call.is_cancelled:  # by what its first step led to: a client in the same process hears at once
            call.task.cancel()

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

    def cancel_all(self) -> list[_Call]:
        """Stop every request, and return them."""
        calls = list(self._running.values())
        for call in calls:
            self._cancel(call)
        return calls

    async def aclose(self) -> None:
        """Cancel everything, and wait until it has stopped."""
        calls = self.cancel_all()
        await asyncio.gather(*(call.task for call in calls if call.task is not None), return_exceptions=True)

    def __contains__(self, key: Hashable) -> bool:
        """Say whether a request runs under this key."""
        return key in self._running

    def __len__(self) -> int:
        """Count the requests that run."""
        return len(self._running)

    async def _run(self, call: _Call) -> None:
        ctx = call.ctx
        call.is_started = True
        _current.set(ctx)
        message: bytes | None = None
        problem: BaseException | None = None
        try:
            message = jsonrpc.result(ctx.request_id, await call.outcome)
        except BaseException as error:
            if not call.is_cancelled:
                message, problem = error_response(ctx, error), error
            if isinstance(error, FATAL):
                raise
        finally:
            self._server._running_count -= 1
            if not call.is_cancelled:
                self._settle(call, message, problem)
            del problem

    def _cancel(self, call: _Call) -> None:
        call.is_cancelled = True
        if call.task is not None:
            call.task.cancel()
        if not call.is_started:  # its task ends without ever running
            call.outcome.close()
            self._server._running_count -= 1
        self._settle(call, None, None)

    def _settle(self, call: _Call, message: bytes | None, problem: BaseException | None) -> None:
        call.ctx.is_ended = True
        del self._running[call.key]
        call.reply(message, problem)
        if not self._running and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None


class _Call:
    """A request that runs."""

    __slots__ = ("ctx", "is_cancelled", "is_started", "key", "outcome", "reply", "task")

    def __init__(
        self, key: Hashable, ctx: Context[Any], outcome: Coroutine[Any, Any, Outcome], reply: Reply
    ) -> None:
        self.key = key
        self.ctx = ctx
        self.outcome = outcome
        self.reply = reply
        self.task: asyncio.Task[None] | None = None
        self.is_started = False
        self.is_cancelled = False
