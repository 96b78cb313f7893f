"""The protocol versions: tables of their differences, negotiation of the version, and results for older versions.

Sources: `schema/<revision>/schema.ts` and the key changes page of each version. Other modules, above all the
components, do not depend on the version of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import lru_cache
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
from .jsonrpc import Json, encode, is_object

# Versions that open a session with `initialize`, oldest first.
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

# Versions that carry version, client and capabilities in the `_meta` of each request.
STATELESS = ("2026-07-28",)

ALL = HANDSHAKE + STATELESS
LATEST_HANDSHAKE = HANDSHAKE[-1]
LATEST = ALL[-1]

# Versions with JSON-RPC batches: 2025-03-26 added them, 2025-06-18 removed them.
BATCHES = frozenset({"2025-03-26"})

# Versions in which an error response may omit an `id` that could not be read.
ERROR_ID_MAY_BE_ABSENT = frozenset({"2025-11-25", "2026-07-28"})

# Versions in which event streams begin with an event without data, so that clients can resume (SEP-1699).
RESUMABLE = frozenset({"2025-11-25"})

# Versions in which output schemas and structured content are objects. 2026-07-28 allows any JSON value.
OBJECTS_ONLY = frozenset({"2025-06-18", "2025-11-25"})

# Versions in which an elicitation by URL has an id, and its completion is notified.
ELICITATION_IDS = frozenset({"2025-11-25"})

# The version that has tasks in its core; 2026-07-28 has others, in an extension.
TASKS_IN_CORE = "2025-11-25"
TASKS = "io.modelcontextprotocol/tasks"

# RFC 5424 severities, least severe first (utilities/logging).
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
SEVERITY = {level: rank for rank, level in enumerate(LOG_LEVELS)}


# Methods

_EVERY = frozenset(ALL)
_BY_HANDSHAKE = frozenset(HANDSHAKE)
_STATELESS_ONLY = frozenset(STATELESS)
_TASKS_2025 = frozenset({TASKS_IN_CORE})
_WITH_TASKS = _TASKS_2025 | _STATELESS_ONLY

METHODS: dict[str, tuple[frozenset[str], str | None]] = {
    # method: (revisions that have it, capability that a server must have declared)
    "initialize": (_BY_HANDSHAKE, None),
    "ping": (_BY_HANDSHAKE, None),
    "logging/setLevel": (_BY_HANDSHAKE, "logging"),
    "server/discover": (_STATELESS_ONLY, None),
    "subscriptions/listen": (_STATELESS_ONLY, None),
    "tools/list": (_EVERY, "tools"),
    "tools/call": (_EVERY, "tools"),
    "resources/list": (_EVERY, "resources"),
    "resources/templates/list": (_EVERY, "resources"),
    "resources/read": (_EVERY, "resources"),
    "resources/subscribe": (_BY_HANDSHAKE, "resources"),
    "resources/unsubscribe": (_BY_HANDSHAKE, "resources"),
    "prompts/list": (_EVERY, "prompts"),
    "prompts/get": (_EVERY, "prompts"),
    "completion/complete": (_EVERY, "completions"),
    "tasks/get": (_WITH_TASKS, "tasks"),
    "tasks/cancel": (_WITH_TASKS, "tasks"),
    "tasks/update": (_STATELESS_ONLY, "tasks"),
    "tasks/result": (_TASKS_2025, "tasks"),
    "tasks/list": (_TASKS_2025, "tasks"),
}

TASK_METHODS = tuple(method for method in METHODS if method.startswith("tasks/"))

# Methods of servers' requests: the versions that have them.
CLIENT_METHODS = {
    "elicitation/create": frozenset(revision for revision in ALL if revision >= "2025-06-18"),
    "sampling/createMessage": _EVERY,
    "roots/list": _EVERY,
}

# Notifications of the core protocol, in either direction.
NOTIFICATIONS = frozenset(
    f"notifications/{name}"
    for name in (
        "cancelled", "elicitation/complete", "initialized", "message", "progress", "prompts/list_changed",
        "resources/list_changed", "resources/updated", "roots/list_changed", "subscriptions/acknowledged",
        "tasks/status", "tools/list_changed",
    )
)  # fmt: skip

# Values of `resultType` that belong to the core protocol (basic/index, "ResultType").
RESULT_TYPES = frozenset({"complete", "input_required"})

# Requests with a possible response `input_required` in the stateless era (basic/patterns/mrtr), and the params that the
# client adds in the next round.
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
ROUND_PARAMS = frozenset({"inputResponses", "requestState"})

# Methods with `ttlMs` and `cacheScope` in the result in the stateless era (utilities/caching).
CACHEABLE = frozenset(
    {
        "server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read",
        "prompts/list",
    }
)  # fmt: skip


# Capabilities

# Client capabilities of the specification. `extensions.<id>` and `experimental.<name>` are others.
CAPABILITIES = frozenset(
    {
        "elicitation", "elicitation.form", "elicitation.url", "roots", "sampling", "sampling.context",
        "sampling.tools",
    }
)  # fmt: skip

# Capabilities that a server can declare, with their members.
SERVER_CAPABILITIES: dict[str, dict[str, bool]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


@lru_cache(maxsize=256)
def capability_path(name: str) -> tuple[str, ...]:
    """Return the keys under which a client declares a capability.

    Raises:
        ValueError: There is no such capability; the message names all there are.
    """
    parts = tuple(name.split(".", 1))
    if name in CAPABILITIES or (parts[0] in {"extensions", "experimental"} and "".join(parts[1:])):
        return parts
    known = ", ".join(sorted(CAPABILITIES))
    raise ValueError(
        f"unknown client capability {name!r}. The capabilities are {known}, extensions.<id> and experimental.<name>"
    )


def declares(capabilities: Json, name: str) -> bool:
    """Return True if declared client capabilities have a capability.

    Raises:
        ValueError: There is no such capability.
    """
    first, *rest = capability_path(name)
    declared = capabilities.get(first)
    if not is_object(declared):
        return False
    if name == "elicitation.form" and not declared:
        return True  # the meaning of `elicitation: {}` before there were modes
    return not rest or is_object(declared.get(rest[0]))


def tree(names: Iterable[str]) -> Json:
    """Return capabilities as a client declares them."""
    declared: Json = {}
    for name in names:
        first, *rest = capability_path(name)
        within = declared.setdefault(first, {})
        for key in rest:
            within[key] = {}
    return declared


# Fields and kinds of content

# Fields of objects: the version that added them. A field without an entry is in all versions.
SINCE: dict[str, dict[str, str]] = {
    "Implementation": {
        "title": "2025-06-18", "description": "2025-11-25", "icons": "2025-11-25", "websiteUrl": "2025-11-25",
    },
    "ServerCapabilities": {"completions": "2025-03-26", "extensions": "2026-07-28"},
    "Tool": {
        "annotations": "2025-03-26", "title": "2025-06-18", "outputSchema": "2025-06-18", "_meta": "2025-06-18",
        "icons": "2025-11-25",
    },
    "Resource": {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"},
    "ResourceTemplate": {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"},
    "Prompt": {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"},
    "PromptArgument": {"title": "2025-06-18"},
    "ContentBlock": {"_meta": "2025-06-18", "icons": "2025-11-25"},
    "ResourceContents": {"_meta": "2025-06-18"},
    "Annotations": {"lastModified": "2025-06-18"},
    "CallToolResult": {"structuredContent": "2025-06-18"},
    "ProgressNotification": {"message": "2025-03-26"},
    "ElicitRequestParams": {"mode": "2025-11-25"},
    "CreateMessageRequestParams": {"tools": "2025-11-25", "toolChoice": "2025-11-25"},
}  # fmt: skip

# Kinds of content that are newer than 2024-11-05.
CONTENT_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}

# Kinds of content in a message for a client's model.
SAMPLING_CONTENT = {
    "text": "2024-11-05",
    "image": "2024-11-05",
    "audio": "2025-03-26",
    "tool_use": "2025-11-25",
    "tool_result": "2025-11-25",
}

_UNKNOWN: dict[tuple[str, str], frozenset[str]] = {
    (kind, revision): frozenset(field for field, since in fields.items() if since > revision)
    for kind, fields in SINCE.items()
    for revision in ALL
}


def knows(revision: str, kind: str, field: str) -> bool:
    """Return True if an object of the schema has a field in a protocol version.

    Args:
        revision: Protocol version.
        kind: Object of the schema, such as `Tool`.
        field: Name of the field.
    """
    return field not in _UNKNOWN[kind, revision]


def narrow(kind: str, value: Json, revision: str) -> Json:
    """Return an object without the fields that a protocol version does not have.

    Args:
        kind: A key of `SINCE`.
        value: Object of the newest version; it is not changed.
        revision: Protocol version of the reader.

    Returns:
        `value` itself if the version has all of its fields, else a copy.
    """
    unknown = _UNKNOWN[kind, revision]
    if not unknown.isdisjoint(value):
        value = {key: item for key, item in value.items() if key not in unknown}
    annotations = value.get("annotations")
    if annotations and "lastModified" in annotations and revision < SINCE["Annotations"]["lastModified"]:
        value = {**value, "annotations": narrow("Annotations", annotations, revision)}
    return value


def narrow_block(value: Json, revision: str) -> Json:
    """Return a content block in the form of a protocol version.

    Args:
        value: A block of the newest protocol version; it is not changed.
        revision: Protocol version of the reader.

    Returns:
        `value` itself if the version defines all of it. Audio becomes an embedded blob, a link to a resource becomes
        text.
    """
    kind = value["type"]
    if kind == "text" and len(value) == 2:
        return value  # the text alone, as most are
    if kind == "resource":
        inner = narrow("ResourceContents", value["resource"], revision)
        if inner is not value["resource"]:
            value = {**value, "resource": inner}
    elif kind in CONTENT_SINCE and CONTENT_SINCE[kind] > revision:
        older: Json
        if kind == "audio":
            blob = {"uri": "content://audio", "mimeType": value["mimeType"], "blob": value["data"]}
            older = {"type": "resource", "resource": blob}
        else:
            text = f"{value.get('title') or value['name']}: {value['uri']}"
            if "description" in value:
                text = f"{text}\n{value['description']}"
            older = {"type": "text", "text": text}
        if "annotations" in value:
            older["annotations"] = value["annotations"]
        value = older
    return narrow("ContentBlock", value, revision)


def narrow_tool_result(result: Json, revision: str, *, wrapped: bool) -> Json:
    """Return the result of `tools/call` in the form of a protocol version.

    Args:
        result: Result of the newest protocol version; it is not changed.
        revision: Protocol version of the reader, an older one.
        wrapped: Whether the tool's output schema is wrapped for versions that only allow objects.
    """
    narrowed = {**result, "content": [narrow_block(item, revision) for item in result["content"]]}
    if "structuredContent" not in result:
        return narrowed
    value = result["structuredContent"]
    if knows(revision, "CallToolResult", "structuredContent"):
        if wrapped or type(value) is not dict:
            narrowed["structuredContent"] = {"result": value}
        return narrowed
    del narrowed["structuredContent"]
    if not narrowed["content"]:
        narrowed["content"] = [{"type": "text", "text": encode(value).decode()}]
    return narrowed


# Negotiation: the version, client and capabilities of a request, and the members that a version adds to results

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
        client: Client of the request.
        log_level: Lowest level of log messages for the client, or None for no messages.
    """

    __slots__ = ("client", "log_level", "revision")
    era = "stateless"
    not_found_code = INVALID_PARAMS
    missing_capability_code = MISSING_CLIENT_CAPABILITY
    has_session = False

    def __init__(self, revision: str, client: Client, log_level: str | None) -> None:
        self.revision = revision
        self.client = client
        self.log_level = log_level

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
        return cls(revision, Client(info, capabilities), level)

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
