"""Dynamic client registration (RFC 7591)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...auth.urls import shortened
from .client_authentication import method_for, method_to_register
from .errors import AuthorizationFailedError
from .grant_context import GrantContext
from .token_endpoint import in_words
from .tokens import Registration


async def register(context: GrantContext, name: str, redirect_uris: Sequence[str]) -> Registration:
    """Register a client on a user's machine.

    Args:
        context: The authorization server and the scopes.
        name: The name of the client that users see.
        redirect_uris: The redirect URIs.

    Raises:
        AuthorizationFailedError: The authorization server refused the registration, or did not respond.
        MetadataError: The URL of the endpoint may not be requested.
    """
    server = context.server
    who = f"the registration endpoint of {shortened(server.issuer)}"
    method = method_to_register(server)
    scopes = dict.fromkeys((*(context.scopes or ()), *context.published))
    content: dict[str, object] = {
        "client_name": name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    answer = await context.web.post(server.endpoint("registration_endpoint"), who, content=content)
    members = answer.members
    if "error" in members:
        raise AuthorizationFailedError(
            f"{who} rejected the registration of a client with the redirect URI {', '.join(redirect_uris)}: "
            f"{in_words(members, ())}"
        )
    client_id = members.get("client_id")
    if not 200 <= answer.status < 300 or not isinstance(client_id, str) or not client_id:
        raise AuthorizationFailedError(
            f"{who} responded with HTTP {answer.status} without a client_id. If clients are registered there by hand, "
            "pass client_id= and issuer=",
            may_pass=answer.status >= 500,
        )
    secret, said = members.get("client_secret"), members.get("token_endpoint_auth_method")
    secret = secret if isinstance(secret, str) and secret else None
    expires = members.get("client_secret_expires_at")
    is_bound = isinstance(expires, (int, float)) and not isinstance(expires, bool) and expires > 0
    return Registration(
        server.issuer,
        client_id,
        secret,
        said if isinstance(said, str) and said else method_for(secret, server),
        tuple(redirect_uris),
        float(str(expires)) if is_bound else None,
    )


def has_expired(registration: Registration) -> bool:
    """Return whether the secret of a registration has expired."""
    return registration.expires is not None and registration.expires <= time.time()
