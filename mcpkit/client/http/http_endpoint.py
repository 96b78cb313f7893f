"""HTTP requests to the endpoint of a server by httpx2, which is imported when the endpoint is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypedDict, runtime_checkable
from urllib.parse import unquote, urlsplit, urlunsplit

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import StatusError, TransportError
from ..._utils.option_checks import check_count, check_function, check_seconds
from ..._utils.package import __version__, missing_package
from ...execution.coroutines import within
from .headers_and_errors import (
    ErrorResponse,
    Pairs,
    bearer_header,
    check_headers,
    connection_error,
    header,
    unexpected_response,
)

if TYPE_CHECKING:
    import ssl

    import httpx2
    from starlette.types import ASGIApp

CONNECT_TIMEOUT = 10.0
"""Default time limit of a connection in seconds."""
MAX_ANSWER = 64 * 1024 * 1024
"""Default limit of the bytes of one message from the server."""

_MOST_ERROR_BYTES = 1024 * 1024
"""The most bytes to read of an error response."""

FINISH_TIME = 0.05
"""Seconds within which a stream must end after its last event, so that its connection can be used again."""
_MOST_REDIRECTS = 5
_MOST_COOKIES = 50
_CODINGS = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate"})
"""Content codings that httpx2 decompresses in bounded pieces: of at most a megabyte in current versions, and of 1,000
times the received bytes, which is 64 MiB, in earlier ones."""

_IDLE_CONNECTIONS = 20
"""The most idle connections. httpcore2 checks each of them twice for every request: with a hundred, a call takes twice
the CPU time, also in bursts, which open new ones for less."""
_IDLE_SECONDS = 4.0
"""Seconds after which an idle connection is closed. Many servers close theirs after five seconds: a request that is
sent at that moment is lost, and the client cannot know whether the server has read it."""
_PROXIES = frozenset({"http", "https", "socks5", "socks5h"})
_NO_URL = (
    "the URL of a server must begin with http:// or https:// and have a host; a port must be at most 65535"
)


# Authorization of requests


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


class Authorizer(Protocol):
    """Authorizes the requests to a server in one event loop: obtains and renews access tokens."""

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

    async def send(
        self,
        http: HttpSender,
        send: Callable[[Pairs], Awaitable[httpx2.Response]],
        method: str,
        url: str,
        content: bytes,
        *,
        may_ask: bool,
    ) -> httpx2.Response:
        """Send a request with its authorization headers, and again after handling a challenge.

        Args:
            http: The client that sends it, whose settings are used for other servers, too.
            send: Sends the request with additional headers.
            method: The HTTP method.
            url: The URL.
            content: The body.
            may_ask: Whether a user may be involved. False for requests that no user waits for.

        Raises:
            AuthorizationError: No sufficient token could be obtained.
            TransportError: The server or the authorization server could not be reached.
        """
        ...


@runtime_checkable
class HasAuthorizers(Protocol):
    """A value of `auth=` that has an authorizer for each server, such as an `Authorization`."""

    def authorizer(self, url: str) -> Authorizer:
        """Return the authorizer of a server for the running event loop.

        Raises:
            ValueError: No token may be sent to that URL.
        """
        ...


def _authorizers_of(auth: object) -> HasAuthorizers | None:
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


Auth: TypeAlias = (
    "httpx2.Auth | tuple[str, str] | Callable[[httpx2.Request], httpx2.Request] | HasAuthorizers"
)
"""Values of `auth=`."""


class HttpTransportOptions(TypedDict, total=False):
    """Options of HTTP transports; see `HttpEndpoint`."""

    headers: Mapping[str, str] | None
    token: str | Callable[[], str | Awaitable[str]] | None
    auth: Auth | None
    verify: bool | str | Path | ssl.SSLContext
    cert: str | Path | tuple[str | Path, ...] | None
    proxy: str | None
    trust_env: bool
    http_client: httpx2.AsyncClient | None
    app: ASGIApp | None
    connect_timeout: float
    max_answer: int


class HttpEndpoint:
    """Sends HTTP requests to one URL.

    Redirects are followed if they keep method and body (307, 308) and lead to the same origin, so that no other server
    receives credentials or messages.

    Args:
        url: The URL.
        headers: The headers of each request.
        token: The bearer token of each request, or a function that returns it, called for each request.
        auth: An `Authorization`, such as `OAuth`; or an authentication of httpx2: an `httpx2.Auth`, user and password,
            or a function.
        verify: Whether the server's certificate is verified; or a file or folder of certificate authorities, or an
            `SSLContext`.
        cert: A file with the client's certificate and key; or two files, and the key's password as a third item.
        proxy: The URL of a proxy. None takes that of the environment.
        trust_env: Whether environment variables may name proxies and certificate authorities (`HTTPS_PROXY`,
            `NO_PROXY`, `SSL_CERT_FILE`).
        http_client: A client to use, with its own settings for TLS, proxies and connections. It is not closed.
        app: An ASGI app in this process to use in place of a server.
        connect_timeout: The time limit of a connection in seconds.
        max_answer: The most bytes of one message from the server, after decompression.

    Attributes:
        origin: Scheme, host and port of the URL.
        connect_timeout: The time limit of a connection in seconds.
        has_credentials: Whether requests carry credentials.
        max_answer: The most bytes of one message from the server.
        authorizer: The authorizer of an open endpoint, if `auth` is an `Authorization`.
        reauthorized: Called when requests carry another token from now on.
        errors: The exceptions of httpx2 for failed exchanges, available while the endpoint is open.

    Raises:
        ValueError: The URL is not an HTTP URL, a header cannot be sent, or options contradict each other.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | Callable[[], str | Awaitable[str]] | None = None,
        auth: Auth | None = None,
        verify: bool | str | Path | ssl.SSLContext = True,
        cert: str | Path | tuple[str | Path, ...] | None = None,
        proxy: str | None = None,
        trust_env: bool = True,
        http_client: httpx2.AsyncClient | None = None,
        app: ASGIApp | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        check_seconds("connect_timeout", connect_timeout)
        check_count("max_answer", max_answer)
        try:
            parts = urlsplit(url)
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            raise ValueError(_NO_URL) from None  # its message may contain a part of a password
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(_NO_URL)
        if (http_client, app) != (None, None) and (
            proxy is not None or cert is not None or verify is not True
        ):
            raise ValueError(
                "verify=, cert= and proxy= cannot be combined with http_client= or app=. Configure that client instead"
            )
        if http_client is not None and app is not None:
            raise ValueError("http_client= and app= cannot be combined. Pass one of them")
        if proxy is not None and urlsplit(str(proxy)).scheme not in _PROXIES:
            raise ValueError(
                "proxy= must be a URL that begins with http://, https://, socks5:// or socks5h:// and has a host"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        netloc = host + port
        self.origin = f"{parts.scheme}://{netloc}"
        self.connect_timeout = connect_timeout
        self.max_answer = max_answer
        self._app = app
        self._url = urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
        if auth is None and parts.username is not None:
            auth = (unquote(parts.username), unquote(parts.password or ""))
        self._authorization = _authorizers_of(auth)
        self._auth = None if isinstance(auth, HasAuthorizers) else auth
        self._headers = check_headers(headers or {})
        own = [name for name, _ in self._headers if name.lower() == b"authorization"]
        credentials = [each for each in (auth, token, *own) if each is not None]
        self.has_credentials = bool(credentials)
        if len(credentials) > 1:
            raise ValueError("pass only one of token=, auth=, a user in the URL and the header Authorization")
        if http_client is not None and not hasattr(http_client, "is_closed"):
            raise TypeError(f"http_client must be an httpx2.AsyncClient, got {http_client!r}")
        if not isinstance(token, str):
            check_function("token", token, "no arguments that returns the token", or_else="or a string")
        self._token = token if callable(token) else None
        if isinstance(token, str):
            self._headers.append(bearer_header(token))
        self._verify = verify
        self._cert = cert
        self._proxy = proxy
        self._trust_env = trust_env
        self._user_client = http_client
        self._timeouts = {"connect": connect_timeout, "pool": connect_timeout, "read": None, "write": None}
        self._client: httpx2.AsyncClient | None = None
        self._client_for_others: httpx2.AsyncClient | None = None
        self.authorizer: Authorizer | None = None
        self.reauthorized: Listeners[[]] = Listeners()
        self._remove_listener: Callable[[], object] | None = None

    def open(self) -> None:
        """Create the httpx2 client. Nothing is connected yet.

        Raises:
            ImportError: httpx2 is not installed.
            ValueError: The URL, or that of the proxy, is invalid.
            OSError: A file of `verify` or `cert` cannot be read.
            TransportError: `http_client` is closed.
        """
        try:
            import httpx2
        except ImportError as error:
            raise ImportError(
                missing_package("connecting to a URL", "httpx2", "client"), name=error.name
            ) from error
        self._httpx2 = httpx2
        if self._authorization is not None:
            self.authorizer = self._authorization.authorizer(self._url)
            self._remove_listener = self.authorizer.renewed.add(self.reauthorized.notify)
        self.errors = (httpx2.HTTPError, OSError)
        try:
            self._target = httpx2.URL(self._url)
        except httpx2.InvalidURL:
            raise ValueError(_NO_URL) from None
        if self._user_client is not None:
            if self._user_client.is_closed:
                raise TransportError("the http_client is closed. Pass an open one", may_have_begun=False)
            self._client = self._user_client
        elif self._app is not None:
            from .asgi_transport import AsgiTransport

            self._client = httpx2.AsyncClient(transport=AsgiTransport(self._app), trust_env=False)
        else:
            # Without TLS no certificate authorities are needed, whose loading takes 20 ms.
            self._client = self._new_client(is_encrypted=self._target.scheme == "https")
        self._default_headers: Pairs = [(b"Accept-Encoding", b"gzip, deflate"), *self._headers]
        if self._client is not self._user_client:
            own = {name.lower() for name, _ in self._headers}
            defaults = {
                b"Host": self._target.netloc,
                b"Connection": b"keep-alive",
                b"User-Agent": b"mcpkit/" + __version__.encode(),
            }
            self._default_headers += [
                (name, value) for name, value in defaults.items() if name.lower() not in own
            ]

    def _new_client(
        self, *, is_encrypted: bool, app: httpx2.AsyncBaseTransport | None = None
    ) -> httpx2.AsyncClient:
        from ..._utils import http_proxies

        return http_proxies.client(
            tls_context(self._verify, self._cert, trust_env=self._trust_env) if is_encrypted else False,
            proxy=self._proxy,
            trust_env=self._trust_env,
            limits=self._httpx2.Limits(
                max_connections=None,  # open streams must not make calls wait
                max_keepalive_connections=_IDLE_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            ),
            mounts=None if app is None else {self.origin: app},
        )

    def for_others(self) -> httpx2.AsyncClient:
        """Return the HTTP client for requests to other servers with the same settings.

        Raises:
            TransportError: The endpoint is not open.
        """
        client = self._open_client()
        if client is self._user_client or (self._app is None and self._target.scheme == "https"):
            return client
        if self._client_for_others is None:
            from .asgi_transport import AsgiTransport

            app = None if self._app is None else AsgiTransport(self._app)
            self._client_for_others = self._new_client(is_encrypted=True, app=app)
        return self._client_for_others

    def _open_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            raise TransportError(
                f"the transport to {self.origin} is closed. Open the client first: `async with Client(...)`",
                may_have_begun=False,
            )
        return self._client

    @property
    def own_headers(self) -> Mapping[str, str]:
        """The headers of each request to the server's origin."""
        return {name.decode("ascii"): value.decode("latin-1") for name, value in self._headers}

    async def close(self) -> None:
        """Close the connections, except those of a given `http_client`. Closing it again does nothing."""
        clients = (self._client, self._client_for_others)
        self._client = self._client_for_others = self.authorizer = None
        if self._remove_listener is not None:
            self._remove_listener()
        for client in clients:
            if client is not None and client is not self._user_client:
                await client.aclose()

    async def request(
        self,
        method: str,
        headers: Pairs,
        content: bytes = b"",
        url: httpx2.URL | None = None,
        *,
        may_ask: bool = True,
    ) -> httpx2.Response:
        """Send a request and return the response. The caller reads its body and closes it.

        Args:
            method: The HTTP method.
            headers: Additional headers.
            content: The body.
            url: Another URL of the same origin.
            may_ask: Whether a user may be asked to log in. False for requests that no user waits for.

        Raises:
            TransportError: There was no response.
        """
        client = self._open_client()
        target = self._target if url is None else url
        if self._token is not None:
            token = self._token()
            headers = [*headers, bearer_header(token if isinstance(token, str) else await token)]
        if self.authorizer is None:
            return await self._follow_redirects(client, method, target, headers, content)
        return await self.authorizer.send(
            self,
            lambda more: self._follow_redirects(client, method, target, [*headers, *more], content),
            method,
            str(target),
            content,
            may_ask=may_ask,
        )

    async def _follow_redirects(
        self, client: httpx2.AsyncClient, method: str, url: httpx2.URL, headers: Pairs, content: bytes
    ) -> httpx2.Response:
        for _ in range(_MOST_REDIRECTS):
            response = await self._send(client, method, url, headers, content)
            if response.status_code not in {307, 308}:
                return response
            location = response.headers.get("location")
            target = None if location is None else self.within_origin(url, location)
            if target is None:
                return response
            try:
                await self.read_beginning(response)
            finally:
                await response.aclose()
            url = target
        raise TransportError(
            f"{self.origin} redirects in a loop. Check the URL of the server",
            may_have_begun=False,
            may_pass=False,
        )

    async def _send(
        self, client: httpx2.AsyncClient, method: str, url: httpx2.URL, headers: Pairs, content: bytes
    ) -> httpx2.Response:
        httpx2 = self._httpx2
        extensions = {"timeout": self._timeouts}
        headers = [*self._default_headers, *headers]
        if client is self._user_client:  # with its current headers and cookies
            request = client.build_request(
                method, url, headers=headers, content=content or None, extensions=extensions
            )
        else:
            if content:
                headers.append((b"Content-Length", b"%d" % len(content)))
            request = httpx2.Request(
                method,
                url,
                headers=headers,
                cookies=client.cookies,
                stream=httpx2.ByteStream(content),
                extensions=extensions,
            )
        auth = httpx2.USE_CLIENT_DEFAULT if self._auth is None and self.authorizer is None else self._auth
        try:
            response = await client.send(request, stream=True, auth=auth, follow_redirects=False)
        except TransportError:  # raised by an app in this process
            raise
        except self.errors as error:
            raise self.error_for(error) from error
        if client is not self._user_client and len(client.cookies) > _MOST_COOKIES:
            client.cookies.clear()  # the server sets another one each time
        return response

    def within_origin(self, url: httpx2.URL, reference: str) -> httpx2.URL | None:
        """Resolve a reference at a URL; None if it is invalid or leads to another origin."""
        try:
            target = url.join(reference)
        except (self._httpx2.InvalidURL, ValueError):  # the latter for an invalid address in brackets
            return None
        is_same_origin = (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port)
        return target if is_same_origin and not target.userinfo else None

    def error_for(self, error: BaseException) -> TransportError:
        """Return the transport error for an exception of httpx2."""
        return connection_error(error, self.origin, self.connect_timeout, self._by_proxy)

    def _by_proxy(self) -> str:
        """Return the proxy in use, in words; empty if there is none, or the given `http_client` sets it."""
        if self._user_client is not None or self._app is not None:
            return ""
        if self._proxy is not None:
            return " through the proxy given as proxy="
        from urllib.request import getproxies, proxy_bypass

        scheme, proxies = self._target.scheme, getproxies() if self._trust_env else {}
        if not (proxies.get(scheme) or proxies.get("all")) or proxy_bypass(self._target.host):
            return ""
        from ..._utils.http_proxies import proxy_variable

        variable = proxy_variable(scheme if proxies.get(scheme) else "all")
        return f" through the proxy of the environment variable {variable} (trust_env=False ignores it)"

    def check_coding(self, response: httpx2.Response) -> None:
        """Raise an error for a content coding that httpx2 might not decompress in bounded pieces.

        Raises:
            TransportError: The body has a content coding that was not requested.
        """
        coding = header(response, b"content-encoding").strip().lower()
        if coding not in _CODINGS:
            shown = coding[:60].decode("ascii", "backslashreplace")
            raise TransportError(
                f"{self.origin} sent a response with the content coding {shown!r}, which the client did not accept",
                may_have_begun=True,
                may_pass=False,
            )

    # Bodies of responses

    async def finish(self, response: httpx2.Response) -> None:
        """Read a complete response to its end, so that its connection can be used again, and close it."""
        try:
            with suppress(TransportError, TimeoutError):  # nothing is missing
                await within(FINISH_TIME, self.read_beginning(response))
        finally:
            await response.aclose()

    async def read(self, response: httpx2.Response) -> bytes:
        """Return the body of a response.

        Raises:
            TransportError: The body is too large or incomplete.
        """
        body = await self.read_beginning(response, self.max_answer + 1)
        if len(body) > self.max_answer:
            raise self.too_large()
        return body

    async def read_beginning(self, response: httpx2.Response, max_size: int = _MOST_ERROR_BYTES) -> bytes:
        """Return the first bytes of a body.

        Raises:
            TransportError: The connection was lost before.
        """
        self.check_coding(response)
        parts: list[bytes] = []
        size = 0
        try:
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    parts.append(piece)
                    size += len(piece)
                    if size >= max_size:
                        break
        except self.errors as error:
            raise self.error_for(error) from error
        return b"".join(parts)[:max_size]

    def too_large(self) -> TransportError:
        """Return the error for a message that is too large."""
        return TransportError(
            f"{self.origin} sent a message of more than {self.max_answer:,} bytes, the limit. Raise max_answer=",
            may_have_begun=True,
            may_pass=False,
        )

    async def error_response(self, response: httpx2.Response) -> ErrorResponse:
        """Read an error response. Missing parts of its body are ignored."""
        body = await self._read_available(response)
        return ErrorResponse(response, body, self.origin, has_credentials=self.has_credentials)

    async def unexpected_response(self, response: httpx2.Response) -> StatusError:
        """Read a successful response without JSON-RPC messages, and return the error for it."""
        return unexpected_response(response, await self._read_available(response), self.origin)

    async def _read_available(self, response: httpx2.Response) -> bytes:
        try:
            return await self.read_beginning(response)
        except TransportError:
            return b""


# TLS


def tls_context(
    verify: bool | str | Path | ssl.SSLContext,
    cert: str | Path | tuple[str | Path, ...] | None,
    *,
    trust_env: bool,
) -> ssl.SSLContext:
    """Return the TLS context of connections, as httpx2 itself no longer accepts files.

    Args:
        verify: Whether certificates are verified; or a file or folder of certificate authorities; or a context.
        cert: A file with the client's certificate and key; or two files, and the key's password as a third item.
        trust_env: Whether environment variables may name certificate authorities.

    Raises:
        FileNotFoundError: There is no such file or folder.
        OSError: The file cannot be read.
        ValueError: The file has no certificate or key.
        TypeError: The value is not a path.
    """
    import ssl

    import httpx2

    if isinstance(verify, ssl.SSLContext):
        context = verify
    elif isinstance(verify, bool):
        context = httpx2.create_ssl_context(verify=verify, trust_env=trust_env)
    else:
        path = _existing_path("verify", verify)
        try:
            is_folder = Path(path).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_folder else path, capath=path if is_folder else None
            )
        except ssl.SSLError as error:
            raise ValueError(f"verify={path!r} contains no certificates of authorities: {error}") from error
    if cert is not None:
        files, password = (cert[:2], cert[2:]) if isinstance(cert, tuple) else ((cert,), ())
        paths = [_existing_path("cert", each) for each in files]
        try:
            context.load_cert_chain(*paths, *map(str, password))
        except ssl.SSLError as error:
            raise ValueError(f"cert={paths} contains no certificate with its private key: {error}") from error
    return context


def _existing_path(option: str, path: object) -> str:
    """Return the path in an option, after checking that it exists."""
    if not isinstance(path, str | Path):
        raise TypeError(f"{option} must be a path, got {path!r}")
    if not Path(path).exists():
        raise FileNotFoundError(f"{option}={str(path)!r}: the file does not exist")
    return str(path)
