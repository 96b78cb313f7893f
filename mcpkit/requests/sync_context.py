"""`ctx.sync`: the methods of `Context` for a handler in a worker thread, without `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager
from functools import update_wrapper
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar, cast, overload

from typing_extensions import ParamSpec

from .call import call_of
from .client_requests_api import begin_once, dialogue_of, end_once, forget_once
from .from_thread import in_loop, worker_loop
from .reporting import Reporting, counted, note_progress

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .elicitation import ElicitationResult, Question

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def _waiting(
    method: Callable[Concatenate[Reporting, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncContext, P], T]:
    """Return a method of `SyncContext` that runs a method of `Context` and waits for it."""

    def wait(self: SyncContext, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return in_loop(method(self.context, *args, **kwargs), call_of(self.context))

    update_wrapper(wait, method)
    return wait


class SyncContext:
    """The methods of `Context` for a handler in a worker thread: `ctx.sync`.

    Each method blocks until the message is sent or the answer has arrived. The function `done=` of `elicit_url` is
    called in the event loop.

    Args:
        context: The context of the request.
    """

    __slots__ = ("_call", "context")

    def __init__(self, context: Reporting) -> None:
        self.context = context
        self._call = call_of(context)

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the client; see `Context.report_progress`."""
        worker_loop(self._call)
        reports = note_progress(self._call, progress, total, message)
        if reports is not None:
            self._run(reports.deliver())

    def track(
        self, items: Iterable[T], message: str | None = None, *, total: float | None = None
    ) -> Iterator[T]:
        """Iterate over items, and report how many are done; see `Context.track`."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        done = counted(self._call)
        if total is not None:
            total += done
        self.report_progress(done, total, message)
        for item in items:
            yield item
            done += 1
            self.report_progress(done, total, message)

    log = _waiting(Reporting.log)
    debug = _waiting(Reporting.debug)
    info = _waiting(Reporting.info)
    warning = _waiting(Reporting.warning)
    error = _waiting(Reporting.error)
    elicit_url = _waiting(Reporting.elicit_url)
    sample = _waiting(Reporting.sample)
    list_roots = _waiting(Reporting.list_roots)

    @overload
    def ask(self, first: Question[A], /) -> tuple[A]: ...
    @overload
    def ask(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    def ask(self, first: Question[A], second: Question[B], third: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    def ask(self, *questions: Question[Any]) -> tuple[Any, ...]: ...
    def ask(self, *questions: Question[Any]) -> tuple[Any, ...]:
        """Send several requests to the client at once; see `Context.ask`."""
        return self._run(self.context.ask(*questions))

    @overload
    def elicit(
        self, message: str, type_: Mapping[str, Any], *, key: str | None = None
    ) -> ElicitationResult[dict[str, Any]]: ...
    @overload
    def elicit(self, message: str, type_: type[T], *, key: str | None = None) -> ElicitationResult[T]: ...
    @overload
    def elicit(self, message: str, type_: TypeForm[T], *, key: str | None = None) -> ElicitationResult[T]: ...
    @overload
    def elicit(self, message: str, type_: Any, *, key: str | None = None) -> ElicitationResult[Any]: ...
    def elicit(self, message: str, type_: Any, *, key: str | None = None) -> ElicitationResult[Any]:
        """Request data from the user with a form; see `Context.elicit`."""
        return self._run(self.context.elicit(message, type_, key=key))

    def upstream_token(self, provider: str) -> str:
        """Return the access token of the user at a provider; see `Context.upstream_token`."""
        from .upstream_tokens import token_for

        return self._run(token_for(self._call, provider))

    def on_cancel(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """Register a function that stops this handler, such as `db.interrupt` or `process.kill`.

        It is called when the call is cancelled, exceeds its timeout, or ends with the server: once, in a thread of its
        own, and not after the handler has returned. Its exceptions are logged. Exceptions of the handler after that are
        expected, and not logged as a warning.

        Args:
            stop: The function, without parameters.

        Returns:
            A context manager for a part of the handler, `with ctx.sync.on_cancel(db.interrupt):`. After its block,
            `stop` is not called any more. Without `with`, it may be called until the handler returns.

        Raises:
            RuntimeError: The call has ended, or the handler does not run in a worker thread.
            TypeError: `stop` is not callable, or is async.
        """
        worker_loop(self._call)
        given: object = stop
        if not callable(given) or iscoroutinefunction(given):
            raise TypeError(
                "on_cancel takes a function that is not async, such as db.interrupt (without parentheses), "
                f"got {stop!r}"
            )
        return self._call.stopped_by(stop)

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Run a side effect, and repeat its result in later rounds; see `Context.once`. It runs in this thread."""
        call = self._call

        async def begin() -> tuple[Any] | None:
            return begin_once(call, key)

        async def end(value: T) -> T:
            call.check_open()
            kept = end_once(call, key, value)
            await dialogue_of(call).keep()
            return cast("T", kept)

        known = self._run(begin())
        if known is not None:
            return cast("T", known[0])
        try:
            return self._run(end(function()))
        except BaseException:
            forget_once(call, key)
            raise

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return in_loop(coroutine, self._call)
