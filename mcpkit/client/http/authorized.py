"""The properties about access tokens that both HTTP transports share."""

from __future__ import annotations

from ..._utils.concurrency import Listeners
from .http_client import HttpClient


class Authorized:
    """A transport over HTTP, as far as its messages are authorized.

    Args:
        http: Sends the requests.
    """

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    @property
    def is_authorizing(self) -> bool:
        """Whether an access token is being obtained, for example from a user."""
        return self._http.is_authorizing

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens by which messages are authorized now."""
        return self._http.secrets

    @property
    def reauthorized(self) -> Listeners[[]]:
        """Called where messages go under another token from now on."""
        return self._http.reauthorized
