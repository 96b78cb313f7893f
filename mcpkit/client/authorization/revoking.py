"""Token revocation at the authorization server (RFC 7009)."""

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
    """Revoke tokens at the authorization server that issued them.

    Args:
        source: The authorization that obtained them; it authenticates the client.
        web: Sends requests.
        tokens: The tokens.

    Returns:
        Whether they are revoked; False if the authorization server does not support revocation.

    Raises:
        AuthorizationFailedError: The authorization server cannot be reached, or refused.
        MetadataError: Its metadata cannot be used.
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
