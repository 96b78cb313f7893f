"""The two eras of the protocol: envelopes of requests (client and protocol version), and rendering of results.

Other modules, above all the method table and the components, do not depend on the era.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from .._utils.exceptions import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    MalformedError,
    MissingCapabilityError,
    ProtocolError,
)
from .jsonrpc import encode
from .revisions import ALL, HANDSHAKE, LATEST_HANDSHAKE, SEVERITY, STATELESS, declares, tree
from .types import Json

PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

MAX_CLIENT_LENGTH = 256 * 1024  # bytes of `clientInfo` and `capabilities` in `initialize`

_MAX_SHOWN_VERSION = 100  # characters of an unknown version in `data` of an error
_LONG = 64 * 1024  # bytes of a result from which on another copy of it is avoided
_DEFAULT_LOG_LEVEL = "info"  # "the server MAY decide" until the client sends logging/setLevel


class Client:
    """The client of a request, as it describes itself. The server does not verify it.

    Attributes:
        info: `name`, `version` and other members of `Implementation`; empty when not given.
        capabilities: Capabilities that the client declared.
    """

    __slots__ = ("capabilities", "info")

    def __init__(self, info: Json, capabilities: Json) -> None:
        self.info = info
        self.capabilities = capabilities

    @property
    def name(self) -> str | None:
        """Name of the client, for display and logs."""
        return self.info.get("name")

    @property
    def version(self) -> str | None:
        """The client's version, for display and logs."""
        return self.info.get("version")

    def supports(self, capability: str) -> bool:
        """Return True if the client has declared a capability.

        Args:
            capability: `sampling`, `sampling.tools`, `sampling.context`, `elicitation`, `elicitation.form`,
                `elicitation.url`, `roots`, `extensions.<id>` or `experimental.<name>`.

        Raises:
            ValueError: There is no such capability.
        """
        return declares(self.capabilities, capability)

    def require(self, *capabilities: str) -> None:
        """Raise an error unless the client has declared all these capabilities.

        `Access(requires_capabilities=...)` checks them before the call.

        Args:
            capabilities: As in `supports`.

        Raises:
            MissingCapabilityError: One is missing. Do not catch it: the client receives its name.
            ValueError: There is no such capability.
        """
        missing = [name for name in capabilities if not self.supports(name)]
        if missing:
            raise MissingCapabilityError(missing, tree(missing))

    def __repr__(self) -> str:
        """Show name and version."""
        return f"Client({self.name!r}, {self.version!r})"


class Identity:
    """The server's description of itself in one protocol version.

    Args:
        info: `Implementation` of the server.

    Attributes:
        info: `Implementation` of the server.
        closing: End of results that contain it, as JSON; the same for all results.
    """

    def __init__(self, info: Json) -> None:
        self.info = info
        self.closing = b"," + encode({"_meta": {SERVER_INFO: info}})[1:]


class CacheHint:
    """Cache lifetime and scope of a result (utilities/caching, since 2026-07-28).

    Args:
        ttl: Seconds for which a client may reuse the result; 0 for none.
        scope: `public` if the result is the same for every user, `private` if it depends on the user.

    Raises:
        ValueError: `ttl` is negative or infinite, or `scope` is another word.
    """

    def __init__(self, ttl: float = 0, scope: str = "public") -> None:
        if not 0 <= ttl < float("inf"):
            raise ValueError(f"ttl must be a number of seconds of at least 0, got {ttl!r}")
        if scope not in {"public", "private"}:
            raise ValueError(f"scope must be 'public' or 'private', got {scope!r}")
        self.ttl = ttl
        self.scope = scope

    @property
    def private(self) -> CacheHint:
        """The hint with the same lifetime and the scope `private`."""
        return self if self.scope == "private" else CacheHint(self.ttl, "private")

    def __repr__(self) -> str:
        """Show lifetime and scope."""
        return f"CacheHint(ttl={self.ttl!r}, scope={self.scope!r})"


class Stateless:
    """Envelope of one request of the stateless era: everything is in its `_meta` (basic/index, "_meta").

    Attributes:
        revision: Protocol version of the request.
        log_level: Lowest level of log messages for the client, or None for no messages.
    """

    __slots__ = ("_capabilities", "_client", "_info", "log_level", "revision")
    era = "stateless"
    not_found_code = INVALID_PARAMS
    missing_capability_code = MISSING_CLIENT_CAPABILITY
    has_session = False

    def __init__(self, revision: str, info: Json, capabilities: Json, log_level: str | None) -> None:
        self.revision = revision
        self.log_level = log_level
        self._info = info
        self._capabilities = capabilities
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Client of the request."""
        if self._client is None:
            self._client = Client(self._info, self._capabilities)
        return self._client

    @classmethod
    def receive(cls, meta: Json) -> Stateless:
        """Read the envelope from `_meta`.

        Raises:
            ProtocolError: -32022 for a version that is not served statelessly, -32602 for a missing or malformed field.
        """
        revision = meta.get(PROTOCOL_VERSION)
        if revision not in STATELESS:
            if not isinstance(revision, str):
                raise _malformed(PROTOCOL_VERSION, "a string such as " + STATELESS[-1])
            raise unsupported_version(revision)
        capabilities: Json | None = meta.get(CLIENT_CAPABILITIES)
        if type(capabilities) is not dict:
            raise _malformed(CLIENT_CAPABILITIES, "an object, {} for none")
        info: Json | None = meta.get(CLIENT_INFO)
        if info is None:
            info = {}
        elif type(info) is not dict or not _is_implementation(info):
            raise _malformed(CLIENT_INFO, "an object with the strings name and version")
        level = meta.get(LOG_LEVEL)
        if level is not None:
            check_log_level(level, LOG_LEVEL)
        return cls(revision, info, capabilities, level)

    def render(self, result: Json, identity: Callable[[str], Identity], cache: CacheHint | None) -> bytes:
        """Return a result as JSON with `resultType`, the server's identity, and the cache hint, if any."""
        finished: Json = {"resultType": "complete", **result}
        if cache is not None:
            finished["ttlMs"] = int(cache.ttl * 1000)
            finished["cacheScope"] = cache.scope
        server = identity(self.revision)
        meta = finished.pop("_meta", None)
        if not meta:
            encoded = encode(finished)
            if len(encoded) > _LONG:
                return b"".join((memoryview(encoded)[:-1], server.closing))
            return encoded[:-1] + server.closing
        return encode({**finished, "_meta": {**meta, SERVER_INFO: server.info}})


