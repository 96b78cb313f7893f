"""The official Python SDK with access tokens that are JWTs; verifying it leaves to authors, here by PyJWT."""

from __future__ import annotations

from typing import Any

import issued
import jwt
import mcp_server
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer


class Verifier:
    def __init__(self) -> None:
        self._key = issued.public_key()

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            claims = jwt.decode(
                token, self._key, algorithms=["RS256"], issuer=issued.ISSUER, audience=issued.AUDIENCE
            )
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=issued.AUDIENCE,
        )


def build(functions: list[Any]) -> MCPServer:
    server = MCPServer(
        "bench",
        version="1.0.0",
        log_level="WARNING",
        token_verifier=Verifier(),
        auth=AuthSettings(issuer_url=issued.ISSUER, resource_server_url=issued.AUDIENCE),
    )
    server.middleware[:] = [
        each for each in server.middleware if type(each).__name__ != "OpenTelemetryMiddleware"
    ]
    for function in functions:
        server.tool(structured_output=False)(function)
    return server


def asgi(server: MCPServer, mode: str) -> Any:
    return mcp_server.asgi(server, mode)
