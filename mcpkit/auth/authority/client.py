"""Clients of an authorization server."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .errors import OAuthError
from .redirects import is_registered

Method = Literal["none", "client_secret_basic", "client_secret_post"]
METHODS: tuple[Method, ...] = ("none", "client_secret_basic", "client_secret_post")
"""Client authentication methods. `none` is needed for clients with a metadata document."""


class Client(NamedTuple):
    """A client of an authorization server.

    Attributes:
        id: The `client_id`.
        name: Display name chosen by the client, not verified.
        redirect_uris: Registered redirect URIs.
        method: Client authentication method. Both methods with a secret are accepted alike.
        secret: Client secret of a preregistered client.
        scopes: Scopes for the client credentials grant; None if it is not allowed.
        is_refreshing: Whether the client uses refresh tokens.
    """

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    method: Method = "none"
    secret: str | None = None
    scopes: tuple[str, ...] | None = None
    is_refreshing: bool = True

    def redirect_uri(self, given: str | None) -> str:
        """Return the redirect URI for a request.

        Args:
            given: The `redirect_uri` of the request; None is allowed if the client has registered exactly one.

        Raises:
            OAuthError: The redirect URI is not registered.
        """
        if given is None:
            if len(self.redirect_uris) != 1:
                raise OAuthError(
                    "invalid_request",
                    "redirect_uri is missing: it is required unless the client has registered exactly one",
                )
            return self.redirect_uris[0]
        if not is_registered(given, self.redirect_uris):
            raise OAuthError("invalid_request", "redirect_uri is not one that the client has registered")
        return given
