"""mcpkit with access tokens that are JWTs: `auth=Jwt(...)`, of which one argument is the issuer."""

from __future__ import annotations

from typing import Any

import issued

from mcpkit import ResultOptions, Server
from mcpkit.auth import Jwt


def build(functions: list[Any]) -> Server:
    server = Server("bench", version="1.0.0", auth=Jwt(issued.ISSUER, keys=issued.public_key()))
    for function in functions:
        server.tool(result=ResultOptions(structured=False))(function)
    return server


def asgi(server: Server, mode: str) -> Any:
    return server.asgi(stateless=mode == "stateless", public_url=issued.AUDIENCE, allowed_hosts=["*"])
