"""Running a handler in its place, conversion of its return value to a result, and its calls into the event loop.

A conversion runs where the function ran, within the timeout of the call. It leaves the event loop if it may block.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

from .._utils.concurrency import running_loop
from .._utils.exceptions import CallEndedError, RegistrationError
from ..content.blocks import LeaveLoop
from ..content.third_party_results import is_iterator, take_items
from ..execution.coroutines import collected, is_async_iterable, is_complete, listed
from ..schema.signature import innermost
from .request_record import Call

T = TypeVar("T")

Make = Callable[[Any], Any]
"""Makes a result of a function's return value: the same, however often it is called and wherever."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function in a thread."""

# The option `run_in`

Place = Literal["loop", "process"]
"""Place of a handler, other than the event loop for `async def` and a thread for other functions."""


def place_of(what: str, function: Callable[..., Any], options: Mapping[str, Any]) -> Place | None:
    """Read the option `run_in`.

    Args:
        what: The component, for messages.
        function: The handler.
        options: The given options.

    Returns:
        The place; None for the default: the event loop for `async def`, a worker thread for others.

    Raises:
        RegistrationError: The function cannot run there; the message contains the correction.
    """
    place = options.get("run_in")
    if place not in {None, "thread", "process", "loop"}:
        raise RegistrationError(f'{what}: run_in must be "thread", "process" or "loop", got {place!r}')
    if place == "process":
        check_name(what, function)
        return "process"
    if place == "thread" and (
        inspect.iscoroutinefunction(innermost(function)) or is_async_generator_function(function)
    ):
        raise RegistrationError(
            f'{what}: an async function runs in the event loop. Remove run_in="thread", or write `def` instead'
        )
    return "loop" if place == "loop" else None


def is_async_generator_function(function: Callable[..., Any]) -> bool:
    """Return True if a function is an async generator function, which runs in the event loop without being awaited."""
    return inspect.isasyncgenfunction(innermost(function))


def check_name(what: str, function: Any) -> None:
    """Check that a function has a name by which another process can import it.

    Raises:
        RegistrationError: It has none; the message has the reason.
    """
    function = innermost(function)
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    reason = ""
    if "<lambda>" in name:
        reason = "a lambda has no name"
    elif "<locals>" in name:
        reason = f"{name} is defined inside another function"
    elif module is None:
        reason = "it has no module"
    elif (
        module.__name__ == "__main__" and not module.__spec__ and getattr(module, "__file__", "<")[:1] == "<"
    ):
        reason = "its module has no file"
    if reason:
        raise RegistrationError(
            f"{what}: a worker process (run_in='process') imports the function by its name, but {reason}. "
            "Define it at the top level of a module"
        )


def check_pickles(what: str, function: Callable[..., Any]) -> None:
    """Check that another process can import a function, once its own module has been executed.

    Raises:
        RegistrationError: It cannot; the message has the reason.
    """
    import pickle

    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise RegistrationError(
            f"{what}: a worker process (run_in='process') cannot import the function by its name: {error}"
        ) from error


# Functions and their results


def run_in(
    place: Place, function: Callable[..., Any], kwargs: dict[str, Any], call: Call, make: Make
) -> Coroutine[Any, Any, Any]:
    """Call a function in its place, and make its result there; an `async def` is awaited there."""
    if place == "process":
        return call.runtime.processes.run(function, kwargs, make)
    return finish_call(function(**kwargs), make, call)


def make_result(value: Any, make: Make, call: Call) -> Any:
    """Make a result of a value in this thread.

    Raises:
        LeaveLoop: It may block, and this is the thread of an event loop; nothing has been done yet.
        InputRequired: The function has returned, but an answer of the client is missing.
        OutputError: The value has no JSON form.
        BaseException: The exception of the conversion.
    """
    if call.dialogue is not None:
        call.dialogue.check_settled()
    return make(value if is_complete(type(value)) else listed(value))


async def finish(value: Any, make: Make, call: Call, in_thread: InThread | None = None) -> Any:
    """Make a result of a value in the event loop. A conversion that may block runs in a thread.

    Args:
        value: The awaited return value of a function.
        make: Makes the result.
        call: The request.
        in_thread: Calls a function in a thread; None for the server's worker threads.

    Returns:
        The result.

    Raises:
        BaseException: The exception of the conversion.
    """
    if is_async_iterable(value):
        value = await collected(value)
    with suppress(LeaveLoop):
        return make_result(value, make, call)
    work = partial(make_result, value, make, call)
    return await (call.runtime.threads.run(work, {}, call) if in_thread is None else in_thread(work))


async def finish_call(returned: Any, make: Make, call: Call, in_thread: InThread | None = None) -> Any:
    """Make a result of a return value in the event loop, awaitable or not; see `finish`.

    The items of a generator that is not `async` are taken here, because its function was placed in the event loop.
    """
    if not is_complete(type(returned)):
        if inspect.isawaitable(returned):
            returned = await returned
        elif is_iterator(returned):
            returned = listed(returned, take_items)
    return await finish(returned, make, call, in_thread)


# The event loop, from a function in a worker thread


def run_in_loop(coroutine: Coroutine[Any, Any, T], call: Call) -> T:
    """Await a coroutine in the event loop of a request, from a worker thread, until the end of the call.

    Raises:
        CallEndedError: The call has ended.
        RuntimeError: This is the thread of that event loop.
        BaseException: The exception of the coroutine.
    """
    try:
        loop = worker_loop(call)
    except RuntimeError:
        coroutine.close()
        raise

    async def run() -> tuple[Any, BaseException | None]:
        """Return the exception, because a task that raises SystemExit would end the event loop."""
        task = asyncio.current_task()
        assert task is not None
        if call.sync_calls is None:
            call.sync_calls = set()
        call.sync_calls.add(task)  # the call cancels it at its end
        try:
            return await coroutine, None
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised in the thread
            return None, error
        finally:
            call.sync_calls.discard(task)

    running = run()
    try:
        future = asyncio.run_coroutine_threadsafe(running, loop)
    except RuntimeError:  # it has been closed meanwhile
        running.close()
        coroutine.close()
        raise CallEndedError(call.method) from None
    try:
        value: T
        value, problem = future.result()
    except concurrent.futures.CancelledError:
        raise CallEndedError(call.method) from None
    try:
        if problem is not None:
            raise problem
        return value
    finally:
        del problem  # its traceback has this frame


def worker_loop(call: Call) -> asyncio.AbstractEventLoop:
    """Return the event loop of a request, which must not be this thread's.

    Raises:
        CallEndedError: It has been closed.
        RuntimeError: It is this thread's.
    """
    loop = call.loop
    if loop is None or running_loop() is loop:
        raise RuntimeError(
            "ctx.sync only works in a worker thread. In the event loop, await the method of ctx instead"
        )
    if loop.is_closed():
        raise CallEndedError(call.method)
    return loop
