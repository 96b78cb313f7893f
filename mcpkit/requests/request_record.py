"""The record of one request, the objects that all requests of a server share, and the results of handlers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from pydantic_core import from_json, to_json

from .._utils.concurrency import Running, running_loop
from .._utils.exceptions import CallEndedError
from ..content.blocks import LeaveLoop
from ..content.iterators_and_third_party_values import is_iterator, take_items
from ..content.json_encoding import LONG, json_error, may_have_huge_number
from ..execution.coroutines import collected, is_async_iterable, is_complete, listed
from ..execution.worker_threads import StopCallback, call_stop_callbacks
from ..protocol.jsonrpc import Json, Outcome, RequestId, encode
from ..protocol.jsonrpc_validation import Request
from ..protocol.revisions import CacheHint, Client, Envelope, Handshake, Identity, knows
from .progress_and_logging import Reports
from .requests_to_client import DERIVED, Channel, Question, check_key, type_text
from .timeouts_and_concurrency import INHERITED, CallLimits, LimitedRun, Shares

if TYPE_CHECKING:
    from .._utils.exceptions import ProtocolError
    from ..auth.verifier import TokenVerifier
    from ..execution.worker_processes import Processes
    from ..execution.worker_threads import Threads
    from ..identity.audit_and_revocation import AuditLog
    from ..identity.principals_and_scopes import Principal, Scopes
    from ..options import Limits, ServerOptions, Timeouts
    from ..storage.base import Storage, TaskMeter
    from ..storage.encryption_keys import Keys
    from ..storage.jobs_and_heartbeats import Membership

T = TypeVar("T")

# In place of a handler's state, where there is no handler: in middleware.
NO_STATE = object()

_reports_lock = Lock()


@dataclass(eq=False, repr=False)
class Runtime:
    """Objects that the requests of one server share.

    Args:
        server: The server, for `ctx.server`.
        name: Name of the server.
        threads: Worker threads, for functions that are not `async`.
        processes: Worker processes, for functions that must be stoppable.
        limits: Upper bounds of the server.
        timeouts: Time limits of the server.
        storage: Storage of the server.
        is_alone: Whether the storage belongs to this process alone.
        scopes: Scopes that may be granted.
        auth: Verifier of access tokens; None for a server without authentication. With a verifier, callers must
            authenticate, except for anonymous components.
        make_keys: Makes the signing keys, on first use.
        options: Rarely used options of the server.
        mask_error_details: Whether clients get only a reference to the log for an unexpected exception.
        cache: Cache hints for results, by method.
        identity: Returns the server's name, version and other information for a protocol version.
        declares: Returns whether the server declares a capability.
        state_in: Returns the value of the server's lifespan in an event loop, by default the running one.
        explain: Called with an unexpected exception; returns the exception for the client.

    Attributes:
        running: Shares of the running requests, by client.
        overrides: Replacements of functions in a test, by the function's identity.
        detached: Calls that run without a client, by event loop.
        task_meters: Meters of tasks.
        presences: Records of the other server processes that share the storage.
    """

    server: object
    name: str
    _: KW_ONLY
    threads: Threads
    processes: Processes
    limits: Limits
    timeouts: Timeouts
    storage: Storage
    is_alone: bool
    scopes: Scopes
    auth: TokenVerifier | None
    make_keys: Callable[[], Keys]
    options: ServerOptions
    mask_error_details: bool
    cache: Mapping[str, CacheHint]
    identity: Callable[[str], Identity]
    declares: Callable[[str], bool]
    state_in: Callable[[asyncio.AbstractEventLoop | None], Any]
    explain: Callable[[Call, BaseException], BaseException]
    running: Shares = field(default_factory=Shares, init=False)
    overrides: Mapping[Hashable, Callable[..., Any]] = field(
        default_factory=dict[Hashable, Callable[..., Any]], init=False
    )
    detached: WeakKeyDictionary[asyncio.AbstractEventLoop, set[BackgroundCall]] = field(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, "set[BackgroundCall]"], init=False
    )
    task_meters: tuple[TaskMeter, ...] = field(default=(), init=False)
    presences: set[Membership] = field(default_factory=set["Membership"], init=False)

    @cached_property
    def is_protected(self) -> bool:
        """True if the server verifies access tokens."""
        return self.auth is not None

    @cached_property
    def keys(self) -> Keys:
        """Signing keys of the server."""
        return self.make_keys()

    @cached_property
    def audit(self) -> AuditLog:
        """Audit log of logins, refusals and similar events, imported on first use."""
        from ..identity.audit_and_revocation import AuditLog

        return AuditLog(lambda: self.keys)

    def replicas(self) -> int:
        """Return the known number of server processes that serve over HTTP and share a store: 1 or more."""
        return max((each.count() for each in tuple(self.presences)), default=1)

    async def end_detached(self) -> None:
        """End the calls of this event loop that run without a client, and wait until they have stopped."""
        detached = self.detached.pop(asyncio.get_running_loop(), ())
        await asyncio.gather(*[each.end() for each in tuple(detached)])


@dataclass(eq=False)
class BackgroundCall:
    """A call that runs without a client.

    Attributes:
        end: Ends it, and waits until it has stopped.
        cancel_of: Cancels it if its principal matches a predicate, with an error for the client.
    """

    end: Callable[[], Awaitable[None]]
    cancel_of: Callable[[Callable[[Principal], bool], ProtocolError], None]


class Call(Running):
    """One request, from its arrival to its response.

    Args:
        runtime: Shared objects of the server.
        request: The parsed request.
        channel: Channel for the messages of the request.

    Attributes:
        runtime: Shared objects of the server.
        channel: Channel for the messages of the request.
        envelope: Client, protocol version and era of the request.
        request_id: The JSON-RPC id.
        params: The params that the client sent, or those of a middleware that changed them.
        meta: The `_meta` of the params; an empty dict if there is none.
        loop: The event loop of the request; None until a handler or middleware runs.
        needs: Scopes that the component needs.
        state: Value of the lifespan of the component's server; `NO_STATE` outside of handlers.
        limited_run: Run of the handler within its timeout and slot; None if it has neither.
        last_yield: Time when other requests last ran, in seconds of the event loop's clock.
        sent: Params as the client sent them, if a middleware has changed them.
        reports: Progress and log messages of the call; None before the first.
        dialogue: Requests to the client; None before the first.
        ref: Reference of the call's failure in the log; None if there is none.
        exception: Exception behind the error result, for middleware.
        sync_calls: Tasks in the event loop that worker threads of the call wait for; None if there were none.
        stops: Functions that stop the handler in its thread; None if there are none.
        key: Key of the call in `Calls`, which runs it and sets this and the following attributes.
        reply: Called with the response.
        caller: Client of the request, in the shares of running requests.
        task: The task, after its first step.
        unstarted: Coroutine of the result, until the task runs.
        stopped: Done when the task has ended; None if no task waits for that.
        is_cancelled: Whether the call was cancelled.
    """

    key: Hashable
    reply: Callable[[bytes | None, BaseException | None], None]

    # Defaults are attributes of the class: a call sets the few that it needs.
    loop: asyncio.AbstractEventLoop | None = None
    needs: tuple[str, ...] = ()
    state: Any = NO_STATE
    limited_run: LimitedRun | None = None
    last_yield: float | None = None
    sent: Json | None = None
    reports: Reports | None = None
    dialogue: Dialogue | None = None
    ref: str | None = None
    exception: BaseException | None = None
    sync_calls: set[asyncio.Task[Any]] | None = None
    stops: list[StopCallback] | None = None
    caller: str | None = None
    task: asyncio.Task[Any] | None = None
    unstarted: Coroutine[Any, Any, Outcome] | None = None
    stopped: asyncio.Future[None] | None = None
    is_cancelled = False

    def __init__(self, runtime: Runtime, request: Request, channel: Channel) -> None:
        # Without a call of the base class: this is on the path of each request.
        self.method = request.method
        self.is_ended = False
        self.is_timed_out = False
        self.left = None
        self.runtime = runtime
        self.channel = channel
        self.envelope: Envelope = request.envelope
        self.request_id: RequestId = request.id
        self.params = request.params
        self.meta = request.meta

    def copy_to(self, channel: Channel) -> Call:
        """Return a new call of the same request that sends its messages on another channel."""
        request = Request()
        request.envelope, request.id, request.method = self.envelope, self.request_id, self.method
        request.params, request.meta = self.params, self.meta
        return Call(self.runtime, request, channel)

    # The request

    @property
    def client(self) -> Client:
        """Information about the client, as it declares it (not verified)."""
        return self.envelope.client

    @property
    def principal(self) -> Principal:
        """The verified principal of the request."""
        return self.channel.principal

    @property
    def revision(self) -> str:
        """The protocol version of the request."""
        return self.envelope.revision

    @property
    def era(self) -> str:
        """`handshake` or `stateless`."""
        return self.envelope.era

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the HTTP request, with case-insensitive names; empty on other transports."""
        from ..protocol.http_headers import RequestHeaders

        return RequestHeaders(self.channel.request_headers)

    @property
    def known_state(self) -> Any:
        """Value of the lifespan: of the component's server in a handler, else of the server itself.

        Raises:
            BusyError: Outside of handlers: the lifespan is still starting.
            ProtocolError: Outside of handlers: the lifespan failed to start.
        """
        return self.runtime.state_in(self.loop) if self.state is NO_STATE else self.state

    # The run of its handler

    @property
    def deadline(self) -> float | None:
        """End of the timeout, in seconds of `time.monotonic()`; None without a timeout."""
        return None if self.limited_run is None else self.limited_run.deadline

    def paused(self) -> AbstractAsyncContextManager[object]:
        """Return a context manager that stops the clock, and gives the slot to other calls."""
        return nullcontext() if self.limited_run is None else self.limited_run

    def open_reports(self) -> Reports:
        """Return the progress and log messages, created on first use; from any thread."""
        with _reports_lock:
            if self.reports is None:
                assert self.loop is not None, "its handler runs"
                self.reports = Reports(
                    self,
                    self.channel,
                    self.loop,
                    self.meta.get("progressToken"),
                    has_message=knows(self.revision, "ProgressNotification", "message"),
                )
            return self.reports

    def add_stop(self, function: Callable[[], object]) -> StopCallback:
        """Register a function that stops the handler; called in the handler's thread.

        Raises:
            CallEndedError: The call has ended.
        """
        stop = StopCallback(function, self.method)
        self.stops = [*(each for each in self.stops or () if each.is_registered), stop]
        if self.is_over:  # checked last, because the stop functions may have been called meanwhile
            stop.unregister()
            raise CallEndedError(self.method)
        return stop

    def close_stops(self) -> None:
        """Unregister all stop functions, after the handler has returned."""
        stops, self.stops = self.stops, None
        for stop in stops or ():
            stop.unregister()

    @property
    def is_stoppable(self) -> bool:
        """True if the handler has registered a stop function."""
        return any(stop.is_registered for stop in self.stops or ())

    def leave(self, left: asyncio.Future[None]) -> None:
        """Record that the worker thread runs on until `left` is done, and call the registered stop functions."""
        self.left = left
        for task in tuple(self.sync_calls or ()):
            task.cancel()
        if self.stops:
            call_stop_callbacks(self.stops)

    # The event loop, from a function in a worker thread

    def worker_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the request, which must not be this thread's.

        Raises:
            CallEndedError: It has been closed.
            RuntimeError: It is this thread's.
        """
        loop = self.loop
        if loop is None or running_loop() is loop:
            raise RuntimeError(
                "ctx.sync only works in a worker thread. In the event loop, await the method of ctx instead"
            )
        if loop.is_closed():
            raise CallEndedError(self.method)
        return loop

    def run_in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine in the event loop of the request, from a worker thread, until the end of the call.

        Raises:
            CallEndedError: The call has ended.
            RuntimeError: This is the thread of that event loop.
            BaseException: The exception of the coroutine.
        """
        try:
            loop = self.worker_loop()
        except RuntimeError:
            coroutine.close()
            raise

        async def run() -> tuple[Any, BaseException | None]:
            """Return the exception, because a task that raises SystemExit would end the event loop."""
            task = asyncio.current_task()
            assert task is not None
            if self.sync_calls is None:
                self.sync_calls = set()
            self.sync_calls.add(task)  # the call cancels it at its end
            try:
                return await coroutine, None
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - raised in the thread
                return None, error
            finally:
                self.sync_calls.discard(task)

        running = run()
        try:
            future = asyncio.run_coroutine_threadsafe(running, loop)
        except RuntimeError:  # it has been closed meanwhile
            running.close()
            coroutine.close()
            raise CallEndedError(self.method) from None
        try:
            value: T
            value, problem = future.result()
        except concurrent.futures.CancelledError:
            raise CallEndedError(self.method) from None
        try:
            if problem is not None:
                raise problem
            return value
        finally:
            del problem  # its traceback has this frame

    # Its response

    def render(self, result: Json, cache: CacheHint | None = None, *, is_complete: bool = True) -> bytes:
        """Encode a result, with the members that the era requires.

        Args:
            result: The result object.
            cache: Cache hint in place of the method's. A protected server makes it private for an authenticated
                principal.
            is_complete: Whether the method is complete. If not, the result has no cache hint.

        Raises:
            OutputError: A value has no JSON form.
        """
        runtime = self.runtime
        try:
            if isinstance(self.envelope, Handshake):
                written = encode(result)  # this era adds no members
            else:
                if is_complete:
                    cache = cache or runtime.cache.get(self.method)
                if cache is not None and runtime.is_protected and self.channel.principal.id is not None:
                    cache = cache.private  # a shared cache must not serve it to other users
                written = self.envelope.render(result, runtime.identity, cache)
        except ValueError as error:
            raise json_error(result) or error from None
        if len(written) > LONG and may_have_huge_number(written) and (problem := json_error(result)):
            raise problem
        return written

    def end(self, *, is_answered: bool) -> None:
        """End the call. Pending progress and log messages are sent before the response, and none after it.

        Args:
            is_answered: Whether a response follows.
        """
        self.is_ended = True
        self.exception = None  # its traceback refers to the request
        reports, self.reports = self.reports, None
        if reports is not None:
            reports.end(is_answered=is_answered)


