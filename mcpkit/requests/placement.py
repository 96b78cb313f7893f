"""Option `run_in`: the place of a handler, other than the event loop for `async def` and a thread for others."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal

from .._utils.errors import RegistrationError
from ..schema.signature import innermost
from .call import Call
from .results import Make, finish_call

Place = Literal["loop", "process"]


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


def run_in(
    place: Place, function: Callable[..., Any], kwargs: dict[str, Any], call: Call, make: Make
) -> Coroutine[Any, Any, Any]:
    """Call a function in its place, and make its result there; an `async def` is awaited there."""
    if place == "process":
        return call.runtime.processes.run(function, kwargs, make)
    return finish_call(function(**kwargs), make, call)


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
