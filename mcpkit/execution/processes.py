"""Worker processes, for functions that must be stoppable."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from .._utils.errors import ProcessEndedError
from .._utils.numbers import check_count
from .._utils.start import protect_children
from .threads import Threads, of_a_function

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext


logger = logging.getLogger(__name__)

_START_LIMIT = 60.0
"""Seconds in which a worker must have imported what it needs."""

_END_LIMIT = 1.0
"""Seconds in which a worker that closes its connection must be gone; then it is killed."""

_workers: set[Worker] = set()
"""Those that have not been killed."""

_numbers = count(1)
"""Of the calls, so that none gets the answer of another."""

_starting = threading.Lock()
"""Held while a process starts or is waited for: multiprocessing's own records are not made for threads."""


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
        self._idle: list[Worker] = []  # what one thread puts there another may take

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
        # Its thread is never given up: it returns as soon as its worker is dead, and holds its place till then.
        made = asyncio.ensure_future(self._threads.run(self._make, {"call": call}))
        try:
            await asyncio.shield(made)
        except asyncio.CancelledError:
            call.end()
            raise
        return call.result()

    def _make(self, call: _Call) -> None:
        if call.is_over:
            return
        worker = None
        try:
            worker = self._idle_worker() or Worker(call.function)
            worker.wait_until_ready()
            call.make(worker)
        except BaseException as error:  # noqa: BLE001 - for whoever awaits the call
            call.error = error
            if isinstance(error, ProcessEndedError) and not call.is_over:
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
            if worker.is_of_parent:
                continue
            if worker.is_alive:
                return worker
            worker.kill()  # what it may have started

    def __del__(self) -> None:
        """End the workers, which wait for calls that can come no more."""
        for worker in getattr(self, "_idle", ()):
            worker.kill()


class _Call:
    """A call to be made in a worker process."""

    def __init__(
        self, function: Callable[..., Any], kwargs: dict[str, Any], make: Callable[[Any], Any] | None
    ) -> None:
        self.function = function
        self._make = make
        self.is_over = False
        self.error: BaseException | None = None
        self._kwargs = kwargs
        self._value: Any = None
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def make(self, worker: Worker) -> None:
        """Run the call in a worker, unless it has ended."""
        import pickle

        number = next(_numbers)
        # What makes the result is in a pickle of its own, by which the worker knows it again.
        request = pickle.dumps((number, self.function, self._kwargs, pickle.dumps(self._make)))
        with self._lock:
            if self.is_over:
                return
            self._worker = worker
        try:
            self._value, raised = worker.ask(number, request)
        finally:
            with self._lock:
                self._worker = None
        if raised is not None:
            self.error = of_a_function(raised.error())

    def result(self) -> Any:
        """Return the result of the function, or raise its exception."""
        error, self.error = self.error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def end(self) -> None:
        """Kill the worker that makes it."""
        with self._lock:
            self.is_over = True
            if self._worker is not None:
                self._worker.kill()


class Worker:
    """One worker process.

    Args:
        function: The first function to call: the worker imports it while it starts.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        import pickle

        from .worker_process import serve

        self._parent = os.getpid()
        self._is_ready = False
        self._is_killed = False
        self._lock = threading.Lock()
        context = _spawning()
        self._connection, theirs = context.Pipe()
        # No daemon in the sense of multiprocessing, whose daemons must not have children.
        given = (theirs, pickle.dumps(function), _main_module())
        self._process = context.Process(target=serve, args=given, name="mcpkit-worker")
        with _starting, _blocked_signals():
            self._process.start()
            _workers.add(self)
        theirs.close()

    @property
    def is_of_parent(self) -> bool:
        """True if the worker belongs to the process that this one was forked from."""
        return os.getpid() != self._parent

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
                self._reap()
                raise ProcessEndedError(
                    f"it did not import the function's module within {_START_LIMIT:g} s; import less in that module"
                )
            self._connection.recv_bytes()
        except (EOFError, OSError):
            raise ProcessEndedError(f"{self._reap()} during startup") from None
        self._is_ready = True

    def ask(self, number: int, request: bytes) -> tuple[Any, Any]:
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

        unsent: bytes | None = request
        while True:
            try:
                if unsent is not None:
                    self._connection.send_bytes(unsent)
                    unsent = None
                answer = self._connection.recv_bytes()
            except (EOFError, OSError):
                raise ProcessEndedError(self._reap()) from None
            answered, value, raised = pickle.loads(answer)
            if answered == number:
                return value, raised
            logger.warning(
                "a worker process sent two results for one call, as after a fork; the second is discarded"
            )

    def kill(self) -> None:
        """Kill it and the processes that it has started; from any thread."""
        _workers.discard(self)
        with self._lock:
            if self._is_killed or self.is_of_parent:
                return
            self._is_killed = True  # from now on its number may be another's
            pid = self._process.pid
            assert pid is not None, "it has been started"  # group 0 would be this process's own
            if sys.platform != "win32":
                with suppress(ProcessLookupError, PermissionError):  # it has not got that far, or is dead
                    os.killpg(pid, signal.SIGKILL)
            self._process.kill()

    def _reap(self) -> str:
        """Wait for its end, and return how it ended: it has closed its connection, or is killed."""
        from multiprocessing.connection import wait

        wait([self._process.sentinel], _END_LIMIT)
        self.kill()
        with _starting:
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
def _spawning() -> SpawnContext:
    from multiprocessing import get_context, util

    protect_children()
    util.Finalize(None, kill_workers, exitpriority=0)  # at exit, before it waits for all children
    return get_context("spawn")


@contextmanager
def _blocked_signals() -> Generator[None]:
    """Keep SIGINT and SIGTERM from a process that starts: it inherits this, until it can handle them itself."""
    if sys.platform == "win32":
        yield
    else:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
