"""The handshake era over HTTP: sessions, and the requests that belong to them.

Follows "Streamable HTTP" of basic/transports (2025-11-25) and of the two revisions before.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Coroutine, Generator
from typing import Any

from ..._utils.exceptions import INVALID_REQUEST, METHOD_NOT_FOUND, ProtocolError
from ...engine.message_dispatch import BaseSession
from ...protocol import jsonrpc
from ...protocol.eras import Client, Envelope, Handshake
from ...protocol.jsonrpc import Outcome, Ready, is_array, is_object
from ...protocol.messages import Request, invalid, is_initialize
from ...protocol.revisions import HANDSHAKE
from ...protocol.types import Json
from ...requests.channel import Channel, OpenQuestions
from ...requests.running import Calls, Reply
from .exchange import ANSWERED, Exchange, Source
from .service import Service
from .sessions.relay import take_up
from .sessions.response import IN_SESSION
from .sessions.session import Session
from .sessions.token import Minted
from .statuses import headers_of, status_of

_IS_EAGER = sys.version_info >= (3, 12)

_WITHOUT_HEADER = "2025-03-26"
"""The revision of a client that names none, as the specification has it ("Protocol Version Header")."""

_SESSION = b"mcp-session-id"

_GUESTS = {revision: Handshake(revision, Client({}, {})) for revision in HANDSHAKE}
"""What is known of clients that have no session; nothing of it changes."""


async def serve_handshake(service: Service, message: Any, exchange: Exchange) -> None:
    """Serve one POST of the handshake era.

    Args:
        service: The service.
        message: The JSON value of the body.
        exchange: The request and its response.

    Raises:
        BusyError: The shared store does not respond.
    """
    if is_initialize(message):
        await _initialize(service, message, exchange)
        return
    if service.settings.stateless:
        await _serve_guest(service, message, exchange)
        return
    session = await _find_session(service, exchange)
    if session is None:
        return
    if session.may_lack(message):
        await service.sessions.look_again(session)
    session.post(message, exchange)
    has_middleware = service.engine.has_middleware
    if has_middleware:
        await _first_steps(exchange)  # what middleware lets through at once is done then
    await session.save()
    await _first_steps(exchange)
    await service.send(exchange, service.settings.sse_after_in_session)
    if has_middleware:
        await session.save_rest()  # what it has let through later


async def serve_get(service: Service, exchange: Exchange) -> None:
    """Serve a GET: a stream for messages that belong to no call, or the rest of an interrupted stream.

    Args:
        service: The service.
        exchange: The request and its response.

    Raises:
        BusyError: Too many streams are open, or the shared store does not respond.
    """
    session = await _find_session(service, exchange)
    if session is None:
        return
    service.environment.check_room(exchange.caller)
    last = _header(exchange, b"last-event-id")
    try:
        problem = await take_up(session, service.environment, last, exchange) if last else False
        if problem is False:
            problem = session.get(exchange, last)
        if problem is not None:
            exchange.answer(jsonrpc.error(None, problem), 400)
        elif (listening := service.environment.changes.listening()) is not None:
            await listening
        await session.save()
        await service.send(exchange)
    finally:
        exchange.hang_up()  # whatever came between, the session must not wait for it


async def serve_delete(service: Service, exchange: Exchange) -> None:
    """Serve a DELETE: the session ends.

    Raises:
        BusyError: The shared store does not answer.
    """
    session = await _find_session(service, exchange)
    if session is None:
        return
    await service.sessions.end(session)
    exchange.answer(None, 204)
    await exchange.respond()


async def fail_question(service: Service, exchange: Exchange, body: bytes, problem: ProtocolError) -> None:
    """Fail a request to the client if a body that is not JSON responds to it.

    Raises:
        BusyError: The shared store does not respond.
    """
    from ...protocol.messages import id_of_answer, is_call

    if _SESSION not in exchange.request_headers or is_call(body):
        return
    id_ = id_of_answer(body, body)
    if id_ is None:
        return
    session = await service.sessions.find(_header(exchange, _SESSION), exchange)
    if session is not None:
        session.questions.fail(id_, problem)


def _header(exchange: Exchange, name: bytes) -> str:
    return exchange.request_headers.get(name, b"").strip().decode("latin-1")


async def _find_session(service: Service, exchange: Exchange) -> Session | None:
    """Return the session of a request. If there is none, refuse the request and return None."""
    session = await service.sessions.find(_header(exchange, _SESSION), exchange)
    if session is not None:
        return session
    if _SESSION not in exchange.request_headers:
        problem = invalid(
            "the Mcp-Session-Id header is missing. Send initialize first, then the id that it returns"
        )
        exchange.reply(jsonrpc.error(None, problem), problem)
    else:
        problem = ProtocolError(INVALID_REQUEST, "Session not found: it has ended. Send initialize again")
        exchange.answer(jsonrpc.error(None, problem), 404)
    await exchange.respond()
    return None


@types.coroutine
def _first_steps(exchange: Exchange) -> Generator[None, None, None]:
    """Let calls make their first step, after which most have ended: before Python 3.12, in the next loop iteration."""
    if exchange.state != ANSWERED and not _IS_EAGER:
        yield


_NO_QUESTIONS = OpenQuestions()
"""Those of everybody who cannot be asked, as there is no session to answer in."""


class Guest(BaseSession):
    """A client of the handshake era without a session: each POST is independent.

    Args:
        service: The service.
        calls: Running requests: a separate object for a batch, because its ids are.
        known: Assumed result of the handshake; None before the first message.
        exchange: Response to its POST.

    Attributes:
        request: Its request; None for a batch, or if it has been answered.
    """

    _ignores_strange_answers = False

    def __init__(self, service: Service, calls: Calls, known: Handshake | None, exchange: Exchange) -> None:
        super().__init__(service.engine, calls, _NO_QUESTIONS)
        self.session = known
        self.request: Request | None = None
        self._exchange = exchange
        self._has_batch = False

    def receive(self, message: Any) -> None:
        """Process the body of the POST."""
        if is_array(message):
            self._has_batch = True
            self._receive_batch(message, self.reply, self._exchange, where="a POST")
        else:
            self._receive(message, self.reply, self._exchange)

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Answer the POST."""
        self._exchange.answer(
            message, 202 if message is None else status_of(problem, IN_SESSION), headers_of(problem)
        )

    def envelope(self, method: str, params: Json, meta: Json) -> Envelope:
        """Return the envelope of a request without a session."""
        if method in {"resources/subscribe", "resources/unsubscribe"}:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method} (this server has no sessions)")
        assert self.session is not None
        if method == "logging/setLevel":
            # The level holds for this POST alone.
            self.session = Handshake(self.session.revision, self.session.client)
        return self.session

    def _serve(self, request: Request, reply: Reply, channel: Channel) -> None:
        if self._has_batch:
            super()._serve(request, reply, channel)
        else:
            self.request = request

    def _initialized(self) -> None:
        """Do nothing: there is no stream for notifications."""


