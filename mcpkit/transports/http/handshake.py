"""The handshake era over HTTP: sessions, and the requests that belong to them.

Follows "Streamable HTTP" of basic/transports (2025-11-25) and of the two revisions before.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ...asking.open_questions import OpenQuestions
from ...context import Context
from ...errors import INVALID_REQUEST, METHOD_NOT_FOUND, BusyError, ProtocolError
from ...failures import error_response
from ...peer import Peer, invalid, is_initialize, read_params
from ...protocol import jsonrpc
from ...protocol.eras import Client, Envelope, Handshake
from ...protocol.headers import Headers
from ...protocol.jsonrpc import is_array, is_id
from ...protocol.revisions import HANDSHAKE
from ...running.calls import Calls, Reply
from ...running.current import current
from .exchange import Exchange, headers_of

if TYPE_CHECKING:
    from ...protocol.jsonrpc import Outcome
    from .service import Service

_IS_EAGER: Final = sys.version_info >= (3, 12)

_WITHOUT_HEADER = "2025-03-26"
"""The revision of a client that names none, as the specification has it ("Protocol Version Header")."""

_SESSION = b"mcp-session-id"

_GUESTS: Final = {revision: Handshake(revision, Client({}, {})) for revision in HANDSHAKE}
"""What is known of clients that have no session; nothing of it changes."""


async def serve_handshake(service: Service, message: Any, headers: Headers, exchange: Exchange) -> None:
    """Serve one POST of the handshake era.

    Args:
        service: What serves it.
        message: The JSON value of the body.
        headers: The headers.
        exchange: The answer.

    Raises:
        BusyError: The broker does not answer.
    """
    if is_initialize(message):
        await _initialize(service, message, exchange)
        return
    if service.settings.stateless:
        await _serve_guest(service, message, headers, exchange)
        return
    session = await service.sessions.find(_session_id(headers), exchange)
    if session is None:
        await _refuse_session(headers, exchange)
        return
    session.post(message, exchange)
    if service.server.middleware.hooks:
        await _first_steps(exchange)  # what middleware lets through at once is done then
    if session.has_news:
        await session.save()
    await _first_steps(exchange)
    await service.send(exchange, service.settings.stream_after_in_session)
    if service.server.middleware.hooks and session.has_news:  # what it has let through later
        with suppress(BusyError):  # which has been logged
            await session.save()


async def serve_get(service: Service, headers: Headers, exchange: Exchange) -> None:
    """Serve a GET: a stream for what belongs to no call, or the rest of one that was cut off.

    Args:
        service: What serves it.
        headers: The headers.
        exchange: The answer.

    Raises:
        BusyError: Too many streams are open, or the broker does not answer.
    """
    session = await service.sessions.find(_session_id(headers), exchange)
    if session is None:
        await _refuse_session(headers, exchange)
        return
    service.environment.check_room(exchange.caller)
    last = headers.get(b"last-event-id")
    problem = session.get(exchange, last.strip().decode("latin-1") if last is not None else None)
    try:
        if problem is not None:
            exchange.answer(jsonrpc.error(None, problem), 400)
        if session.has_news:
            await session.save()
        await service.send(exchange)
    finally:
        exchange.hang_up()  # whatever came between, the session must not wait for it


async def serve_delete(service: Service, headers: Headers, exchange: Exchange) -> None:
    """Serve a DELETE: the session ends.

    Raises:
        BusyError: The broker does not answer.
    """
    session = await service.sessions.find(_session_id(headers), exchange)
    if session is None:
        await _refuse_session(headers, exchange)
        return
    await service.sessions.end(session)
    exchange.answer(None, 204)
    await exchange.respond()


async def _initialize(service: Service, message: dict[str, Any], exchange: Exchange) -> None:
    """Open a session, or, where there are none, say what one would have said of itself."""
    id_ = message["id"]
    is_ours = message.get("jsonrpc") == "2.0"
    if not is_ours or not is_id(id_):
        expected = f"{jsonrpc.ID_FORM} as id" if is_ours else 'an object with "jsonrpc": "2.0"'
        problem = invalid(f"expected {expected}")
        exchange.reply(jsonrpc.error(id_ if is_id(id_) else None, problem), problem)
        await exchange.respond()
        return
    headers: tuple[tuple[bytes, bytes], ...] = ()
    try:
        params, meta = read_params(message)
        handshake = Handshake.receive(params)
        ctx: Context[Any] = Context(service.server, handshake, exchange, id_, "initialize", params, meta)
        outcome = service.server._dispatch(ctx)
        if isinstance(outcome, (dict, bytes)):
            result: Outcome = outcome
        else:
            token = current.set(ctx)
            try:
                result = await outcome
            except Exception as error:  # noqa: BLE001 - a middleware's
                exchange.reply(error_response(ctx, error), error)
                await service.send(exchange)
                return
            finally:
                current.reset(token)
        assert isinstance(result, dict), "initialize is rendered with its session"
        if service.settings.stateless:
            result = {**result, "capabilities": _without_session(result["capabilities"])}
        else:
            headers = ((_SESSION, (await service.sessions.open(handshake, exchange)).encode()),)
        exchange.answer(jsonrpc.result(id_, result), 200, headers)
    except BusyError as error:
        exchange.answer(jsonrpc.error(id_, error), 503, headers_of(error))
    except ProtocolError as error:
        exchange.answer(jsonrpc.error(id_, error))
    await service.send(exchange)


def _without_session(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Leave out what takes a stream that outlives the request."""
    return {
        name: {key: value for key, value in settings.items() if key not in {"listChanged", "subscribe"}}
        for name, settings in capabilities.items()
    }


