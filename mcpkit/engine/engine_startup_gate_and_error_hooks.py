"""The engine of one server, the gate where requests wait while it starts, and hooks for unexpected exceptions."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from .._utils.concurrency import Listeners
from .._utils.exceptions import HandlerError
from .._utils.option_checks import check_hook
from ..execution.lifespan import Lifespan, Lifespans
from ..execution.worker_threads import is_fatal
from ..identity.principals_and_scopes import LIST_NAMES, Change
from ..protocol.jsonrpc import Outcome, Ready
from ..protocol.revisions import SERVER_CAPABILITIES
from ..requests.access_and_error_responses import is_masked, ref_of, single
from ..requests.request_record import Call, Runtime
from .included_providers_and_extensions import CompositeCatalog
from .listing_and_visibility import Listing
from .request_handlers_and_capabilities import Capabilities, Handler, Methods, TaskKeeper
from .subscription_filters_and_delivery import Hubs, Listen, SubscriptionHub

if TYPE_CHECKING:
    from ..auth.verifier import TokenVerifier
    from ..context import Context
    from ..identity.audit_and_revocation import Revocations

logger = logging.getLogger(__name__)


# The gate


class StartupGate:
    """Delays the requests of one server while its lifespans are being entered.

    In such an event loop, all requests except `ping` wait (basic/utilities/ping). After `seconds`, lists are served
    with the components that exist, all capabilities are declared, and later components are announced by notifications.
    Requests that name an existing component continue to wait, as its handler needs the state of the lifespan. Once all
    lifespans have been entered, requests do not pass through this class.

    Args:
        name: The server's name, for the log.
        seconds: Maximum time that requests wait, from the start; None for no limit.
        capabilities: Identity and capabilities of the server.
        on_change: Called, in any thread, when `handler_for` may return another function than before.
    """

    def __init__(
        self, name: str, seconds: float | None, capabilities: Capabilities, on_change: Callable[[], None]
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._capabilities = capabilities
        self._on_change = on_change
        self._lock = threading.Lock()
        self._starts: WeakKeyDictionary[asyncio.AbstractEventLoop, _Start] = WeakKeyDictionary()

    def handler_for(self, handler: Handler, is_registered: Callable[[Call], bool]) -> Handler:
        """Return the function that serves requests now.

        Args:
            handler: Serves them when they need not wait.
            is_registered: Returns True if the component that a request names exists.
        """

        async def wait(start: _Start, call: Call) -> Outcome:
            await start.is_open.wait()
            if not start.is_over.is_set() and is_registered(call):
                await start.is_over.wait()
            outcome = handler(call)
            return outcome if isinstance(outcome, (dict, bytes)) else await outcome

        def serve(call: Call) -> Ready | Coroutine[Any, Any, Outcome]:
            start = self._starts.get(asyncio.get_running_loop())
            return handler(call) if start is None or call.method == "ping" else wait(start, call)

        with self._lock:
            return serve if self._starts else handler

    def guard(self, lifespans: Sequence[Lifespan]) -> None:
        """Delay requests in the running event loop until these lifespans have been entered."""
        entering = [each.started for each in lifespans if not each.started.done()]
        if not entering:
            return
        loop = asyncio.get_running_loop()
        start = self._starts.get(loop)
        if start is None:
            start = _Start()
            if self._seconds is not None:
                start.timer = loop.call_later(self._seconds, self._time_out, start)
            with self._lock:
                self._starts[loop] = start
            self._on_change()
        start.count += len(entering)
        for each in entering:
            each.add_done_callback(partial(self._on_started, loop, start))

    @property
    def is_closed(self) -> bool:
        """True while lifespans are being entered in the running event loop."""
        return asyncio.get_running_loop() in self._starts

    async def wait_open(self) -> None:
        """Wait until requests are served in the running event loop."""
        start = self._starts.get(asyncio.get_running_loop())
        if start is not None:
            await start.is_open.wait()

    def _time_out(self, start: _Start) -> None:
        logger.warning(
            "the lifespan function of %r did not yield within %g s: clients get the components registered so far, "
            "and a notification for later ones (Timeouts(startup=...))",
            self._name,
            self._seconds,
        )
        for capability in SERVER_CAPABILITIES:
            self._capabilities.add(capability)
        start.is_open.set()

    def _on_started(self, loop: asyncio.AbstractEventLoop, start: _Start, _: asyncio.Future[Any]) -> None:
        start.count -= 1
        if start.count > 0:
            return
        if start.timer is not None:
            start.timer.cancel()
        with self._lock:
            self._starts.pop(loop, None)
        self._on_change()
        start.is_over.set()
        start.is_open.set()


class _Start:
    """The state of one event loop while lifespans are being entered in it.

    Attributes:
        is_open: Set when lists and the like are served: at the end, or after the maximum time.
        is_over: Set when all lifespans have been entered or have failed.
        count: Number of lifespans that are still being entered.
        timer: Timer of the maximum time.
    """

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_over = asyncio.Event()
        self.count = 0
        self.timer: asyncio.TimerHandle | None = None


# The engine


class CustomRoute(NamedTuple):
    """A route of the author in the HTTP app; see `Server.route`."""

    path: str
    function: Callable[..., Any]
    methods: Collection[str] | None
    name: str | None
    is_outside_mount: bool = False
    scopes: tuple[str, ...] | None = None


class Served(Protocol):
    """An object that transports can serve: a `Server`, or another object with an engine."""

    @property
    def engine(self) -> Engine:
        """The engine that serves the requests."""
        ...


class Engine:
    """Serves the requests of one server.

    Args:
        catalog: Components of the server.
        runtime: Limits, workers, storage and the like for running calls.
        declared: Identity and capabilities of the server.
        lifespans: The lifespan of the server.
        version: Version of the server.
        auth: Verifier of access tokens over HTTP; None if the server is not protected.
        make_tasks: Creates the task keeper, when the server has its first tool with `task=`.

    Attributes:
        dispatch: Serves a request. It returns the result, or a coroutine if it runs the author's code. Raises
            ProtocolError if the request is refused.
        has_middleware: Whether requests pass through middleware.
        notification_listeners: Functions that get method and unchecked params of each notification in a session.
        startup: Delays requests while lifespans are being entered.
        hubs: Delivers changes, one hub for each event loop.
        listing: Serves the list methods.
        methods: The method table.
        routes: Routes that the author added to the HTTP app.
        revocations: Revoked principals; None if the server is not protected.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        runtime: Runtime,
        declared: Capabilities,
        lifespans: Lifespans,
        *,
        version: str,
        auth: TokenVerifier | None,
        make_tasks: Callable[[], TaskKeeper],
    ) -> None:
        self.catalog = catalog
        self.runtime = runtime
        self.declared = declared
        self.version = version
        self.routes: list[CustomRoute] = []
        self.auth = auth
        self.notification_listeners: Listeners[[str, object]] = Listeners()
        self.revocations: Revocations | None = None
        if auth is not None:
            from ..identity.audit_and_revocation import Revocations

            self.revocations = Revocations(runtime.storage, runtime.name)
        self.startup = StartupGate(runtime.name, runtime.timeouts.startup, declared, self._choose_handler)
        self.lifespans = lifespans
        broker = None if runtime.is_alone else runtime.storage
        self.hubs = Hubs(
            partial(
                SubscriptionHub,
                catalog,
                declared.has,
                self.ready,
                broker,
                f"{runtime.name}/changes",
                is_closed=runtime.is_protected,
            )
        )
        self.listing = Listing(catalog, runtime, lifespans, runtime.limits.page_size)
        self.methods = Methods(catalog, declared, self.listing, lifespans, make_tasks)
        self.dispatch: Handler = self.methods.dispatch
        self._handler: Handler = self.methods.dispatch
        self.has_middleware = False
        self._is_storage_checked = False
        self._lock = threading.Lock()

    def set_handler(self, handler: Handler) -> None:
        """Set the function that serves requests, such as one that passes them through middleware."""
        self._handler = handler
        self.has_middleware = handler != self.methods.dispatch
        self._choose_handler()

    def _choose_handler(self) -> None:
        with self._lock:
            self.dispatch = self.startup.handler_for(self._handler, self.methods.is_registered)

    def is_open(self) -> bool:
        """Return True if an enabled component allows anonymous clients."""
        components = chain.from_iterable(self.catalog.parts)
        return self.catalog.derived(
            "is open", lambda: any(each.is_anonymous and each.is_enabled for each in components)
        )

    def listen(self, call: Call) -> Listen:
        """Parse a `subscriptions/listen` request. The transport opens the stream.

        Raises:
            Exception: The request is invalid (see `Listen`), or the user may not subscribe to a URI. The client gets
                the same error as for an exception of a handler.
        """
        # What a lifespan registers is declared when it has been entered.
        is_offered = LIST_NAMES.__contains__ if self.startup.is_closed else self.declared.has
        extensions = self.catalog.attached
        if self.declared.has("tasks"):
            extensions = (*extensions, self.methods.tasks.extension)
        listen = Listen(call, is_offered, extensions)
        self.listing.visibility.check_subscriptions(
            call, (each.uri for each in listen.changes if each.uri is not None)
        )
        return listen

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the lifespans entered, and run tasks, while a transport serves. Blocks can be nested.

        It does not wait until the lifespans have been entered; `await ready()` does.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
            BaseException: Any exception that a lifespan raises when it is left.
        """
        self.catalog.resolve()
        async with AsyncExitStack() as stack:
            stack.callback(self.hubs.here().publish())
            if self.runtime.storage.is_persistent and not self._is_storage_checked:
                self._is_storage_checked = True
                from ..storage.encryption_keys import log_unreadable_records

                checking = asyncio.create_task(
                    log_unreadable_records(self.runtime.storage, self.runtime.keys)
                )
                stack.callback(checking.cancel)
            await stack.enter_async_context(
                self.lifespans.serving(self.catalog.family(), self.startup.guard, self.runtime.end_detached)
            )
            await stack.enter_async_context(self._running_tasks())
            yield

    @asynccontextmanager
    async def _running_tasks(self) -> AsyncGenerator[None]:
        """Run tasks in this event loop within the block, from the first tool with `task=` on."""
        loop = asyncio.get_running_loop()
        beginning: asyncio.Task[None] | None = None
        async with AsyncExitStack() as stack:

            async def begin() -> None:
                await stack.enter_async_context(self.methods.tasks.running())

            def begin_if_needed() -> None:
                nonlocal beginning
                if beginning is None and self.declared.has("tasks"):
                    beginning = loop.create_task(begin())

            def changed(_: Change) -> None:
                with suppress(RuntimeError):  # the loop has been closed
                    loop.call_soon_threadsafe(begin_if_needed)

            if self.declared.has("tasks"):
                await begin()
                yield
                return
            stop = self.catalog.listeners.add(changed)
            try:
                yield
            finally:
                stop()
                if beginning is not None:
                    await asyncio.wait((beginning,))

    async def ready(self) -> None:
        """Wait until the lifespans of the server and of included servers have been entered.

        Raises:
            BaseException: Any exception that a lifespan raised when it was entered.
        """
        for lifespans in self.catalog.family():
            await lifespans.ready()

    async def wait_started(self) -> bool:
        """Wait until the lifespans have been entered or have failed, and return True if none failed.

        `ready` raises the exception instead.
        """
        loop = asyncio.get_running_loop()
        stays = [stay for each in self.catalog.family() if (stay := each.get(loop)) is not None]
        if stays:
            await asyncio.wait([stay.started for stay in stays])
        return all(stay.started.exception() is None for stay in stays)

    def drain(self, grace: float | None) -> None:
        """Start no more tasks in this event loop, and release the running ones, before a transport ends.

        The end of `running` waits for them. They continue if another transport serves in the same event loop.

        Args:
            grace: Seconds that running tasks may take to end; None for no limit.
        """
        if self.declared.has("tasks"):
            self.methods.tasks.drain(grace)


# Hooks for exceptions: `@server.on_error`


class ErrorEvent(NamedTuple):
    """A failed request, the argument of functions that are registered by `@server.on_error`.

    Args:
        ctx: The request: `ctx.method`, `ctx.params`, `ctx.principal` and the like.
        exception: The exception. A group with a single exception, as task groups raise it, is replaced by that
            exception.
        ref: Reference in the log and in the client's message ("Internal error (ref ...)"). None if the client gets the
            actual reason: a time limit, a worker process that ended, or a result that cannot be sent.
    """

    ctx: Context[Any]
    exception: BaseException
    ref: str | None


# Receives a failure, and may return the error for the client.
ErrorHook = Callable[[ErrorEvent], HandlerError | None]

H = TypeVar("H", bound=ErrorHook)


class ErrorHooks:
    """Functions that get unexpected exceptions, such as a hook that reports them to an error tracker.

        @server.on_error
        def report(event: ErrorEvent) -> None:
            tracker.capture(event.exception, tags={"method": event.ctx.method})

    A hook takes one `ErrorEvent`. It runs in the event loop, so it must not block. It gets each exception that ends a
    request and is not a message for the client. It also gets time limits (`CallTimeoutError`), worker processes that
    ended (`ProcessEndedError`) and results that cannot be sent (`OutputError`). It does not get errors with a message
    for the client, such as `ToolError` and `ProtocolError`, nor invalid arguments and cancelled calls. For a tool, it
    runs before middleware gets the result. For other methods, it runs after all middleware, unless a middleware has
    handled the exception.

    A hook may return a `ToolError`, `ResourceError`, `PromptError` or a similar error. The client then gets this error,
    as if the handler had raised it; further hooks are not called, and nothing is logged. An exception of a hook is
    logged and otherwise ignored.

    Attributes:
        hooks: The registered functions, in order of registration.
    """

    def __init__(self) -> None:
        self.hooks: tuple[ErrorHook, ...] = ()

    def __call__(self, hook: H, /) -> H:
        """Register a hook: `@server.on_error`.

        Args:
            hook: The function.

        Returns:
            The function unchanged.

        Raises:
            RegistrationError: It is not a function of one argument, or it is `async`.
        """
        check_hook(hook, "on_error", "ErrorEvent", "the response does not wait for it")
        self.hooks = (*self.hooks, hook)
        return hook

    def explain(self, call: Call, exception: BaseException) -> BaseException:
        """Call the hooks with an exception that is not a message for the client.

        Returns:
            The error for the client: the one that a hook returned, or the exception itself.
        """
        if not self.hooks:
            return exception
        from ..context import Context

        assert isinstance(call, Call), "a handler runs for a Call"
        failure = ErrorEvent(Context(call), single(exception), ref_of(call) if is_masked(exception) else None)
        for hook in self.hooks:
            try:
                error_for_client: Any = hook(failure)
                if error_for_client is None:
                    continue
                if not isinstance(error_for_client, HandlerError):
                    raise TypeError(
                        f"it returned {type(error_for_client).__name__}. Return None, or an exception with a message "
                        'for the client, such as ToolError("...")'
                    )
            except BaseException as error:  # the response does not depend on the hook
                if is_fatal(error):
                    raise
                logger.exception(
                    "the error hook %r failed. It is skipped, and the client receives an error as without it",
                    hook,
                )
            else:
                if error_for_client.__cause__ is None and error_for_client is not failure.exception:
                    error_for_client.__cause__ = failure.exception
                return error_for_client
        return exception
