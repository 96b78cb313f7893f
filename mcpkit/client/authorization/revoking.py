"""Tokens that are given back: their authorization server is told that they are to be good no more (RFC 7009)."""

from __future__ import annotations

from ...auth.urls import shortened
from .errors import AuthorizationFailedError
from .grant_context import GrantContext
from .metadata import find
from .roles import TokenRequest
from .source import Source
from .tokens import Tokens
from .web import Web


async def revoke(source: Source, web: Web, tokens: Tokens) -> bool:
    """Have tokens end at the authorization server that has issued them.

    Args:
        source: Where they come from: it says who the client is.
        web: Sends requests.
        tokens: The tokens.

    Returns:
        Whether they have ended: False where that authorization server has no way to end them.

    Raises:
        AuthorizationFailedError: It cannot be asked, or refuses.
        MetadataError: What it says of itself cannot be used.
    """
    found = await find(web, tokens.resource, None, tokens.issuer, None)
    server = found.server
    if not server.has("revocation_endpoint"):
        return False
    context = GrantContext(tokens.resource, found.resource, server, None, web)
    authentication = await source.authentication(context, tokens)
    if authentication is None or authentication.client_id != tokens.client_id:
        return False  # nobody else may
    what = f"the revocation endpoint of {shortened(server.issuer)}"
    kinds = {"refresh_token": tokens.refresh_token, "access_token": tokens.access_token}
    for kind, token in kinds.items():  # the first takes the access tokens with it, as a rule
        if token is None:
            continue
        request = TokenRequest(
            server.endpoint("revocation_endpoint"), {"token": token, "token_type_hint": kind}
        )
        await authentication.sign(request, server)
        answer = await web.post(request.url, what, form=request.form, headers=request.headers)
        if answer.status != 200 and answer.members.get("error") != "unsupported_token_type":
            raise AuthorizationFailedError(f"{what} responded with HTTP {answer.status}")
    return True