def _session_id(headers: Headers) -> str:
    return headers.get(_SESSION, b"").strip().decode("latin-1")


async def _refuse_session(headers: Headers, exchange: Exchange) -> None:
    """Refuse a request because it names no session, or none that there is."""
    if _SESSION not in headers:
        problem = invalid(
            "there is no Mcp-Session-Id header: send initialize first, and the id that it returns"
        )
        exchange.reply(jsonrpc.error(None, problem), problem)
    else:
        problem = ProtocolError(INVALID_REQUEST, "Session not found: it has ended; send initialize again")
        exchange.answer(jsonrpc.error(None, problem), 404)
    await exchange.respond()


@types.coroutine
def _first_steps(exchange: Exchange) -> Generator[None, None, None]:
    """Let calls have their first step, with which most end; before Python 3.12 that is in the next turn of the loop."""
    if not exchange.is_answered and not _IS_EAGER:
        yield


_NO_QUESTIONS = OpenQuestions()
"""Those of everybody who cannot be asked, as there is no session to answer in."""


class Guest(Peer):
    """A client of the handshake era that is served without a session: each POST is all there is of it.

    Args:
        service: What serves it.
        calls: What runs for it: of its own for a batch, as its ids are.
        revision: The revision that its header names.
        exchange: The answer to its POST.

    Attributes:
        request: What it asks, unless that has been answered already or is a batch.
    """

    _ignores_strange_answers = False

    def __init__(self, service: Service, calls: Calls, revision: str, exchange: Exchange) -> None:
        super().__init__(service.server, calls, _NO_QUESTIONS)
        self.session = _GUESTS[revision]
        self.request: Context[Any] | None = None
        self._exchange = exchange
        self._has_batch = False

    def receive(self, message: Any) -> None:
        """Take what the POST brings."""
        if is_array(message):
            self._has_batch = True
            self._receive_batch(message, self.reply, self._exchange, where="a POST")
        else:
            self._receive(message, self.reply, self._exchange)

    def reply(self, message: bytes | None, problem: BaseException | None) -> None:
        """Answer the POST."""
        is_refused = isinstance(problem, ProtocolError) and problem.code == INVALID_REQUEST
        status = 503 if isinstance(problem, BusyError) else 400 if is_refused else 200
        self._exchange.answer(message, 202 if message is None else status, headers_of(problem))

    def _serve(self, ctx: Context[Any], reply: Reply) -> None:
        if self._has_batch:
            super()._serve(ctx, reply)
        else:
            self.request = ctx

    def _envelope(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Envelope:
        if method in {"resources/subscribe", "resources/unsubscribe"}:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method} (this server has no sessions)")
        assert self.session is not None
        if method == "logging/setLevel":
            # The level holds for this POST alone.
            self.session = Handshake(self.session.revision, self.session.client)
        return self.session

    def _initialized(self) -> None:
        """Tell nothing: there is no stream to tell it on."""


async def _serve_guest(service: Service, message: Any, headers: Headers, exchange: Exchange) -> None:
    named = headers.get(b"mcp-protocol-version", b"").strip().decode("latin-1")
    is_batch = is_array(message)
    calls = Calls(service.server) if is_batch else service.calls
    guest = Guest(service, calls, named if named in HANDSHAKE else _WITHOUT_HEADER, exchange)
    guest.receive(message)
    if guest.request is not None:
        await service.call(exchange, guest.request, guest.reply, service.settings.stream_after_in_session)
    elif not is_batch:
        await service.send(exchange)
    else:
        service.batches.add(calls)
        try:
            await _first_steps(exchange)
            await service.send(exchange, service.settings.stream_after_in_session)
        finally:
            service.batches.discard(calls)
            calls.cancel_all()  # nobody can come back for what runs
