"""HTTP client for authorization servers and other servers that are not trusted, and the requests to token endpoints.

Each response is bounded in size and time. Redirects are not followed: another URL is another document, and a redirect
could lead a request with secrets to another server. httpx2 is imported on use.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import threading
from collections.abc import Callable, Container, Coroutine, Hashable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeAlias, TypeGuard, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from weakref import WeakKeyDictionary

from .._utils.package import __version__
from ..protocol import http_headers
from ..protocol.jsonrpc import BYTE_ORDER_MARK
from .jws import MAX_TOKEN, parse_json_object
from .urls_and_discovery import check_url, is_loopback, origin
from .verifier import MAX_SCOPES, auth_library

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

MAX_DOCUMENT = 512 * 1024
"""Maximum bytes of a response after decompression. Keys of large providers have 20 KiB."""
DEFAULT_TIMEOUT = 10.0
"""Default seconds in which a response must be complete."""

_CODINGS: Final = frozenset({"", "identity", "gzip", "deflate"})
"""Content codings that httpx2 decodes in bounded pieces."""


# Responses


class FetchError(Exception):
    """There is no usable response. The message contains the cause and the URL.

    Args:
        message: The cause.
        status: HTTP status of the response, if there was one.
        may_pass: Whether a later retry can succeed: no response, or the server is busy or broken.
        is_unreachable: Whether the connection to the server failed, so that its other documents are unavailable too.
    """

    def __init__(
        self, message: str, *, status: int | None = None, may_pass: bool = True, is_unreachable: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = may_pass
        self.is_unreachable = is_unreachable


@dataclass(frozen=True)
class HttpResponse:
    """A response that has been received.

    Attributes:
        url: URL of the request.
        name: Name of the endpoint or document, for messages.
        status: The HTTP status.
        headers: The headers; names are case-insensitive.
        body: The body; empty if it was not read.
    """

    url: str
    name: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str | None:
        """The media type without parameters; None if it is missing."""
        value = self.headers.get("content-type", "")
        return None if not value else http_headers.media_type(value) or "another media type"

    def members(self) -> dict[str, object]:
        """Return the JSON object in the body, regardless of its media type, because storage buckets send any.

        Raises:
            FetchError: The body is not a JSON object.
        """
        try:
            return parse_json_object(self.body.removeprefix(BYTE_ORDER_MARK))
        except ValueError as error:
            media_type = self.media_type or "no media type"
            detail = "" if media_type == "application/json" else f" ({media_type[:60]})"
            raise FetchError(
                f"{self.name}: the response of {self.url} is not usable: {error}{detail}", may_pass=False
            ) from None


def max_age_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds for which a response may be cached; None if its headers do not set it (RFC 9111, 4.2.1)."""
    directives: dict[str, str] = {}
    for part in headers.get("cache-control", "").lower().split(","):
        name, _, value = part.partition("=")
        directives[name.strip()] = value.strip().strip('"')
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    seconds = _delta_seconds(directives.get("max-age"))
    if seconds is None:
        try:
            expires, date = (parsedate_to_datetime(headers[name]) for name in ("expires", "date"))
            seconds = (expires - date).total_seconds()
        except KeyError:
            return None
        except (TypeError, ValueError):
            return 0.0  # `Expires: 0` and other invalid dates are in the past (RFC 9111, 5.3)
    return max(0.0, seconds - (_delta_seconds(headers.get("age")) or 0.0))


def _delta_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None


# Requests


