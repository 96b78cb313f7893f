"""Tables of the protocol versions: methods, capabilities, fields, kinds of content; and results for older versions.

Sources: `schema/<revision>/schema.ts` and the key changes page of each version.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from .jsonrpc import encode, is_object
from .types import Json

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
