"""Tables of the protocol versions: methods, fields, kinds of content.

Sources: `schema/<revision>/schema.ts` and the key changes page of each version.
"""

from __future__ import annotations

from typing import Any

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that open a session with `initialize`, oldest first."""

STATELESS = ("2026-07-28",)
"""Revisions that carry version, client and capabilities in the `_meta` of each request."""

ALL = HANDSHAKE + STATELESS
LATEST_HANDSHAKE = HANDSHAKE[-1]
LATEST = ALL[-1]

BATCHES = frozenset({"2025-03-26"})
"""Revisions with JSON-RPC batches: 2025-03-26 brought them, 2025-06-18 took them away."""

ERROR_ID_MAY_BE_ABSENT = frozenset({"2025-11-25", "2026-07-28"})
"""Revisions in which an error response may omit an `id` that could not be read."""

RESUMABLE = frozenset({"2025-11-25"})
"""Revisions in which event streams begin with an event without data, so that clients can resume (SEP-1699)."""

OBJECTS_ONLY = frozenset({"2025-06-18", "2025-11-25"})
"""Revisions in which output schemas and structured content are objects. 2026-07-28 allows any JSON value."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""RFC 5424 severities, least severe first (utilities/logging)."""

SEVERITY = {level: rank for rank, level in enumerate(LOG_LEVELS)}

_EVERY = frozenset(ALL)
_BY_HANDSHAKE = frozenset(HANDSHAKE)
_STATELESS_ONLY = frozenset(STATELESS)

TASKS_IN_CORE = "2025-11-25"
"""The revision that has tasks in its core; 2026-07-28 has others, in an extension."""

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
"""What is asked about a task."""

TASKS = "io.modelcontextprotocol/tasks"
"""The extension of 2026-07-28 by which calls of tools outlive their connections."""

CLIENT_METHODS = {
    # what a server may ask: the revisions that have it
    "elicitation/create": frozenset(revision for revision in ALL if revision >= "2025-06-18"),
    "sampling/createMessage": _EVERY,
    "roots/list": _EVERY,
}

ELICITATION_IDS = frozenset({"2025-11-25"})
"""Revisions in which an elicitation by URL has an id, and its completion is notified."""

NOTIFICATIONS = frozenset(
    f"notifications/{name}"
    for name in (
        "cancelled",
        "elicitation/complete",
        "initialized",
        "message",
        "progress",
        "prompts/list_changed",
        "resources/list_changed",
        "resources/updated",
        "roots/list_changed",
        "subscriptions/acknowledged",
        "tasks/status",
        "tools/list_changed",
    )
)
"""The notifications of the core protocol, in either direction."""

RESULT_TYPES = frozenset({"complete", "input_required"})
"""The values of `resultType` that belong to the core protocol (basic/index, "ResultType")."""

ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may be answered with `input_required` in the stateless era (basic/patterns/mrtr)."""

ROUND_PARAMS = frozenset({"inputResponses", "requestState"})
"""What such a request brings from the round before."""

CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
    }
)
"""Methods with `ttlMs` and `cacheScope` in the result in the stateless era (utilities/caching)."""

SINCE: dict[str, dict[str, str]] = {
    # object: {field: the revision that brought it}; a field that is not named has always been there.
    "Implementation": {
        "title": "2025-06-18",
        "description": "2025-11-25",
        "icons": "2025-11-25",
        "websiteUrl": "2025-11-25",
    },
    "ServerCapabilities": {"completions": "2025-03-26", "extensions": "2026-07-28"},
    "Tool": {
        "annotations": "2025-03-26",
        "title": "2025-06-18",
        "outputSchema": "2025-06-18",
        "_meta": "2025-06-18",
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
}

CONTENT_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""Kinds of content that came later than 2024-11-05."""

SAMPLING_CONTENT = {
    "text": "2024-11-05",
    "image": "2024-11-05",
    "audio": "2025-03-26",
    "tool_use": "2025-11-25",
    "tool_result": "2025-11-25",
}
"""Kinds of content that a message for a client's model may have, and the revision that brought each."""

_UNKNOWN: dict[tuple[str, str], frozenset[str]] = {
    (kind, revision): frozenset(field for field, since in fields.items() if since > revision)
    for kind, fields in SINCE.items()
    for revision in ALL
}


def knows(revision: str, kind: str, field: str) -> bool:
    """Return whether an object of the schema has a field in a protocol version.

    Args:
        revision: Protocol version.
        kind: Object of the schema, such as `Tool`.
        field: Name of the field.
    """
    return field not in _UNKNOWN[kind, revision]


def narrow(kind: str, value: dict[str, Any], revision: str) -> dict[str, Any]:
    """Leave out the fields that a revision does not know.

    Args:
        kind: A key of `SINCE`.
        value: The object as the newest revision has it; it is not changed.
        revision: One of `ALL`.

    Returns:
        `value` itself where nothing has to go, else a copy.
    """
    unknown = _UNKNOWN[kind, revision]
    if not unknown.isdisjoint(value):
        value = {key: item for key, item in value.items() if key not in unknown}
    annotations = value.get("annotations")
    if annotations and "lastModified" in annotations and revision < SINCE["Annotations"]["lastModified"]:
        value = {**value, "annotations": narrow("Annotations", annotations, revision)}
    return value
