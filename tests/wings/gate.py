"""A toy authorization: bearer tokens, challenges, and the metadata at a well-known place outside the mount."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from mcpkit import ChallengeError, Context, Principal, Server

METADATA = "/.well-known/oauth-protected-resource/api/mcp"
TOKENS = {"low": Principal("ada", {"read"}), "high": Principal("ada", {"read", "write"})}


async def who(scope: MutableMapping[str, Any]) -> Principal:
    """Say who has sent a request, or refuse it with a challenge."""
    header = dict(scope["headers"]).get(b"authorization", b"").decode()
    if not header:
        raise ChallengeError(401, f'Bearer resource_metadata="{METADATA}"')
    found = TOKENS.get(header.removeprefix("Bearer "))
    if found is None:
        raise ChallengeError(401, 'Bearer error="invalid_token"')
    return found


async def metadata(request: Request) -> JSONResponse:
    return JSONResponse({"resource": "https://example.com/api/mcp"})


def build() -> Server:
    server = Server("gated")
    server.route(METADATA, outside_mount=True)(metadata)

    @server.tool
    async def erase(ctx: Context, report: bool = False) -> str:
        if report:
            await ctx.progress(1, 2)
        if "write" not in ctx.principal.scopes:
            raise ChallengeError(403, 'Bearer error="insufficient_scope", scope="read write"')
        return "erased"

    return server
