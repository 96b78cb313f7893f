"""Worker processes, for handlers that must be stoppable: the pool in the server, and the main loop of a worker.

anyio's worker processes are not used: relative imports fail in a server that `python -m` started, and standard error of
a worker is lost.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from .._utils.exceptions import OutputError, ProcessEndedError, exception_text, restored_exception
from .._utils.option_checks import check_count
from .._utils.python_safe_path import protect_children
from .coroutines import collected, finish_awaitable, is_async_iterable, listed
from .worker_threads import Threads, end_child, loop_safe_error

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnContext

# multiprocessing, pickle and traceback are imported on use: most servers have no worker processes.

logger = logging.getLogger(__name__)

_START_LIMIT = 60.0  # seconds in which a worker must have imported the module of its function

_END_LIMIT = 1.0  # seconds in which a worker that closes its connection must have ended; then it is killed

_workers: set[Worker] = set()  # workers of this process that were not killed

_numbers = count(1)  # numbers of calls, so that no call gets the result of another

# Locked while a process starts or is joined, because the records of multiprocessing are not thread-safe.
_start_lock = threading.Lock()

# In the server


class Processes:
    """A bounded number of worker processes, each with a thread in this process that communicates with it.

    They are spawned on demand, never forked, and run one call after the other.

    Args:
        limit: Maximum number; None for one per processor.

    Raises:
        TypeError: The limit is not an integer.
        ValueError: The limit is too small.
    """

    def __init__(self, limit: int | None = None) -> None:
        check_count("processes", limit, none="one a processor")
        self._threads = Threads((os.cpu_count() or 1) if limit is None else limit)
        self._idle: list[Worker] = []  # shared by the threads

    async def run(
        self, function: Callable[..., Any], kwargs: dict[str, Any], make: Callable[[Any], Any] | None = None
    ) -> Any:
        """Call `function` in a worker.

        Args:
            function: A function that can be pickled.
            kwargs: Its arguments, which can be pickled.
            make: Makes the result in the worker; it can be pickled.

        Returns:
            The result, or the return value of the function: the awaited value of an `async def`, the items of an async
            generator. If the caller is cancelled, a worker that runs the function is killed. A worker that still
            imports it is kept for the next call.

        Raises:
            ProcessEndedError: The worker ended without a result.
            BaseException: The exception of the function or of `make`.
        """
        call = _Call(function, kwargs, make)
        # This thread is never abandoned: it returns as soon as its worker is dead, and keeps its place until then.
        running = asyncio.ensure_future(self._threads.run(self._serve, {"call": call}))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            call.cancel()
            raise
        error, call.error = call.error, None
        if error is None:
            return call.value
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def _serve(self, call: _Call) -> None:
        """Run a call in a worker, and store its result or exception."""
        import pickle

        if call.is_cancelled:
            return
        worker = None
        try:
            worker = self._idle_worker() or Worker(call.function)
            worker.wait_until_ready()
            number = next(_numbers)
            # `make` is pickled separately, because the worker caches it by its pickle.
            request = pickle.dumps((number, call.function, call.kwargs, pickle.dumps(call.make)))
            if not call.assign(worker):
                return
            try:
                call.value, raised = worker.request(number, request)
            finally:
                call.assign(None)
            if raised is not None:
                call.error = loop_safe_error(raised.error())
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            call.error = error
            if isinstance(error, ProcessEndedError) and not call.is_cancelled:
                logger.warning(
                    "a worker process exited without a result (%s). Its call fails; the next one starts a new process",
                    error.reason,
                )
        finally:
            if worker is not None and worker.is_alive:
                self._idle.append(worker)

    def _idle_worker(self) -> Worker | None:
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:
                return None
            if worker.parent != os.getpid():  # this process was forked
                continue
            if worker.is_alive:
                return worker
            worker.kill()  # for the processes that it may have started

    def __del__(self) -> None:
        """End the workers, because no more calls can come."""
        for worker in getattr(self, "_idle", ()):
            worker.kill()


class _Call:
    """A call in a worker process.

    Attributes:
        value: The result.
        error: Exception of the function; None if there is none.
        is_cancelled: Whether the caller was cancelled.
    """

    def __init__(
        self, function: Callable[..., Any], kwargs: dict[str, Any], make: Callable[[Any], Any] | None
    ) -> None:
        self.function = function
        self.kwargs = kwargs
        self.make = make
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_cancelled = False
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def assign(self, worker: Worker | None) -> bool:
        """Set the worker that runs the function. Return False if the call was cancelled before."""
        with self._lock:
            self._worker = worker
            return not self.is_cancelled

    def cancel(self) -> None:
        """Kill the worker that runs the function."""
        with self._lock:
            self.is_cancelled = True
            if self._worker is not None:
                self._worker.kill()


class Worker:
    """One worker process.

    Args:
        function: The first function to call: the worker imports it while it starts.

    Attributes:
        parent: The process that started it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        import pickle

        self.parent = os.getpid()
        self._is_ready = False
        self._is_killed = False
        self._lock = threading.Lock()
        context = _spawn_context()
        self._connection, theirs = context.Pipe()
        # Not a daemon in the sense of multiprocessing, because daemons must not have children.
        arguments = (theirs, pickle.dumps(function), _main_module())
        self._process = context.Process(target=serve, args=arguments, name="mcpkit-worker")
        with _start_lock, _blocked_signals():
            self._process.start()
            _workers.add(self)
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """True if the worker can receive requests."""
        return not self._is_killed and self._process.is_alive()

    def wait_until_ready(self) -> None:
        """Wait until it has started.

        Raises:
            ProcessEndedError: It could not.
        """
        if self._is_ready:
            return
        try:
            if not self._connection.poll(_START_LIMIT):
                self.kill()
                self._join()
                raise ProcessEndedError(
                    f"it did not import the function's module within {_START_LIMIT:g} s; import less in that module"
                )
            self._connection.recv_bytes()
        except (EOFError, OSError):
            raise ProcessEndedError(f"{self._join()} during startup") from None
        self._is_ready = True

    def request(self, number: int, request: bytes) -> tuple[Any, _RemoteError | None]:
        """Send a request and wait for its response. Responses to other requests are discarded.

        Args:
            number: Number of the request.
            request: The pickled request.

        Returns:
            The result, and the exception or None.

        Raises:
            ProcessEndedError: The worker ended without a response.
        """
        import pickle

        is_sent = False
        while True:
            try:
                if not is_sent:
                    self._connection.send_bytes(request)
                    is_sent = True
                response = self._connection.recv_bytes()
            except (EOFError, OSError):
                raise ProcessEndedError(self._join()) from None
            answered, value, raised = pickle.loads(response)
            if answered == number:
                return value, raised
            logger.warning(
                "a worker process sent two results for one call, as after a fork; the second is discarded"
            )

    def kill(self) -> None:
        """Kill it and the processes that it has started; from any thread."""
        _workers.discard(self)
        with self._lock:
            if self._is_killed or self.parent != os.getpid():
                return
            self._is_killed = True  # from now on its process id may belong to another process
            pid = self._process.pid
            assert pid is not None, "it has been started"  # group 0 would be this process's own
            if sys.platform != "win32":
                with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or is dead
                    os.killpg(pid, signal.SIGKILL)
            self._process.kill()

    def _join(self) -> str:
        """Wait until it has ended, after it closed its connection or was killed. Return how it ended."""
        from multiprocessing.connection import wait

        wait([self._process.sentinel], _END_LIMIT)
        self.kill()
        with _start_lock:
            self._process.join()
        self._connection.close()
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        is_named = -code in list(signal.Signals)
        return f"killed by {signal.Signals(-code).name if is_named else f'signal {-code}'}"


