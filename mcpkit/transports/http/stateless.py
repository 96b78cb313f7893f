"""The stateless era over HTTP: every POST stands alone (basic/transports/streamable-http, 2026-07-28)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from ...context import Context
from ...errors import (
    ProtocolError,
)
from ...methods import listen
from ...peer import invalid, read_params
from ...protocol import jsonrpc
from ...protocol.eras import PROTOCOL_VERSION, Stateless, unsupported_version
from ...protocol.headers import Headers, check_mirrored, check_standard
from ...protocol.jsonrpc import is_id, is_object
from ...protocol.revisions import ALL, HANDSHAKE, METHODS, STATELESS
from .exchange import Exchange
from .listener import Listener
from .service import Service, Stage

if TYPE_CHECKING:
    from ...access.principal import Principal

_HANDSHAKE: Final = frozenset(revision.encode() for revision in HANDSHAKE)


def is_stateless(message: Any, headers: Headers) -> bool:
    """Say which era a POST belongs to; its envelope decides, never its method.

    Args:
        message: The JSON value of the body.
        headers: The headers.
    """
    if is_object(message):
        params = message.get("params")
        meta = params.get("_meta") if is_object(params) else None
        if is_object(meta) and PROTOCOL_VERSION in meta:
            return True
    version = headers.get(b"mcp-protocol-version")
    return version is not None and version not in _HANDSHAKE and version.strip() not in _HANDSHAKE


def serve_stateless(service: Service, message: Any, headers: Headers, exchange: Exchange) -> Awaitable[None]:
    """Serve one POST of the stateless era.

    Args:
        service: What serves it.
        message: The JSON value of the body.
        headers: The headers.
        exchange: The answer.
    """
    if service.stage is Stage.OPEN:
        return _serve_early(service, message, headers, exchange)
    ctx = _read(service, message, headers, exchange)
    if ctx is None:
        return service.send(exchange)
    return service.call(exchange, ctx, exchange.reply, service.settings.stream_after)


async def _serve_early(service: Service, message: Any, headers: Headers, exchange: Exchange) -> None:
    """Serve a POST that has come before the lifespan was entered: its headers may be those of a tool to come."""
    await service.server._entrance.passed()
    ctx = _read(service, message, headers, exchange)
    if ctx is None:
        await service.send(exchange)
    else:
        await service.call(exchange, ctx, exchange.reply, service.settings.stream_after)


def _read(service: Service, message: Any, headers: Headers, exchange: Exchange) -> Context[Any] | None:
    """Return the request to answer; None when it has been refused, or when its answer is a stream of changes."""
    method = message.get("method") if is_object(message) else None
    if not is_object(message) or type(method) is not str or message.get("jsonrpc") != "2.0":
        malformed = invalid("expected a request with a method, and one in a POST")
        exchange.reply(jsonrpc.error(_id_of(message), malformed), malformed)
        return None
    if "id" not in message:
        if (problem := unknown_revision(headers)) is not None:
            exchange.reply(jsonrpc.error(None, problem), problem)
        else:
            exchange.answer(None, 202)  # there is no notification that means something here
        return None
    id_ = message["id"]
    if not is_id(id_):
        malformed = invalid(f"expected {jsonrpc.ID_FORM} as id")
        exchange.reply(jsonrpc.error(None, malformed), malformed)
        return None
    try:
        params, meta = read_params(message)
        named_by = None if method in METHODS else _named_by(service, exchange.principal, method)
        envelope = _envelope(headers, method, params, meta, named_by)
        ctx: Context[Any] = Context(service.server, envelope, exchange, id_, method, params, meta)
        if method == "tools/call":
            _check_parameters(service, exchange.principal, headers, params)
        elif method == "subscriptions/listen":
            Listener(service.environment, service.listeners, listen(ctx), exchange)
            return None
    except ProtocolError as error:
        exchange.reply(jsonrpc.error(id_, error), error)
        return None
    return ctx


def _envelope(
    headers: Headers, method: str, params: dict[str, Any], meta: dict[str, Any], named_by: str | None
) -> Stateless:
    version = meta.get(PROTOCOL_VERSION)
    if version is None and (problem := unknown_revision(headers)) is not None:
        raise problem
    if type(version) is str:
        if version not in STATELESS:
            told = headers.get(b"mcp-protocol-version")
            if told is not None and told.strip() == version.encode():
                raise unsupported_version(version)  # the other headers are that revision's own
        check_standard(headers, method, params, version, named_by)
    return Stateless.receive(meta)


def unknown_revision(headers: Headers) -> ProtocolError | None:
    """Return the error for a header that names a revision which is not served, or None."""
    told = headers.get(b"mcp-protocol-version")
    named = told.strip().decode("latin-1") if told is not None else None
    return None if named is None or named in ALL else unsupported_version(named)


def _check_parameters(
    service: Service, principal: Principal, headers: Headers, params: dict[str, Any]
) -> None:
    name = params.get("name")
    tool = service.server.tools.get(name) if type(name) is str else None
    if tool is not None and (mirrored := tool.arguments.mirrored) and tool.is_visible(principal):
        arguments = params.get("arguments")
        check_mirrored(headers, mirrored, arguments if is_object(arguments) else {})


def _named_by(service: Service, principal: Principal, method: str) -> str | None:
    own = service.server.methods.get(method)
    return own.named_by if own is not None and own.is_visible(principal) else None


def _id_of(message: Any) -> jsonrpc.RequestId | None:
    """Return the id to refuse what is no request under; a response's id is of the other direction."""
    id_ = message.get("id") if is_object(message) and "method" in message else None
    return id_ if is_id(id_) else None
