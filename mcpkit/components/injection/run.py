"""One call of a function whose hidden parameters are filled: what is opened for it is closed after it."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Hashable
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

from ...calls.call import Call
from ...calls.coroutines import first_step, see_through
from ...calls.iterables import collected, is_async_iterable
from ...calls.making import Make, finish_call, make_result
from ...calls.workers.forks import end_child
from ...calls.workers.threads import finish_awaitable, log_late, of_a_function
from ...common.errors import BusyError

Fills = tuple[tuple[str, int], ...]
"""Parameters by name, and the numbers of their values."""


class Step(NamedTuple):
    """What makes one of the values.

    Args:
        number: The number of the value.
        function: Takes hidden parameters; a reader takes the request, and a generator function has become what
            makes a context manager.
        fills: The hidden parameters by name, and the numbers of their values.
        is_reader: Whether it reads the request.
        is_generator: Whether it yields.
        is_question: Whether it asks the user.
        name: What to call the function, where it yields.
    """

    number: int
    function: Callable[..., Any]
    fills: Fills = ()
    is_reader: bool = False
    is_generator: bool = False
    is_question: bool = False
    name: str = ""


class Part(NamedTuple):
    """Steps that follow each other in one place.

    Args:
        steps: The steps.
        is_in_loop: Whether they belong into the event loop, or into a thread; None for readers, at home everywhere.
    """

    steps: list[Step]
    is_in_loop: bool | None


class Plan(NamedTuple):
    """How the hidden parameters of a handler are filled.

    Args:
        parts: The steps, each after those that it depends on.
        size: How many values there are.
        fills: The handler's hidden parameters by name, and the numbers of their values.
        replaced: The overridden functions that it does without.
        takes_context: Whether something asks for the Context.
        has_closings: Whether there is something to close after the handler.
        headers: The names of the headers of the request that are read.
    """

    parts: list[Part]
    size: int
    fills: Fills
    replaced: set[Hashable]
    takes_context: bool
    has_closings: bool
    headers: frozenset[str]


_left_behind: set[asyncio.Task[None]] = set()
"""Tasks of cancelled calls with a running thread. The event loop only keeps weak references to them."""


async def call_filled(plan: Plan, function: partial[Any], call: Call, make: Make, *, is_in_loop: bool) -> Any:
    """Fill the hidden parameters, call the function, and close what has been opened, the latest first.

    Args:
        plan: How they are filled.
        function: The function, but for its hidden parameters.
        call: The request.
        make: Makes the result of what it returns, before anything is closed.
        is_in_loop: Whether the function belongs into the event loop, or into a worker thread.

    Returns:
        The result.

    Raises:
        BaseException: Whatever it, or something that it depends on, raises.
    """
    parts = plan.parts
    # What a thread begins with or ends with needs no hop of its own: it goes along with the function.
    tail = None if is_in_loop or not parts or parts[-1].is_in_loop else parts[-1]
    work = _FilledCall(plan, tail, function, call, make, is_in_loop)
    if is_in_loop and not plan.has_closings and all(part.is_in_loop is not False for part in parts):
        await work.run()
    elif not is_in_loop and not work.parts:
        return await work.run_in_one_thread()
    else:
        await work.run_in_own_task()
    return work.result()


class _FilledCall:
    """One call.

    Args:
        plan: How the hidden parameters are filled.
        tail: The last of its parts, where it is to run in the function's thread.
        function: The function, but for its hidden parameters.
        call: The request.
        make: Makes the result.
        is_in_loop: Whether the function belongs into the event loop.
    """

    def __init__(
        self,
        plan: Plan,
        tail: Part | None,
        function: partial[Any],
        call: Call,
        make: Make,
        is_in_loop: bool,
    ) -> None:
        self.parts = plan.parts if tail is None else plan.parts[:-1]
        self._fills = plan.fills
        self._tail = tail
        self._function = function
        self._call = call
        self._make = make
        self._is_in_loop = is_in_loop
        self._values: list[Any] = [None] * plan.size
        self._value: Any = None
        self._error: BaseException | None = None
        self._logged: BaseException | None = None
        self._left: asyncio.Future[None] | None = None
        self._is_closing = False

    def result(self) -> Any:
        """Return or raise what has come of it."""
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = None  # its traceback has this frame

    async def run_in_own_task(self) -> None:
        """Do what `run` does in a task of its own.

        A cancelled call is over for its caller, but a thread cannot be stopped. The task waits for it, so that
        what the thread uses stays open. Where the function has returned, only the closing is left, which is not
        cut off: then this waits until it has ended.
        """
        loop = asyncio.get_running_loop()
        self._left = loop.create_future()
        task = loop.create_task(self.run())
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            if self._is_closing:
                task.add_done_callback(self._forget)
                await see_through(task)
                raise
            task.cancel()
            try:
                await asyncio.wait((task, self._left), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._call.left = task
                _left_behind.add(task)
                task.add_done_callback(self._forget)
            raise

    async def run_in_one_thread(self) -> Any:
        """Do all in one thread. A cancelled call is over for its caller; what is closed by then is waited for."""
        call = self._call
        try:
            return await call.runtime.threads.run(self.run_in_thread, {}, call)
        except asyncio.CancelledError:
            if self._is_closing and call.left is not None:
                await see_through(call.left)
            raise

    def _leave(self) -> None:
        """Let the caller go."""
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    def _is_left(self) -> bool:
        return self._left is not None and self._left.done()

    def _forget(self, task: asyncio.Task[None]) -> None:
        _left_behind.discard(task)
        error, self._error = self._error, None
        if error is not None and error is not self._logged and not isinstance(error, asyncio.CancelledError):
            log_late("a dependency", error)

    async def run(self) -> None:
        """Fill, call and close, and keep what has come of it."""
        opened: list[_Opened] = []
        try:
            for part in self.parts:
                here = _Opened(part, self._call, is_in_thread=part.is_in_loop is False)
                opened.append(here)
                if here.is_in_thread:
                    await self._in_thread(partial(here.in_context, here.open_here, self._values))
                    if self._is_left():
                        raise asyncio.CancelledError
                else:
                    await here.open(self._values)
            if self._is_in_loop:
                returned = self._function(**_named(self._fills, self._values))
                self._value = await finish_call(returned, self._make, self._call, self._in_thread)
            else:
                self._value = await self._in_thread(self.run_in_thread)
        except BaseException as error:  # noqa: BLE001 - kept
            self._error = error
        self._is_closing = True
        if self._call.stops is not None:
            self._call.take_stops_back()
        for here in reversed(opened):
            if here.is_in_thread:
                await self._close_in_thread(here)
            else:
                self._error = await here.close(self._error)

    def run_in_thread(self) -> Any:
        """Do what is left to do before the function, call it, and close that again, in this thread."""
        here = _Opened(self._tail, self._call, is_in_thread=True) if self._tail is not None else None
        value: Any = None
        error: BaseException | None = None
        process = os.getpid()
        try:
            if here is not None:
                here.open_here(self._values)
            value = _settled(self._function(**_named(self._fills, self._values)), self._call)
            value = make_result(value, self._make, self._call)
        except BaseException as problem:  # noqa: BLE001 - raised below
            error = problem
        if os.getpid() != process:  # what has been opened is the parent's
            end_child(error)
        if self._call.stops is not None:
            self._call.take_stops_back()
        self._is_closing = True
        try:
            if here is not None:
                error = here.close_here(error)
            if error is not None:
                raise error
            return value
        finally:
            del error  # its traceback has this frame

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        """Call a function in a thread. When the call is cancelled, wait for the thread all the same, if it has begun.

        Raises:
            CancelledError: It has not begun, or waiting was cancelled, too: the event loop is about to end.
            BaseException: Whatever the function raises.
        """
        outcome: list[Any] = []
        call = self._call
        left_before = call.left
        try:
            return await call.runtime.threads.run(_kept, {"function": function, "outcome": outcome}, call)
        except asyncio.CancelledError:
            left = call.left if call.left is not left_before else None
            if left is None and not outcome:
                raise
            self._leave()
            if left is not None:
                await left
        value, self._logged = outcome
        if self._logged is not None:
            raise self._logged
        return value

    async def _close_in_thread(self, here: _Opened) -> None:
        while here.managers:
            try:
                error = await self._in_thread(partial(here.in_context, here.close_here, self._error))
                self._error = None if error is None else of_a_function(error)
            except asyncio.CancelledError as error:
                self._error = error
            except BusyError:  # rather block the loop than leave it open
                self._error = here.in_context(here.close_here, self._error)


class _Opened:
    """The steps of one part that have been made, as far as they have to be closed.

    Args:
        part: The part.
        call: The request.
        is_in_thread: Whether they belong into a thread, where nothing is awaited.
    """

    def __init__(self, part: Part, call: Call, *, is_in_thread: bool) -> None:
        self.is_in_thread = is_in_thread
        self._part = part
        self.managers: list[tuple[Any, Step]] = []
        self._call = call
        self._context = copy_context()

    def _made(self, step: Step, values: list[Any]) -> Any:
        return step.function(self._call) if step.is_reader else step.function(**_named(step.fills, values))

    async def open(self, values: list[Any]) -> None:
        """Make the steps."""
        for step in self._part.steps:
            made = self._made(step, values)
            if step.is_generator:
                try:
                    values[step.number] = made.__enter__() if self.is_in_thread else await made.__aenter__()
                except RuntimeError as error:
                    _name(error, step, "has not yielded")
                    raise
                self.managers.append((made, step))
            elif self.is_in_thread:
                values[step.number] = _settled(made, self._call)
            else:
                values[step.number] = await finish_awaitable(made)

    async def close(self, error: BaseException | None) -> BaseException | None:
        """Close them, with the exception that there is, and return the one that there is then."""
        while self.managers:
            manager, step = self.managers.pop()
            try:
                if self.is_in_thread:
                    manager.__exit__(*_raised(error))
                else:
                    await manager.__aexit__(*_raised(error))
            except BaseException as problem:  # noqa: BLE001 - goes on
                _name(problem, step, "has yielded more than once")
                error = problem
        return error

    def open_here(self, values: list[Any]) -> None:
        """Make the steps of a thread, in this one."""
        first_step(self.open(values))

    def close_here(self, error: BaseException | None) -> BaseException | None:
        """Do what `close` does, in this thread."""
        problem: BaseException | None = first_step(self.close(error))[1]
        return problem

    def in_context(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function with context variables that last until the steps are closed."""
        return self._context.run(function, argument)


