"""Client side of the protocol without I/O: ids, pending requests, progress, cancellation, requests of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from .._utils.exceptions import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, ProtocolError
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, RequestId, is_array, is_id, is_object, whole_number
from ..protocol.jsonrpc_validation import (
    id_of_answer,
    id_of_unreadable,
    is_call,
    looks_like_message,
    repaired,
)
from ..protocol.revisions import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, STATELESS

NO_HEADERS: Final[Mapping[str, str]] = {}

_MAX_ABANDONED: Final = 1000
_MAX_SHOWN: Final = 200  # characters of a message of the server in errors and in the log


# Messages to send


class OutgoingMessage:
    """A message that a transport sends.

    Attributes:
        line: The message as JSON, without a newline.
        id: Id of a request; None for notifications and responses.
        method: Method; None for responses.
        params: Params of the message.
        revision: Protocol version of the message; None for `initialize`, which negotiates one.
        headers: Headers for the HTTP transport: arguments that the tool's schema repeats in headers.
    """

    __slots__ = ("headers", "id", "line", "method", "params", "revision")

    line: bytes
    id: RequestId | None
    method: str | None
    params: Json
    revision: str | None
    headers: Mapping[str, str]


class Request(OutgoingMessage):
    """A request to be sent."""

    __slots__ = ()
    id: RequestId  # pyright: ignore[reportIncompatibleVariableOverride]  # it is set once
    method: str  # pyright: ignore[reportIncompatibleVariableOverride]  # the same


# Received messages


@dataclass(slots=True)
class ResultReceived:
    """The result of a request."""

    id: RequestId
    result: Json


@dataclass(slots=True)
class ErrorReceived:
    """The error response to a request."""

    id: RequestId
    code: int
    message: str
    data: Any = None


@dataclass(slots=True)
class ProgressReceived:
    """Progress of a pending request."""

    id: RequestId
    done: float
    total: float | None = None
    message: str | None = None


@dataclass(slots=True)
class RequestReceived:
    """A request of the server; `answer` or `refuse` it under its id."""

    id: RequestId
    method: str
    params: Json


@dataclass(slots=True)
class NotificationReceived:
    """A notification that belongs to no pending request."""

    method: str
    params: Json | None


@dataclass(slots=True)
class InvalidRequestReceived:
    """A malformed request of the server; `refuse` it under its id."""

    id: RequestId
    code: int
    message: str


@dataclass(slots=True)
class InvalidMessageReceived:
    """A message that is ignored or violates the specification, for the log."""

    problem: str


Event = (
    ResultReceived
    | ErrorReceived
    | ProgressReceived
    | RequestReceived
    | NotificationReceived
    | InvalidRequestReceived
    | InvalidMessageReceived
)


class ClientWire:
    """State of one client: creates the messages to send, and converts received lines to events.

    Args:
        revision: The protocol version.
        info: The client's `Implementation`.
        capabilities: The capabilities that the client declares.

    Attributes:
        revision: The protocol version; `initialize` may negotiate another one.
        pending: The methods of the requests without a response, by id.
    """

    def __init__(self, revision: str, *, info: Json, capabilities: Json) -> None:
        self.revision = revision
        self.info = info
        self.capabilities = capabilities
        self.pending: dict[RequestId, str] = {}
        self._last_id = 0
        self._id_before_notification: int | None = None  # until an error response to the last notification
        self._reporting: set[RequestId] = set()  # requests with progress notifications
        self._abandoned: set[RequestId] = set()  # cancelled requests that may still get a response

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        reports_progress: bool = False,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Request:
        """Create a request, which is pending from now on.

        Args:
            method: The method.
            params: Its params; the `_meta` of the protocol version is added.
            reports_progress: Whether to request progress notifications.
            headers: Arguments that are repeated in HTTP headers.

        Raises:
            ValueError: The params cannot be converted to JSON.
        """
        id_ = self._last_id = self._last_id + 1
        params = dict(params or {})
        meta: Json = params.get("_meta") or {}
        if self.revision in STATELESS:
            meta = {
                PROTOCOL_VERSION: self.revision,
                CLIENT_INFO: self.info,
                CLIENT_CAPABILITIES: self.capabilities,
                **meta,
            }
        if reports_progress:
            meta = {**meta, "progressToken": id_}
        if meta:
            params["_meta"] = meta
        message: Json = {"jsonrpc": "2.0", "id": id_, "method": method}
        if params:
            message["params"] = params
        request = Request()  # without an `__init__`, which would take half of the time of this method
        try:
            request.line = jsonrpc.encode(message)
        except ValueError as error:
            raise ValueError(
                f"the params of {method} cannot be converted to JSON: {error}. Pass plain JSON values"
            ) from None
        request.id = id_
        request.method = method
        request.params = params
        request.revision = None if method == "initialize" else self.revision
        request.headers = headers
        self.pending[id_] = method
        if reports_progress:
            self._reporting.add(id_)
        return request

    def notification(self, method: str, params: Mapping[str, Any] | None = None) -> OutgoingMessage:
        """Create a notification."""
        self._id_before_notification = self._last_id
        params = None if params is None else dict(params)
        return self._outgoing(jsonrpc.notification(method, params), method, params or {})

    def cancel(self, id_: RequestId, reason: str) -> OutgoingMessage | None:
        """Cancel a request; a later response is ignored.

        Returns:
            The notification for the server; None if it has responded already, or for `initialize`.
        """
        method = self._settle(id_)
        if method is not None:
            self._abandon(id_)
        if method is None or method == "initialize":
            return None
        return self.notification("notifications/cancelled", {"requestId": id_, "reason": reason})

    def answer(self, id_: RequestId, result: Mapping[str, Any]) -> OutgoingMessage:
        """Create the response to a request of the server."""
        return self._outgoing(jsonrpc.result(id_, dict(result)), None, {})

    def refuse(self, id_: RequestId, code: int, message: str) -> OutgoingMessage:
        """Create the error response to a request of the server."""
        return self._outgoing(jsonrpc.error(id_, ProtocolError(code, message)), None, {})

    def _outgoing(self, line: bytes, method: str | None, params: Json) -> OutgoingMessage:
        outgoing = OutgoingMessage()
        outgoing.line = line
        outgoing.id = None
        outgoing.method = method
        outgoing.params = params
        outgoing.revision = self.revision
        outgoing.headers = NO_HEADERS
        return outgoing

    def receive(self, line: bytes, answers: RequestId | None = None) -> list[Event]:
        """Parse a line.

        An invalid response ends its request at once. That request is found by the id of the response; else it is the
        one that the transport names; else the only one that is pending.

        Args:
            line: One JSON text.
            answers: The request of the response in this line, if there is one; None if the transport does not know it.

        Returns:
            The events in the line; none for a late response to a cancelled request.
        """
        try:
            message = jsonrpc.decode(line)
        except ProtocolError as error:
            try:
                message = jsonrpc.decode(repaired(line))
            except ProtocolError:
                return self._unreadable(line, error.message, answers)
        if is_object(message) and is_object(result := message.get("result")):  # as most are
            id_ = message.get("id")
            if (
                type(id_) is int
                and message.get("jsonrpc") == "2.0"
                and "method" not in message
                and "error" not in message
                and id_ in self.pending
            ):
                self._settle(id_)
                return [ResultReceived(id_, result)]
        events: list[Event] = []
        for each in message if is_array(message) else [message]:
            if not is_object(each):
                events.append(InvalidMessageReceived(f"expected an object, got {_shown(each)}"))
            elif each.get("method") is not None:
                events.append(self._read_call(each))
            else:
                events += self._read_response(each, answers)
        return events

    def end(self) -> None:
        """Abandon all pending requests after the end of the connection."""
        for id_ in list(self.pending):
            self._settle(id_)
            self._abandon(id_)

    def _abandon(self, id_: RequestId) -> None:
        if len(self._abandoned) >= _MAX_ABANDONED:  # by servers that never respond
            self._abandoned.clear()
        self._abandoned.add(id_)

    def _settle(self, id_: RequestId) -> str | None:
        """Remove a pending request, and return its method; None if it is not pending."""
        if self._reporting:
            self._reporting.discard(id_)
        return self.pending.pop(id_, None)

    def _read_call(self, message: Json) -> Event:
        """Parse a request or a notification of the server."""
        method, id_, params = message["method"], message.get("id"), message.get("params")
        params = Json() if params == [] else params  # as PHP writes an empty object
        problem = None
        if message.get("jsonrpc") != "2.0":
            problem = f'jsonrpc: expected "2.0", got {_shown(message.get("jsonrpc"))}'
        elif type(method) is not str:
            problem = f"method: expected a string, got {_shown(method)}"
        elif params is not None and not is_object(params):
            problem = f"params: expected an object, got {_shown(params)}"
        if id_ is not None and not is_id(id_):
            return InvalidMessageReceived(f"id: expected {jsonrpc.ID_FORM}, got {_shown(id_)}")
        if problem is not None:
            event = InvalidMessageReceived(problem)
            return event if id_ is None else InvalidRequestReceived(id_, INVALID_REQUEST, problem)
        if id_ is not None:
            return RequestReceived(id_, method, params or {})
        if method == "notifications/progress" and params is not None:
            token = whole_number(params.get("progressToken"))
            if token in self._reporting:
                done: Any = params.get("progress")
                total, text = params.get("total"), params.get("message")
                if type(done) not in (int, float):
                    return InvalidMessageReceived(f"params.progress: expected a number, got {_shown(done)}")
                total = total if type(total) in (int, float) else None
                return ProgressReceived(token, done, total, text if type(text) is str else None)
        return NotificationReceived(method, params)

    def _read_response(self, message: Json, answers: RequestId | None) -> list[Event]:
        """Parse a response of the server. One with a wrong id may be the response to another pending request."""
        raw_id, error = message.get("id"), message.get("error")
        id_ = whole_number(raw_id)
        if id_ in self.pending:
            self._settle(id_)
            return [_outcome(id_, message)]
        is_answer = "result" in message or "error" in message
        if not is_answer or message.keys().isdisjoint({"id", "jsonrpc"}):
            problem = f"expected a request, a response or a notification, got {_shown(message)}"
            event: Event = InvalidMessageReceived(problem)
            if is_id(raw_id):
                event = InvalidRequestReceived(raw_id, INVALID_REQUEST, f"method: {problem}")
            return [event]
        if self._was_sent(id_):
            return self._late(id_)
        problem = f"id: expected the id of an open request, got {_shown(raw_id)} in {_shown(message)}"
        only = self._only_pending(answers)
        if raw_id is answers is None and self._may_refuse_notification(only, error):
            self._id_before_notification = only = None
            problem = f"the server seems to reject a notification: {_shown(error)}"
        if only is None:
            return [InvalidMessageReceived(problem)]
        self._settle(only)
        if raw_id is None and error is not None:
            return [_refusal(only, error)]
        return [InvalidMessageReceived(problem), _malformed(only, problem)]

    def _unreadable(self, line: bytes, problem: str, answers: RequestId | None) -> list[Event]:
        """Return the events for a line that is not JSON: an error for its request, if it was a response."""
        problem = f"{problem}, in {_shown(line.decode('utf-8', 'backslashreplace'))}"
        if not looks_like_message(line):
            return [InvalidMessageReceived(problem)]
        line = repaired(line)
        if is_call(line):
            request = id_of_unreadable(line)
            if request is None:
                return [InvalidMessageReceived(problem)]
            return [InvalidRequestReceived(request, PARSE_ERROR, problem)]
        number = whole_number(id_of_answer(line, line))
        if number not in self.pending and self._was_sent(number):
            return self._late(number)
        id_ = number if number in self.pending else self._only_pending(answers)
        if id_ is None:
            return [InvalidMessageReceived(problem)]
        self._settle(id_)
        return [_malformed(id_, problem)]

    def _may_refuse_notification(self, only: RequestId | None, error: object) -> bool:
        """Return True if an error without an id may be for a notification instead of the only pending request, if any.

        Some servers send an error for an unknown notification. Most respond in order, so after the response to a later
        request no error for the notification is expected.
        """
        before = self._id_before_notification
        is_first = before is not None and (only is None or (isinstance(only, int) and only <= before + 1))
        return is_first and is_object(error) and whole_number(error.get("code")) == METHOD_NOT_FOUND

    def _was_sent(self, id_: int | None) -> TypeGuard[int]:
        return id_ is not None and 0 < id_ <= self._last_id

    def _late(self, id_: int) -> list[Event]:
        """Return no event for the response to an abandoned request, and a warning for a second response."""
        if id_ in self._abandoned:
            self._abandoned.discard(id_)
            return []
        return [InvalidMessageReceived(f"id: received a second response to request {id_}")]

    def _only_pending(self, answers: RequestId | None) -> RequestId | None:
        """Return the request that a response without a usable id must belong to; None if there are several."""
        if answers is not None:
            return answers if answers in self.pending else None
        # A subscription is pending as long as it is open, so a response is rarely for it.
        waiting = [id_ for id_, method in self.pending.items() if method != "subscriptions/listen"]
        waiting = waiting or list(self.pending)
        return waiting[0] if len(waiting) == 1 else None


def _outcome(id_: RequestId, message: Json) -> ResultReceived | ErrorReceived:
    """Return the result or error of a response; an error with the place if it violates the specification."""
    version, result, error = message.get("jsonrpc"), message.get("result"), message.get("error")
    if version != "2.0":
        return _malformed(id_, f'jsonrpc: expected "2.0", got {_shown(version)}')
    if is_object(result):
        if not error:  # some libraries write `"error": null` beside a result
            return ResultReceived(id_, result)
        return _malformed(id_, f"expected a result or an error, got both; error: {_shown(error)}")
    if error is not None:
        return _refusal(id_, error)
    if "result" in message:
        return _malformed(id_, f"result: expected an object, got {_shown(result)}")
    return _malformed(id_, "expected a result or an error, got neither")


def _malformed(id_: RequestId, problem: str) -> ErrorReceived:
    return ErrorReceived(id_, INTERNAL_ERROR, f"invalid response from the server: {problem}")


def _refusal(id_: RequestId, error: object) -> ErrorReceived:
    """Return an error with the code, message and data that were sent, in any form."""
    if is_object(error):
        code, message = whole_number(error.get("code")), error.get("message")
        if code is not None and type(message) is str and message:
            return ErrorReceived(id_, code, message, error.get("data"))
        text = message if type(message) is str and message else f"error: {_shown(error)}"
        return ErrorReceived(id_, INTERNAL_ERROR if code is None else code, text, error)
    return ErrorReceived(
        id_, INTERNAL_ERROR, error if type(error) is str and error else f"error: {_shown(error)}"
    )


def _shown(value: object) -> str:
    """Return the beginning of a value on one line, for the log and for messages."""
    try:
        text = value if isinstance(value, str) else jsonrpc.encode(value).decode()
    except ValueError:
        text = repr(value)
    line = "".join(char if char.isprintable() else " " for char in text[:_MAX_SHOWN])
    line = line if len(text) <= _MAX_SHOWN else line + "..."
    return repr(line) if isinstance(value, str) else line
