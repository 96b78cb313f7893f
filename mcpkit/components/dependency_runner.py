"""Runs a call with dependencies: fills the hidden parameters, and closes the dependencies afterwards."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from functools import partial
from typing import Any

from .._utils.exceptions import BusyError, RegistrationError
from ..execution.coroutines import (
    collected,
    finish_awaitable,
    is_async_iterable,
    run_to_first_wait,
    see_through,
)
from ..execution.worker_threads import end_child, log_late, loop_safe_error
from ..requests.request_record import Call, Make, finish_call, make_result
from .dependencies import Fills, Hint, Overrides, Part, Plan, Step, identity


class Injection:
    """The hidden parameters of one function.

    Args:
        what: Name of the function in messages.
        parameters: Name, annotation and default of each parameter.

    Attributes:
        plan: The steps that fill the parameters.

    Raises:
        RegistrationError: A parameter cannot be filled. The message contains the remedy.
    """

    def __init__(self, what: str, parameters: Iterable[Hint]) -> None:
        self._what = what
        self._parameters = tuple(parameters)
        self.plan = self.plan_with({})
        self._overridden: tuple[Overrides, Plan] = ({}, self.plan)

    def plan_with(self, overrides: Overrides) -> Plan:
        """Return the plan with some functions replaced.

        Raises:
            RegistrationError: A parameter cannot be filled. The message contains the remedy.
        """
        return Plan(self._what, self._parameters, overrides)

    async def call(
        self,
        function: Callable[..., Any],
        kwargs: dict[str, Any],
        call: Call,
        make: Make,
        *,
        is_in_loop: bool,
    ) -> Any:
        """Fill the hidden parameters, call the function, and close the dependencies in reverse order.

        Args:
            function: The function.
            kwargs: Its other arguments.
            call: The request.
            make: Converts the returned value to the result, before dependencies are closed.
            is_in_loop: Whether the function runs in the event loop, else in a worker thread.

        Returns:
            What `make` returned.

        Raises:
            BaseException: Raised by the function or a dependency.
        """
        plan = self.plan
        if overrides := call.runtime.overrides:
            if self._overridden[0] is not overrides:
                self._overridden = (overrides, self.plan_with(overrides))
            plan = self._overridden[1]
        run = _Run(plan, partial(function, **kwargs), call, make, is_in_loop)
        if is_in_loop and not plan.has_closings and all(part.is_in_loop is not False for part in plan.parts):
            await run.run()
        elif not is_in_loop and not run.parts:
            return await run.run_in_one_thread()
        else:
            await run.run_in_own_task()
        return run.result()


def overridden(
    overrides: Overrides,
    injections: Iterable[Injection],
    function: Callable[..., Any],
    replacement: Callable[..., Any],
) -> Overrides:
    """Return the overrides with one added.

    Raises:
        RegistrationError: No handler depends on the function, or the replacement's parameters cannot be filled.
    """
    key = identity(function)
    overrides = {**overrides, key: replacement}
    plans = [each.plan_with(overrides) for each in injections]
    if not any(key in plan.replaced for plan in plans):
        raise RegistrationError(
            f"no handler depends on {function!r}, so it cannot be overridden. Pass the function that is in Depends(...)"
        )
    return overrides


# Tasks of cancelled calls with a running thread. The event loop only keeps weak references to them.
_detached_tasks: set[asyncio.Task[None]] = set()


class _Run:
    """One call of a function with dependencies.

    Args:
        plan: The steps.
        function: The function, without its hidden parameters.
        call: The request.
        make: Converts the returned value to the result.
        is_in_loop: Whether the function runs in the event loop.

    Attributes:
        parts: The parts that run before the function. What begins and ends in the function's thread needs no other
            thread, so the last part belongs to the function if it can run there.
    """

    def __init__(self, plan: Plan, function: partial[Any], call: Call, make: Make, is_in_loop: bool) -> None:
        has_tail = not is_in_loop and bool(plan.parts) and not plan.parts[-1].is_in_loop
        self.parts = plan.parts[:-1] if has_tail else plan.parts
        self._tail = plan.parts[-1] if has_tail else None
        self._fills = plan.fills
        self._function = function
        self._call = call
        self._make = make
        self._is_in_loop = is_in_loop
        self._values: list[Any] = [None] * plan.size
        self._value: Any = None
        self._error: BaseException | None = None
        self._logged: BaseException | None = None
        self._is_closing = False
        # Done when the cancelled call may return, although a thread of it still runs.
        self._detached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

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
        task = asyncio.get_running_loop().create_task(self.run())
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            if self._is_closing:
                task.add_done_callback(self._log_error)
                await see_through(task)
                raise
            task.cancel()
            try:
                await asyncio.wait((task, self._detached), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._call.left = task
                _detached_tasks.add(task)
                task.add_done_callback(self._log_error)
            raise

    def _log_error(self, task: asyncio.Task[None]) -> None:
        _detached_tasks.discard(task)
        error, self._error = self._error, None
        if error is not None and error is not self._logged and not isinstance(error, asyncio.CancelledError):
            log_late("a dependency", error)

    async def run_in_one_thread(self) -> Any:
        """Do everything in one thread. A cancelled call returns early, but waits for dependencies that are closing."""
        call = self._call
        try:
            return await call.runtime.threads.run(self._run_function, {}, call)
        except asyncio.CancelledError:
            if self._is_closing and call.left is not None:
                await see_through(call.left)
            raise

    async def run(self) -> None:
        """Fill, call and close, and store the result or exception."""
        call = self._call
        opened: list[_OpenPart] = []
        try:
            for part in self.parts:
                here = _OpenPart(part, call, is_in_thread=part.is_in_loop is False)
                opened.append(here)
                if not here.is_in_thread:
                    await here.open(self._values)
                    continue
                await self._in_thread(partial(here.in_context, here.open, self._values))
                if self._detached.done():
                    raise asyncio.CancelledError
            if self._is_in_loop:
                returned = self._function(**_filled(self._fills, self._values))
                self._value = await finish_call(returned, self._make, call, self._in_thread)
            else:
                self._value = await self._in_thread(self._run_function)
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            self._error = error
        self._is_closing = True
        if call.stops is not None:
            call.close_stops()
        for here in reversed(opened):
            if not here.is_in_thread:
                self._error = await here.close(self._error)
            while here.managers:  # in a thread; once more if the call was cancelled before the thread began
                close = partial(here.in_context, here.close, self._error)
                try:
                    left = await self._in_thread(close)
                    self._error = None if left is None else loop_safe_error(left)
                except asyncio.CancelledError as error:
                    self._error = error
                except BusyError:  # rather block the loop than leave it open
                    self._error = close()

    def _run_function(self) -> Any:
        """Fill the remaining parameters, call the function, and close those dependencies, in this thread."""
        call = self._call
        here = None if self._tail is None else _OpenPart(self._tail, call, is_in_thread=True)
        value: Any = None
        error: BaseException | None = None
        process = os.getpid()
        try:
            if here is not None:  # not in a context of its own: the function sees its context variables
                run_to_first_wait(here.open(self._values))
            value = _finish_in_thread(self._function(**_filled(self._fills, self._values)), call)
            value = make_result(value, self._make, call)
        except BaseException as problem:  # noqa: BLE001 - raised below
            error = problem
        if os.getpid() != process:  # what has been opened is the parent's
            end_child(error)
        if call.stops is not None:
            call.close_stops()
        self._is_closing = True
        try:
            if here is not None:
                error = run_to_first_wait(here.close(error))[1]
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
        outcome: list[Any] = []  # what a thread returns after the call was cancelled is lost otherwise
        call = self._call
        left_before = call.left

        def store_outcome() -> Any:
            try:
                value = function()
            except BaseException as error:
                outcome[:] = None, error
                raise
            outcome[:] = value, None
            return value

        try:
            return await call.runtime.threads.run(store_outcome, {}, call)
        except asyncio.CancelledError:
            left = call.left if call.left is not left_before else None
            if left is None and not outcome:
                raise
            if not self._detached.done():
                self._detached.set_result(None)
            if left is not None:
                await left
        value, self._logged = outcome
        if self._logged is not None:
            raise self._logged
        return value


class _OpenPart:
    """The values of one part that must be closed.

    Args:
        part: The part.
        call: The request.
        is_in_thread: Whether its steps run in a thread. The coroutines of this class do not wait then.

    Attributes:
        managers: The opened dependencies that must be closed.
    """

    def __init__(self, part: Part, call: Call, *, is_in_thread: bool) -> None:
        self.is_in_thread = is_in_thread
        self.managers: list[tuple[Any, Step]] = []
        self._part = part
        self._call = call
        self._context = copy_context()

    def in_context(self, function: Callable[[Any], Coroutine[Any, Any, Any]], argument: Any) -> Any:
        """Call `open` or `close` in this thread, with context variables that last until the part is closed."""
        return self._context.run(run_to_first_wait, function(argument))[1]

    async def open(self, values: list[Any]) -> None:
        """Run the steps."""
        for step in self._part.steps:
            value = (
                step.function(self._call) if step.is_reader else step.function(**_filled(step.fills, values))
            )
            if step.is_generator:
                manager = value
                try:
                    value = manager.__enter__() if self.is_in_thread else await manager.__aenter__()
                except RuntimeError as error:
                    _explain(error, step, "has not yielded")
                    raise
                self.managers.append((manager, step))
            elif self.is_in_thread:
                value = _finish_in_thread(value, self._call)
            else:
                value = await finish_awaitable(value)
            values[step.number] = value

    async def close(self, error: BaseException | None) -> BaseException | None:
        """Close the values with the current exception, and return the exception after that."""
        while self.managers:
            manager, step = self.managers.pop()
            raised = (None, None, None) if error is None else (type(error), error, error.__traceback__)
            try:
                if self.is_in_thread:
                    manager.__exit__(*raised)
                else:
                    await manager.__aexit__(*raised)
            except BaseException as problem:  # noqa: BLE001 - the others are closed with it
                _explain(problem, step, "has yielded more than once")
                error = problem
        return error


def _filled(fills: Fills, values: list[Any]) -> dict[str, Any]:
    return {name: values[number] for name, number in fills}


def _explain(error: BaseException, step: Step, fault: str) -> None:
    """Add the name of the dependency to contextlib's error about a generator that did not yield once."""
    raised_in = error.__traceback__.tb_next if error.__traceback__ is not None else None
    is_inner = raised_in is None or raised_in.tb_next is not None
    if isinstance(error, RuntimeError) and not is_inner and str(error).startswith("generator didn't"):
        error.args = (f"{step.name} {fault}. A dependency must yield exactly once",)


def _finish_in_thread(value: Any, call: Call) -> Any:
    """Return the value that a function in a thread returned; the event loop awaits awaitables."""
    if inspect.isawaitable(value):
        value = call.run_in_loop(finish_awaitable(value))
    return call.run_in_loop(collected(value)) if is_async_iterable(value) else value
