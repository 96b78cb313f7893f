"""What a handler in a worker thread may say and ask: the same as in the event loop, without `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from .asking.api import Asking, begin_once, end_once, forget_once
from .reporting import close_stream, counted, log, note_progress, notify
from .workers.in_loop import in_loop, worker_loop

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

    from .asking.questions import Answer, Question
    from .asking.roots import Root
    from .asking.sampling import Sampled, SampleOptions
    from .call import Call

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class SyncContext:
    """The reports and questions of a `Context`, for a handler that runs in a worker thread.

    A report waits until it is on its way, a question for its answer.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the work has come; see `Context.progress`."""
        worker_loop(self._call)
        reports = note_progress(self._call, done, total, message)
        if reports is not None:
            self._run(reports.deliver())

    def track(
        self, items: Iterable[T], message: str | None = None, *, total: float | None = None
    ) -> Iterator[T]:
        """Go through items, and report how many are done; see `Context.track`."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        done = counted(self._call)
        if total is not None:
            total += done
        self.progress(done, total, message)
        for item in items:
            yield item
            done += 1
            self.progress(done, total, message)

    def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client; see `Context.log`."""
        self._run(log(self._call, level, data, logger))

    def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `debug`."""
        self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `info`."""
        self.log("info", data, logger=logger)

    def notice(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `notice`."""
        self.log("notice", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `warning`."""
        self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `error`."""
        self.log("error", data, logger=logger)

    def critical(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `critical`."""
        self.log("critical", data, logger=logger)

    def alert(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `alert`."""
        self.log("alert", data, logger=logger)

    def emergency(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `emergency`."""
        self.log("emergency", data, logger=logger)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of an extension's; see `Context.notify`."""
        self._run(notify(self._call, method, params))

    def close_stream(self) -> None:
        """End the connection that this call is answered on; see `Context.close_stream`."""
        self._run(close_stream(self._call))

    @overload
    def ask(self, first: Question[A], /) -> tuple[A]: ...
    @overload
    def ask(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    def ask(self, first: Question[A], second: Question[B], third: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    def ask(self, *questions: Question[Any]) -> tuple[Any, ...]: ...
    def ask(self, *questions: Question[Any]) -> tuple[Any, ...]:
        """Ask the client several things at once; see `Context.ask`."""
        return self._run(Asking(self._call).ask(*questions))

    @overload
    def elicit(
        self, message: str, type_: Mapping[str, Any], *, key: str | None = None
    ) -> Answer[dict[str, Any]]: ...
    @overload
    def elicit(self, message: str, type_: type[T], *, key: str | None = None) -> Answer[T]: ...
    @overload
    def elicit(self, message: str, type_: TypeForm[T], *, key: str | None = None) -> Answer[T]: ...
    @overload
    def elicit(self, message: str, type_: Any, *, key: str | None = None) -> Answer[Any]: ...
    def elicit(self, message: str, type_: Any, *, key: str | None = None) -> Answer[Any]:
        """Ask the user to fill in a form; see `Context.elicit`."""
        return self._run(Asking(self._call).elicit(message, type_, key=key))

    def elicit_url(
        self, message: str, url: str, *, done: Callable[[], bool] | None = None, key: str | None = None
    ) -> Answer[None]:
        """Ask the user to visit a page; see `Context.elicit_url`. `done` is called in the event loop."""
        return self._run(Asking(self._call).elicit_url(message, url, done=done, key=key))

    def sample(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> Sampled:
        """Have the client's model say something; see `Context.sample`."""
        return self._run(Asking(self._call).sample(messages, max_tokens=max_tokens, **options))

    def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the client's roots; see `Context.list_roots`."""
        return self._run(Asking(self._call).list_roots(key=key))

    def on_cancel(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """Say what stops this function when nobody waits for it any more: `db.interrupt`, `process.kill`.

        It is called when the call is cancelled, out of time, or ended with the server; once, in a thread of its own,
        and not after the function has returned. What it raises is logged. What the function raises then is
        expected, and is not.

        Args:
            stop: What to call.

        Returns:
            A context manager for a part of the function, `with ctx.sync.on_cancel(db.interrupt):`; after its block
            `stop` is not called any more. Without `with` it may be until the function returns.

        Raises:
            RuntimeError: The call has ended already, or the function does not run in a worker thread.
            TypeError: It cannot be called, or is async.
        """
        worker_loop(self._call)
        given: object = stop
        if not callable(given) or iscoroutinefunction(given):
            raise TypeError(
                "on_cancel takes a function that is not async, such as db.interrupt, without parentheses; "
                f"got {stop!r}"
            )
        return self._call.stopped_by(stop)

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Do something that must not be done again in each round; see `Context.once`. It is called in this thread."""
        call = self._call

        async def begin() -> tuple[Any] | None:
            return begin_once(call, key)

        async def end(value: T) -> T:
            call.check_open()
            return cast("T", end_once(call, key, value))

        known = self._run(begin())
        if known is not None:
            return cast("T", known[0])
        try:
            value = function()
        except BaseException:
            forget_once(call, key)
            raise
        return self._run(end(value))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return in_loop(coroutine, self._call)