def _named(fills: Fills, values: list[Any]) -> dict[str, Any]:
    return {name: values[number] for name, number in fills}


def _raised(error: BaseException | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def _name(error: BaseException, step: Step, fault: str) -> None:
    """Say in the error that contextlib raises, and no generator of its, which one has not yielded once."""
    raised_in = error.__traceback__.tb_next if error.__traceback__ is not None else None
    is_inner = raised_in is None or raised_in.tb_next is not None
    if isinstance(error, RuntimeError) and not is_inner and str(error).startswith("generator didn't"):
        error.args = (f"{step.name} {fault}. A dependency must yield exactly once",)


def _settled(value: Any, call: Call) -> Any:
    """Return what a function in a thread has returned; where that is to be awaited, the event loop does."""
    if inspect.isawaitable(value):
        value = _in_loop(finish_awaitable(value), call)
    return _in_loop(collected(value), call) if is_async_iterable(value) else value


def _in_loop(coroutine: Coroutine[Any, Any, Any], call: Call) -> Any:
    from ...calls.workers.in_loop import in_loop  # most threads ask nothing of their event loop

    return in_loop(coroutine, call)


def _kept(function: Callable[[], Any], outcome: list[Any]) -> Any:
    """Call a function, and keep what has come of it for whoever is left when nobody waits for the thread."""
    try:
        value = function()
    except BaseException as error:
        outcome[:] = None, error
        raise
    outcome[:] = value, None
    return value
