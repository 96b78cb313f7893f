"""Headers of requests and their authorization: bearer tokens, challenges (`WWW-Authenticate`), and authorizers.

An authorizer obtains and renews access tokens, and handles challenges, as the `Authorization` classes do.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import ProtocolError
from ...protocol import jsonrpc
from ...protocol.http_headers import NAMED_BY
from ...protocol.jsonrpc import is_object

if TYPE_CHECKING:
    import httpx2

# Headers

Pairs = list[tuple[bytes, bytes]]
"""Headers, with names in any case."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?![ \t])[ -~\t\x80-\xff]*(?<![ \t])")
_SHORTEST_SECRET = 6
"""The fewest characters of a secret that is removed from messages. Shorter ones occur in many words."""
_TRANSPORT_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id", "mcp-method",
    "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding",
})  # fmt: skip
"""Headers that the transport sets."""


def check_headers(headers: Mapping[str, object]) -> Pairs:
    """Encode the headers of a user after checking them.

    Raises:
        TypeError: A value is not a string.
        ValueError: A header cannot be sent, or is set by the transport. No value is shown, as it may be secret.
    """
    pairs: Pairs = []
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid header name")
        if name.lower() in _TRANSPORT_HEADERS:
            raise ValueError(f"the header {name} is set by the transport. Leave it out")
        if not isinstance(value, str):
            raise TypeError(f"the value of the header {name} must be a string, got {type(value).__name__}")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"the value of the header {name} contains characters, or leading or trailing blanks, that "
                "are not allowed in a header"
            )
        pairs.append((name.encode("ascii"), value.encode("latin-1")))
    return pairs


def bearer_header(token: str) -> tuple[bytes, bytes]:
    """Return the `Authorization` header with a bearer token.

    Raises:
        ValueError: The token cannot be sent.
    """
    if not _HEADER_VALUE.fullmatch(token):
        raise ValueError(
            "the token contains characters, or leading or trailing blanks, that are not allowed in a header"
        )
    return b"Authorization", b"Bearer " + token.encode("latin-1")


def without_credentials(text: str, response: httpx2.Response) -> str:
    """Return a text of a response without the credentials of its request, which the server may repeat."""
    secret = response.request.headers.get("authorization", "").partition(" ")[2].strip()
    return text.replace(secret, "...") if len(secret) >= _SHORTEST_SECRET else text


def header(response: httpx2.Response, name: bytes) -> bytes:
    """Return the value of a header by its name in lower case; empty if there is none."""
    for each, value in response.headers.raw:
        if each.lower() == name:
            return value
    return b""


# Challenges (RFC 9110, "WWW-Authenticate")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=[\s,]|$)")
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))(?=[\s,]|$)', re.DOTALL)
_TOKEN_68 = re.compile(r"\s+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$))")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_SHOWN_PARAMETERS = {
    "realm": "realm",
    "scope": "scope",
    "error": "error",
    "error_description": "says",
    "resource_metadata": "described at",
}
"""The parts of a challenge that an error message shows, in this order."""
_MOST_SHOWN = 300
"""The most characters of a value in an error message."""


class Challenge(NamedTuple):
    """One challenge of `WWW-Authenticate`.

    Args:
        scheme: The authentication scheme as the server writes it, such as `Bearer`.
        parameters: Its parameters by name in lower case; the first of each.
    """

    scheme: str
    parameters: Mapping[str, str]


def read_challenges(values: Iterable[str]) -> list[Challenge]:
    """Parse the values of `WWW-Authenticate`, of which each may hold several challenges.

    A syntax error ends the parsing of that value.
    """
    found: list[Challenge] = []
    for value in values:
        place = 0
        while scheme := _SCHEME.match(value, place):
            place = scheme.end()
            if token := _TOKEN_68.match(value, place):
                place = token.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(value, place):
                name, quoted, plain = parameter.groups()
                parameters.setdefault(name.lower(), plain or _ESCAPED.sub(r"\1", quoted))
                place = parameter.end()
            found.append(Challenge(scheme[1], parameters))
    return found