def create_client(url: str, *, keeps_connections: bool = True) -> httpx2.AsyncClient:
    """Create a client for requests to one URL. The caller closes it. It stores no cookies.

    Args:
        url: The URL. Loopback URLs are requested without the proxies of the environment.
        keeps_connections: Reuse connections, which the server may have closed by then.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    from .._utils import http_proxies

    parts = urlsplit(url)
    return http_proxies.client(
        parts.scheme == "https",  # plain http needs no certificate authorities, and reading them takes 20 ms
        trust_env=not is_loopback(parts.hostname),
        limits=httpx2.Limits(max_keepalive_connections=20 if keeps_connections else 0),
        headers={"User-Agent": f"mcpkit/{__version__}"},
        timeout=DEFAULT_TIMEOUT,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


async def send(
    client: httpx2.AsyncClient,
    request: httpx2.Request,
    name: str,
    time_limit: float,
    *,
    body_statuses: Container[int] = range(1000),
    is_repeatable: bool = False,
    is_anonymous: bool = False,
) -> HttpResponse:
    """Send a request, and return the response whatever its status. Redirects are not followed.

    Args:
        client: The client.
        request: The request.
        name: Name of the endpoint or document for messages, such as "introspection at https://id.example.com".
        time_limit: Seconds in which the response must be complete.
        body_statuses: Statuses of the responses of which the body is read.
        is_repeatable: Repeat the request once if its connection breaks, as a reused one can.
        is_anonymous: Omit the default credentials (`auth`) of the client.

    Raises:
        FetchError: There is no response, or it is too large or has a content coding that was not requested.
    """
    import httpx2

    url = str(request.url)
    if client.is_closed:
        raise FetchError(f"{name}: http_client= is closed. Pass an open client")

    async def exchange(*, is_repetition: bool) -> HttpResponse:
        auth = None if is_anonymous else httpx2.USE_CLIENT_DEFAULT
        try:
            response = await client.send(request, stream=True, auth=auth, follow_redirects=False)
            try:
                has_body = response.status_code in body_statuses
                body = await _read_body(response, url, name) if has_body else b""
                return HttpResponse(url, name, response.status_code, response.headers, body)
            finally:
                await response.aclose()
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if is_repetition or not is_repeatable:
                raise
            return await exchange(is_repetition=True)

    try:
        return await asyncio.wait_for(exchange(is_repetition=False), time_limit)
    except asyncio.TimeoutError:
        raise FetchError(f"{name}: {url} did not respond within {time_limit:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        is_unreachable = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError))
        raise FetchError(f"{name}: {describe_failure(error, url)}", is_unreachable=is_unreachable) from error


def _build_request(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    name: str,
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> httpx2.Request:
    import httpx2

    accept = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
    try:
        return client.build_request(method, url, content=content, headers={**accept, **headers})
    except httpx2.InvalidURL:  # httpx2 also checks IPv4 addresses and internationalized names
        raise FetchError(f"{name}: the host of {url} is not valid", may_pass=False) from None


async def _read_body(response: httpx2.Response, url: str, name: str) -> bytes:
    body, problem = bytearray(), None
    if response.headers.get("content-encoding", "").strip().lower() in _CODINGS:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MAX_DOCUMENT:
                problem = f"more than the maximum of {MAX_DOCUMENT:,} bytes"
                break
    else:
        problem = "a response with a Content-Encoding that was not requested"
    if problem is not None:
        raise FetchError(f"{name}: {url} sent {problem}", status=response.status_code, may_pass=False)
    return bytes(body)


def describe_failure(error: Exception, url: str) -> str:
    """Describe an exception of httpx2 for a request to a URL."""
    import httpx2

    server = origin(url)
    if isinstance(error, (httpx2.ConnectTimeout, httpx2.ReadTimeout, httpx2.WriteTimeout)):
        return f"{server} did not respond in time"
    if isinstance(error, httpx2.PoolTimeout):
        return "http_client= has no free connection. Allow it more connections (limits=)"
    if isinstance(error, httpx2.ProxyError):
        return f"the HTTP proxy refused the connection to {server}"
    if isinstance(error, (httpx2.ConnectError, httpx2.UnsupportedProtocol)):
        # The latter is about a proxy that cannot be used, and names the setting.
        reason = str(error) if isinstance(error, httpx2.UnsupportedProtocol) else _connect_reason(error)
        return f"cannot connect to {server}" + (f": {reason}" if reason else "")
    if isinstance(error, httpx2.DecodingError):
        return f"{server} sent a response that cannot be decompressed"
    return f"the connection to {server} broke before the response was complete"


def _connect_reason(error: BaseException | None) -> str | None:
    """Return the operating system's reason for a failed connection, from the causes of an exception."""
    while error is not None:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return "its certificate is not trusted"
        if "WRONG_VERSION_NUMBER" in str(error):
            return "it does not support TLS on this port"
        if isinstance(error, OSError) and error.errno and error.errno > 0:
            return os.strerror(error.errno)
        error = error.__cause__ or error.__context__
    return None


class Document(NamedTuple):
    """A fetched JSON object.

    Attributes:
        members: The object.
        max_age: Seconds for which it may be cached (RFC 9111, section 4.2.1); None if the headers do not set it.
    """

    members: dict[str, object]
    max_age: float | None


