"""A client, as an authorization server knows it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .errors import OAuthError
from .redirects import is_registered

Method = Literal["none", "client_secret_basic", "client_secret_post"]
METHODS: tuple[Method, ...] = ("none", "client_secret_basic", "client_secret_post")
"""How clients may authenticate themselves. `none` has to be among them for those with a metadata document."""


class Client(NamedTuple):
    """A client.

    Attributes:
        id: Its `client_id`.
        name: What it calls itself, for people; nobody has checked it.
        redirect_uris: Where its users may be sent back to.
        method: How it authenticates itself; both ways to send a secret are as good.
        secret: Its secret, where one was given by hand.
        scopes: What it may be granted when it asks for itself; None where it may not.
        is_refreshing: Whether it wants refresh tokens.
    """

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    method: Method = "none"
    secret: str | None = None
    scopes: tuple[str, ...] | None = None
    is_refreshing: bool = True

    def redirect_uri(self, given: str | None) -> str:
        """Return where a user of this client is sent back to.

        Args:
            given: What the request says; it may say nothing where the client has registered one alone.

        Raises:
            OAuthError: It has not registered that.
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
