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
from .response import Exchange
from .service import OPEN, Listener, Service

_HANDSHAKE = frozenset(revision.encode() for revision in HANDSHAKE)
_VERSION = b"mcp-protocol-version"


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
    version = headers.get(_VERSION)
    if version is None or version in _HANDSHAKE or version.strip() in _HANDSHAKE:
        return False
    return not is_initialize(message)


def unknown_revision(headers: Headers) -> ProtocolError | None:
    """Return the error for a header with an unsupported revision, or None."""
    header = headers.get(_VERSION)
    version = None if header is None else header.strip().decode("latin-1")
    return None if version is None or version in ALL else unsupported_version(version)


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
    if await exchange.wait_for(service.engine.startup.wait_open()):
        await _serve(service, message, exchange)
    else:
        await exchange.respond_disconnected()


def _serve(service: Service, message: Any, exchange: Exchange) -> Awaitable[None]:
    request = read(message, _PostSender(service, exchange))
    problem: ProtocolError | None = None
    if type(request) is Request:
        if request.method != "subscriptions/listen":
            return service.call(exchange, request, exchange.reply, service.settings.sse_after)
        call = Call(service.engine.runtime, request, exchange)
        try:
            Listener(service, service.engine.listen(call), exchange)
        except Exception as error:  # noqa: BLE001 - every request is answered
            exchange.reply(error_response(call, error), error)
    elif isinstance(request, Notification):
        problem = unknown_revision(exchange.request_headers)
        if problem is None:
            exchange.answer(None, 202)  # no notification has a meaning here
    elif isinstance(request, Refusal) and is_object(message) and "method" in message:
        exchange.reply(jsonrpc.error(request.id, request.problem), request.problem)
    else:
        problem = invalid("the body of a POST must be a JSON-RPC request or notification with a method")
    if problem is not None:
        exchange.reply(jsonrpc.error(None, problem), problem)
    return service.send(exchange)


class _PostSender:
    """Sender of a single POST: nothing is known about it but its message."""

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
        headers, principal = self._exchange.request_headers, self._exchange.principal
        if version is None and (problem := unknown_revision(headers)) is not None:
            raise problem
        if type(version) is str:
            if version not in STATELESS:
                header = headers.get(_VERSION)
                if header is not None and header.strip() == version.encode():
                    raise unsupported_version(version)  # the other headers are those of that revision
            name_param = None
            if (
                method not in METHODS
                and (custom := self._catalog.methods.shown(method, principal)) is not None
            ):
                name_param = custom.name_param
            check_standard(headers, method, params, version, name_param)
        envelope = Stateless.receive(meta)
        if method == "tools/call":
            name = params.get("name")
            tool = self._catalog.tools.get(name) if type(name) is str else None
            if tool is not None and (mirrored := tool.mirrored) and tool.is_visible(principal):
                arguments = params.get("arguments")
                check_mirrored(headers, mirrored, arguments if is_object(arguments) else {})
        return envelope