def kill_workers() -> None:
    """Kill all worker processes of this process."""
    for worker in tuple(_workers):
        worker.kill()


def _main_module() -> str | None:
    """Return the module of `python -m package` or folder of `python folder`, which multiprocessing does not import."""
    main = sys.modules["__main__"]
    name = main.__spec__.name if main.__spec__ is not None else ""
    if name == "__main__":  # of a folder or an archive, which has no name
        return os.path.dirname(main.__file__) if main.__file__ else None  # noqa: PTH120 - of an archive, too
    return name if name.endswith(".__main__") else None


@functools.cache
def _spawn_context() -> SpawnContext:
    from multiprocessing import get_context, util

    protect_children()
    util.Finalize(None, kill_workers, exitpriority=0)  # at exit, before it waits for all children
    return get_context("spawn")


@contextmanager
def _blocked_signals() -> Generator[None]:
    """Block SIGINT and SIGTERM for a process that starts: it inherits this mask until it has its own handlers."""
    if sys.platform == "win32":
        yield
    else:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker


def serve(connection: Connection, function: bytes, main: str | None) -> None:
    """Run calls, one after the other, until the server closes the connection.

    Args:
        connection: Connection for requests. Each is a pickled number, a function with keyword arguments, and a function
            that makes the result. The response is the number, the result, and the exception or None.
        function: A pickled function, so that its module is imported before the first request.
        main: Module or folder that the server was started with, if multiprocessing has not imported it.
    """
    import pickle

    from .safe_stdout import SafeOutput

    _detach()
    if main is not None and b"__main__" in function:
        _import_main(main)
    pickle.loads(function)
    threading.Thread(target=_end_with_parent, name="mcpkit-lifeline", daemon=True).start()
    if hasattr(os, "register_at_fork"):  # a child must not keep the connection open, and cannot respond
        os.register_at_fork(after_in_child=connection.close)
    connection.send_bytes(b"ready")
    with SafeOutput() as output, suppress(EOFError, OSError):
        while True:
            request = connection.recv_bytes()
            output.refresh()
            connection.send_bytes(_response(request))


