"""Main loop of a worker process: it calls functions, one after the other, until the server ends."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from .._utils.ending import exit_now
from .._utils.errors import OutputError, said_by
from .._utils.safe_output import SafeOutput
from .forks import end_child
from .iterables import collected, is_async_iterable, listed
from .threads import finish_awaitable


class Raised(NamedTuple):
    """Exception of a function, in a form for another process.

    Args:
        pickled: The pickled exception; empty if pickling does not preserve it.
        kind: Its class, or the nearest base class that the other process can import.
        arguments: Its `args`.
        state: Its other attributes.
        trace: Its traceback, as text.
        cause: Exception behind an `OutputError`, if any.
    """

    pickled: bytes
    kind: type[BaseException]
    arguments: tuple[Any, ...]
    state: dict[str, Any]
    trace: str
    cause: Raised | None = None

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Take an exception apart."""
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with suppress(Exception):  # what a class makes of being pickled is its own affair
            pickled = pickle.dumps(error)
            copy = pickle.loads(pickled)
            if type(copy) is type(error) and str(copy) == str(error):
                cause = error.__cause__ if isinstance(error, OutputError) else None
                return cls(pickled, type(error), (), {}, trace, None if cause is None else cls.of(cause))
        kind = next(base for base in type(error).__mro__ if _can_be_pickled(base))
        if kind is not type(error) or not _can_be_pickled(error.args):
            said = said_by(error)
            if said is None:  # nobody can be told of it
                kind, said = RuntimeError, f"the function raised {type(error).__name__}"
            return cls(b"", kind, (said,), {}, trace)
        state = {name: value for name, value in vars(error).items() if _can_be_pickled(value)}
        return cls(b"", kind, error.args, state, trace)

    def error(self) -> BaseException:
        """Return the exception, with the traceback of its process as its cause.

        The cause of an `OutputError` is the exception behind it, if any, because no code of the function failed.
        """
        if self.pickled:
            error: BaseException = pickle.loads(self.pickled)
        else:  # not by its class's own __init__, which may take anything
            error = self.kind.__new__(self.kind, *self.arguments)
            error.args = self.arguments
            vars(error).update(self.state)
        if isinstance(error, OutputError):
            error.__cause__ = None if self.cause is None else self.cause.error()
        else:
            error.__cause__ = WorkerTraceback(self.trace)
        return error


class WorkerTraceback(Exception):  # noqa: N818 - shows where an exception came from, and is none itself
    """The traceback of an exception in a worker process."""

    def __str__(self) -> str:
        """Show it as Python does."""
        return f'\n"""\n{self.args[0]}"""'


def serve(connection: Connection, function: bytes, main: str | None) -> None:
    """Answer requests until the server closes the connection.

    Args:
        connection: Connection for requests. Each is a pickled number, a function with keyword arguments, and a function
            that makes the result. The response is the number, the result, and the exception or None.
        function: A pickled function, so that its module is imported before the first request.
        main: Module or folder that the server was started with, if multiprocessing has not imported it.
    """
    _detach()
    if main is not None and b"__main__" in function:
        _import_main(main)
    pickle.loads(function)
    threading.Thread(target=_end_with_parent, name="mcpkit-lifeline", daemon=True).start()
    if hasattr(os, "register_at_fork"):  # so that a child keeps nobody waiting, and cannot answer
        os.register_at_fork(after_in_child=connection.close)
    connection.send_bytes(b"ready")
    with SafeOutput() as printing, suppress(EOFError, OSError):
        while True:
            request = connection.recv_bytes()
            printing.refresh()
            connection.send_bytes(_answer(request))


def _answer(request: bytes) -> bytes:
    process = os.getpid()
    number: int | None = None
    value: Any = None
    problem: BaseException | None = None
    try:
        number, function, kwargs, pickled = pickle.loads(request)
        make = _load(pickled)
        value = function(**kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(finish_awaitable(value))
        if make is not None:
            if is_async_iterable(value):
                value = asyncio.run(collected(value))
            value = make(listed(value))
    except BaseException as error:  # noqa: BLE001 - raised again in the server
        problem = error
    if os.getpid() != process:
        end_child(problem)
    if problem is None:
        try:
            return pickle.dumps((number, value, None))
        except Exception as error:  # noqa: BLE001 - whatever the value's class raises
            problem = error
    try:
        return pickle.dumps((number, None, Raised.of(problem)))
    finally:
        del problem  # its traceback has this frame


def _import_main(main: str) -> None:
    """Import the server's main module under a name other than `__main__`, for its functions.

    A module without a `__main__` guard would run its server here, so it is only imported if a function is defined in
    it.
    """
    import runpy

    module = types.ModuleType("__mp_main__")
    if main.endswith(".__main__"):
        vars(module).update(runpy.run_module(main, run_name="__mp_main__", alter_sys=True))
    else:
        vars(module).update(runpy.run_path(main, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


@lru_cache(maxsize=64)
def _load(pickled: bytes) -> Callable[[Any], Any] | None:
    """Return the function that makes results. It is cached, because it may have to read a schema first."""
    make: Callable[[Any], Any] | None = pickle.loads(pickled)
    return make


def _detach() -> None:
    """Leave the server's terminal, signals and standard streams alone."""
    if sys.platform != "win32":
        os.setsid()  # what the function starts is killed with this process
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave_to_server)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(2 if sys.__stderr__ is not None else empty, 1)
    os.close(empty)


def _leave_to_server(number: int, frame: object) -> None:
    """Do nothing: the server ends its workers. A handler is not passed on to child processes, unlike SIG_IGN."""


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    exit_now(1)


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - anything may be raised
        return False
    return True
