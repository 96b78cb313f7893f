"""The client's side of the wire, without I/O: ids, what is pending, progress, cancellation, the server's questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from .._utils.exceptions import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, ProtocolError
from . import jsonrpc
from .eras import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from .jsonrpc import RequestId, is_array, is_id, is_object, whole_number
from .revisions import STATELESS
from .types import Json
from .unreadable import id_of_answer, id_of_unreadable, is_call, looks_like_message, repaired

NO_HEADERS: Final[Mapping[str, str]] = {}


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


@dataclass(slots=True)
class Answered:
    """A request has its result."""

    id: RequestId
    result: Json


@dataclass(slots=True)
class Refused:
    """A request has been answered with an error."""

    id: RequestId
    code: int
    message: str
    data: Any = None


@dataclass(slots=True)
class Progressed:
    """Progress of a pending request."""

    id: RequestId
    done: float
    total: float | None = None
    message: str | None = None


@dataclass(slots=True)
class Asked:
    """The server asks; `answer` or `refuse` it under its id."""

    id: RequestId
    method: str
    params: Json


@dataclass(slots=True)
class Notified:
    """A notification that belongs to no pending request."""

    method: str
    params: Json | None


@dataclass(slots=True)
class Misasked:
    """A malformed request of the server; `refuse` it under its id."""

    id: RequestId
    code: int
    message: str


@dataclass(slots=True)
class Unreadable:
    """A message that nothing could be done with, or that is not as it should be; to be logged."""

    problem: str


Event = Answered | Refused | Progressed | Asked | Notified | Misasked | Unreadable


class ClientWire:
    """One client's end of the wire: takes lines, gives events, and makes the lines to send.

    Args:
        revision: The revision that is spoken.
        info: The client's `Implementation`.
        capabilities: What the client declares.

    Attributes:
        revision: The revision; `initialize` may settle another one.
        pending: The methods of the requests that wait for an answer, by id.
    """

    def __init__(self, revision: str, *, info: Json, capabilities: Json) -> None:
        self.revision = revision
        self.info = info
        self.capabilities = capabilities
        self.pending: dict[RequestId, str] = {}
        self._last_id = 0
        self._id_before_notification: int | None = None  # of the last notification, until an error answers it
        self._reporting: set[RequestId] = set()
        self._given_up: set[RequestId] = set()  # whose answer may still come

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        reports_progress: bool = False,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Request:
        """Make a request, which is pending from now on.

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
        request = Request()  # without an `__init__`, which would be half of what it costs
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
        """Make a notification."""
        self._id_before_notification = self._last_id
        told = None if params is None else dict(params)
        return self._outgoing(jsonrpc.notification(method, told), method, told or {})

    def cancel(self, id_: RequestId, reason: str) -> OutgoingMessage | None:
        """Cancel a request; a later response is ignored.

        Returns:
            The notification for the server; None if it has responded already, or for `initialize`.
        """
        method = self._settled(id_)
        if method is not None:
            self._give_up(id_)
        if method is None or method == "initialize":
            return None
        return self.notification("notifications/cancelled", {"requestId": id_, "reason": reason})

    def answer(self, id_: RequestId, result: Mapping[str, Any]) -> OutgoingMessage:
        """Make the answer to what the server has asked."""
        return self._reply({"jsonrpc": "2.0", "id": id_, "result": dict(result)})

    def refuse(self, id_: RequestId, code: int, message: str) -> OutgoingMessage:
        """Make the error that answers what the server has asked."""
        return self._reply({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}})

    def _reply(self, message: Json) -> OutgoingMessage:
        return self._outgoing(jsonrpc.encode(message), None, {})

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
        """Read a line.

        An answer that cannot be read ends its request at once. That request is found by the id of the answer; else it
        is the one that the transport names; else the only one that is pending.

        Args:
            line: One JSON text.
            answers: The request that the line answers, if it is an answer; None where the transport does not know.

        Returns:
            The events in the line; none for a late answer to a request that was given up.
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
                self._settled(id_)
                return [Answered(id_, result)]
        events: list[Event] = []
        for each in message if is_array(message) else [message]:
            if not is_object(each):
                events.append(Unreadable(f"expected an object, got {_shown(each)}"))
            elif each.get("method") is not None:
                events.append(self._called(each))
            else:
                events += self._answered(each, answers)
        return events

    def end(self) -> list[RequestId]:
        """Return the ids of the requests that will have no answer any more, as the wire has come to its end."""
        ids = list(self.pending)
        for id_ in ids:
            self._settled(id_)
            self._give_up(id_)
        return ids

    def _give_up(self, id_: RequestId) -> None:
        if len(self._given_up) >= _MOST_GIVEN_UP:  # by servers that never answer
            self._given_up.clear()
        self._given_up.add(id_)

    def _settled(self, id_: RequestId) -> str | None:
        """Let a request wait no more, and return its method; None where it did not."""
        if self._reporting:
            self._reporting.discard(id_)
        return self.pending.pop(id_, None)

    def _called(self, message: Json) -> Event:
        """Read a request or a notification of the server."""
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
            return Unreadable(f"id: expected {jsonrpc.ID_FORM}, got {_shown(id_)}")
        if problem is not None:
            return Unreadable(problem) if id_ is None else Misasked(id_, INVALID_REQUEST, problem)
        if id_ is not None:
            return Asked(id_, method, params or {})
        if method == "notifications/progress" and params is not None:
            token = whole_number(params.get("progressToken"))
            if token in self._reporting:
                done: Any = params.get("progress")
                total, text = params.get("total"), params.get("message")
                if type(done) not in (int, float):
                    return Unreadable(f"params.progress: expected a number, got {_shown(done)}")
                return Progressed(
                    token,
                    done,
                    total if type(total) in (int, float) else None,
                    text if type(text) is str else None,
                )
        return Notified(method, params)

    def _answered(self, message: Json, answers: RequestId | None) -> list[Event]:
        """Read an answer of the server; it is that of another request where its id is not as it should be."""
        given, error = message.get("id"), message.get("error")
        id_ = whole_number(given)
        if id_ in self.pending:
            self._settled(id_)
            return [_outcome(id_, message)]
        is_answer = "result" in message or "error" in message
        if not is_answer or message.keys().isdisjoint({"id", "jsonrpc"}):
            problem = f"expected a request, a response or a notification, got {_shown(message)}"
            return [
                Misasked(given, INVALID_REQUEST, f"method: {problem}")
                if is_id(given)
                else Unreadable(problem)
            ]
        if self._was_sent(id_):
            return self._late(id_)
        problem = f"id: expected the id of an open request, got {_shown(given)} in {_shown(message)}"
        only = self._only_pending(answers)
        if given is answers is None and self._may_refuse_notification(only, error):
            self._id_before_notification = only = None
            problem = f"the server seems to reject a notification: {_shown(error)}"
        if only is None:
            return [Unreadable(problem)]
        self._settled(only)
        if given is None and error is not None:
            return [_refusal(only, error)]
        return [Unreadable(problem), _malformed(only, problem)]

    def _unreadable(self, line: bytes, problem: str, answers: RequestId | None) -> list[Event]:
        """End the request that a line which is not JSON answers, or refuse the one that it is."""
        problem = f"{problem}, in {_shown(line.decode('utf-8', 'backslashreplace'))}"
        if not looks_like_message(line):
            return [Unreadable(problem)]
        line = repaired(line)
        if is_call(line):
            asked = id_of_unreadable(line)
            return [Unreadable(problem) if asked is None else Misasked(asked, PARSE_ERROR, problem)]
        given = whole_number(id_of_answer(line, line))
        if given not in self.pending and self._was_sent(given):
            return self._late(given)
        id_ = given if given in self.pending else self._only_pending(answers)
        if id_ is None:
            return [Unreadable(problem)]
        self._settled(id_)
        return [_malformed(id_, problem)]

    def _may_refuse_notification(self, only: RequestId | None, error: object) -> bool:
        """Return whether an error without an id may answer a notification instead of the only pending request, if any.

        Some servers answer a notification that they do not know. Most answer in order: when a request that was sent
        after the notification has been answered, no error for the notification is to come.
        """
        before = self._id_before_notification
        is_first = before is not None and (only is None or (isinstance(only, int) and only <= before + 1))
        return is_first and is_object(error) and whole_number(error.get("code")) == METHOD_NOT_FOUND

    def _was_sent(self, id_: int | None) -> TypeGuard[int]:
        return id_ is not None and 0 < id_ <= self._last_id

    def _late(self, id_: int) -> list[Event]:
        """Return nothing for the answer to a request that was given up, and a warning for a second answer."""
        if id_ in self._given_up:
            self._given_up.discard(id_)
            return []
        return [Unreadable(f"id: received a second response to request {id_}")]

    def _only_pending(self, answers: RequestId | None) -> RequestId | None:
        """Return the request that an answer without a usable id must belong to; None where there are several."""
        if answers is not None:
            return answers if answers in self.pending else None
        # A subscription is pending for as long as it lasts, so that what comes seldom is its answer.
        waiting = [id_ for id_, method in self.pending.items() if method != "subscriptions/listen"]
        waiting = waiting or list(self.pending)
        return waiting[0] if len(waiting) == 1 else None


_MOST_GIVEN_UP: Final = 1000
_SHOWN: Final = 200
"""Characters of what the server has sent that are shown in errors and in the log."""


def _outcome(id_: RequestId, message: Json) -> Answered | Refused:
    """Return the result or error of a response; an error with the place if it violates the specification."""
    version, result, error = message.get("jsonrpc"), message.get("result"), message.get("error")
    if version != "2.0":
        return _malformed(id_, f'jsonrpc: expected "2.0", got {_shown(version)}')
    if is_object(result):
        if not error:  # some libraries write `"error": null` beside a result
            return Answered(id_, result)
        return _malformed(id_, f"expected a result or an error, got both; error: {_shown(error)}")
    if error is not None:
        return _refusal(id_, error)
    if "result" in message:
        return _malformed(id_, f"result: expected an object, got {_shown(result)}")
    return _malformed(id_, "expected a result or an error, got neither")


def _malformed(id_: RequestId, problem: str) -> Refused:
    return Refused(id_, INTERNAL_ERROR, f"invalid response from the server: {problem}")


def _refusal(id_: RequestId, error: object) -> Refused:
    """Return an error as it was sent, whatever its shape."""
    if is_object(error):
        code, message = whole_number(error.get("code")), error.get("message")
        if code is not None and type(message) is str and message:
            return Refused(id_, code, message, error.get("data"))
        text = message if type(message) is str and message else f"error: {_shown(error)}"
        return Refused(id_, INTERNAL_ERROR if code is None else code, text, error)
    return Refused(id_, INTERNAL_ERROR, error if type(error) is str and error else f"error: {_shown(error)}")


def _shown(value: object) -> str:
    """Return the beginning of a value as the log and messages show it, on one line."""
    try:
        text = value if isinstance(value, str) else jsonrpc.encode(value).decode()
    except ValueError:
        text = repr(value)
    line = "".join(char if char.isprintable() else " " for char in text[:_SHOWN])
    line = line if len(text) <= _SHOWN else line + "..."
    return repr(line) if isinstance(value, str) else line
