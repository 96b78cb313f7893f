"""fastmcp with access tokens that are JWTs: its `JWTVerifier`, with the audience that it does not ask for by itself."""

from __future__ import annotations

from typing import Any

import fastmcp_server  # which sets the environment first
import issued
from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier


def build(functions: list[Any]) -> FastMCP:
    verifier = JWTVerifier(public_key=issued.public_key(), issuer=issued.ISSUER, audience=issued.AUDIENCE)
    server = fastmcp_server.build(functions)
    server.auth = RemoteAuthProvider(
        token_verifier=verifier, authorization_servers=[issued.ISSUER], base_url=issued.ORIGIN
    )
    return server


def asgi(server: FastMCP, mode: str) -> Any:
    return fastmcp_server.asgi(server, mode)
