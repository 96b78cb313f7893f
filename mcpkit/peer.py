"""One client that can be told apart from others: its session, its messages and its running requests.

What a pipe and a session over HTTP have in common. How messages come and where answers go is theirs.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .asking.open_questions import OpenQuestions
from .channel import Channel
from .context import Context
from .errors import INVALID_REQUEST, METHOD_NOT_FOUND, MalformedError, ProtocolError
from .failures import error_response
from .protocol import jsonrpc
from .protocol.eras import PROTOCOL_VERSION, Envelope, Handshake
from .protocol.jsonrpc import RequestId, is_id, is_object
from .running.calls import Calls, Reply

if TYPE_CHECKING:
    from .server import Server

logger = logging.getLogger("mcpkit")

MAX_BATCH: Final = 100
"""Messages in one JSON-RPC batch (2025-03-26)."""


class Peer(ABC):
    """The messages of one client, in order, and the requests of its that run.

    All methods are for the event loop's thread; they return at once and raise nothing.

    Args:
        server: Who answers.
        calls: What runs for it.
        questions: What it is asked.

    Attributes:
        session: What `initialize` has negotiated; None before, and without one.
        questions: What the client is being asked.
    """

    _ignores_strange_answers: ClassVar[bool] = True
    """Whether an answer to what nobody has asked is ignored, where nobody could be told so."""

    def __init__(self, server: Server, calls: Calls, questions: OpenQuestions) -> None:
        self.session: Handshake | None = None
        self.questions = questions
        self._server = server
        self._calls = calls

    async def drain(self) -> None:
        """Return once every request that has been received is answered; subscriptions do not count."""
        await self._calls.drain()

    # What transports decide

    @abstractmethod
    def _envelope(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Envelope:
        """Return who asks, and in which revision.

        Raises:
            ProtocolError: The request comes at the wrong time, or does not say what it must.
        """

    def _listen(self, ctx: Context[Any]) -> None:
        """Open a `subscriptions/listen` stream, which only a pipe holds beside its session.

        Raises:
            ProtocolError: -32601, where there is none.
        """
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {ctx.method}")

    @abstractmethod
    def _initialized(self) -> None:
        """Begin to tell the session what changes."""

    def _is_taken(self, id_: RequestId) -> bool:
        return id_ in self._calls

    def _cancel(self, id_: RequestId) -> None:
        self._calls.cancel(id_)

    # Messages

    def _receive(self, message: Any, reply: Reply, channel: Channel) -> None:
        """Take one message and begin to serve it."""
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            id_ = self._readable_id(message) if is_object(message) and "method" in message else None
            self._refuse(id_, invalid('expected an object with "jsonrpc": "2.0"'), reply)
            return
        method = message.get("method")
        if "id" in message and type(method) is str:
            ctx = self._read_request(message, message["id"], method, reply, channel)
            if ctx is not None:
                self._serve(ctx, reply)
        elif type(method) is str:
            self._receive_notification(method, message.get("params"))
            reply(None, None)
        elif ("result" in message or "error" in message) and "method" not in message:
            self._receive_response(message, reply)
        else:
            self._refuse(self._readable_id(message), invalid("expected a method name"), reply)

    def _receive_batch(self, messages: list[Any], reply: Reply, channel: Channel, *, where: str) -> None:
        """Serve a JSON-RPC batch (2025-03-26, basic/index, "Batching"); its answers come in one array.

        Args:
            messages: The messages.
            reply: Takes the array, None when none of them has an answer, or the refusal of the whole.
            channel: Where what belongs to its requests leaves.
            where: What takes one message at a time in the other revisions.
        """
        if self.session is None or not self.session.has_batches:
            self._refuse(None, invalid(f"this revision has no batches; send one message {where}"), reply)
            return
        if not 1 <= len(messages) <= MAX_BATCH:
            problem = invalid(f"a batch holds 1 to {MAX_BATCH} messages, this one {len(messages)}")
            self._refuse(None, problem, reply)
            return
        batch = _Batch(len(messages), reply)
        for message in messages:
            if is_initialize(message):
                problem = invalid("initialize must not be part of a batch")
                self._refuse(self._readable_id(message), problem, batch.reply)
            else:
                self._receive(message, batch.reply, channel)

    def _read_request(
        self, message: dict[str, Any], id_: Any, method: str, reply: Reply, channel: Channel
    ) -> Context[Any] | None:
        if not is_id(id_):
            self._refuse(None, invalid(f"expected {jsonrpc.ID_FORM} as id"), reply)
            return None
        if self._is_taken(id_):
            problem = invalid(f"a request with the id {str(id_)[:60]!r} is running already")
            self._refuse(None, problem, reply, is_stateless=_says_stateless(message))
            return None
        try:
            params, meta = read_params(message)
            envelope = self._envelope(method, params, meta)
            return Context(self._server, envelope, channel, id_, method, params, meta)
        except ProtocolError as error:
            self._refuse(id_, error, reply)
            return None

    def _readable_id(self, message: dict[str, Any]) -> RequestId | None:
        """Return the id to refuse a malformed request under; never that of one that runs, which goes on."""
        id_ = message.get("id")
        return id_ if is_id(id_) and not self._is_taken(id_) else None

    def _serve(self, ctx: Context[Any], reply: Reply) -> None:
        try:
            if ctx.method == "subscriptions/listen" and ctx.era == "stateless":
                self._listen(ctx)
                reply(None, None)
                return
            outcome = self._server._dispatch(ctx)
            if isinstance(outcome, (dict, bytes)):
                reply(jsonrpc.result(ctx.request_id, outcome), None)
                return
            self._calls.start(ctx.request_id, ctx, outcome, reply)
        except Exception as error:  # noqa: BLE001 - every request is answered
            reply(error_response(ctx, error), error)

    def _receive_notification(self, method: str, params: Any) -> None:
        """Apply a notification; those that are unknown or malformed are ignored, as nobody could be told."""
        if method == "notifications/initialized" and self.session is not None:
            self.session.is_initialized = True
            self._initialized()
        elif method == "notifications/cancelled" and is_object(params):
            id_ = params.get("requestId")
            if is_id(id_) and self._is_taken(id_):
                logger.debug("request %.100r was cancelled: %.200r", id_, params.get("reason"))
                self._cancel(id_)

    def _receive_response(self, message: dict[str, Any], reply: Reply) -> None:
        """Hand an answer to whoever waits for it; one where no session can have asked is refused."""
        if self.session is None:
            self._refuse(None, invalid("nothing has been asked, so there is nothing to answer"), reply)
        elif self.questions.answer(message) or self._ignores_strange_answers:
            reply(None, None)
        else:
            self._refuse(None, invalid("nobody here has asked what this answers"), reply)

    def _refuse(
        self, id_: RequestId | None, problem: ProtocolError, reply: Reply, *, is_stateless: bool = False
    ) -> None:
        absent = is_stateless or self.session is None or self.session.error_id_may_be_absent
        reply(jsonrpc.error(id_, problem, absent=absent), problem)


class _Batch:
    """Collects the answers to a batch: one array, or nothing when there are none."""

    __slots__ = ("_answers", "_open", "_reply")

    def __init__(self, size: int, reply: Reply) -> None:
        self._open = size
        self._reply = reply
        self._answers: list[bytes] = []

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Take the answer to one of the messages, or None."""
        self._open -= 1
        if message is not None:
            self._answers.append(message)
        if self._open == 0:
            self._reply(b"[" + b",".join(self._answers) + b"]" if self._answers else None, None)


def read_params(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the params of a request and their `_meta`, either of them empty when it is absent.

    Raises:
        MalformedError: They are no objects, or hold a progress token that is none.
    """
    params: dict[str, Any] | None = message.get("params")
    if params is None:
        return {}, {}
    if type(params) is not dict:
        raise MalformedError("params: expected an object")
    meta: dict[str, Any] | None = params.get("_meta")
    if meta is None:
        return params, {}
    if type(meta) is not dict:
        raise MalformedError("params._meta: expected an object")
    if "progressToken" in meta and not is_id(meta["progressToken"]):
        raise MalformedError(f"params._meta.progressToken: expected {jsonrpc.ID_FORM}")
    return params, meta


def invalid(message: str) -> ProtocolError:
    """Return the error for what is no message of the protocol, or comes at the wrong time."""
    return ProtocolError(INVALID_REQUEST, f"Invalid Request: {message}")


def is_initialize(message: Any) -> bool:
    """Say whether a message is an `initialize` request."""
    return is_object(message) and "id" in message and message.get("method") == "initialize"


def _says_stateless(message: dict[str, Any]) -> bool:
    params = message.get("params")
    meta = params.get("_meta") if is_object(params) else None
    return is_object(meta) and PROTOCOL_VERSION in meta
