"""Parsing of messages: requests with their envelopes, notifications, responses, and messages that are not JSON.

It is used for every transport and both eras.
"""

from __future__ import annotations

import re
from typing import Protocol, final

from pydantic_core import from_json

from .._utils.exceptions import INVALID_REQUEST, MalformedError, ProtocolError
from .jsonrpc import ID_FORM, MAX_ID_LENGTH, Json, RequestId, is_id, is_object
from .revisions import PROTOCOL_VERSION, Envelope


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
        method: Method, which may be unknown.
        params: Params, which may be of any type; None if there are none.
    """

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: object) -> None:
        self.method = method
        self.params = params


class Response:
    """A response to a request of the server.

    Attributes:
        message: The whole message, of which only the kind was checked.
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

    def __init__(self, id: RequestId | None, problem: ProtocolError) -> None:  # noqa: A002 - the attribute's name
        self.id = id
        self.problem = problem


class Sender(Protocol):
    """The connection of a message, as far as its parsing depends on it."""

    def has_request(self, id_: RequestId) -> bool:
        """Return True if a request with an id is running."""
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
        request = Request()  # without an `__init__`, which would take half of the time of this function
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
    method = message.get("method")
    if message.get("jsonrpc") != "2.0":
        return Refusal(readable_id(message.get("id"), sender) if "method" in message else None, _not_ours())
    if type(method) is str:
        return Notification(method, message.get("params"))
    if is_answer(message):
        return Response(message)
    return Refusal(readable_id(message.get("id"), sender), invalid("method: expected a string"))


def readable_id(id_: object, sender: Sender) -> RequestId | None:
    """Return the id of the error response to a malformed request; None for the id of a running request."""
    return id_ if is_id(id_) and not sender.has_request(id_) else None


def is_answer(message: Json) -> bool:
    """Return True if a message is a response. `"method": null`, which some libraries write, counts as no method."""
    return message.get("method") is None and ("result" in message or "error" in message)


def is_initialize(message: object) -> bool:
    """Return True if a message is an `initialize` request."""
    return is_object(message) and message.get("method") == "initialize" and "id" in message


def names_revision(message: object) -> bool:
    """Return True if a message has its protocol version in `_meta`, as stateless requests do."""
    params: Json | None = message.get("params") if is_object(message) else None
    meta: Json | None = params.get("_meta") if type(params) is dict else None
    return type(meta) is dict and PROTOCOL_VERSION in meta


def invalid(problem: str) -> ProtocolError:
    """Return the error for an invalid message, or one that comes at the wrong time."""
    return ProtocolError(INVALID_REQUEST, f"Invalid Request: {problem}")


def _not_ours() -> ProtocolError:
    return invalid('expected an object with "jsonrpc": "2.0"')


# Messages that are not JSON

# Bytes that are searched, which takes some milliseconds; of a longer message also the last ones.
_BEGINNING = 64 * 1024
_END = 8 * MAX_ID_LENGTH

# Patterns are compiled on first use, by `re` itself: they would cost every start of a server.
# A string without an end goes up to the end of the message, so that no byte is searched twice.
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_TOKEN = rb"(?s)(?P<open>[\[{]+)|(?P<close>[\]}]+)|" + _STRING
_ID = rb'"id"\s*:\s*(-?[0-9]{1,19}|"(?:[^"\\]|\\.){0,%d}")\s*' % (6 * MAX_ID_LENGTH)
_METHOD_MEMBER = rb'"method"\s*:\s*"'
_LAST_MEMBERS = _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
_COLOUR = rb"\x1b\[[0-9;]*m"
_MESSAGE = rb'(?:\s|%b)*(?:\{(?:\s|%b)*(?:["}]|\Z)|\[\s*\{)' % (_COLOUR, _COLOUR)
_REPAIRED = (
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|(?P<other>\\.)|(?P<colour>%b)" % _COLOUR
)


def looks_like_message(line: bytes) -> bool:
    """Return True if a line begins as a message, or a batch of them, does; `[INFO] ready` and `{'a': 1}` do not."""
    return re.match(_MESSAGE, line) is not None


def repaired(line: bytes) -> bytes:
    """Return a line with U+FFFD for each half of a surrogate pair, and without the escape sequences of colours.

    Servers in JavaScript that cut a text at a number of UTF-16 units send such halves, which the grammar of JSON has
    (RFC 8259, 8.2). Colours are added around and between the parts of a message; inside a string they are not JSON.
    """

    def repair(found: re.Match[bytes]) -> bytes:
        return {"half": b"\\ufffd", "colour": b""}.get(found.lastgroup or "", found[0])

    return re.sub(_REPAIRED, repair, line)


def id_of_unreadable(data: bytes) -> RequestId | None:
    """Return the request id of a message that cannot be parsed, if it can be found.

    Args:
        data: A message that is nested too deeply, or is not JSON.

    Returns:
        Member `id` of the outermost object if it has a member `method` too; else None.
    """
    id_, has_method = _outermost(data)
    if not has_method or id_ is not None or len(data) <= _BEGINNING:
        return id_ if has_method else None
    return _last_id(data)


def id_of_answer(beginning: bytes, ending: bytes) -> RequestId | None:
    """Return the request id of a response that is too long, if it can be found.

    Args:
        beginning: First bytes of the message, which was not stored.
        ending: Last bytes of the message.
    """
    id_, _ = _outermost(beginning)
    return id_ if id_ is not None or not beginning.startswith(b"{") else _last_id(ending)


def is_call(beginning: bytes) -> bool:
    """Return True if a message is a request or a notification, by its first bytes."""
    return _outermost(beginning)[1]


def _outermost(data: bytes) -> tuple[RequestId | None, bool]:
    """Find the member `id` of the outermost object, and whether there is a member `method`, near the beginning."""
    id_: RequestId | None = None
    has_method = False
    depth = 0
    if not data.startswith(b"{"):
        return None, False
    id_member, method_member = re.compile(_ID + rb"[,}]"), re.compile(_METHOD_MEMBER)
    for token in re.compile(_TOKEN).finditer(data, 0, _BEGINNING):
        if (opened := token["open"]) is not None:
            depth += len(opened)
        elif (closed := token["close"]) is not None:
            depth -= len(closed)
        elif depth == 1 and token[0] == b'"id"':
            member = id_member.match(data, token.start(), _BEGINNING)
            id_ = id_ if member is None else _read_id(member[1])
        elif depth == 1 and token[0] == b'"method"':
            has_method = has_method or method_member.match(data, token.start(), _BEGINNING) is not None
        if depth <= 0 or (has_method and id_ is not None):
            break
    return id_, has_method


def _last_id(data: bytes) -> RequestId | None:
    """Find the member `id` among the last members of the outermost object."""
    last = re.search(_LAST_MEMBERS, data[-_END:])
    return None if last is None else _read_id(last[1])


def _read_id(text: bytes) -> RequestId | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if is_id(value) else None
