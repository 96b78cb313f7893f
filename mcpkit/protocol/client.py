"""The client's side of the wire, without I/O: ids, what is pending, progress, cancellation, the server's questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from ..common.errors import INTERNAL_ERROR, INVALID_REQUEST, ProtocolError
from . import jsonrpc
from .eras import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from .jsonrpc import RequestId, is_array, is_id, is_object
from .revisions import STATELESS
from .types import Json

NO_HEADERS: Final[Mapping[str, str]] = {}


class Outgoing:
    """A message to be sent.

    Attributes:
        line: The message as JSON, without a newline.
        id: The id of a request; None for a notification, and for an answer.
        method: The method; None for an answer.
        params: The params, as they are in the line.
        revision: The revision that it is written in; None for `initialize`, which settles one.
        headers: What a transport over HTTP says in headers, too: arguments that the tool has clients repeat.
    """

    __slots__ = ("headers", "id", "line", "method", "params", "revision")

    line: bytes
    id: RequestId | None
    method: str | None
    params: Json
    revision: str | None
    headers: Mapping[str, str]


class Request(Outgoing):
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
    """The server tells how far a request that is pending has come."""

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
    """The server says something that belongs to no pending request."""

    method: str
    params: Json | None


Event = Answered | Refused | Progressed | Asked | Notified


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
        self._ids = count(1)
        self._reporting: set[RequestId] = set()

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
            params: Its params; the `_meta` that the revision wants is added.
            reports_progress: Whether the server is to tell how far it has come.
            headers: Arguments that are repeated in HTTP headers.

        Raises:
            ValueError: The params have no form in JSON.
        """
        id_ = next(self._ids)
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
                f"the params of {method} have no form in JSON: {error}. Give plain values, such as array.tolist()"
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

    def notification(self, method: str, params: Mapping[str, Any] | None = None) -> Outgoing:
        """Make a notification."""
        told = None if params is None else dict(params)
        return self._outgoing(jsonrpc.notification(method, told), method, told or {})

    def cancel(self, id_: RequestId, reason: str) -> Outgoing | None:
        """Give a request up: an answer that still comes is ignored.

        Returns:
            What tells the server; None where it is answered already, or must not be told (`initialize`).
        """
        method = self._settled(id_)
        if method is None or method == "initialize":
            return None
        return self.notification("notifications/cancelled", {"requestId": id_, "reason": reason})

    def answer(self, id_: RequestId, result: Mapping[str, Any]) -> Outgoing:
        """Make the answer to what the server has asked."""
        return self._reply({"jsonrpc": "2.0", "id": id_, "result": dict(result)})

    def refuse(self, id_: RequestId, code: int, message: str) -> Outgoing:
        """Make the error that answers what the server has asked."""
        return self._reply({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}})

    def _reply(self, message: Json) -> Outgoing:
        return self._outgoing(jsonrpc.encode(message), None, {})

    def _outgoing(self, line: bytes, method: str | None, params: Json) -> Outgoing:
        outgoing = Outgoing()
        outgoing.line = line
        outgoing.id = None
        outgoing.method = method
        outgoing.params = params
        outgoing.revision = self.revision
        outgoing.headers = NO_HEADERS
        return outgoing

    def receive(self, line: bytes) -> list[Event]:
        """Take a line, and return what it says: nothing, where it answers what nobody waits for.

        Raises:
            ProtocolError: It is no message; nothing has changed.
        """
        message = jsonrpc.decode(line)
        if is_object(message) and is_object(result := message.get("result")):  # as most are
            id_ = message.get("id")
            if type(id_) is int and message.get("jsonrpc") == "2.0" and "method" not in message:
                return [] if self._settled(id_) is None else [Answered(id_, result)]
        if is_array(message):
            for each in message:
                _check(each)
            return [event for each in message if (event := self._event(each)) is not None]
        _check(message)
        event = self._event(message)
        return [] if event is None else [event]

    def end(self) -> list[RequestId]:
        """Return the ids of the requests that will have no answer any more, as the wire has come to its end."""
        ids = list(self.pending)
        for id_ in ids:
            self._settled(id_)
        return ids

    def _settled(self, id_: RequestId) -> str | None:
        """Let a request wait no more, and return its method; None where it did not."""
        if self._reporting:
            self._reporting.discard(id_)
        return self.pending.pop(id_, None)

    def _event(self, message: Json) -> Event | None:
        if "method" not in message:
            id_ = message.get("id")
            if type(id_) is not int or self._settled(id_) is None:  # ours are integers
                return None
            result: Json | None = message.get("result")
            return Answered(id_, result) if type(result) is dict else _refusal(id_, message.get("error"))
        method: str = message["method"]
        params: Json = message.get("params") or {}
        if "id" in message:
            return Asked(message["id"], method, params)
        token = params.get("progressToken")
        if method == "notifications/progress" and is_id(token) and token in self._reporting:
            return Progressed(token, params["progress"], params.get("total"), params.get("message"))
        return Notified(method, message.get("params"))


def _refusal(id_: RequestId, error: object) -> Refused:
    if is_object(error) and type(error.get("code")) is int and type(error.get("message")) is str:
        return Refused(id_, error["code"], error["message"], error.get("data"))
    return Refused(id_, INTERNAL_ERROR, "the server has answered with neither a result nor an error")


def _check(message: Json | None) -> None:
    """Refuse what is no message.

    Raises:
        ProtocolError: It is none.
    """
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, 'expected an object with "jsonrpc": "2.0"')
    if "method" not in message:
        if "result" not in message and "error" not in message:
            raise ProtocolError(INVALID_REQUEST, "expected a request, a response or a notification")
        return
    params = message.get("params", {})
    if type(message["method"]) is not str or not is_object(params):
        raise ProtocolError(INVALID_REQUEST, "expected a method name, and params that are an object")
    if "id" in message and not is_id(message["id"]):
        raise ProtocolError(INVALID_REQUEST, f"expected {jsonrpc.ID_FORM} as id")
    if message["method"] == "notifications/progress" and type(params.get("progress")) not in (int, float):
        raise ProtocolError(INVALID_REQUEST, "expected a number as progress")