OnSubscription = Callable[[str, bool], Coroutine[object, object, None] | None]


class Handshake:
    """Envelope of all requests of one session of a version with `initialize` (basic/lifecycle), and its state.

    Args:
        revision: Negotiated protocol version.
        client: Client of the session.
        on_subscription: Called with a URI and whether it is subscribed to, after a change. It returns an awaitable
            that delays the response, or None. None if there is no session for subscriptions.

    Attributes:
        revision: Negotiated protocol version.
        log_level: Lowest level of log messages for the client.
        client: Client of the session.
        is_initialized: Whether the client has sent `notifications/initialized`.
        subscriptions: URIs of `resources/subscribe`.
        companion: Object of the server that lives as long as the session, or None.
        lists: Lists that the server has declared as changing; None before the response to `initialize`.
    """

    __slots__ = (
        "__weakref__", "_on_subscription", "client", "companion", "is_initialized", "lists", "log_level", "revision",
        "subscriptions",
    )  # fmt: skip
    era = "handshake"
    not_found_code = RESOURCE_NOT_FOUND
    missing_capability_code = INVALID_PARAMS

    def __init__(self, revision: str, client: Client, on_subscription: OnSubscription | None = None) -> None:
        self.revision = revision
        self.log_level: str | None = _DEFAULT_LOG_LEVEL
        self.client = client
        self.companion: object = None
        self.is_initialized = False
        self.subscriptions: set[str] = set()
        self.lists: frozenset[str] | None = None
        self._on_subscription = on_subscription

    @classmethod
    def receive(cls, params: Json, on_subscription: OnSubscription | None = None) -> Handshake:
        """Open a session from the params of `initialize`; see the class.

        The response to an unknown version offers the newest one of this era.

        Raises:
            ProtocolError: -32602 for params that are missing or malformed.
        """
        revision = params.get("protocolVersion")
        if not isinstance(revision, str):
            raise _malformed("protocolVersion", "a string such as " + LATEST_HANDSHAKE)
        capabilities: Json | None = params.get("capabilities")
        if type(capabilities) is not dict:
            raise _malformed("capabilities", "an object, {} for none")
        info: Json | None = params.get("clientInfo")
        if type(info) is not dict or not _is_implementation(info):
            raise _malformed("clientInfo", "an object with the strings name and version")
        if len(encode([capabilities, info])) > MAX_CLIENT_LENGTH:
            raise MalformedError(
                f"clientInfo and capabilities: expected at most {MAX_CLIENT_LENGTH:,} bytes together"
            )
        revision = revision if revision in HANDSHAKE else LATEST_HANDSHAKE
        return cls(revision, Client(info, capabilities), on_subscription)

    def subscribe(self, uri: str, is_subscribed: bool) -> Coroutine[object, object, None] | None:
        """Add or remove a subscription, and return an awaitable that delays the response, or None."""
        (self.subscriptions.add if is_subscribed else self.subscriptions.remove)(uri)
        return None if self._on_subscription is None else self._on_subscription(uri, is_subscribed)

    @property
    def has_session(self) -> bool:
        """True if there is a session, which outlives this request."""
        return self._on_subscription is not None


Envelope = Handshake | Stateless


def not_initialized(method: str) -> ProtocolError:
    """Return the error for a request before `initialize` and without the `_meta` of stateless requests."""
    return ProtocolError(
        INVALID_REQUEST,
        f"{method[:60]} before initialize: open a session first, or send the _meta fields of revision {ALL[-1]}",
    )


def unsupported_version(requested: str) -> ProtocolError:
    """Return the error for a protocol version that is not served statelessly (basic/versioning)."""
    return ProtocolError(
        UNSUPPORTED_PROTOCOL_VERSION,
        f"Unsupported protocol version: {requested[:40]}",
        {"supported": list(STATELESS), "requested": requested[:_MAX_SHOWN_VERSION]},
    )


def check_log_level(level: Any, member: str = "level") -> str:
    """Return a log level, or raise an error if it is unknown.

    Args:
        level: The level.
        member: The member of the params with the level, for the message.

    Raises:
        ProtocolError: -32602; the message names the member and the levels.
    """
    if not isinstance(level, str) or level not in SEVERITY:
        raise _malformed(member, "one of " + ", ".join(SEVERITY))
    return level


def _is_implementation(value: Json) -> bool:
    return isinstance(value.get("name"), str) and isinstance(value.get("version"), str)


def _malformed(field: str, expected: str) -> ProtocolError:
    return MalformedError(f"{field}: expected {expected}")
