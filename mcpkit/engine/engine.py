"""What serves the requests of one server: whatever transport they come by, they are answered here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..calls.call import Call
from ..calls.lifespan import Lifespans
from ..calls.runtime import Runtime
from ..common.listeners import Listeners
from ..state.change import LIST_NAMES
from .entrance import Entrance
from .identity import Declared
from .listing import Listing
from .methods import Handler, Methods
from .registry import CompositeCatalog
from .routes import CustomRoute
from .subscriptions.hub import Changes, Hubs
from .subscriptions.listen import Listen
from .task_keeper import TaskKeeper, keeping

if TYPE_CHECKING:
    from ..auth.verifier import TokenVerifier
    from ..state.revocations import Revocations


class Served(Protocol):
    """What transports serve: a `Server`, or whatever else has an engine."""

    @property
    def engine(self) -> Engine:
        """What answers its requests."""
        ...


class Engine:
    """Serves the requests of one server.

    Args:
        catalog: What the server offers.
        runtime: What its requests run with.
        declared: What it says about itself.
        lifespans: The stays in its lifespan.
        version: The server's version.
        auth: What verifies the access tokens of requests over HTTP; None where nobody needs one.
        make_tasks: Makes what looks after tasks, when there is the first one.

    Attributes:
        dispatch: Answers a request: at once, or with a coroutine when the author's code has to run. Raises
            ProtocolError where the request is refused.
        has_middleware: Whether requests are led through middleware.
        heard: Hears of each notification of a client that has begun a session: its method and its params, unchecked.
        entrance: Where requests wait while lifespans are being entered.
        hubs: What tells its changes, in each event loop.
        listing: Answers its lists.
        methods: Answers requests by their methods.
        routes: Routes that the author added to the HTTP app.
        revocations: Who has been sent away; None where nobody verifies access tokens.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        runtime: Runtime,
        declared: Declared,
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
        self.heard: Listeners[[str, object]] = Listeners()
        self.revocations: Revocations | None = None
        if auth is not None:
            from ..state.revocations import Revocations

            self.revocations = Revocations(runtime.storage, runtime.name)
        self.entrance = Entrance(runtime.name, runtime.timeouts.startup, declared, self._choose_way)
        self.lifespans = lifespans
        broker = None if runtime.is_alone else runtime.storage
        self.hubs = Hubs(
            partial(
                Changes,
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
        self._openness: tuple[int, bool] | None = None  # by the state of the registry
        self._has_looked = False
        self._lock = threading.Lock()

    def lead_to(self, handler: Handler) -> None:
        """Have requests answered by a function from now on, such as one that leads them through middleware."""
        self._handler = handler
        self.has_middleware = handler != self.methods.dispatch
        self._choose_way()

    def _choose_way(self) -> None:
        with self._lock:
            self.dispatch = self.entrance.way_to(self._handler, self.methods.is_there)

    def is_open(self) -> bool:
        """Say whether there is anything that whoever does not say who they are may use."""
        changes = self.catalog.changes
        if self._openness is None or self._openness[0] != changes:
            is_open = any(
                each.is_anonymous and each.is_enabled for part in self.catalog.parts for each in part
            )
            self._openness = changes, is_open
        return self._openness[1]

    def listen(self, call: Call) -> Listen:
        """Read `subscriptions/listen`, whose stream the transport opens.

        Raises:
            Exception: What `Listen` raises, or that they may not hear of it; it is answered as what a handler raises.
        """
        # What a lifespan registers is declared when it has been entered.
        is_offered = LIST_NAMES.__contains__ if self.entrance.is_waiting else self.declared.has
        extensions = self.catalog.attached
        if self.declared.has("tasks"):
            extensions = (*extensions, self.methods.tasks.extension)
        listen = Listen(call, is_offered, extensions)
        self.listing.conditional.check_hearing(
            call, (each.uri for each in listen.wanted if each.uri is not None)
        )
        return listen

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the lifespans entered while a transport serves; nests, and costs nothing without one.

        It does not wait for them: what needs none is answered meanwhile. `await ready()` waits.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
            BaseException: Whatever leaving a lifespan raised.
        """
        self.catalog.resolve()
        async with AsyncExitStack() as stack:
            stack.callback(self.hubs.here().publish())
            if self.runtime.storage.is_persistent and not self._has_looked:
                self._has_looked = True
                from ..state.sealed import tell_unreadable

                looking = asyncio.create_task(tell_unreadable(self.runtime.storage, self.runtime.keys))
                stack.callback(looking.cancel)
            await stack.enter_async_context(
                self.lifespans.serving(family(self.catalog), self.entrance.guard, self.runtime.end_detached)
            )
            await stack.enter_async_context(
                keeping(
                    partial(self.declared.has, "tasks"), lambda: self.methods.tasks, self.catalog.listeners
                )
            )
            yield

    async def ready(self) -> None:
        """Wait until the lifespans of the server and of those it includes have been entered.

        Raises:
            BaseException: Whatever entering one of them raised.
        """
        for lifespans in family(self.catalog):
            await lifespans.ready()

    async def entered(self) -> bool:
        """Wait until the lifespans have been entered here, and say whether all could be; `ready` says why not."""
        loop = asyncio.get_running_loop()
        stays = [stay for each in family(self.catalog) if (stay := each.stay(loop)) is not None]
        if stays:
            await asyncio.wait([stay.started for stay in stays])
        return all(stay.started.exception() is None for stay in stays)

    def drain(self, grace: float | None) -> None:
        """Take no more tasks in this event loop, and hand back those that run, as a transport is about to end.

        They are waited for at the end of `running`. Where others serve in the same event loop, they run on.

        Args:
            grace: Seconds in which what runs has to end; None for as long as it takes.
        """
        if self.declared.has("tasks"):
            self.methods.tasks.drain(grace)


def family(catalog: CompositeCatalog) -> list[Lifespans]:
    """Return the lifespans of a catalog and of all that it includes, once each, innermost first."""
    found: dict[Lifespans, None] = {}
    for included in catalog.included:
        found.update(dict.fromkeys(family(included)))
    if catalog.lifespans is not None:
        found[catalog.lifespans] = None
    return list(found)
