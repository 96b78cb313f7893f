"""What the requests of one server run with and share, and what is known of a request before any of its code runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..common.current import Running
from ..protocol.eras import CacheHint, Client, Envelope, Identity
from ..protocol.jsonrpc import RequestId
from .channel import Channel
from .shares import Shares

if TYPE_CHECKING:
    from ..auth.verifier import TokenVerifier
    from ..common.errors import ProtocolError
    from ..options import Limits, ServerOptions, Timeouts
    from ..state.audit import AuditLog
    from ..state.keys import Keys
    from ..state.presence import Presence
    from ..state.principal import Principal
    from ..state.scopes import Scopes
    from ..state.shared import Storage
    from ..state.task_meter import TaskMeter
    from .workers.processes import Processes
    from .workers.threads import Threads


class Runtime:
    """What the requests of one server run with, and share.

    Args:
        server: Whose requests they are, for `ctx.server`.
        name: The server's name.
        threads: Where functions run that are not `async`.
        processes: Where those run that are stopped whatever they do.
        limits: Upper bounds of the server.
        timeouts: Time limits of the server.
        storage: Storage of the server.
        is_alone: Whether the storage belongs to this process alone.
        scopes: What may be granted.
        auth: What verifies access tokens; None where nobody has to say who they are. Where there is any, they have to,
            unless what is asked for is open to anybody.
        make_keys: Makes what signs, on first use.
        options: Options of the server that few authors change.
        mask_error_details: Whether clients get only a reference to the log for an unexpected exception.
        cache: How long results may be kept, by method.
        identity: Returns what the server says about itself in a revision.
        declares: Says whether the server declares a capability.
        state_in: Returns what the server's lifespan has yielded in an event loop, the running one when None.
        explain: Hears of an exception that nobody has meant to happen, and returns what the client is to be told of.

    Attributes:
        running: The places that running requests take.
        overrides: What stands for a function in a test, by the function's identity.
        detached: The calls that go on alone, by event loop.
        task_meters: What measures tasks.
        presences: What knows of the other processes that serve the same, where they share something.
    """

    def __init__(
        self,
        server: object,
        name: str,
        *,
        threads: Threads,
        processes: Processes,
        limits: Limits,
        timeouts: Timeouts,
        storage: Storage,
        is_alone: bool,
        scopes: Scopes,
        auth: TokenVerifier | None,
        make_keys: Callable[[], Keys],
        options: ServerOptions,
        mask_error_details: bool,
        cache: Mapping[str, CacheHint],
        identity: Callable[[str], Identity],
        declares: Callable[[str], bool],
        state_in: Callable[[asyncio.AbstractEventLoop | None], Any],
        explain: Callable[[BaseCall, BaseException], BaseException],
    ) -> None:
        self.server = server
        self.name = name
        self.threads = threads
        self.processes = processes
        self.limits = limits
        self.timeouts = timeouts
        self.storage = storage
        self.is_alone = is_alone
        self.scopes = scopes
        self.auth = auth
        self.is_protected = auth is not None
        self.options = options
        self.mask_error_details = mask_error_details
        self.cache = cache
        self.identity = identity
        self.declares = declares
        self.state_in = state_in
        self.explain = explain
        self.running = Shares()
        self.overrides: Mapping[Hashable, Callable[..., Any]] = {}
        self.detached: WeakKeyDictionary[asyncio.AbstractEventLoop, set[Alone]] = WeakKeyDictionary()
        self.task_meters: tuple[TaskMeter, ...] = ()
        self.presences: set[Presence] = set()
        self._make_keys = make_keys

    @cached_property
    def keys(self) -> Keys:
        """What signs for the server."""
        return self._make_keys()

    @cached_property
    def audit(self) -> AuditLog:
        """What hears of logins, refusals and the like, imported when somebody tells of one or listens."""
        from ..state.audit import AuditLog

        return AuditLog(lambda: self.keys)

    def replicas(self) -> int:
        """Return how many processes serve the same over HTTP and share a store, as far as is known: 1 or more."""
        return max((each.count() for each in tuple(self.presences)), default=1)

    async def end_detached(self) -> None:
        """End the calls of this event loop that go on alone, and wait until they have stopped."""
        detached = self.detached.pop(asyncio.get_running_loop(), ())
        await asyncio.gather(*[each.end() for each in tuple(detached)])


class Alone:
    """A call that goes on alone.

    Attributes:
        end: Ends it, and waits until it has stopped.
        cancel_of: Stops it where it is some principal's, who is told why.
    """

    __slots__ = ("cancel_of", "end")

    def __init__(
        self,
        end: Callable[[], Awaitable[None]],
        cancel_of: Callable[[Callable[[Principal], bool], ProtocolError], None],
    ) -> None:
        self.end = end
        self.cancel_of = cancel_of


class BaseCall(Running):
    """One request, as it was read: what is known of every `Call`, which alone is made.

    Attributes:
        runtime: What it runs with.
        channel: Where the messages that belong to it leave.
        envelope: Who asks, and in which revision.
        request_id: Its JSON-RPC id.
        params: Its params as the client sent them, or as a middleware has changed them.
        meta: The `_meta` of the params; empty when there is none.
        loop: The event loop in which it is served; None as long as none of the author's code has run.
        left: Done when the thread that goes on alone for it has ended; None where there is none.
    """

    __slots__ = ("channel", "envelope", "left", "loop", "meta", "params", "request_id", "runtime")

    channel: Channel
    envelope: Envelope
    left: asyncio.Future[None] | None
    loop: asyncio.AbstractEventLoop | None
    meta: dict[str, Any]
    params: dict[str, Any]
    request_id: RequestId
    runtime: Runtime

    @property
    def client(self) -> Client:
        """Who asks, as the client says."""
        return self.envelope.client

    @property
    def principal(self) -> Principal:
        """Who asks, as far as that has been verified."""
        return self.channel.principal

    @property
    def revision(self) -> str:
        """The protocol revision that it is served in."""
        return self.envelope.revision

    @property
    def era(self) -> str:
        """`handshake` or `stateless`."""
        return self.envelope.era

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, by name in any case; empty over other transports."""
        from ..protocol.request_headers import RequestHeaders

        return RequestHeaders(self.channel.request_headers)
