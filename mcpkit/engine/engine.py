"""The engine of one server, and the custom routes of its HTTP app."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from .._utils.concurrency import Listeners, call_in_loop
from ..execution.lifespan import Lifespans
from ..identity.principals_and_scopes import LIST_NAMES, Change
from ..requests.request_record import Call, Runtime
from .included_providers_and_extensions import CompositeCatalog
from .listing_and_visibility import Listing
from .request_handlers_and_capabilities import Capabilities, Handler, Methods, TaskKeeper
from .startup_gate import StartupGate
from .subscription_filters_and_delivery import Listen, SubscriptionHub

if TYPE_CHECKING:
    from ..auth.verifier import TokenVerifier
    from ..identity.audit_and_revocation import Revocations


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
        self._hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, SubscriptionHub] = WeakKeyDictionary()
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

    def hub(self) -> SubscriptionHub:
        """Return the object that delivers changes in the running event loop."""
        loop, runtime = asyncio.get_running_loop(), self.runtime
        with self._lock:
            if (hub := self._hubs.get(loop)) is None:
                broker, topic = None if runtime.is_alone else runtime.storage, f"{runtime.name}/changes"
                hub = self._hubs[loop] = SubscriptionHub(
                    self.catalog, self.declared.has, self.ready, broker, topic, is_closed=runtime.is_protected
                )
            return hub

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
            stack.callback(self.hub().publish())
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
                call_in_loop(loop, begin_if_needed)

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
