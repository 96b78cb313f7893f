"""Sessions of the handshake protocol versions over HTTP: initialize, POST, GET and DELETE.

Follows "Streamable HTTP" of basic/transports (2025-11-25) and of the two versions before.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from ..._utils.exceptions import INVALID_REQUEST, BusyError, ProtocolError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json, Outcome, Ready, is_object
from ...protocol.jsonrpc_validation import invalid, is_initialize
from ...protocol.revisions import Handshake
from .response import ANSWERED, Exchange, Source
from .service import Service
from .sessions.http_session import HttpSession
from .sessions.session_store import NewSessionId
from .stateless import SessionlessClient, serve_request, serve_sessionless, start_calls

_SESSION_ID = b"mcp-session-id"


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
        response = InitializeResponse(service, exchange)
        response.receive(message)
        await serve_request(service, exchange, response, response.finish)
        return
    if service.settings.stateless:
        await serve_sessionless(service, message, exchange)
        return
    session = await _find_session(service, exchange)
    if session is None:
        return
    if session.answers_other_process(message):
        await service.sessions.read_record(session)
    session.post(message, exchange)
    # A call may change the record, and through middleware it does so in its first step or later.
    has_middleware = service.engine.has_middleware
    if has_middleware:
        await start_calls(exchange)
    await session.save()
    await start_calls(exchange)
    if exchange.state == ANSWERED:  # as most are; `Service.send` would be one more call
        await exchange.respond()
    else:
        await service.serve(exchange, service.settings.sse_after_in_session)
    if has_middleware:
        with suppress(BusyError):  # it has been logged
            await session.save()


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
    service.loop_state.check_stream_room(exchange.caller)
    try:
        problem = await session.get(exchange, _header(exchange, b"last-event-id"))
        if problem is not None:
            exchange.answer(jsonrpc.error(None, problem), 400)
        elif (listening := service.loop_state.hub.listening()) is not None:
            await listening
        await session.save()
        await service.send(exchange)
    finally:
        exchange.hang_up()  # after an exception the session must not keep the exchange


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
    from ...protocol.jsonrpc_validation import id_of_answer, is_call

    id_ = None
    if _SESSION_ID in exchange.request_headers and not is_call(body):
        id_ = id_of_answer(body, body)
    if id_ is not None:
        session = await service.sessions.find(_header(exchange, _SESSION_ID), exchange)
        if session is not None:
            session.questions.fail(id_, problem)


def _header(exchange: Exchange, name: bytes) -> str:
    return exchange.request_headers.get(name, b"").strip().decode("latin-1")


async def _find_session(service: Service, exchange: Exchange) -> HttpSession | None:
    """Return the session of a request. If there is none, refuse the request and return None."""
    session = await service.sessions.find(_header(exchange, _SESSION_ID), exchange)
    if session is not None:
        return session
    if _SESSION_ID not in exchange.request_headers:
        text = "the Mcp-Session-Id header is missing. Send initialize first, then the id that it returns"
        problem = invalid(text)
        exchange.reply(jsonrpc.error(None, problem), problem)
    else:
        problem = ProtocolError(INVALID_REQUEST, "Session not found: it has ended. Send initialize again")
        exchange.answer(jsonrpc.error(None, problem), 404)
    await exchange.respond()
    return None


class InitializeResponse(SessionlessClient, Source):
    """Response to `initialize`, which opens a session if it is a result.

    The session id is created before the first byte of the response, because an event stream has it in its headers.

    Args:
        service: The service.
        exchange: Response to its POST.
    """

    def __init__(self, service: Service, exchange: Exchange) -> None:
        super().__init__(service, service.calls, None, exchange)
        self._service = service
        self._has_sessions = not service.settings.stateless
        self._has_failed = False
        self._new_session_id: NewSessionId | None = None
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
        session = await self._service.sessions.open(self._new_id(), self._exchange)
        if self._has_failed:  # it was cancelled meanwhile
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
        return ((_SESSION_ID, self._new_id().id.encode()),)

    def lost(self, exchange: Exchange) -> None:
        """Cancel the running request."""
        self._service.calls.cancel(exchange)

    def _new_id(self) -> NewSessionId:
        if self._new_session_id is None:
            assert self.session is not None, "the session must be negotiated"
            self._new_session_id = self._service.sessions.new_id(
                self.session, self._exchange, may_register=self._engine.startup.is_closed
            )
        return self._new_session_id


def _without_session(result: Outcome) -> Outcome:
    """Return a result without the declared capabilities that need a stream beyond the request."""
    declared = result.get("capabilities") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not is_object(declared):
        return result  # a middleware has replaced it
    streamed = {"listChanged", "subscribe"}
    capabilities = {
        name: {key: value for key, value in settings.items() if not value or key not in streamed}
        for name, settings in declared.items()
    }
    return {**result, "capabilities": capabilities}