async def fetch_document(
    url: str,
    name: str,
    *,
    http_client: httpx2.AsyncClient | None = None,
    time_limit: float = DEFAULT_TIMEOUT,
    accepts_http: bool | None = None,
    is_typed: bool = False,
) -> Document:
    """Fetch a JSON object, such as metadata or keys.

    Args:
        url: URL of the document: `https`, or `http` on a loopback address.
        name: Name of the document for messages, such as "the metadata of https://id.example.com".
        http_client: Client to use, with its TLS and proxy settings. It is not closed. None makes one.
        time_limit: Seconds in which the document must be received.
        accepts_http: Allow plain http; see `check_url`.
        is_typed: Refuse media types other than JSON, for URLs that any client can choose.

    Raises:
        MetadataError: The URL is not allowed.
        FetchError: The document is missing or not valid.
        ImportError: httpx2 is not installed.
    """
    check_url(url, f"the URL of {name}", accepts_http=accepts_http)
    auth_library("httpx2")
    client = http_client or create_client(url)
    try:
        request = _build_request(client, "GET", url, name, {})
        response = await send(client, request, name, time_limit, body_statuses=(200,))
    finally:
        if http_client is None:
            await client.aclose()
    status = response.status
    if 300 <= status < 400:
        raise FetchError(
            f"{name}: {url} redirects (HTTP {status}), and redirects are not followed. Use the document's final URL",
            status=status,
            may_pass=False,
        )
    if status != 200:
        may_pass = status >= 500 or status in {408, 425, 429}
        raise FetchError(f"{name}: {url} responded with HTTP {status}", status=status, may_pass=may_pass)
    media_type = response.media_type
    if is_typed and media_type not in {None, "application/json"} and not str(media_type).endswith("+json"):
        raise FetchError(f"{name}: {url} sent {media_type} instead of application/json", may_pass=False)
    return Document(response.members(), max_age_of(response.headers))


class HttpClient:
    """Client for the endpoints of a provider, with one connection pool for each event loop.

    Args:
        http_client: Client to use, with its TLS and proxy settings. It is not closed. None makes one for each event
            loop.
        timeout: Seconds in which a response must be complete.
    """

    def __init__(self, http_client: httpx2.AsyncClient | None, timeout: float) -> None:
        self._http_client = http_client
        self._timeout = timeout
        self._clients: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[tuple[str, bool, bool], httpx2.AsyncClient]
        ] = WeakKeyDictionary()

    async def request(
        self,
        method: str,
        url: str,
        name: str,
        headers: Mapping[str, str],
        content: Mapping[str, str] | bytes | None = None,
        *,
        is_repeatable: bool = True,
    ) -> HttpResponse:
        """Send a request, and return the response whatever its status.

        Args:
            method: The HTTP method.
            url: URL of the endpoint.
            name: Name of the endpoint for messages, such as "introspection at https://id.example.com".
            headers: Additional headers.
            content: The body; a mapping is sent as a form.
            is_repeatable: Whether the request may be sent twice. It is repeated once if a pooled connection breaks.
                Other requests use a connection of their own, unless `http_client` is given.

        Raises:
            FetchError: The endpoint sent no usable response.
        """
        client = self._http_client
        if client is None:
            # Plain http and loopback URLs have clients of their own, because their settings differ.
            parts = urlsplit(url)
            clients = self._clients.setdefault(asyncio.get_running_loop(), {})
            kind = (parts.scheme, is_loopback(parts.hostname), is_repeatable)
            if kind not in clients:
                clients[kind] = create_client(url, keeps_connections=is_repeatable)
            client = clients[kind]
        if isinstance(content, Mapping):
            headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
            content = urlencode(content).encode()
        request = _build_request(client, method, url, name, headers, content)
        return await send(client, request, name, self._timeout, is_repeatable=is_repeatable)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        for client in self._clients.pop(asyncio.get_running_loop(), {}).values():
            await client.aclose()


# One request for concurrent callers


class AbandonedError(Exception):
    """The event loop of the work ended before the work was done."""


