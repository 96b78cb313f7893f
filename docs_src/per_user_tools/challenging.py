from collections.abc import MutableMapping
from typing import Any

from mcpkit import Context, HttpOptions, Principal
from mcpkit.exceptions import ChallengeError
from server import server

METADATA = "https://notes.example.com/.well-known/oauth-protected-resource/mcp"
GRANTED = {
    "Bearer token-of-ada": ["read", "write"],
    "Bearer token-of-bob": ["read"],
}
MORE_SCOPES = 'Bearer error="insufficient_scope", scope="read write"'


async def by_token(scope: MutableMapping[str, Any]) -> Principal:
    header = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    if (
        header not in GRANTED
    ):  # await a database or an authorization server here
        raise ChallengeError(401, f'Bearer resource_metadata="{METADATA}"')
    return Principal(header.removeprefix("Bearer token-of-"), GRANTED[header])


@server.tool
def rename(note: str, ctx: Context) -> str:
    """Rename a note."""
    if not {"read", "write"} <= ctx.principal.scopes:
        raise ChallengeError(403, MORE_SCOPES)
    return f"{ctx.principal.id} renamed {note}"


app = server.asgi(http=HttpOptions(principal=by_token))
