"""Interfaces for authorizations that change: tokens that expire, and responses to challenges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import ProtocolError
from ...protocol import jsonrpc
from ...protocol.http_headers import NAMED_BY
from ...protocol.jsonrpc import is_object
from .challenge import Challenge, read_challenges
from .headers import Pairs, without_credentials

if TYPE_CHECKING:
    import httpx2

_MOST_TRIES = 6
"""The most attempts of one request, whatever challenges the server sends."""


class Challenged(NamedTuple):
    """A response that requires authentication or more scopes.

    Args:
        status: 401 or 403.
        challenges: The parsed challenges.
        text: The value of `WWW-Authenticate`.
        nonce: The nonce for further DPoP proofs (`DPoP-Nonce`); None if there is none.
        operation: The operation of the request: its method, and the name of its tool or prompt.
    """

    status: int
    challenges: list[Challenge]
    text: str
    nonce: str | None
    operation: str


class Asker(Protocol):
    """Sends requests to the server, and provides an HTTP client with the same settings for other servers."""

    @property
    def own_headers(self) -> Mapping[str, str]:
        """The headers of each request to the server's origin."""
        ...

    def for_others(self) -> httpx2.AsyncClient:
        """Return the HTTP client for other servers.

        Raises:
            TransportError: The client is not open.
        """
        ...


class Attempt(Protocol):
    """The authorization of one request, which may be sent several times."""

    async def headers(self, method: str, url: str) -> Pairs:
        """Return the authorization headers.

        Args:
            method: The HTTP method.
            url: The URL.

        Raises:
            TransportError: No token could be obtained.
        """
        ...

    async def challenged(self, challenge: Challenged) -> bool:
        """Handle a response with the status 401 or 403, and return whether to send the request again.

        Raises:
            AuthorizationError: No sufficient token could be obtained.
            TransportError: The authorization server could not be reached.
        """
        ...

    def set_nonce(self, url: str, nonce: str) -> None:
        """Store a nonce (`DPoP-Nonce`) from another response."""


class Authorizer(Protocol):
    """Authorizes the requests to a server in one event loop."""

    @property
    def renewed(self) -> Listeners[[]]:
        """Called each time when requests carry another token from now on."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The current tokens."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a token is being obtained, possibly from a user. That time does not count as the server's."""
        ...

    def attempt(self, http: Asker, *, may_ask: bool = True) -> Attempt:
        """Return the authorization of one request.

        Args:
            http: The client that sends it, whose settings are used for other servers, too.
            may_ask: Whether a user may be involved. False for requests that no user waits for.
        """
        ...


@runtime_checkable
class GivesAuthorizers(Protocol):
    """A value of `auth=` that has an authorizer for each server."""

    def authorizer(self, url: str) -> Authorizer:
        """Return the authorizer of a server for the running event loop.

        Raises:
            ValueError: No token may be sent to that URL.
        """
        ...


def authorizes(auth: object) -> GivesAuthorizers | None:
    """Return a value of `auth=` that has authorizers; None for a value that httpx2 handles.

    Raises:
        TypeError: The value is neither.
    """
    if isinstance(auth, GivesAuthorizers) and not isinstance(auth, type):
        return auth
    is_of_httpx2 = isinstance(auth, tuple) or callable(auth) or hasattr(auth, "auth_flow")
    if auth is not None and (isinstance(auth, type) or not is_of_httpx2):
        raise TypeError(
            'auth= must be "oauth", an object such as OAuth() or ClientCredentials(...), or a tuple of '
            "user and password. Pass a bearer token as token="
        )
    return None


async def authorized(
    attempt: Attempt,
    send: Callable[[Pairs], Awaitable[httpx2.Response]],
    method: str,
    url: str,
    content: bytes,
) -> httpx2.Response:
    """Send a request with its authorization headers, and again after handling a challenge.

    Args:
        attempt: The authorization of the request.
        send: Sends the request with additional headers.
        method: The HTTP method.
        url: The URL.
        content: The body.
    """
    for _ in range(_MOST_TRIES - 1):
        response = await send(await attempt.headers(method, url))
        nonce = response.headers.get("dpop-nonce")
        if response.status_code not in {401, 403}:
            if nonce is not None:
                attempt.set_nonce(url, nonce)
            return response
        values = [
            without_credentials(text, response) for text in response.headers.get_list("www-authenticate")
        ]
        challenge = Challenged(
            response.status_code,
            read_challenges(values),
            ", ".join(values),
            nonce,
            _operation(method, content),
        )
        try:
            is_again = await attempt.challenged(challenge)
        except BaseException:
            await response.aclose()
            raise
        if not is_again:
            return response
        await response.aclose()
    return await send(await attempt.headers(method, url))


def _operation(method: str, content: bytes) -> str:
    """Return the operation of a request for counting step-ups."""
    try:
        message = jsonrpc.decode(content) if content else None
    except ProtocolError:
        return method
    if not is_object(message) or not isinstance(asked := message.get("method"), str):
        return method
    params = message.get("params")
    name = params.get(NAMED_BY.get(asked, "")) if is_object(params) else None
    return f"{asked} {name}" if isinstance(name, str) else asked