class SingleFlight(Generic[T]):
    """Runs work once for all concurrent callers with the same key, across event loops and threads.

    All of them get its result. The work runs in a task of the event loop of the first caller, and continues if callers
    stop waiting.

    Args:
        timeout: Seconds for which callers wait. After that the work counts as lost with its event loop.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    async def run(self, key: Hashable, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Return the result of the work, starting it if it is not running.

        Args:
            key: Key of the work.
            work: Does the work.

        Raises:
            Exception: The exception of the work.
        """
        try:
            return await self.result(key, self.start(key, work))
        except AbandonedError:  # by another event loop, which has ended
            return await self.result(key, self.start(key, work))

    def start(self, key: Hashable, work: Callable[[], Coroutine[object, None, T]]) -> Future[T]:
        """Start the work unless it is running, and return its future."""
        with self._lock:
            future = self._running.get(key)
            if future is None:
                future = self._running[key] = Future()
                future.set_running_or_notify_cancel()  # so that a caller cannot cancel it for the others
                task = asyncio.get_running_loop().create_task(work())
                self._tasks.add(task)
                task.add_done_callback(partial(self._finish, key, future))
        return future

    def running(self, key: Hashable) -> Future[T] | None:
        """Return the future of running work; None if it is not running."""
        return self._running.get(key)

    async def result(self, key: Hashable, future: Future[T]) -> T:
        """Return the result of work that has been started.

        Raises:
            AbandonedError: The work was lost with its event loop.
            Exception: The exception of the work.
        """
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._timeout)
        except asyncio.TimeoutError:
            if future.done():
                return future.result()
            self._complete(key, future, AbandonedError())
            raise AbandonedError from None

    async def aclose(self, grace: float = 0.0) -> None:
        """Cancel the work in the running event loop.

        Args:
            grace: Seconds for which the work may finish first.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            tasks = [task for task in self._tasks if task.get_loop() is loop]
        if tasks and grace:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _finish(self, key: Hashable, future: Future[T], task: asyncio.Task[T]) -> None:
        with self._lock:
            self._tasks.discard(task)
        error = AbandonedError() if task.cancelled() else task.exception()
        self._complete(key, future, error or task.result())

    def _complete(self, key: Hashable, future: Future[T], result: T | BaseException) -> None:
        # The key is free before the result is known, so that a caller that gets the result can start new work.
        with self._lock:
            if self._running.get(key) is future:
                del self._running[key]
        with suppress(InvalidStateError):  # it was abandoned meanwhile
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


# Token requests: client authentication (RFC 6749, 2.3), token responses (5.1) and errors (5.2)

MAX_DESCRIPTION: Final = 300
"""Maximum characters of an error description that is repeated."""

_VISIBLE: Final = re.compile(r"[!-~]+")
_NOT_IN_DESCRIPTION: Final = re.compile(r"[^\x20\x21\x23-\x5B\x5D-\x7E]")
_EMAIL_ADDRESS: Final = re.compile(r"[^\s'\"<>]+@[^\s'\"<>]+")
_MIN_SECRET: Final = 6
"""Minimum characters of a secret that is removed from messages. Shorter ones can be ordinary words."""


# Client authentication

Authentication: TypeAlias = Literal["basic", "post"]
"""With the header `Authorization` (`client_secret_basic`), or in the form (`client_secret_post`)."""


@dataclass(frozen=True)
class ClientSecret:
    """Client ID and client secret of this server at an authorization server.

    Args:
        id: The client ID.
        secret: The client secret; None for a public client.

    Raises:
        TypeError: One of them is not a string, or is empty.
    """

    id: str
    secret: str | None = field(repr=False)

    def __post_init__(self) -> None:
        check_text("client_id", self.id)
        if self.secret is not None:
            check_text("client_secret", self.secret)

    def authenticate(self, method: Authentication) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form parameters and the headers that authenticate the client (RFC 6749, section 2.3.1)."""
        if self.secret is None:
            return {"client_id": self.id}, {}
        if method == "post":
            return {"client_id": self.id, "client_secret": self.secret}, {}
        return {}, {"Authorization": f"Basic {self._credentials(self.secret)}"}

    def encodings(self) -> tuple[str, ...]:
        """Return the secret in each encoding that requests contain, to remove it from messages."""
        if self.secret is None:
            return ()
        return self.secret, quote(self.secret, safe=""), self._credentials(self.secret)

    def _credentials(self, secret: str) -> str:
        """Return the credentials of the header; both parts are form-encoded first (RFC 6749, 2.3.1)."""
        # A space as %20, which servers decode that read + literally, too.
        pair = f"{quote(self.id, safe='')}:{quote(secret, safe='')}"
        return base64.b64encode(pair.encode()).decode()


