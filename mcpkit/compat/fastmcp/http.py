"""HTTP apps of a fastmcp server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import uvicorn

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..mcp_fastmcp.settings import Settings
from .components import check

if TYPE_CHECKING:
    from starlette.applications import Starlette


_HERE = Settings(host="127.0.0.1").transport_security
_OPTIONS = ("json_response", "stateless_http", "session_idle_timeout")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_GUARD = ("host_origin_protection", "allowed_hosts", "allowed_origins")


def app(
    server: Incomplete, path: str | None, middleware: Sequence[Incomplete], transport: str, options: Json
) -> Starlette:
    """Return an ASGI app. It accepts all hosts and origins unless options restrict them."""
    check("http_app()", options, {*_OPTIONS, *_GUARD}, {}, ("event_store", "retry_interval"))
    if transport not in ("http", "streamable-http", "sse"):
        raise ValueError(f"Unknown transport: {transport}")
    if transport == "sse" and options.get("stateless_http"):
        raise ValueError("SSE transport does not support stateless mode")
    given = {name: options.get(name) for name in _OPTIONS}
    given["sse_path" if transport == "sse" else "streamable_http_path"] = path
    hosts: list[str] = options.get("allowed_hosts") or []
    origins: list[str] = options.get("allowed_origins") or []
    assert _HERE is not None
    security = _HERE.model_copy(
        update={
            "enable_dns_rebinding_protection": bool(
                hosts or origins or options.get("host_origin_protection")
            ),
            "allowed_hosts": [*_HERE.allowed_hosts, *hosts, *(f"{each}:*" for each in hosts)],
            "allowed_origins": [*_HERE.allowed_origins, *origins],
        }
    )
    known = {name: each for name, each in given.items() if each is not None}
    server.settings = server.settings.model_copy(update={**known, "transport_security": security})
    server.transport = "sse" if transport == "sse" else "streamable-http"
    made: Incomplete = server.sse_app() if transport == "sse" else server.streamable_http_app()
    for each in reversed(middleware):
        made.add_middleware(each.cls, *each.args, **each.kwargs)
    made.lifespan = made.router.lifespan_context
    found: Starlette = made
    return found


async def serve(
    server: Incomplete, transport: str, host: str | None, port: int | None, path: str | None, options: Json
) -> None:
    """Serve a server with uvicorn, until a signal comes; on this machine alone it answers no other hosts."""
    given = {"host": host, "port": port}
    server.settings = server.settings.model_copy(
        update={name: each for name, each in given.items() if each is not None}
    )
    level = (options.pop("log_level", None) or server.settings.log_level).lower()
    config: Json = {
        "timeout_graceful_shutdown": 2,
        "log_level": level,
        **(options.pop("uvicorn_config", None) or {}),
    }
    middleware, sockets = options.pop("middleware", None) or (), options.pop("sockets", None)
    if (stateless := options.pop("stateless", None)) is not None:
        options.setdefault("stateless_http", stateless)
    options.setdefault("host_origin_protection", server.settings.host in _LOOPBACK)
    made = app(server, path, middleware, transport, options)
    uvicorn_config = uvicorn.Config(made, server.settings.host, server.settings.port, **config)
    await uvicorn.Server(uvicorn_config).serve(sockets)
