"""One client that is distinguished from others: its session, its messages and its running requests.

Common to pipes and sessions over HTTP. Subclasses receive messages and deliver responses.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar

from .._utils.exceptions import METHOD_NOT_FOUND, ProtocolError
from ..protocol import jsonrpc, messages
from ..protocol.eras import Envelope, Handshake
from ..protocol.jsonrpc import RequestId, is_id, is_object
from ..protocol.messages import (
    Notification,
    Request,
    Response,
    invalid,
    is_initialize,
    names_revision,
)
from ..protocol.revisions import BATCHES, ERROR_ID_MAY_BE_ABSENT
from ..protocol.types import Json
from ..requests.call import Call
from ..requests.channel import Channel, OpenQuestions
from ..requests.failures import error_response
from ..requests.running import Calls, Reply
from .engine import Engine

logger = logging.getLogger(__name__)

MAX_BATCH = 100
"""Messages in one JSON-RPC batch (2025-03-26)."""


class Peer(ABC):
    """The messages of one client, in order, and its running requests.

    All methods must be called in the event loop's thread; they return at once and do not raise.

    Args:
        engine: The engine of the server.
        calls: The running calls.
        questions: The open requests to the client.

    Attributes:
        session: The session that `initialize` opened; None before, and without one.
        questions: The open requests to the client.
    """

    _ignores_strange_answers: ClassVar[bool] = True
    """True if a response without a request is ignored, on transports that cannot return an error for it."""

    def __init__(self, engine: Engine, calls: Calls, questions: OpenQuestions) -> None:
        self.session: Handshake | None = None
        self.questions = questions
        self._engine = engine
        self._calls = calls

    async def drain(self) -> None:
        """Wait until every received request has its response, except subscriptions."""
        await self._calls.drain()

    # What transports decide

    @abstractmethod
    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return the envelope of a request: its client and its revision.

        Raises:
            ProtocolError: The request is not allowed now, or lacks required metadata.
        """

    def _listen(self, call: Call) -> None:
        """Open a `subscriptions/listen` stream, which only pipes have.

        Raises:
            ProtocolError: -32601 on other transports.
        """
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {call.method}")

    @abstractmethod
    def _initialized(self) -> None:
        """Begin to send changes to the session."""

    def has_request(self, id_: RequestId) -> bool:
        """Return True if a request with this id is running."""
        return id_ in self._calls.keys

    def _cancel(self, id_: RequestId) -> None:
        self._calls.cancel(id_)

    # Messages

    def _receive(self, message: object, reply: Reply, channel: Channel) -> None:
        """Receive one message and begin to serve it."""
        read = messages.read(message, self)
        if type(read) is Request:  # as most are
            self._serve(read, reply, channel)
        elif isinstance(read, Notification):
            self._receive_notification(read.method, read.params)
            reply(None, None)
        elif isinstance(read, Response):
            self._receive_response(read.message, reply)
        else:
            if is_object(message) and message.get("method") is None and "id" in message:
                self.questions.answer(
                    {"jsonrpc": None, **message}
                )  # a malformed answer ends its question, too
            self._refuse(read.id, read.problem, reply, is_stateless=names_revision(message))

    def _receive_batch(self, batch: list[Any], reply: Reply, channel: Channel, *, where: str) -> None:
        """Serve a JSON-RPC batch (2025-03-26, basic/index, "Batching"); its responses are sent in one array.

        Args:
            batch: The messages.
            reply: Takes the array, None if there is no response, or the error for the whole batch.
            channel: Channel for other messages of its requests.
            where: Place of single messages in other revisions, for the error message.
        """
        if self.session is None or self.session.revision not in BATCHES:
            self._refuse(
                None, invalid(f"this protocol version has no batches. Send one message {where}"), reply
            )
            return
        if not 1 <= len(batch) <= MAX_BATCH:
            problem = invalid(f"a batch must contain 1 to {MAX_BATCH} messages, this one has {len(batch)}")
            self._refuse(None, problem, reply)
            return
        answered = _together(len(batch), reply)
        for message in batch:
            if is_initialize(message):
                problem = invalid("initialize must not be part of a batch")
                self._refuse(messages.readable_id(message["id"], self), problem, answered)
            else:
                self._receive(message, answered, channel)

    def _serve(self, request: Request, reply: Reply, channel: Channel) -> None:
        engine = self._engine
        call = Call(engine.runtime, request, channel)
        if call.method == "initialize":
            reply = partial(self._opened, reply)
        try:
            if call.method == "subscriptions/listen" and call.era == "stateless":
                self._listen(call)
                reply(None, None)
                return
            outcome = engine.dispatch(call)
            if isinstance(outcome, (dict, bytes)):
                reply(jsonrpc.result(call.request_id, outcome), None)
                return
            self._calls.start(call.request_id, call, outcome, reply)
        except Exception as error:  # noqa: BLE001 - every request is answered
            reply(error_response(call, error), error)

    def _opened(self, reply: Reply, message: bytes | None, problem: BaseException | None) -> None:
        if message is None or problem is not None:
            self._refused()
        reply(message, problem)

    def _refused(self) -> None:
        """Clear the session, as `initialize` has failed, so that the client can send it again."""
        self.session = None

    def _receive_notification(self, method: str, params: object) -> None:
        """Apply a notification. Unknown and malformed ones are ignored, as a notification has no response."""
        if method == "notifications/initialized" and self.session is not None:
            self.session.is_initialized = True
            self._initialized()
        elif method == "notifications/cancelled" and is_object(params):
            id_ = params.get("requestId")
            if is_id(id_) and self.has_request(id_):
                logger.debug("the client cancelled the request %.100r: %.200r", id_, params.get("reason"))
                self._cancel(id_)
        if self.session is not None:
            self._engine.notification_listeners.tell(method, params)

    def _receive_response(self, message: Json, reply: Reply) -> None:
        """Pass a response to the request that waits for it; without a session there is none, so refuse it."""
        if self.session is None:
            self._refuse(None, invalid("this response matches no request of the server"), reply)
        elif self.questions.answer(message) or self._ignores_strange_answers:
            reply(None, None)
        else:
            self._refuse(None, invalid("this response matches no request of this session"), reply)

    def _refuse(
        self, id_: RequestId | None, problem: ProtocolError, reply: Reply, *, is_stateless: bool = False
    ) -> None:
        absent = is_stateless or self.session is None or self.session.revision in ERROR_ID_MAY_BE_ABSENT
        reply(jsonrpc.error(id_, problem, absent=absent), problem)


def _together(count: int, reply: Reply) -> Reply:
    """Return a function that collects the responses to a batch and replies with one array, or None for an empty one."""
    answers: list[bytes] = []

    def answered(message: bytes | None, problem: BaseException | None) -> None:
        nonlocal count
        count -= 1
        if message is not None:
            answers.append(message)
        if count == 0:
            reply(b"[" + b",".join(answers) + b"]" if answers else None, None)

    return answered