async def run_limited(run: Coroutine[Any, Any, Any], call: Call, limits: CallLimits | None) -> Any:
    """Run a component's function within its limits.

    Args:
        run: Coroutine of the run, not started.
        call: The request.
        limits: Limits of the component; the timeout of the server applies if they have none.

    Returns:
        The value of the run.

    Raises:
        CallTimeoutError: The timeout has ended. The run was cancelled, and continues alone if it ignores that.
        BaseException: The exception of the run.
    """
    timeout, slots = (INHERITED, None) if limits is None else (limits.timeout, limits.slots)
    if timeout == INHERITED:
        timeout = call.runtime.timeouts.call
    call.is_timed_out = False
    limited = LimitedRun(call, timeout, slots, call.runtime.running, call.channel.caller)
    call.limited_run = limited
    try:
        return await limited.run(run)
    finally:
        if not limited.is_over:  # after the timeout, a function that continues still reads its deadline
            call.limited_run = None


# Results of handlers. A conversion runs where the function ran, within the timeout of the call. It leaves the event
# loop if it may block.

# Makes a result of a function's return value: the same, however often it is called and wherever.
Make = Callable[[Any], Any]

# Calls a function in a thread.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


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


# Requests to the client


class Dialogue:
    """Requests of one call to its client, and its side effects with `once`.

    The requests are JSON-RPC requests to the client, on the channel of the call. There is one round, and state from an
    earlier round is ignored. `Rounds` implements the stateless era.

    Args:
        call: The call.

    Attributes:
        attempt: Number of the run of the function; 1 without a task.
        has_done: Whether a side effect has run in this round.
        has_rounds: Whether the call is answered with its requests, and repeated with the answers.
        call_id: Id that is the same in all rounds of a request.
        task_id: Id of the task; None if the call is not the run of a task.
    """

    has_rounds: ClassVar[bool] = False
    attempt: int = 1
    task_id: str | None = None

    def __init__(self, call: Call) -> None:
        self._call = call
        self.call_id = os.urandom(12).hex()
        self._once: Json = {}
        self._until: dict[str, float] = {}  # key: deadline for the step on a page
        self._used: set[tuple[str, str]] = set()
        self._count = 0
        self.has_done = False

    def begin(self) -> None:
        """Reset the used keys at the start of the handler, which a middleware may run twice."""
        self._used.clear()

    def use(self, what: str, key: str) -> None:
        """Record that a key is used.

        Args:
            what: Its use, `question` or `ctx.once`. The two have separate keys.
            key: The key.

        Raises:
            ValueError: The key was used before in this run.
        """
        if (what, key) in self._used:
            raise ValueError(
                f"this call already has a {what} with the key {key!r}. Give each its own key, "
                f'in a loop for example f"{key}-{{number}}"'
            )
        self._used.add((what, key))

    def release(self, what: str, key: str) -> None:
        """Release a key that was not used after all."""
        self._used.discard((what, key))

    # Requests

    def name(self, key: str | None) -> str:
        """Return the name of a request to the client: its key, or otherwise its index.

        Raises:
            ValueError: The key was used before in this run.
        """
        if key is None:
            self._count += 1
            return f"{DERIVED}{self._count}"
        self.use("question", key)
        return key

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the answers to requests that are sent at once. The clock of the call stops until then.

        Args:
            questions: The requests.
            requests: Their JSON.
            names: Their names.

        Raises:
            InputRequired: Some answers are missing, and come with the next round.
            ClientResponseError: The client does not respond, refuses, or its response is invalid.
            ProtocolError: An answer is malformed; the handler sends another request under a name than before; or too
                many requests to the client are open.
        """
        channel = self._call.channel
        assert channel.questions is not None, "the channel has requests to the client"
        seconds = self._call.runtime.timeouts.client_request
        async with self._call.paused():
            return await channel.questions.ask(questions, requests, channel, seconds)

    def forget(self, key: str) -> None:
        """Discard an answer, so that the request is sent again."""

    def until(self, key: str, seconds: float) -> float:
        """Return the deadline for the step on a page, in Unix seconds. The first call sets it."""
        return self._until.setdefault(key, time.time() + seconds)

    def settle(self, key: str) -> None:
        """Record that the step on a page is complete."""
        self._until.pop(key, None)

    # Side effects

    def begin_once(self, key: str) -> tuple[Any] | None:
        """Use a key for a side effect, and return its value from an earlier round as a tuple of one, or None.

        Raises:
            CallEndedError: The call has ended.
            ValueError: The key is invalid, or was used before in this run.
        """
        self._call.check_open()
        check_key(key)
        self.use("ctx.once", key)
        return (self._once[key],) if key in self._once else None

    def end_once(self, key: str, value: Any) -> Any:
        """Store the value of a side effect for later rounds, and return it in the form that they get.

        Raises:
            TypeError: The value differs after a JSON round trip.
        """
        with suppress(ValueError):
            kept = from_json(to_json(value))
            if kept == value:
                self._once[key] = kept
                self.has_done = True
                return kept
        what = type_text(value) + (" with values of other types" if type(value) in {list, dict} else "")
        raise TypeError(
            f"the function of ctx.once({key!r}, ...) returned {what}, which does not survive a round trip through "
            "JSON. Return a string, number, boolean or None, or a list or dict with string keys of these"
        )

    async def keep(self) -> None:
        """Persist the stored values, if the function may run again in another process."""

    # Rounds

    async def redeem(self) -> None:
        """Mark the state of the earlier round as used, so that no other request can continue from it.

        Raises:
            MalformedError: The state was used before, or this server cannot check it.
            BusyError: The shared store does not respond.
        """

    def check_settled(self) -> None:
        """End the round if the handler has returned in spite of an open request.

        Raises:
            InputRequired: An answer of the client is missing.
        """

    def result(self) -> Json | None:
        """Return the result that ends a round; None without rounds.

        Raises:
            ValueError: The state is too large.
        """
        return None


# Contexts


class CallContext:
    """Base class of `Context`, by which lower packages recognise a parameter for it.

    Args:
        call: The request.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __eq__(self, other: object) -> bool:
        """Return True if both belong to the same request."""
        return isinstance(other, CallContext) and call_of(other) is self._call

    def __hash__(self) -> int:
        """Return the hash of the request."""
        return hash(self._call)


def call_of(context: CallContext) -> Call:
    """Return the request behind a context."""
    return context._call  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # handlers see a context alone