def describe_challenges(challenges: Iterable[Challenge]) -> str:
    """Describe challenges in words; empty if there are none."""
    descriptions: list[str] = []
    for challenge in challenges:
        parts = [challenge.scheme[:_MOST_SHOWN]]
        for name, word in _SHOWN_PARAMETERS.items():
            if value := challenge.parameters.get(name):
                text = "".join(char if char.isprintable() else " " for char in value[:_MOST_SHOWN])
                parts.append(f"{word} {text!r}")
        descriptions.append(", ".join(parts))
    return "; or ".join(descriptions)


# Authorizers

_MOST_ATTEMPTS = 6
"""The most attempts of one request, whatever challenges the server sends."""


class ChallengeResponse(NamedTuple):
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


class HttpSender(Protocol):
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


class RequestAuthorization(Protocol):
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

    async def challenged(self, challenge: ChallengeResponse) -> bool:
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

    def attempt(self, http: HttpSender, *, may_ask: bool = True) -> RequestAuthorization:
        """Return the authorization of one request.

        Args:
            http: The client that sends it, whose settings are used for other servers, too.
            may_ask: Whether a user may be involved. False for requests that no user waits for.
        """
        ...


@runtime_checkable
class HasAuthorizers(Protocol):
    """A value of `auth=` that has an authorizer for each server."""

    def authorizer(self, url: str) -> Authorizer:
        """Return the authorizer of a server for the running event loop.

        Raises:
            ValueError: No token may be sent to that URL.
        """
        ...


def authorizers_of(auth: object) -> HasAuthorizers | None:
    """Return a value of `auth=` that has authorizers; None for a value that httpx2 handles.

    Raises:
        TypeError: The value is neither.
    """
    if isinstance(auth, HasAuthorizers) and not isinstance(auth, type):
        return auth
    is_of_httpx2 = isinstance(auth, tuple) or callable(auth) or hasattr(auth, "auth_flow")
    if auth is not None and (isinstance(auth, type) or not is_of_httpx2):
        raise TypeError(
            'auth= must be "oauth", an object such as OAuth() or ClientCredentials(...), or a tuple of '
            "user and password. Pass a bearer token as token="
        )
    return None


async def send_authorized(
    authorization: RequestAuthorization,
    send: Callable[[Pairs], Awaitable[httpx2.Response]],
    method: str,
    url: str,
    content: bytes,
) -> httpx2.Response:
    """Send a request with its authorization headers, and again after handling a challenge.

    Args:
        authorization: The authorization of the request.
        send: Sends the request with additional headers.
        method: The HTTP method.
        url: The URL.
        content: The body.
    """
    for _ in range(_MOST_ATTEMPTS - 1):
        response = await send(await authorization.headers(method, url))
        nonce = response.headers.get("dpop-nonce")
        if response.status_code not in {401, 403}:
            if nonce is not None:
                authorization.set_nonce(url, nonce)
            return response
        values = [
            without_credentials(text, response) for text in response.headers.get_list("www-authenticate")
        ]
        challenge = ChallengeResponse(
            response.status_code,
            read_challenges(values),
            ", ".join(values),
            nonce,
            _operation(method, content),
        )
        try:
            is_again = await authorization.challenged(challenge)
        except BaseException:
            await response.aclose()
            raise
        if not is_again:
            return response
        await response.aclose()
    return await send(await authorization.headers(method, url))


def _operation(http_method: str, content: bytes) -> str:
    """Return the operation of a request, for counting step-ups."""
    try:
        message = jsonrpc.decode(content) if content else None
    except ProtocolError:
        return http_method
    if not is_object(message) or not isinstance(method := message.get("method"), str):
        return http_method
    params = message.get("params")
    name = params.get(NAMED_BY.get(method, "")) if is_object(params) else None
    return f"{method} {name}" if isinstance(name, str) else method