def _response(request: bytes) -> bytes:
    import pickle

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
        return pickle.dumps((number, None, _RemoteError.of(problem)))
    finally:
        del problem  # its traceback has this frame


@functools.lru_cache(maxsize=64)
def _load(pickled: bytes) -> Callable[[Any], Any] | None:
    """Return the function that makes results. It is cached, because it may have to read a schema first."""
    import pickle

    make: Callable[[Any], Any] | None = pickle.loads(pickled)
    return make


def _import_main(main: str) -> None:
    """Import the server's main module under a name other than `__main__`, for its functions.

    A module without a `__main__` guard would run its server here, so it is only imported if a function is defined in
    it.
    """
    import runpy
    import types

    module = types.ModuleType("__mp_main__")
    if main.endswith(".__main__"):
        vars(module).update(runpy.run_module(main, run_name="__mp_main__", alter_sys=True))
    else:
        vars(module).update(runpy.run_path(main, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def _detach() -> None:
    """Detach from the server's terminal, signals and standard streams."""
    if sys.platform != "win32":
        os.setsid()  # what the function starts is killed with this process
        for number in (signal.SIGINT, signal.SIGTERM):
            # The server ends its workers. A handler is not inherited by child processes, unlike SIG_IGN.
            signal.signal(number, _ignore_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(2 if sys.__stderr__ is not None else empty, 1)
    os.close(empty)


def _ignore_signal(*_: object) -> None:
    pass


def _end_with_parent() -> None:
    import multiprocessing
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


# Exceptions of the worker, in the server


class _RemoteError(NamedTuple):
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
    cause: _RemoteError | None = None

    @classmethod
    def of(cls, error: BaseException) -> _RemoteError:
        """Convert an exception."""
        import pickle
        import traceback

        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with suppress(Exception):  # a class may do anything when it is pickled
            pickled = pickle.dumps(error)
            copy = pickle.loads(pickled)
            if type(copy) is type(error) and str(copy) == str(error):
                cause = error.__cause__ if isinstance(error, OutputError) else None
                return cls(pickled, type(error), (), {}, trace, None if cause is None else cls.of(cause))
        kind = next(base for base in type(error).__mro__ if _can_be_pickled(base))
        if kind is not type(error) or not _can_be_pickled(error.args):
            text = exception_text(error)
            if text is None:  # it has no text for clients
                kind, text = RuntimeError, f"the function raised {type(error).__name__}"
            return cls(b"", kind, (text,), {}, trace)
        state = {name: value for name, value in vars(error).items() if _can_be_pickled(value)}
        return cls(b"", kind, error.args, state, trace)

    def error(self) -> BaseException:
        """Return the exception, with the traceback of its process as its cause.

        The cause of an `OutputError` is the exception behind it, if any, because no code of the function failed.
        """
        import pickle

        if self.pickled:
            error: BaseException = pickle.loads(self.pickled)
        else:  # without its class's own __init__, which may take anything
            error = restored_exception(self.kind, self.arguments, self.state)
        if isinstance(error, OutputError):
            error.__cause__ = None if self.cause is None else self.cause.error()
        else:
            error.__cause__ = WorkerTraceback(self.trace)
        return error


class WorkerTraceback(Exception):  # noqa: N818 - shows the origin of an exception, and is none itself
    """The traceback of an exception in a worker process."""

    def __str__(self) -> str:
        """Show it as Python does."""
        return f'\n"""\n{self.args[0]}"""'


def _can_be_pickled(value: Any) -> bool:
    import pickle

    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # noqa: BLE001 - anything may be raised
        return False
    return True
