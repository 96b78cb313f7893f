"""What clients ask to hear of, and the messages that tell of it; without I/O (basic/patterns/subscriptions)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from ...errors import INVALID_PARAMS, MalformedError, ProtocolError
from ...protocol import jsonrpc
from ...protocol.eras import SUBSCRIPTION_ID
from ...protocol.jsonrpc import RequestId, is_array, is_object
from ...state.change import LIST_NAMES, Change, ListName

MAX_URIS: Final = 1000
"""URIs that one session or one stream may subscribe to."""

MAX_URIS_LENGTH: Final = 64 * 1024
"""Characters in all of them together."""

MAX_URI_LENGTH: Final = 2048
"""Characters in a URI that is subscribed to."""

_URIS: Final = "resourceSubscriptions"


class Listen:
    """One `subscriptions/listen` request: what it wants, and its messages (basic/patterns/subscriptions).

    Args:
        request_id: The id of the request.
        asked: What it asks for: its filter.
        is_offered: Says whether a list is offered, so that it may change.
        render: Writes the result with which the stream ends.

    Attributes:
        request_id: The id of the request, under which every message of the stream goes.
        wanted: The changes that it is told of.

    Raises:
        ProtocolError: -32602 for a filter that is malformed or asks for too much.
    """

    __slots__ = ("_honoured", "_meta", "_result", "request_id", "wanted")

    def __init__(
        self,
        request_id: RequestId,
        asked: Any,
        is_offered: Callable[[ListName], bool],
        render: Callable[[dict[str, Any]], bytes],
    ) -> None:
        self.request_id = request_id
        self._meta = {SUBSCRIPTION_ID: request_id}
        self._honoured: dict[str, Any] = {}
        if not is_object(asked):
            raise MalformedError("notifications: expected an object that says what to listen for")
        wanted: list[Change] = []
        for name in LIST_NAMES:
            member = f"{name}ListChanged"
            flag = asked.get(member)
            if flag is not None and type(flag) is not bool:
                raise MalformedError(f"notifications.{member}: expected true or false")
            if flag and is_offered(name):
                wanted.append(Change(name))
                self._honoured[member] = True
        uris: list[Any] | None = asked.get(_URIS)
        if uris is not None:
            _check_uris(uris)
            if is_offered("resources"):
                wanted += [Change("resource", uri) for uri in uris]
                self._honoured[_URIS] = uris
        self.wanted = frozenset(wanted)
        # Made now, so that the stream keeps nothing else of its request.
        self._result = jsonrpc.result(request_id, render({"_meta": self._meta}))

    def acknowledged(self) -> bytes:
        """Return the first message of the stream, which names the part of the filter that is honoured."""
        params = {"_meta": self._meta, "notifications": self._honoured}
        return jsonrpc.notification("notifications/subscriptions/acknowledged", params)

    def notification(self, change: Change) -> bytes:
        """Return the message that tells of a change."""
        head, tail = _around_id(change.kind, change.uri)
        return b"".join((head, jsonrpc.encode(self.request_id), tail))

    def result(self) -> bytes:
        """Return the last message of a stream that ends gracefully."""
        return self._result

    def cancelled(self, reason: str) -> bytes:
        """Return the last message, on a pipe, of a stream that is dropped (basic/patterns/cancellation)."""
        params = {"requestId": self.request_id, "reason": reason}
        return jsonrpc.notification("notifications/cancelled", params)


def check_uri(uri: str) -> None:
    """Refuse to subscribe to what is too long to be kept.

    Raises:
        ProtocolError: -32602, naming the limit.
    """
    if len(uri) > MAX_URI_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS, f"A URI that is subscribed to has at most {MAX_URI_LENGTH:,} characters"
        )


def check_room(count: int, length: int) -> None:
    """Refuse more URIs than a client may subscribe to.

    Args:
        count: How many they are.
        length: How many characters they have together.

    Raises:
        ProtocolError: -32602, naming the limits.
    """
    if count > MAX_URIS or length > MAX_URIS_LENGTH:
        raise ProtocolError(
            INVALID_PARAMS,
            f"A client subscribes to at most {MAX_URIS:,} URIs of {MAX_URIS_LENGTH:,} characters together; "
            "unsubscribe from one, or subscribe to a template",
        )


def _check_uris(uris: Any) -> None:
    if not is_array(uris) or not all(isinstance(uri, str) for uri in uris):
        raise MalformedError(f"notifications.{_URIS}: expected an array of URIs")
    check_room(len(uris), sum(map(len, uris)))
    for uri in uris:
        check_uri(uri)


def notification(change: Change) -> bytes:
    """Return the message that tells a handshake session of a change."""
    return _notification(change.kind, change.uri)


@lru_cache(256)
def _notification(kind: str, uri: str | None) -> bytes:
    if uri is None:
        return jsonrpc.notification(f"notifications/{kind}/list_changed")
    return jsonrpc.notification("notifications/resources/updated", {"uri": uri})


@lru_cache(256)
def _around_id(kind: str, uri: str | None) -> tuple[bytes, bytes]:
    """Return a stream's message without the id of the stream; a thousand streams differ in that alone."""
    method = f"notifications/{kind}/list_changed" if uri is None else "notifications/resources/updated"
    uri_member = b"" if uri is None else b',"uri":' + jsonrpc.encode(uri)
    head = f'{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"{SUBSCRIPTION_ID}":'
    return head.encode(), b"}" + uri_member + b"}}"
