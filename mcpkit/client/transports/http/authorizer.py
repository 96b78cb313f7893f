"""What says who asks where that changes with time: tokens that expire, and challenges that are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ....common.errors import ProtocolError
from ....common.listeners import Listeners
from ....protocol import jsonrpc
from ....protocol.headers import NAMED_BY
from ....protocol.jsonrpc import is_object
from .challenge import Challenge, read_challenges
from .headers import Pairs, without_credentials

if TYPE_CHECKING:
    import httpx2

_MOST_TRIES = 6
"""How often one request is sent in all, whatever the server challenges it with."""


class Challenged(NamedTuple):
    """An answer that wants to know who asks, or that more is granted.

    Args:
        status: 401 or 403.
        challenges: What it asks for.
        text: The same as it came: the value of `WWW-Authenticate`.
        nonce: The nonce that proofs need from now on (`DPoP-Nonce`); None where it has none.
        operation: What was asked for: a method, and a name where it has one.
    """

    status: int
    challenges: list[Challenge]
    text: str
    nonce: str | None
    operation: str


class Asker(Protocol):
    """Who sends requests to the server, and by the same settings to others."""

    @property
    def own_headers(self) -> Mapping[str, str]:
        """The headers that go along with each request to the server's origin."""
        ...

    def for_others(self) -> httpx2.AsyncClient:
        """Return what sends requests to others.

        Raises:
            TransportError: It is not open.
        """
        ...


class Attempt(Protocol):
    """One request, with what it says of who asks, as often as it has to be sent."""

    async def headers(self, method: str, url: str) -> Pairs:
        """Return the headers that say who asks.

        Args:
            method: The HTTP method.
            url: The URL.

        Raises:
            TransportError: What says so cannot be had.
        """
        ...

    async def challenged(self, challenge: Challenged) -> bool:
        """Hear that the answer was 401 or 403, and say whether to send the request again.

        Raises:
            AuthorizationError: It could not be made good, and why.
            TransportError: Nobody could be asked.
        """
        ...

    def set_nonce(self, url: str, nonce: str) -> None:
        """Take note of a nonce (`DPoP-Nonce`) in any other answer."""


class Authorizer(Protocol):
    """What says who asks a server, for all requests to it in one event loop."""

    @property
    def renewed(self) -> Listeners[[]]:
        """Called each time requests go under another token from now on."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens that it has now."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a token is being got, so that requests wait for a user, perhaps: that is no time of the server's."""
        ...

    def attempt(self, http: Asker, *, may_ask: bool = True) -> Attempt:
        """Begin with a request.

        Args:
            http: Who sends it, by whose settings others are asked, too.
            may_ask: Whether a user may be asked: not where no user waits for the request.
        """
        ...


@runtime_checkable
class GivesAuthorizers(Protocol):
    """What may stand in `auth=` and has an authorizer for each server."""

    def authorizer(self, url: str) -> Authorizer:
        """Return the authorizer of a server in the running event loop.

        Raises:
            ValueError: No token may be sent to that URL.
        """
        ...


def authorizes(auth: object) -> GivesAuthorizers | None:
    """Return what stands in `auth=` where it has authorizers; None where httpx2 knows it.

    Raises:
        TypeError: Nobody can know it.
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
    """Send a request with what says who asks, again where a challenge has been answered.

    Args:
        attempt: The request.
        send: Sends it with more headers.
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
    """Return what a request asks for, as far as it says so."""
    try:
        message = jsonrpc.decode(content) if content else None
    except ProtocolError:
        return method
    if not is_object(message) or not isinstance(asked := message.get("method"), str):
        return method
    params = message.get("params")
    name = params.get(NAMED_BY.get(asked, "")) if is_object(params) else None
    return f"{asked} {name}" if isinstance(name, str) else asked
