"""The filter and the messages of a `subscriptions/listen` stream, without I/O (basic/patterns/subscriptions)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any

from ..._utils.exceptions import INVALID_PARAMS, MalformedError, ProtocolError
from ...identity.change import LISTS, RESOURCES, Change
from ...protocol import jsonrpc
from ...protocol.eras import SUBSCRIPTION_ID
from ...protocol.jsonrpc import is_array, is_object
from ...requests.access import check_identified
from ...requests.call import Call
from ..registry import Extension

MAX_URIS = 1000
"""URIs that one session or one stream may subscribe to, and keys beside them."""

MAX_URIS_LENGTH = 64 * 1024
"""Characters in all of them together."""

MAX_URI_LENGTH = 2048
"""Characters in one of them."""

LOST = "messages between server processes were lost; listen again, and read what you subscribed to"
"""The reason for closing a stream after events of its topics were lost."""


class Listen:
    """One `subscriptions/listen` request: its filter and its messages (basic/patterns/subscriptions).

    Args:
        call: The request.
        is_offered: Returns True if the server offers a list.
        extensions: Extensions with the topics that clients may subscribe to.

    Attributes:
        request_id: The id of the request, which every message of the stream contains.
        revision: The revision of the request.
        wanted: The changes to which the stream subscribes.

    Raises:
        ProtocolError: -32602 for a filter that is malformed or too large, or an error of a topic's `accept`.
        ChallengeError: The filter has a topic, the server is protected, and the client is not authenticated.
        MissingCapabilityError: The client has not declared the extension of a topic.
        Exception: Any other exception of a topic's `accept`.
    """

    __slots__ = ("_honoured", "_meta", "_result", "request_id", "revision", "wanted")

    def __init__(
        self, call: Call, is_offered: Callable[[str], bool], extensions: Iterable[Extension]
    ) -> None:
        self.request_id = call.request_id
        self.revision = call.revision
        self._meta = {SUBSCRIPTION_ID: call.request_id}
        self._honoured: dict[str, Any] = {}
        asked: Any = call.params.get("notifications")
        if not is_object(asked):
            raise MalformedError("notifications: expected an object with the lists and URIs to listen for")
        wanted: list[Change] = []
        for member, name in LISTS.items():
            flag = asked.get(member)
            if flag is not None and type(flag) is not bool:
                raise MalformedError(f"notifications.{member}: expected true or false")
            if flag and is_offered(name):
                wanted.append(Change(name))
                self._honoured[member] = True
        topics = [
            (each, topic)
            for each in extensions
            for topic in each.topics
            if asked.get(topic.member) is not None
        ]
        if topics and call.runtime.is_protected and call.principal.id is None:
            check_identified(call)
        keys = {
            member: _keys(asked, member) for member in (RESOURCES, *(topic.member for _, topic in topics))
        }
        check_keys([key for each in keys.values() for key in each])
        if asked.get(RESOURCES) is not None and is_offered("resources"):
            self._honoured[RESOURCES] = keys[RESOURCES]
            wanted += [Change("resource", uri) for uri in keys[RESOURCES]]
        for extension, topic in topics:
            call.client.require(extension.capability)
            from ...context import Context

            accepted = topic.accepted(keys[topic.member], Context(call))
            wanted += [Change(topic.notification, key) for key in accepted]
            honoured = self._honoured.get(topic.member, ())
            self._honoured[topic.member] = list(dict.fromkeys((*honoured, *accepted)))
        self.wanted = frozenset(wanted)
        # Made now, so that the stream keeps nothing else of its request.
        self._result = jsonrpc.result(call.request_id, call.render({"_meta": self._meta}))

    def acknowledged(self) -> bytes:
        """Return the first message of the stream, with the accepted part of the filter."""
        params = {"_meta": self._meta, "notifications": self._honoured}
        return jsonrpc.notification("notifications/subscriptions/acknowledged", params)

    def notification(self, change: Change) -> bytes:
        """Return the notification of a change."""
        if change.params is not None:
            meta = {**change.params.get("_meta", {}), **self._meta}
            return jsonrpc.notification(change.kind, {**change.params, "_meta": meta})
        head, tail = _around_id(change.kind, change.uri)
        return b"".join((head, jsonrpc.encode(self.request_id), tail))

    def result(self) -> bytes:
        """Return the last message of a stream that ends gracefully."""
        return self._result

    def cancelled(self, reason: str) -> bytes:
        """Return the last message, on a pipe, of a stream that is dropped (basic/patterns/cancellation)."""
        params = {"requestId": self.request_id, "reason": reason}
        return jsonrpc.notification("notifications/cancelled", params)


def check_keys(keys: Collection[str]) -> None:
    """Check the number and the length of subscribed URIs and keys.

    Raises:
        ProtocolError: -32602, with the limit.
    """
    if len(keys) > MAX_URIS or sum(map(len, keys)) > MAX_URIS_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS,
            f"A client can subscribe to at most {MAX_URIS:,} URIs and topic keys, of {MAX_URIS_LENGTH:,} characters "
            "together. Unsubscribe from one, or subscribe to a template",
        )
    if keys and max(map(len, keys)) > MAX_URI_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS, f"A subscribed URI or key must have at most {MAX_URI_LENGTH:,} characters"
        )


def _keys(asked: dict[str, Any], member: str) -> list[str]:
    """Return the keys of a member of the filter; none if it is null."""
    keys: Any = asked.get(member)
    if keys is None:
        return []
    if not is_array(keys) or not all(isinstance(key, str) for key in keys):
        what = "URIs" if member == RESOURCES else "strings"
        raise MalformedError(f"notifications.{member}: expected an array of {what}")
    return keys


def notification(change: Change) -> bytes:
    """Return the notification of a change for a session."""
    return _notification(change.kind, change.uri)


@lru_cache(256)
def _notification(kind: str, uri: str | None) -> bytes:
    if uri is None:
        return jsonrpc.notification(f"notifications/{kind}/list_changed")
    return jsonrpc.notification("notifications/resources/updated", {"uri": uri})


@lru_cache(256)
def _around_id(kind: str, uri: str | None) -> tuple[bytes, bytes]:
    """Return the parts of a stream's notification before and after its id, which are equal for all streams."""
    method = f"notifications/{kind}/list_changed" if uri is None else "notifications/resources/updated"
    uri_member = b"" if uri is None else b',"uri":' + jsonrpc.encode(uri)
    head = f'{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"{SUBSCRIPTION_ID}":'
    return head.encode(), b"}" + uri_member + b"}}"
