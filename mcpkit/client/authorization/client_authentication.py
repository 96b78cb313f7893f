"""Client authentication at a token endpoint, by a secret or without one (OAuth 2.1, 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.token_requests import Authentication, ClientSecret
from ...auth.urls import shortened
from .errors import AuthorizationFailedError
from .roles import ClientAuthentication, TokenRequest


@dataclass(frozen=True)
class SecretAuthentication:
    """Client authentication by a secret, or that of a public client, which sends its `client_id` only.

    Args:
        client_id: The client id.
        secret: The client secret; None for a public client.
        method: `"basic"` with the header `Authorization`, or `"post"` in the form.
    """

    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: Authentication = "basic"

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the credentials to the headers or to the form."""
        client = ClientSecret(self.client_id, self.secret)
        form, headers = client.authenticate(self.method)
        request.form.update(form)
        request.headers.update(headers)
        request.encoded += client.encodings()


_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"
_NONE: Final = "none"


def supported(server: AuthorizationServerMetadata) -> tuple[str, ...]:
    """Return the methods that a token endpoint supports; `client_secret_basic` by default (RFC 8414, 2)."""
    return server.strings("token_endpoint_auth_methods_supported") or (_BASIC,)


def method_to_register(server: AuthorizationServerMetadata) -> str:
    """Return the method to register for a client on a user's machine: without a secret if the server allows that."""
    methods = server.strings("token_endpoint_auth_methods_supported") or (_NONE,)
    return next((method for method in (_NONE, _BASIC, _POST) if method in methods), _NONE)


def method_for(secret: str | None, server: AuthorizationServerMetadata) -> str:
    """Return the method for a client that was registered without naming one."""
    methods = supported(server)
    if secret is None or (methods == (_NONE,)):
        return _NONE
    return _POST if _POST in methods and _BASIC not in methods else _BASIC


def by_method(method: str, client_id: str, secret: str | None) -> ClientAuthentication:
    """Return the client authentication for a method.

    Raises:
        AuthorizationFailedError: The method is unknown, or requires a secret that is missing.
    """
    if method == _NONE:
        return SecretAuthentication(client_id)
    if method not in {_BASIC, _POST}:
        raise AuthorizationFailedError(
            f"the authorization server requires the client authentication method {shortened(method)},"
            " which this client does not support"
        )
    if secret is None:
        raise AuthorizationFailedError(
            f"the authorization server requires a client secret ({method}) but did not issue one at registration"
        )
    return SecretAuthentication(client_id, secret, "basic" if method == _BASIC else "post")
