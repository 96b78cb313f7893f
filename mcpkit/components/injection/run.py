"""Runs a call with dependencies: fills the hidden parameters, and closes the dependencies afterwards."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Hashable
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

from ..._utils.errors import BusyError
from ...execution.coroutines import (
    collected,
    finish_awaitable,
    is_async_iterable,
    run_to_first_wait,
    see_through,
)
from ...execution.threads import end_child, log_late, loop_safe_error
from ...requests.call import Call
from ...requests.handlers import Make, finish_call, make_result

Fills = tuple[tuple[str, int], ...]
"""Parameters by name, and the numbers of their values."""


class Step(NamedTuple):
    """The computation of one value.

    Args:
        number: Index of the value.
        function: Takes hidden parameters. A reader takes the request; a generator function is already a context
            manager factory.
        fills: Hidden parameters by name, with the indexes of their values.
        is_reader: Whether it reads the request.
        is_generator: Whether it yields.
        is_question: Whether it requests input from the user.
        name: Name of the function, if it yields.
    """

    number: int
    function: Callable[..., Any]
    fills: Fills = ()
    is_reader: bool = False
    is_generator: bool = False
    is_question: bool = False
    name: str = ""


class Part(NamedTuple):
    """Consecutive steps that run in the same place.

    Args:
        steps: The steps.
        is_in_loop: Whether they run in the event loop, or in a thread; None for readers, which run in either.
    """

    steps: list[Step]
    is_in_loop: bool | None


class Plan(NamedTuple):
    """The steps that fill the hidden parameters of a handler.

    Args:
        parts: The steps, each after its dependencies.
        size: Number of values.
        fills: Hidden parameters of the handler by name, with the indexes of their values.
        replaced: Overridden functions that are not called.
        takes_context: Whether a step takes the Context.
        has_closings: Whether a dependency must be closed after the handler.
        headers: Names of the request headers that are read.
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
    """Fill the hidden parameters, call the function, and close the dependencies in reverse order.

    Args:
        plan: The steps.
        function: The function, without its hidden parameters.
        call: The request.
        make: Converts the returned value to the result, before dependencies are closed.
        is_in_loop: Whether the function runs in the event loop, else in a worker thread.

    Returns:
        What `make` returned.

    Raises:
        BaseException: Raised by the function or a dependency.
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
    """One call of a function with dependencies.

    Args:
        plan: The steps.
        tail: Last part of the plan, if it runs in the function's thread.
        function: The function, without its hidden parameters.
        call: The request.
        make: Converts the returned value to the result.
        is_in_loop: Whether the function runs in the event loop.
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
        """Return the result, or raise the exception of the call."""
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = None  # its traceback has this frame

    async def run_in_own_task(self) -> None:
        """Call `run` in a task of its own.

        When the call is cancelled, the task waits for the thread, which cannot be stopped, so that its dependencies
        stay open. When the function has returned, closing is not cancelled, and this waits for its end.
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
        """Do everything in one thread. A cancelled call returns early, but waits for dependencies that are closing."""
        call = self._call
        try:
            return await call.runtime.threads.run(self.run_in_thread, {}, call)
        except asyncio.CancelledError:
            if self._is_closing and call.left is not None:
                await see_through(call.left)
            raise

    def _leave(self) -> None:
        """Let the cancelled call return."""
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
        """Fill, call and close, and store the result or exception."""
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
            self._call.close_stops()
        for here in reversed(opened):
            if here.is_in_thread:
                await self._close_in_thread(here)
            else:
                self._error = await here.close(self._error)

    def run_in_thread(self) -> Any:
        """Fill the remaining parameters, call the function, and close those dependencies, in this thread."""
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
            self._call.close_stops()
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
        """Call a function in a thread. When the call is cancelled, wait for the thread if it has started.

        Raises:
            CancelledError: The thread has not started, or waiting for it was cancelled too: the event loop is ending.
            BaseException: Raised by the function.
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
                self._error = None if error is None else loop_safe_error(error)
            except asyncio.CancelledError as error:
                self._error = error
            except BusyError:  # rather block the loop than leave it open
                self._error = here.in_context(here.close_here, self._error)


class _Opened:
    """The values of one part that must be closed.

    Args:
        part: The part.
        call: The request.
        is_in_thread: Whether its steps run in a thread, where nothing is awaited.
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
        """Run the steps."""
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
        """Close the values with the current exception, and return the exception after that."""
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
        """Run the steps in this thread."""
        run_to_first_wait(self.open(values))

    def close_here(self, error: BaseException | None) -> BaseException | None:
        """Close the values in this thread."""
        problem: BaseException | None = run_to_first_wait(self.close(error))[1]
        return problem

    def in_context(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function with the context variables of the part, which last until it is closed."""
        return self._context.run(function, argument)


def _named(fills: Fills, values: list[Any]) -> dict[str, Any]:
    return {name: values[number] for name, number in fills}


def _raised(error: BaseException | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def _name(error: BaseException, step: Step, fault: str) -> None:
    """Add the name of the dependency to contextlib's error about a generator that did not yield once."""
    raised_in = error.__traceback__.tb_next if error.__traceback__ is not None else None
    is_inner = raised_in is None or raised_in.tb_next is not None
    if isinstance(error, RuntimeError) and not is_inner and str(error).startswith("generator didn't"):
        error.args = (f"{step.name} {fault}. A dependency must yield exactly once",)


def _settled(value: Any, call: Call) -> Any:
    """Return the value that a function in a thread returned; the event loop awaits awaitables."""
    if inspect.isawaitable(value):
        value = _in_loop(finish_awaitable(value), call)
    return _in_loop(collected(value), call) if is_async_iterable(value) else value


def _in_loop(coroutine: Coroutine[Any, Any, Any], call: Call) -> Any:
    from ...requests.handlers import run_in_loop  # most threads ask nothing of their event loop

    return run_in_loop(coroutine, call)


def _kept(function: Callable[[], Any], outcome: list[Any]) -> Any:
    """Call a function and store its outcome, for the time after its call was cancelled."""
    try:
        value = function()
    except BaseException as error:
        outcome[:] = None, error
        raise
    outcome[:] = value, None
    return value