async def _serve_guest(service: Service, message: Any, exchange: Exchange) -> None:
    named = _header(exchange, b"mcp-protocol-version")
    is_batch = is_array(message)
    calls = Calls() if is_batch else service.calls
    guest = Guest(service, calls, _GUESTS[named if named in HANDSHAKE else _WITHOUT_HEADER], exchange)
    guest.receive(message)
    if guest.request is not None:
        await service.call(exchange, guest.request, guest.reply, service.settings.sse_after_in_session)
    elif not is_batch:
        await service.send(exchange)
    else:
        service.batches.add(calls)
        try:
            await _first_steps(exchange)
            await service.send(exchange, service.settings.sse_after_in_session)
        finally:
            service.batches.discard(calls)
            calls.cancel_all()  # nobody can come back for what runs


class Newcomer(Guest, Source):
    """A client that sends `initialize`. It gets a session if the response is a result.

    The session id is created before the first byte of the response: an event stream needs it before the result.

    Args:
        service: The service.
        exchange: Response to its POST.
    """

    def __init__(self, service: Service, exchange: Exchange) -> None:
        super().__init__(service, service.calls, None, exchange)
        self._service = service
        self._has_sessions = not service.settings.stateless
        self._has_failed = False
        self._minted: Minted | None = None
        exchange.attach(self)

    def envelope(self, method: str, params: Json, meta: Json) -> Handshake:
        """Negotiate the handshake."""
        self.session = Handshake.receive(params)
        return self.session

    async def finish(self, outcome: Ready | Coroutine[Any, Any, Outcome]) -> Outcome:
        """Return the response, and open the session first if the response is a result."""
        result = outcome if isinstance(outcome, (dict, bytes)) else await outcome
        if not self._has_sessions:
            return _without_session(result)
        if isinstance(result, dict):
            result = jsonrpc.encode(result)
        session = await self._service.sessions.open(self._mint(), self._exchange)
        if self._has_failed:  # it was cancelled, and the shared store has not minded
            await self._service.sessions.end(session)
        return result

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Answer the POST."""
        self._has_failed = message is None or problem is not None
        if self._has_failed:
            super().reply(message, problem)
        else:
            self._exchange.answer(message, 200, self.headers())

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the header with the id of the session; empty if there is no session."""
        if self._has_failed or not self._has_sessions:
            return ()
        return ((_SESSION, self._mint().id.encode()),)

    def lost(self, exchange: Exchange) -> None:
        """Cancel the running request."""
        self._service.calls.cancel(exchange)

    def _mint(self) -> Minted:
        if self._minted is None:
            assert self.session is not None, "the session must be negotiated"
            may_come = self._engine.startup.is_closed  # what a lifespan registers is declared by the answer
            self._minted = self._service.sessions.mint(self.session, self._exchange, may_come=may_come)
        return self._minted


async def _initialize(service: Service, message: Json, exchange: Exchange) -> None:
    newcomer = Newcomer(service, exchange)
    newcomer.receive(message)
    if newcomer.request is None:
        await service.send(exchange)
    else:
        stream_after = service.settings.sse_after_in_session
        await service.call(exchange, newcomer.request, newcomer.reply, stream_after, newcomer.finish)


def _without_session(result: Outcome) -> Outcome:
    """Return a result without the declared capabilities that need a stream beyond the request."""
    declared = result.get("capabilities") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not is_object(declared):
        return result  # it is a middleware's own
    capabilities = {
        name: {
            key: value
            for key, value in settings.items()
            if not value or key not in {"listChanged", "subscribe"}
        }
        for name, settings in declared.items()
    }
    return {**result, "capabilities": capabilities}
