"""Session of a client across server processes: negotiated state, lists, and responses while no process runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ..._utils.exceptions import INTERNAL_ERROR, METHOD_NOT_FOUND, ProtocolError
from ...identity.principals_and_scopes import LISTS, RESOURCES
from ...protocol.jsonrpc import Json, RequestId, is_array, is_object, object_at
from ...protocol.revisions import (
    ALL,
    HANDSHAKE,
    LATEST_HANDSHAKE,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
)
from .child_and_client import Child

DECLARED: Final[Mapping[str, Json]] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
}
"""Capabilities that are declared from the start, as they cannot be added to a session later."""

_ITEMS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The result member with the items, by list method."""

_EMPTY_RESULT: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Methods with an empty result."""

_UNKNOWN_SERVER: Final = {"name": "server", "version": "0"}
"""Server name in responses before the server has run."""

_MAX_PAGES: Final = 1000


# Parts of messages


def params_of(message: Json) -> Json:
    """Return the params of a message; empty if they are not an object."""
    return object_at(message, "params")


def meta_of(message: Json) -> Json:
    """Return the `_meta` of the params of a message; empty if it is missing."""
    return object_at(params_of(message), "_meta")


def is_stateless(message: Json) -> bool:
    """Return whether a request carries its protocol version, as in the stateless revisions."""
    return PROTOCOL_VERSION in meta_of(message)


def failure_response(request: Json, problem: str) -> Json:
    """Return an error response; for a tool call a result with `isError`, which the model reads."""
    if request.get("method") == "tools/call" and "task" not in params_of(request):
        return _response(request, {"content": [{"type": "text", "text": problem}], "isError": True})
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": INTERNAL_ERROR, "message": problem}}


def _response(request: Json, result: Mapping[str, object]) -> Json:
    complete = dict(result)
    if is_stateless(request):
        complete = {"resultType": "complete", **complete}
        if request["method"] in _ITEMS or request["method"] == "server/discover":
            complete = {"cacheScope": "private", **complete, "ttlMs": 0}  # an edit may change it at any time
    return {"jsonrpc": "2.0", "id": request["id"], "result": complete}


def _with_declared(result: Json) -> Json:
    """Return a result with `DECLARED` added to its capabilities."""
    own = object_at(result, "capabilities")
    added: Json = {name: {**(own.get(name) or {}), **members} for name, members in DECLARED.items()}
    return {**result, "capabilities": {**own, **added}}


def _updated(uri: str) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}


# Subscriptions, lists and the session


@dataclass
class Subscription:
    """An open `subscriptions/listen` request.

    Attributes:
        request: The request.
        is_acknowledged: Whether the client has its acknowledgement; it gets no second one.
    """

    request: Json
    is_acknowledged: bool = False

    @property
    def filter(self) -> Json:
        """The notifications that the client requests."""
        return object_at(params_of(self.request), "notifications")

    def acknowledgement(self, granted: object = None) -> Json:
        """Return its acknowledgement.

        Args:
            granted: The notifications that the server supports; None for all. Lists are always granted.
        """
        own = self.filter if granted is None else granted
        lists = {member: True for member in LISTS if self.filter.get(member) is True}
        return {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": {SUBSCRIPTION_ID: self.request["id"]},
                "notifications": {**(own if is_object(own) else {}), **lists},
            },
        }

    def change_notifications(self, kinds: set[str]) -> list[Json]:
        """Return notifications of changed lists, and of all resources, which may have changed."""
        notifications: list[Json] = [
            {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": {}}
            for member, kind in LISTS.items()
            if kind in kinds and self.filter.get(member) is True
        ]
        uris: object = self.filter.get(RESOURCES)
        notifications += [_updated(uri) for uri in (uris if is_array(uris) else []) if isinstance(uri, str)]
        for each in notifications:
            each["params"]["_meta"] = {SUBSCRIPTION_ID: self.request["id"]}
        return notifications


class ServerLists:
    """The lists of one server process, as far as they are known."""

    def __init__(self) -> None:
        self._results: dict[str, Json] = {}

    async def fetch(self, child: Child, params: Json) -> None:
        """Request all lists of a process; one that it does not support is empty.

        Args:
            child: The process.
            params: Params of each request, beside the cursor.

        Raises:
            ChildEndedError: The process ends.
        """
        for method, member in _ITEMS.items():
            pages: list[Json] = []
            cursor: object = None
            with suppress(ProtocolError):  # an unsupported list, or a page that fails
                while len(pages) < _MAX_PAGES:
                    page_params = params if cursor is None else {"cursor": cursor, **params}
                    pages.append(await child.request(method, page_params))
                    cursor = pages[-1].get("nextCursor")
                    if cursor is None:
                        break
            entries: list[object] = []
            for page in pages:
                items: object = page.get(member)
                entries += items if is_array(items) else []
            first = pages[0] if pages else {}
            rest = {name: value for name, value in first.items() if name != "nextCursor"}
            self._results[method] = {**rest, member: entries}

    def store(self, method: str, result: Json) -> None:
        """Store a list that has a single page."""
        self._results[method] = result

    def result(self, method: str) -> Json:
        """Return the result of a method with all entries; an empty list if it is not known."""
        return {_ITEMS[method]: [], **self._results.get(method, {})}

    def differences(self, later: ServerLists) -> dict[str, str]:
        """Return the kinds of components that differ, or may differ, in later lists.

        Returns:
            A summary such as `+1 ~2` by kind; empty if only the order differs or the earlier list is not known.
        """
        differences: dict[str, str] = {}
        for method in _ITEMS:
            before, after = self._by_name(method), later._by_name(method)
            counts = {
                "+": len(after.keys() - before.keys()),
                "-": len(before.keys() - after.keys()),
                "~": sum(before[name] != after[name] for name in before.keys() & after.keys()),
            }
            kind = method.partition("/")[0]
            is_known = method in self._results
            summary = " ".join(f"{sign}{number}" for sign, number in counts.items() if number and is_known)
            if summary or list(before) != list(after) or not is_known:
                differences[kind] = " ".join(filter(None, (differences.get(kind), summary)))
        return differences

    def _by_name(self, method: str) -> dict[str, Json]:
        entries: object = self.result(method)[_ITEMS[method]]
        return {
            str(each.get("uri") or each.get("uriTemplate") or each.get("name")): each
            for each in (entries if is_array(entries) else [])
            if is_object(each)
        }


@dataclass
class SessionState:
    """State of the client's session, which each new server process receives.

    Attributes:
        initialize: The client's `initialize` request; None if it has sent none.
        revision: The negotiated revision; None before that.
        is_initialized: Whether the client has sent `notifications/initialized`.
        log_level: The level of `logging/setLevel`; None if the client has set none.
        subscribed: The URIs of `resources/subscribe`, in their order.
        subscriptions: The open `subscriptions/listen` requests, by id.
        meta: The `_meta` of the client's latest request in the stateless revisions; None if there was none.
        lists: The latest lists.
    """

    initialize: Json | None = None
    revision: str | None = None
    is_initialized: bool = False
    log_level: object = None
    subscribed: dict[str, None] = field(default_factory=dict[str, None])
    subscriptions: dict[RequestId, Subscription] = field(default_factory=dict[RequestId, Subscription])
    meta: Json | None = None
    lists: ServerLists = field(default_factory=ServerLists)
    _initialize_result: Json = field(default_factory=dict[str, Any])
    _discover_result: Json = field(default_factory=dict[str, Any])

    @property
    def is_ready(self) -> bool:
        """True if the client accepts notifications, so that lists of a new process can be compared."""
        return self.is_initialized if self.initialize is not None else self.meta is not None

    @property
    def initialize_params(self) -> Json:
        """The params of `initialize` for the next process, at the negotiated revision."""
        params = params_of(self.initialize or {})
        return params if self.revision is None else {**params, "protocolVersion": self.revision}

    @property
    def request_params(self) -> Json:
        """The params that every request on behalf of the client has."""
        return {} if self.initialize is not None or self.meta is None else {"_meta": self.meta}

    def record_request(self, request: Json) -> None:
        """Record the protocol version and client info of a stateless request."""
        if is_stateless(request):
            self.meta = {name: value for name, value in meta_of(request).items() if name != "progressToken"}

    def record_success(self, request: Json) -> None:
        """Record the effect of a request that succeeded: log level and resource subscriptions."""
        params = params_of(request)
        uri: object = params.get("uri")
        method = request["method"]
        if method == "logging/setLevel":
            self.log_level = params.get("level")
        elif method == "resources/subscribe" and isinstance(uri, str):
            self.subscribed[uri] = None
        elif method == "resources/unsubscribe" and isinstance(uri, str):
            self.subscribed.pop(uri, None)

    def change_notifications(self, kinds: set[str]) -> list[Json]:
        """Return the notifications for the client after a restart.

        Args:
            kinds: The lists that have changed: `tools`, `resources`, `prompts`.
        """
        notifications: list[Json] = []
        if self.is_initialized:
            notifications += [
                {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"} for kind in sorted(kinds)
            ]
            notifications += [_updated(uri) for uri in self.subscribed]
        for subscription in self.subscriptions.values():
            notifications += subscription.change_notifications(kinds)
        return notifications

    def complete_response(self, request: Json, response: Json) -> Json:
        """Return a response of a process as the client receives it, and keep its result for later.

        Lists and discovery expire at once. A declared feature that the process does not have is an empty list.
        """
        method = str(request.get("method"))
        error: object = response.get("error")
        if is_object(error) and error.get("code") == METHOD_NOT_FOUND:
            if method in _ITEMS:
                return _response(request, {_ITEMS[method]: []})
            if method in _EMPTY_RESULT:
                return _response(request, {})
        result: object = response.get("result")
        if not is_object(result):
            return response
        if method == "initialize":
            self._initialize_result = result = _with_declared(result)
        elif method == "server/discover":
            self._discover_result = result = _with_declared(result)
        elif method not in _ITEMS:
            return response
        elif "cursor" not in params_of(request) and "nextCursor" not in result:
            self.lists.store(method, result)
        return _response(request, result)

    def fallback_response(self, request: Json, problem: str) -> Json:
        """Return the response to a request while no process can serve it.

        Args:
            request: The request.
            problem: The error in the code: file, line and message.
        """
        method = str(request.get("method"))
        if method in _ITEMS:
            return _response(request, self.lists.result(method))
        if method in _EMPTY_RESULT:
            return _response(request, {})
        if method == "initialize":
            version: object = params_of(self.initialize or {}).get("protocolVersion")
            supported = version if isinstance(version, str) and version in HANDSHAKE else LATEST_HANDSHAKE
            known = self._initialize_result or {"capabilities": DECLARED, "serverInfo": _UNKNOWN_SERVER}
            return _response(request, {**known, "protocolVersion": self.revision or supported})
        if method == "server/discover":
            unknown = {
                "supportedVersions": list(ALL),
                "capabilities": DECLARED,
                "_meta": {SERVER_INFO: _UNKNOWN_SERVER},
            }
            return _response(request, self._discover_result or unknown)
        return failure_response(request, problem)