def check_text(name: str, value: object) -> None:
    """Check that a value is a non-empty string.

    Raises:
        TypeError: The value is not a string, or is empty.
    """
    if not isinstance(value, str) or not value:
        raise TypeError(
            f"{name} must be a non-empty string. Pass the value that the issuer has assigned to this server"
        )


def check_authentication(authentication: object) -> None:
    """Check a client authentication method.

    Raises:
        ValueError: The value is neither `"basic"` nor `"post"`.
    """
    if authentication not in {"basic", "post"}:
        raise ValueError(f'authentication must be "basic" or "post", got {authentication!r}')


# Token responses


@dataclass(frozen=True)
class TokenResponse:
    """Tokens of a successful response.

    Attributes:
        access_token: The access token.
        refresh_token: The refresh token; None if there is no valid one.
        token_type: The token type in lower case, such as `bearer` or `dpop`.
        lifetime: Seconds until the access token expires; None if unknown.
        scopes: Granted scopes; None if they are the requested ones.
        problems: Optional members that are not valid and were ignored, such as "an invalid lifetime (expires_in)".
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    token_type: str
    lifetime: float | None
    scopes: tuple[str, ...] | None
    problems: tuple[str, ...] = ()

    @classmethod
    def read(cls, members: Mapping[str, object], separators: str = " ") -> TokenResponse:
        """Read the members of a token response.

        Args:
            members: The response.
            separators: Characters that separate scopes.

        Raises:
            ValueError: The response has no valid access token.
        """
        problems: list[str] = []
        access_token, refresh_token = members.get("access_token"), members.get("refresh_token")
        if not _is_token(access_token):
            raise ValueError("a missing or invalid token (access_token)")
        if refresh_token is not None and not _is_token(refresh_token):
            problems.append("a missing or invalid token (refresh_token)")
            refresh_token = None
        expires_in, lifetime = members.get("expires_in"), None
        # Some providers send a string.
        if isinstance(expires_in, str) and re.fullmatch(r"[0-9]{1,11}", expires_in):
            expires_in = int(expires_in)
        if isinstance(expires_in, int | float) and type(expires_in) is not bool and 0 <= expires_in < 1e11:
            lifetime = float(expires_in)
        elif expires_in is not None:
            problems.append("an invalid lifetime (expires_in)")
        scope, scopes = members.get("scope"), None
        if isinstance(scope, str):
            names = [each for each in re.split(f"[{separators}]", scope) if each]
            if len(names) <= MAX_SCOPES and all(map(_VISIBLE.fullmatch, names)):
                scopes = tuple(dict.fromkeys(names))
        if scope is not None and scopes is None:
            problems.append("invalid scopes (scope)")
        token_type = str(members.get("token_type", "Bearer")).lower()  # required, but some providers omit it
        return cls(access_token, refresh_token, token_type, lifetime, scopes, tuple(problems))


def _is_token(value: object) -> TypeGuard[str]:
    # RFC 6750 allows fewer characters, but some providers send others.
    return isinstance(value, str) and len(value) <= MAX_TOKEN and _VISIBLE.fullmatch(value) is not None


# Errors


def read_error(members: Mapping[str, object], secrets: Iterable[str] = ()) -> tuple[str, str]:
    """Return error code and description of an error response, bounded, and without secrets and e-mail addresses.

    Args:
        members: The response, or the parameters of a redirect.
        secrets: Secrets of the request.
    """
    secrets = tuple(secrets)
    texts: list[str] = []
    for name in ("error", "error_description"):
        value = members.get(name)
        # Cut before the search for addresses, because its time grows with the length.
        text = remove_secrets(value, secrets)[: 2 * MAX_DESCRIPTION] if isinstance(value, str) else ""
        texts.append(error_text(_EMAIL_ADDRESS.sub("...", text)[:MAX_DESCRIPTION]))
    return texts[0], texts[1]


def error_text(text: str) -> str:
    """Return a text for an OAuth error description: forbidden characters become question marks (RFC 6749, 5.2)."""
    return _NOT_IN_DESCRIPTION.sub("?", text)


def remove_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with the secrets removed."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, "...")
    return text
