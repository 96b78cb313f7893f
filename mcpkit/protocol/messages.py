"""Parsing of messages: requests with their envelopes, notifications, responses, and invalid messages.

It is used for every transport and both eras.
"""

from __future__ import annotations

from typing import Protocol, final

from .._utils.exceptions import INVALID_REQUEST, MalformedError, ProtocolError
from .eras import PROTOCOL_VERSION, Envelope
from .jsonrpc import ID_FORM, RequestId, is_id, is_object
from .types import Json


@final
class Request:
    """A valid request.

    Attributes:
        envelope: Client and protocol version.
        id: Request id.
        method: Method, which may be unknown.
        params: Params; empty if there are none.
        meta: `_meta` of the params; empty if there is none.
    """

    __slots__ = ("envelope", "id", "meta", "method", "params")

    envelope: Envelope
    id: RequestId
    method: str
    params: Json
    meta: Json


class Notification:
    """A notification.

    Attributes:
        method: Its method, which may be one that there is not.
        params: Its params, whatever they are; None where there are none.
    """

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: object) -> None:
        self.method = method
        self.params = params


class Response:
    """The answer to a request of the server's.

    Attributes:
        message: The whole message; nothing but its kind has been looked at.
    """

    __slots__ = ("message",)

    def __init__(self, message: Json) -> None:
        self.message = message


class Refusal:
    """A message that gets an error response.

    Attributes:
        id: Id of the response; None if the message has no readable id, or that of a running request.
        problem: The error.
    """

    __slots__ = ("id", "problem")

    def __init__(
        self,
        id: RequestId | None,  # noqa: A002 - the attribute's name
        problem: ProtocolError,
    ) -> None:
        self.id = id
        self.problem = problem


class Sender(Protocol):
    """The connection of a message, as far as its parsing depends on it."""

    def has_request(self, id_: RequestId) -> bool:
        """Return whether a request with an id is running."""
        ...

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return client and protocol version of a request.

        Raises:
            ProtocolError: The request comes at the wrong time, or lacks required members.
        """
        ...


def read(message: object, sender: Sender) -> Request | Notification | Response | Refusal:
    """Parse a message; never raises an exception.

    Args:
        message: One JSON value.
        sender: Connection of the message.
    """
    if not is_object(message):
        return Refusal(None, _not_ours())
    method = message.get("method")
    if type(method) is not str or "id" not in message or message.get("jsonrpc") != "2.0":
        return _read_other(message, sender)
    id_ = message["id"]
    if not is_id(id_):
        return Refusal(None, invalid(f"id: expected {ID_FORM}"))
    if sender.has_request(id_):
        return Refusal(None, invalid(f"a request with the id {str(id_)[:60]!r} is already running"))
    try:
        params: Json | None = message.get("params")
        if params is None:
            params = {}
        elif type(params) is not dict:
            raise MalformedError("params: expected an object")
        meta: Json | None = params.get("_meta")
        if meta is None:
            meta = {}
        elif type(meta) is not dict:
            raise MalformedError("params._meta: expected an object")
        elif "progressToken" in meta and not is_id(meta["progressToken"]):
            raise MalformedError(f"params._meta.progressToken: expected {ID_FORM}")
        request = Request()  # each call comes by here, and an `__init__` would be half of what this costs
        request.envelope = sender.envelope(method, params, meta)
    except ProtocolError as error:
        return Refusal(id_, error)
    request.id = id_
    request.method = method
    request.params = params
    request.meta = meta
    return request


def _read_other(message: Json, sender: Sender) -> Notification | Response | Refusal:
    """Parse a message that is not a request."""
    if message.get("jsonrpc") != "2.0":
        return Refusal(readable_id(message.get("id"), sender) if "method" in message else None, _not_ours())
    method = message.get("method")
    if type(method) is str:
        return Notification(method, message.get("params"))
    if is_answer(message):
        return Response(message)
    return Refusal(readable_id(message.get("id"), sender), invalid("method: expected a string"))


def readable_id(id_: object, sender: Sender) -> RequestId | None:
    """Return the id to refuse a malformed request under; never that of one that runs, which goes on."""
    return id_ if is_id(id_) and not sender.has_request(id_) else None


def is_answer(message: Json) -> bool:
    """Return whether a message is the answer to a request; `"method": null`, which some libraries write, is none."""
    return message.get("method") is None and ("result" in message or "error" in message)


def is_initialize(message: object) -> bool:
    """Return whether a message is an `initialize` request."""
    return is_object(message) and message.get("method") == "initialize" and "id" in message


def names_revision(message: object) -> bool:
    """Return whether a message has its protocol version in `_meta`, as stateless requests do."""
    params: Json | None = message.get("params") if is_object(message) else None
    meta: Json | None = params.get("_meta") if type(params) is dict else None
    return type(meta) is dict and PROTOCOL_VERSION in meta


def invalid(problem: str) -> ProtocolError:
    """Return the error for what is no message of the protocol, or comes at the wrong time."""
    return ProtocolError(INVALID_REQUEST, f"Invalid Request: {problem}")


def _not_ours() -> ProtocolError:
    return invalid('expected an object with "jsonrpc": "2.0"')
