"""Objects that the requests of one server share, and the base class of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .._utils.current import Running
from ..execution.fair_limits import Shares
from ..protocol.eras import CacheHint, Client, Envelope, Identity
from ..protocol.jsonrpc import RequestId
from .channel import Channel

if TYPE_CHECKING:
    from .._utils.errors import ProtocolError
    from ..auth.verifier import TokenVerifier
    from ..execution.processes import Processes
    from ..execution.threads import Threads
    from ..identity.audit import AuditLog
    from ..identity.principal import Principal
    from ..identity.scopes import Scopes
    from ..options import Limits, ServerOptions, Timeouts
    from ..storage.base import Storage, TaskMeter
    from ..storage.keys import Keys
    from ..storage.membership import Membership


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
        self.presences: set[Membership] = set()
        self._make_keys = make_keys

    @cached_property
    def keys(self) -> Keys:
        """Signing keys of the server."""
        return self._make_keys()

    @cached_property
    def audit(self) -> AuditLog:
        """Audit log of logins, refusals and similar events, imported on first use."""
        from ..identity.audit import AuditLog

        return AuditLog(lambda: self.keys)

    def replicas(self) -> int:
        """Return the known number of server processes that serve over HTTP and share a store: 1 or more."""
        return max((each.count() for each in tuple(self.presences)), default=1)

    async def end_detached(self) -> None:
        """End the calls of this event loop that run without a client, and wait until they have stopped."""
        detached = self.detached.pop(asyncio.get_running_loop(), ())
        await asyncio.gather(*[each.end() for each in tuple(detached)])


class Alone:
    """A call that runs without a client.

    Attributes:
        end: Ends it, and waits until it has stopped.
        cancel_of: Cancels it if its principal matches a predicate, with an error for the client.
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
    """One request, as it was read: base class of `Call`, its only subclass.

    Attributes:
        runtime: Shared objects of the server.
        channel: Channel for the messages of the request.
        envelope: Client, protocol version and era of the request.
        request_id: The JSON-RPC id.
        params: The params that the client sent, or those of a middleware that changed them.
        meta: The `_meta` of the params; an empty dict if there is none.
        loop: The event loop of the request; None until a handler or middleware runs.
        left: Done when the abandoned worker thread of the call has ended; None if there is none.
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
        from ..protocol.request_headers import RequestHeaders

        return RequestHeaders(self.channel.request_headers)
