"""Client authentication at a token endpoint, by a secret or without one (OAuth 2.1, 2.4)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.urls import shortened
from .errors import AuthorizationFailedError
from .roles import ClientAuthentication, TokenRequest


@dataclass(frozen=True)
class PublicClient:
    """A client without a secret, which sends its `client_id` only."""

    client_id: str

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the `client_id` to the form."""
        request.form["client_id"] = self.client_id


@dataclass(frozen=True)
class SecretInHeader:
    """Sends id and secret in the header `Authorization` (`client_secret_basic`)."""

    client_id: str
    secret: str = field(repr=False)

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the header."""
        pair = f"{quote(self.client_id, safe='')}:{quote(self.secret, safe='')}"
        encoded = b64encode(pair.encode()).decode("ascii")
        request.headers["Authorization"] = f"Basic {encoded}"
        request.encoded += (self.secret, encoded)


@dataclass(frozen=True)
class SecretInForm:
    """Sends id and secret in the form (`client_secret_post`)."""

    client_id: str
    secret: str = field(repr=False)

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add both to the form."""
        request.form["client_id"] = self.client_id
        request.form["client_secret"] = self.secret


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
        return PublicClient(client_id)
    if method not in {_BASIC, _POST}:
        raise AuthorizationFailedError(
            f"the authorization server requires the client authentication method {shortened(method)},"
            " which this client does not support"
        )
    if secret is None:
        raise AuthorizationFailedError(
            f"the authorization server requires a client secret ({method}) but did not issue one at registration"
        )
    return SecretInHeader(client_id, secret) if method == _BASIC else SecretInForm(client_id, secret)
