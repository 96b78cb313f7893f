"""The `Context` of a request, which handlers use to read the request and to send messages to its client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import AbstractContextManager
from functools import update_wrapper
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, cast, overload

from typing_extensions import ParamSpec, TypeVar

from ._utils.concurrency import current
from .components.registry_and_decorators import ServerBase
from .execution.coroutines import TIME_SLICE, finish_awaitable
from .protocol import jsonrpc
from .protocol.revisions import NOTIFICATIONS, SEVERITY
from .requests.access_and_error_responses import require, token_for
from .requests.progress_and_logging import Reports, as_text, log_message
from .requests.request_record import Call, CallContext, call_of

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

    from .identity.principals_and_scopes import Principal
    from .protocol.jsonrpc import RequestId
    from .protocol.revisions import Client
    from .requests.elicitation_and_sampling import ElicitationResult, Root, SampleOptions, SamplingResult
    from .requests.requests_to_client import Question
    from .storage.base import Store

# `requests/elicitation_and_sampling.py` is imported on use: most handlers send no requests to the client.

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
State = TypeVar("State", default=Any)


class Context(CallContext, Generic[State]):
    """The current request: its parameters and user, and the messages that its handler sends to the client.

    mcpkit passes it to a parameter with this annotation, which is not part of the input schema. `Context[Database]`
    gives `ctx.state` the type of what the lifespan yields:

        @server.tool
        async def count(table: str, ctx: Context[Database]) -> int:
            await ctx.info(f"counting {table}")
            return await ctx.state.count(table)

    It is valid until the call ends. A method that sends something later raises RuntimeError. Two contexts of one
    request are equal.

    Requests to the client (`ask`, `elicit`, `elicit_url`, `sample`, `list_roots`) are alike in both eras. In the
    handshake era, the server sends a JSON-RPC request to the client on the stream of the call. In the stateless era,
    the server answers the call with the request, and the client repeats the call with the answer. The handler then runs
    from the start, and earlier answers are returned at once. So it must send the same requests in each round. Side
    effects before a request happen again in each round, unless `once` runs them (basic/patterns/mrtr).
    """

    __slots__ = ()

    # The request

    @property
    def request_id(self) -> RequestId:
        """The JSON-RPC id of the request."""
        return self._call.request_id

    @property
    def method(self) -> str:
        """The request's method, for example `tools/call`."""
        return self._call.method

    @property
    def params(self) -> dict[str, Any]:
        """The params of the request: those that the client sent, or those of a middleware that changed them."""
        return self._call.params

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params; an empty dict if there is none."""
        return self._call.meta

    @property
    def client(self) -> Client:
        """Name, version, info and capabilities of the client, as it declares them (not verified)."""
        return self._call.client

    @property
    def principal(self) -> Principal:
        """The verified principal of the request, with `id` and `scopes`; see `Principal`."""
        return self._call.principal

    @property
    def protocol_version(self) -> str:
        """The protocol version of the request, for example `2025-11-25`."""
        return self._call.revision

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the HTTP request, with case-insensitive names; empty on other transports.

        The values are those that the client, or a proxy before the server, sent. The lines of a list header, such as
        `Accept` or `X-Forwarded-For`, are joined with commas. Reading any other header that was sent more than once
        raises an error that becomes the response (-32602). Over HTTP+SSE, they are the headers of the request that
        opened the stream.
        """
        return self._call.headers

    @property
    def cancelled(self) -> bool:
        """True if the result is no longer needed, because the call was cancelled or its time limit has passed.

        Code that does not await, such as a loop in a worker thread, should check it regularly.
        """
        return self._call.is_over

    @property
    def deadline(self) -> float | None:
        """The time at which the call times out, on the clock of `time.monotonic()`; None if it has no time limit.

        The clock stops while the call waits for an answer of the client (elicitation, sampling, roots).
        """
        return self._call.deadline

    # The server

    @property
    def server(self) -> ServerBase:
        """The server of the request, for `ctx.server.catalog` and `ctx.server.notify_resource_updated`."""
        server = self._call.runtime.server
        assert isinstance(server, ServerBase), "every server is one"
        return server

    @property
    def state(self) -> State:
        """The object that the server's lifespan yielded; None without a lifespan.

        In a handler, it belongs to the server of the component. In middleware, it belongs to the server of the
        middleware.

        Raises:
            BusyError: Only in middleware: the lifespan is still being entered after the server's `Timeouts.startup`. Do
                not catch it; the client gets a retryable error.
            ProtocolError: Only in middleware: the lifespan failed.
        """
        return cast("State", self._call.known_state)

    @property
    def storage(self) -> Store:
        """The storage of the server, `Server(storage=...)`, for data that its processes share."""
        return self._call.runtime.storage

    # Access

    def require_scopes(self, *scopes: str) -> None:
        """Refuse the request unless its access token has these scopes: `ctx.require_scopes("notes:write")`.

        Call it before the handler changes anything, from any thread. Over HTTP, the client gets a challenge (403),
        obtains the scopes, and sends the request again. This works as long as the response has not begun and no `once`
        has run in this round; `optional_scopes=` of the component delays the response until then. Later, or without
        HTTP, the call fails: a tool with `isError: true` and the challenge in `_meta["mcp/www_authenticate"]`
        (basic/authorization, "Scope Challenge Handling").

        Args:
            scopes: All scopes that the next steps need. The client requests them at once.

        Raises:
            ChallengeError: A scope is missing. Do not catch it.
            InsufficientScopeError: A scope is missing, and a challenge is no longer possible. Do not catch it.
            RegistrationError: The server does not have such a scope.
            RuntimeError: The call has ended.
        """
        require(self._call, scopes)

    async def upstream_token(self, provider: str) -> str:
        """Return the user's access token at the provider of the login: `await ctx.upstream_token("github")`.

        It needs a server with `auth=OAuthProxy(...)`. The token is valid for at least a minute, if the provider allows
        that. mcpkit refreshes it when needed, once for all requests that wait for it. Send it only to this provider,
        and keep it out of results and logs.

        Args:
            provider: Name of the provider, such as `"github"`.

        Raises:
            LoginNeededError: The user has not logged in at this provider, or must log in again. Do not catch it.
            ChallengeError: The login has ended, and the client can log in again and repeat the request. Do not catch
                it.
            ProviderUnavailableError: The provider does not answer. Do not catch it.
            RegistrationError: Users of this server do not log in at this provider.
            OSError: The storage does not answer.
            RuntimeError: The call has ended.
        """
        return await token_for(self._call, provider)

    # Notifications

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the client (basic/patterns/progress).

        Nothing is sent if the client did not request progress, or if `progress` is not greater than before, because the
        specification requires it to increase. The first report, the one that reaches `total`, and at most 50 a second
        are sent at once. Of the others, the latest is sent when it is due, or before the result.

        This method also lets other requests run if more than 10 ms have passed since the last report. A cancellation of
        the call takes effect here.

        Args:
            progress: Amount of work done, in any unit.
            total: Total amount of work, in the same unit; None if unknown.
            message: A sentence for people. Anything but a string is sent as its `repr`. Protocol version 2024-11-05
                does not have it.

        Raises:
            RuntimeError: The call has ended.
            TypeError: `progress` or `total` is not a number.
            ValueError: `progress` or `total` is not finite.
        """
        call = self._call
        reports = _add_progress(call, progress, total, message)
        if reports is not None:
            await reports.deliver()
        loop = asyncio.get_running_loop()
        now = loop.time()
        if call.last_yield is None:
            call.last_yield = now
        elif now - call.last_yield > TIME_SLICE:
            await asyncio.sleep(0)
            call.last_yield = loop.time()

    async def track(
        self, items: Iterable[T] | AsyncIterable[T], message: str | None = None, *, total: float | None = None
    ) -> AsyncIterator[T]:
        """Iterate over items with `async for`, and report how many are done; see `report_progress`.

        Progress continues from earlier reports: after 10 items of another loop, 5 more are 11 to 15 of 15.

        Args:
            items: An iterable or async iterable.
            message: A sentence for people, the same in each report.
            total: Number of items; None for their `len`, if they have one.

        Returns:
            An async iterator of the items. An item counts as done when the next one is requested. Other requests run
            meanwhile, as with `report_progress`.

        Raises:
            TypeError: The items are not iterable.
        """
        iterator = aiter(items) if isinstance(items, AsyncIterable) else iter(items)
        done, total = _counts(self._call, items, total)
        await self.report_progress(done, total, message)
        if isinstance(iterator, AsyncIterator):
            async for item in iterator:
                yield item
                done += 1
                await self.report_progress(done, total, message)
        else:
            for item in iterator:
                yield item
                done += 1
                await self.report_progress(done, total, message)

    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client (utilities/logging; deprecated since 2026-07-28).

        Nothing is sent if the level is below the client's minimum level, or, in the stateless era, if the request sets
        none.

        Args:
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            data: Any value, without secrets. A value without a JSON form, such as an exception or an object, is sent as
                its `repr`, at any depth.
            logger: Name of the logger.

        Raises:
            RuntimeError: The call has ended, or the server does not declare `logging`.
            ValueError: The level is unknown.
        """
        call = self._call
        call.check_open()
        if level not in SEVERITY:
            raise ValueError(f"unknown log level {level!r}: expected one of {', '.join(SEVERITY)}")
        if not call.runtime.declares("logging"):
            raise RuntimeError(
                "this server does not declare the logging capability, as none of its handlers takes a Context. "
                "Give this handler a parameter `ctx: Context`, or write "
                'Server(..., options=ServerOptions(capabilities={"logging"}))'
            )
        least = call.envelope.log_level
        if least is None or SEVERITY[level] < SEVERITY[least]:
            return
        call.channel.send(log_message(level, data, logger))
        await call.channel.ready()

    async def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `debug`; see `log`."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `info`; see `log`."""
        await self.log("info", data, logger=logger)

    async def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `warning`; see `log`."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level `error`; see `log`."""
        await self.log("error", data, logger=logger)

    # Requests to the client

    @overload
    async def ask(self, first: Question[A], /) -> tuple[A]: ...
    @overload
    async def ask(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    async def ask(self, first: Question[A], second: Question[B], third: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    async def ask(self, *questions: Question[Any]) -> tuple[Any, ...]: ...
    async def ask(self, *questions: Question[Any]) -> tuple[Any, ...]:
        """Send several requests to the client at once.

        Args:
            questions: Any number of `ElicitRequest`, `UrlElicitRequest`, `SamplingRequest` and `ListRootsRequest`.

        Returns:
            The answers, in the order of the requests.

        Raises:
            MissingCapabilityError: The client does not declare a capability that a request needs. Do not catch it: the
                client receives it as an error.
            ClientResponseError: The client refuses, does not respond in time, or its response is invalid.
            TypeError: An argument is not a request to the client.
            ValueError: The key of a request was used before in this call.
            RuntimeError: The call has ended, or its method cannot send requests to the client.
        """
        from .requests.elicitation_and_sampling import ask

        return await ask(self._call, questions)

    @overload
    async def elicit(
        self, message: str, type_: Mapping[str, Any], *, key: str | None = None
    ) -> ElicitationResult[dict[str, Any]]: ...
    @overload
    async def elicit(
        self, message: str, type_: type[T], *, key: str | None = None
    ) -> ElicitationResult[T]: ...
    @overload
    async def elicit(
        self, message: str, type_: TypeForm[T], *, key: str | None = None
    ) -> ElicitationResult[T]: ...
    @overload
    async def elicit(self, message: str, type_: Any, *, key: str | None = None) -> ElicitationResult[Any]: ...
    async def elicit(self, message: str, type_: Any, *, key: str | None = None) -> ElicitationResult[Any]:
        """Request data from the user with a form (client/elicitation).

        Args:
            message: Reason for the request, for the user.
            type_: Type of the data: a pydantic model, dataclass, TypedDict or NamedTuple with fields of text, number,
                boolean, date or choice; or one such type, or a list of choices. Or a JSON Schema, whose value is a
                dict. Never use it for secrets: see `elicit_url`.
            key: Name of the request; see `Question`.

        Returns:
            The user's decision, true if accepted. `value` has the data that the user entered.

        Raises:
            TypeError: A form cannot have this type.
            Exception: Those of `ask`.
        """
        from .requests.elicitation_and_sampling import ElicitRequest

        answer: ElicitationResult[Any] = (await self.ask(ElicitRequest(message, type_, key=key)))[0]
        return answer

    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        done: Callable[[], bool | Awaitable[bool]] | None = None,
        key: str | None = None,
    ) -> ElicitationResult[None]:
        """Request a visit to a page, for data that must not pass through the client (client/elicitation, "URL Mode").

        Args:
            message: Reason for the request, for the user.
            url: URL of the page, http or https.
            done: Function that returns whether the user has completed the step on the page: `accept` is consent, not
                completion. While it returns False, the user is asked again, for `Timeouts(client_request=...)` seconds
                from the first accept on. With None, the user is asked once.
            key: Name of the request; see `Question`.

        Returns:
            The user's decision. With `done`, an accepted result means that the step is complete.

        Raises:
            ValueError: The URL is not an http or https URL.
            TypeError: `done` is not a function.
            ClientResponseError: `done` still returns False at the end of the time.
            Exception: Those of `ask`.
        """
        from .requests.elicitation_and_sampling import ask_url

        return await ask_url(self._call, message, url, done, key)

    async def sample(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> SamplingResult:
        """Generate a message with the client's model (client/sampling; deprecated since 2026-07-28).

        Args:
            messages: A text, or messages made by `user(...)` and `assistant(...)`.
            max_tokens: Maximum number of tokens to generate.
            options: Optional parameters; see `SampleOptions`.

        Returns:
            The message of the model; `text` has its text.

        Raises:
            Exception: Those of `ask`.
        """
        from .requests.elicitation_and_sampling import SamplingRequest

        (answer,) = await self.ask(SamplingRequest(messages, max_tokens=max_tokens, **options))
        return answer

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Request the client's roots (client/roots; deprecated since 2026-07-28).

        Args:
            key: Name of the request; see `Question`.

        Raises:
            Exception: Those of `ask`.
        """
        from .requests.elicitation_and_sampling import ListRootsRequest

        (answer,) = await self.ask(ListRootsRequest(key=key))
        return answer

    # Rounds of the request

    @overload
    async def once(self, key: str, function: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T | Awaitable[T]]) -> T: ...
    async def once(self, key: str, function: Callable[[], T | Awaitable[T]]) -> T:
        """Run a side effect, such as an order, and repeat its result in later rounds: at least once.

        Args:
            key: Name of the side effect in this request, 1 to 100 characters.
            function: Runs the side effect and returns a JSON value. A function that is not `async` is called in a
                worker thread. The client carries the value to the next round and can read it; a task stores it.
                If the function raises, nothing is stored, and the key may be used again.

        Returns:
            The value that the function returned, in this round or an earlier one.

        Raises:
            TypeError: The value differs after a JSON round trip, for example a tuple or a date.
            ValueError: The key is invalid, or was used before in this call.
            Exception: The exception of the function.
        """
        from .requests.elicitation_and_sampling import dialogue_of

        call = self._call
        dialogue = dialogue_of(call)
        known = dialogue.begin_once(key)
        if known is not None:
            return cast("T", known[0])
        try:
            if iscoroutinefunction(function):
                value = await function()
            else:
                value = await finish_awaitable(await call.runtime.threads.run(function, {}, call))
            value = dialogue.end_once(key, value)
        except BaseException:
            dialogue.release("ctx.once", key)
            raise
        await dialogue.keep()
        return cast("T", value)

    @property
    def idempotency_key(self) -> str:
        """String that is the same in all rounds and runs of this request, and differs for other requests."""
        from .requests.elicitation_and_sampling import dialogue_of

        return dialogue_of(self._call).call_id

    @property
    def task(self) -> TaskRun | None:
        """The task that runs this function; None while the client waits for the result, or while a task is created."""
        dialogue = self._call.dialogue
        if dialogue is None or dialogue.task_id is None:
            return None
        return TaskRun(dialogue.task_id, dialogue.attempt)

    # Other views

    @property
    def http(self) -> HttpContext:
        """Access to the HTTP response of the request, see `HttpContext`."""
        return HttpContext(self._call)

    @property
    def sync(self) -> SyncContext:
        """The same methods for functions that are not `async`: `ctx.sync.info("...")`."""
        return SyncContext(self)

    def __repr__(self) -> str:
        """Return the method, the id and the protocol version of the request."""
        return f"Context({self.method!r}, id={self.request_id!r}, protocol_version={self.protocol_version!r})"


def current_context() -> Context[Any]:
    """Return the `Context` of the current request, for helpers that a handler calls.

    Raises:
        RuntimeError: No request is being handled here.
    """
    call = current.get(None)
    if not isinstance(call, Call):
        raise RuntimeError(  # noqa: TRY004 - there is none
            "no request is being handled. Call current_context() only within a handler"
        )
    return Context(call)


class TaskRun(NamedTuple):
    """One run of a task, as the handler sees it."""

    id: str
    """The id of the task."""
    attempt: int
    """A number that is greater in each later run of the task. With it a database can refuse writes of an older run."""


class HttpContext:
    """Control of the HTTP response to a request: `ctx.http`."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    async def close_stream(self) -> None:
        """Close the event stream of this request; the client resumes it for the rest.

        A long call need not keep a connection open (basic/transports, "Sending Messages", 2025-11-25). Messages are
        stored until the client requests them, after a second or so. Only sessions of that version over HTTP can do so;
        everywhere else nothing happens.

        Raises:
            RuntimeError: The call has ended.
        """
        self._call.check_open()
        await self._call.channel.close()


# Handlers in worker threads


def _waiting(
    method: Callable[Concatenate[Context[Any], P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncContext, P], T]:
    """Return a method of `SyncContext` that runs a method of `Context` and waits for it."""

    def wait(self: SyncContext, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return call_of(self.context).run_in_loop(method(self.context, *args, **kwargs))

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

    def __init__(self, context: Context[Any]) -> None:
        self.context = context
        self._call = call_of(context)

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the client; see `Context.report_progress`."""
        self._call.worker_loop()
        reports = _add_progress(self._call, progress, total, message)
        if reports is not None:
            self._run(reports.deliver())

    def track(
        self, items: Iterable[T], message: str | None = None, *, total: float | None = None
    ) -> Iterator[T]:
        """Iterate over items, and report how many are done; see `Context.track`."""
        done, total = _counts(self._call, items, total)
        self.report_progress(done, total, message)
        for item in items:
            yield item
            done += 1
            self.report_progress(done, total, message)

    log = _waiting(Context.log)
    debug = _waiting(Context.debug)
    info = _waiting(Context.info)
    warning = _waiting(Context.warning)
    error = _waiting(Context.error)
    elicit_url = _waiting(Context.elicit_url)
    sample = _waiting(Context.sample)
    list_roots = _waiting(Context.list_roots)

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
        self._call.worker_loop()
        given: object = stop
        if not callable(given) or iscoroutinefunction(given):
            raise TypeError(
                "on_cancel takes a function that is not async, such as db.interrupt (without parentheses), "
                f"got {stop!r}"
            )
        return self._call.add_stop(stop)

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Run a side effect, and repeat its result in later rounds; see `Context.once`. It runs in this thread."""
        from .requests.elicitation_and_sampling import dialogue_of

        call = self._call

        async def begin() -> tuple[Any] | None:
            return dialogue_of(call).begin_once(key)

        async def end(value: T) -> T:
            call.check_open()
            dialogue = dialogue_of(call)
            kept = dialogue.end_once(key, value)
            await dialogue.keep()
            return cast("T", kept)

        known = self._run(begin())
        if known is not None:
            return cast("T", known[0])
        try:
            return self._run(end(function()))
        except BaseException:
            dialogue_of(call).release("ctx.once", key)
            raise

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._call.run_in_loop(coroutine)


# Notifications, for both contexts and for extensions


def _add_progress(call: Call, progress: float, total: float | None, message: str | None) -> Reports | None:
    """Record progress, from any thread. Return the `Reports` if it should be delivered now, else None."""
    call.check_open()
    progress, total = _finite(progress), None if total is None else _finite(total)
    if "progressToken" not in call.meta:
        return None
    reports = call.open_reports()
    is_due = reports.add_progress(progress, total, None if message is None else as_text(message))
    return reports if is_due else None


def _finite(number: float) -> float:
    """Return a progress number in a JSON form; it may be a NumPy number, a Decimal or similar."""
    try:
        if math.isfinite(number):
            return number if type(number) in (int, float) else float(number)
    except OverflowError:
        raise ValueError("progress must be a number below 1.8e308, got a larger integer") from None
    raise ValueError(f"progress must be a finite number, got {number!r}")


def _counts(call: Call, items: object, total: float | None) -> tuple[float, float | None]:
    """Return the progress that was reported before a loop over items, and the total with the items of the loop."""
    done = 0 if call.reports is None else max(0, call.reports.reported)
    if total is None and isinstance(items, Sized):
        total = len(items)
    return done, None if total is None else total + done


async def send_notification(call: Call, method: str, params: Mapping[str, Any] | None) -> None:
    """Send a notification of an extension that belongs to a request.

    Raises:
        RuntimeError: The call has ended.
        ValueError: The method is not a notification, or belongs to the core protocol.
    """
    call.check_open()
    if not method.startswith("notifications/") or method in NOTIFICATIONS:
        raise ValueError(
            f"{method!r} is not a notification of an extension. Use a name such as 'notifications/thing/changed', "
            "which the core protocol does not have"
        )
    call.channel.send(jsonrpc.notification(method, None if params is None else dict(params)))
    await call.channel.ready()
