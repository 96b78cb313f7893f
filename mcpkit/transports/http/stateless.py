"""Stateless era over HTTP: every POST is independent (basic/transports/streamable-http, 2026-07-28)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ..._utils.exceptions import ProtocolError
from ...protocol import jsonrpc
from ...protocol.http_headers import Headers, check_mirrored, check_standard
from ...protocol.jsonrpc import Json, RequestId, is_object
from ...protocol.jsonrpc_validation import (
    Notification,
    Refusal,
    Request,
    invalid,
    is_initialize,
    names_revision,
    read,
)
from ...protocol.revisions import (
    ALL,
    HANDSHAKE,
    METHODS,
    PROTOCOL_VERSION,
    STATELESS,
    Stateless,
    unsupported_version,
)
from ...requests.error_responses import error_response
from ...requests.request_record import Call
from .exchange import Exchange
from .listener import Listener
from .service import OPEN, Service

_HANDSHAKE = frozenset(revision.encode() for revision in HANDSHAKE)


def is_stateless(message: Any, headers: Headers) -> bool:
    """Return True if a POST belongs to the stateless era.

    The envelope decides: `_meta` first, then the header. An `initialize` request without a revision in `_meta` always
    belongs to the handshake era, whatever header a client or a proxy has added (basic/versioning).

    Args:
        message: The JSON value of the body.
        headers: The headers.
    """
    if names_revision(message):
        return True
    version = headers.get(b"mcp-protocol-version")
    if version is None or version in _HANDSHAKE or version.strip() in _HANDSHAKE:
        return False
    return not is_initialize(message)


def serve_stateless(service: Service, message: Any, exchange: Exchange) -> Awaitable[None]:
    """Serve one POST of the stateless era.

    Args:
        service: The service.
        message: The JSON value of the body.
        exchange: The exchange of the request.
    """
    if service.stage == OPEN:
        return _serve_early(service, message, exchange)
    return _serve(service, message, exchange)


async def _serve_early(service: Service, message: Any, exchange: Exchange) -> None:
    """Serve a POST that was received before the lifespan was entered, once it is: its tool may be registered there."""
    if await exchange.stays(service.engine.startup.wait_open()):
        await _serve(service, message, exchange)
    else:
        await exchange.leave()


def _serve(service: Service, message: Any, exchange: Exchange) -> Awaitable[None]:
    request = read(message, _Post(service, exchange))
    if type(request) is Request:
        if request.method != "subscriptions/listen":
            return service.call(exchange, request, exchange.reply, service.settings.sse_after)
        call = Call(service.engine.runtime, request, exchange)
        try:
            Listener(service.loop_state, service.listeners, service.engine.listen(call), exchange)
        except Exception as error:  # noqa: BLE001 - every request is answered
            exchange.reply(error_response(call, error), error)
    elif isinstance(request, Notification):
        if (problem := unknown_revision(exchange.request_headers)) is not None:
            _refuse(exchange, None, problem)
        else:
            exchange.answer(None, 202)  # there is no notification that means something here
    elif isinstance(request, Refusal) and is_object(message) and "method" in message:
        _refuse(exchange, request.id, request.problem)
    else:
        _refuse(
            exchange,
            None,
            invalid("the body of a POST must be a JSON-RPC request or notification with a method"),
        )
    return service.send(exchange)


def _refuse(exchange: Exchange, id_: RequestId | None, problem: ProtocolError) -> None:
    exchange.reply(jsonrpc.error(id_, problem), problem)


class _Post:
    """Sender of a single POST, about which only its message is known."""

    __slots__ = ("_catalog", "_exchange")

    def __init__(self, service: Service, exchange: Exchange) -> None:
        self._catalog = service.engine.catalog
        self._exchange = exchange

    def has_request(self, id_: RequestId) -> bool:
        """Return False: POSTs share no ids."""
        return False

    def envelope(self, method: str, params: Json, meta: Json) -> Stateless:
        """Check the headers against the request, and return its envelope."""
        version = meta.get(PROTOCOL_VERSION)
        headers = self._exchange.request_headers
        if version is None and (problem := unknown_revision(headers)) is not None:
            raise problem
        if type(version) is str:
            if version not in STATELESS:
                told = headers.get(b"mcp-protocol-version")
                if told is not None and told.strip() == version.encode():
                    raise unsupported_version(version)  # the other headers are that revision's own
            check_standard(
                headers, method, params, version, None if method in METHODS else self._named_by(method)
            )
        envelope = Stateless.receive(meta)
        if method == "tools/call":
            self._check_parameters(params)
        return envelope

    def _check_parameters(self, params: Json) -> None:
        name = params.get("name")
        tool = self._catalog.tools.get(name) if type(name) is str else None
        if tool is not None and (mirrored := tool.mirrored) and tool.is_visible(self._exchange.principal):
            arguments = params.get("arguments")
            check_mirrored(
                self._exchange.request_headers, mirrored, arguments if is_object(arguments) else {}
            )

    def _named_by(self, method: str) -> str | None:
        own = self._catalog.methods.shown(method, self._exchange.principal)
        return None if own is None else own.name_param


def unknown_revision(headers: Headers) -> ProtocolError | None:
    """Return the error for a header with an unsupported revision, or None."""
    told = headers.get(b"mcp-protocol-version")
    named = told.strip().decode("latin-1") if told is not None else None
    return None if named is None or named in ALL else unsupported_version(named)
