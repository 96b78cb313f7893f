"""HTTP requests to one URL by httpx2, which is imported when the client is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import TransportError
from ..._utils.option_checks import check_count, check_function, check_seconds
from ..._utils.package import __version__, install_command
from ...execution.coroutines import within
from .authorizer import Authorizer, GivesAuthorizers, authorized, authorizes
from .connections import connected
from .failures import failure
from .headers import Pairs, bearer, checked, header
from .tls import tls_context

if TYPE_CHECKING:
    import ssl

    import httpx2
    from starlette.types import ASGIApp

    from .options import Auth

CONNECT_TIMEOUT = 10.0
"""Default time limit of a connection in seconds."""
MAX_ANSWER = 64 * 1024 * 1024
"""Default limit of the bytes of one message from the server."""

MAX_REFUSAL = 1024 * 1024
"""The most bytes to read of an error response."""

FINISH = 0.05
"""Seconds within which a stream must end after its last event, so that the connection is kept."""
_MOST_REDIRECTS = 5
_MOST_COOKIES = 50
_CODINGS = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate"})
"""Content codings of which one piece from the network becomes so much and no more: in httpx2 of today a megabyte at a
time, before that the thousandfold, which is 64 MiB."""

_PROXIES = frozenset({"http", "https", "socks5", "socks5h"})
_NO_URL = (
    "the URL of a server must begin with http:// or https:// and have a host; a port must be at most 65535"
)


class HttpClient:
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
        authorizer: The authorizer of an open client whose `auth` is an `Authorization`.
        reauthorized: Called when requests carry another token from now on.
        failures: The exceptions of httpx2 for failed exchanges, available once the client is open.

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
            raise ValueError(_NO_URL) from None  # what it says may be a part of a password
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(_NO_URL)
        if (http_client, app) != (None, None) and (
            proxy is not None or cert is not None or verify is not True
        ):
            raise ValueError(
                "verify=, cert= and proxy= cannot be combined with http_client= or app=. Configure that "
                "client instead"
            )
        if http_client is not None and app is not None:
            raise ValueError("http_client= and app= cannot be combined. Pass one of them")
        if proxy is not None and urlsplit(str(proxy)).scheme not in _PROXIES:
            raise ValueError(
                "proxy= must be a URL that begins with http://, https://, socks5:// or socks5h:// and has "
                "a host"
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
        self._authorization = authorizes(auth)
        self._auth = None if isinstance(auth, GivesAuthorizers) else auth
        self._headers = checked(headers or {})
        ways = [auth, token, *(name for name, _ in self._headers if name.lower() == b"authorization")]
        self.has_credentials = any(way is not None for way in ways)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("pass only one of token=, auth=, a user in the URL and the header Authorization")
        if http_client is not None and not hasattr(http_client, "is_closed"):
            raise TypeError(f"http_client must be an httpx2.AsyncClient, got {http_client!r}")
        if not isinstance(token, str):
            check_function("token", token, "no arguments that returns the token", or_else="or a string")
        self._token = token if callable(token) else None
        if isinstance(token, str):
            self._headers.append(bearer(token))
        self._verify = verify
        self._cert = cert
        self._proxy = proxy
        self._trust_env = trust_env
        self._given = http_client
        self._timeouts = {"connect": connect_timeout, "pool": connect_timeout, "read": None, "write": None}
        self._client: httpx2.AsyncClient | None = None
        self._for_others: httpx2.AsyncClient | None = None
        self.authorizer: Authorizer | None = None
        self.reauthorized: Listeners[[]] = Listeners()
        self._unhear: Callable[[], object] | None = None

    def open(self) -> None:
        """Prepare for sending. Nothing is connected yet.

        Raises:
            ImportError: httpx2 is not installed.
            ValueError: The URL, or that of the proxy, is invalid.
            OSError: A file of `verify` or `cert` cannot be read.
            TransportError: The given `http_client` has been closed.
        """
        try:
            import httpx2
        except ImportError as error:
            raise ImportError(
                f"connecting to a URL needs httpx2. Run: {install_command('client')}", name=error.name
            ) from error
        self._httpx2 = httpx2
        if self._authorization is not None:
            self.authorizer = self._authorization.authorizer(self._url)
            self._unhear = self.authorizer.renewed.add(self.reauthorized.notify)
        self.failures = (httpx2.HTTPError, OSError)
        try:
            self._target = httpx2.URL(self._url)
        except httpx2.InvalidURL:
            raise ValueError(_NO_URL) from None
        if self._given is not None:
            if self._given.is_closed:
                raise TransportError("the http_client is closed. Pass an open one", may_have_begun=False)
            self._client = self._given
        elif self._app is not None:
            from .asgi import AsgiTransport

            self._client = httpx2.AsyncClient(transport=AsgiTransport(self._app), trust_env=False)
        else:
            # What is not encrypted needs no authorities, whose reading takes 20 ms.
            self._client = self._connected(is_encrypted=self._target.scheme == "https")
        self._sent_along: Pairs = [(b"Accept-Encoding", b"gzip, deflate"), *self._headers]
        if self._client is not self._given:
            given = {name.lower() for name, _ in self._headers}
            defaults = {
                b"Host": self._target.netloc,
                b"Connection": b"keep-alive",
                b"User-Agent": b"mcpkit/" + __version__.encode(),
            }
            self._sent_along += [
                (name, value) for name, value in defaults.items() if name.lower() not in given
            ]

    def _connected(
        self, *, is_encrypted: bool, app: httpx2.AsyncBaseTransport | None = None
    ) -> httpx2.AsyncClient:
        return connected(
            tls_context(self._verify, self._cert, trust_env=self._trust_env) if is_encrypted else False,
            self._proxy,
            trust_env=self._trust_env,
            mounts=None if app is None else {self.origin: app},
        )

    def for_others(self) -> httpx2.AsyncClient:
        """Return the HTTP client for requests to other servers with the same settings.

        Raises:
            TransportError: The client is not open.
        """
        if self._client is None:
            raise TransportError(
                f"the transport to {self.origin} is closed. Open the client first: `async with Client(...)`",
                may_have_begun=False,
            )
        if self._client is self._given or (self._app is None and self._target.scheme == "https"):
            return self._client
        if self._for_others is None:
            from .asgi import AsgiTransport

            app = None if self._app is None else AsgiTransport(self._app)
            self._for_others = self._connected(is_encrypted=True, app=app)
        return self._for_others

    @property
    def own_headers(self) -> Mapping[str, str]:
        """The headers of each request to the server's origin."""
        return {name.decode("ascii"): value.decode("latin-1") for name, value in self._headers}

    @property
    def is_authorizing(self) -> bool:
        """Whether an access token is being obtained, for example from a user."""
        return self.authorizer is not None and self.authorizer.is_busy

    @property
    def secrets(self) -> tuple[str, ...]:
        """The access tokens in use."""
        return () if self.authorizer is None else self.authorizer.secrets

    async def close(self) -> None:
        """Close the connections, except those of a given `http_client`. Closing it again does nothing."""
        clients = {self._client, self._for_others} - {self._given, None}
        self._client = self._for_others = self.authorizer = None
        if self._unhear is not None:
            self._unhear()
        for client in clients:
            assert client is not None
            await client.aclose()

    async def ask(
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
        client = self._client
        if client is None:
            raise TransportError(
                f"the transport to {self.origin} is closed. Open the client first: `async with Client(...)`",
                may_have_begun=False,
            )
        if url is None:
            url = self._target
        if self._token is not None:
            token = self._token()
            headers = [*headers, bearer(token if isinstance(token, str) else await token)]
        if self.authorizer is None:
            return await self._answer(client, method, url, content, headers)
        send = partial(self._answer, client, method, url, content, headers)
        return await authorized(
            self.authorizer.attempt(self, may_ask=may_ask), send, method, str(url), content
        )

    async def _answer(
        self,
        client: httpx2.AsyncClient,
        method: str,
        url: httpx2.URL,
        content: bytes,
        headers: Pairs,
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> httpx2.Response:
        headers = [*headers, *more]
        for _ in range(_MOST_REDIRECTS):
            response = await self._send(client, method, url, headers, content)
            target = self._redirected(url, response) if response.status_code in {307, 308} else None
            if target is None:
                return response
            try:
                await self.beginning(response)
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
        headers = [*self._sent_along, *headers]
        if client is self._given:  # its own headers and cookies, as they are by now
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
        except TransportError:  # of an app in this process
            raise
        except self.failures as error:
            raise self.failure(error) from error
        if client is not self._given and len(client.cookies) > _MOST_COOKIES:
            client.cookies.clear()  # as a server wants that sets another one each time
        return response

    def _redirected(self, url: httpx2.URL, response: httpx2.Response) -> httpx2.URL | None:
        """Return the target of a redirect; None if it is not followed."""
        location = response.headers.get("location")
        return None if location is None else self.within_origin(url, location)

    def within_origin(self, url: httpx2.URL, reference: str) -> httpx2.URL | None:
        """Resolve a reference at a URL; None if it is invalid or leads to another origin."""
        try:
            target = url.join(reference)
        except (self._httpx2.InvalidURL, ValueError):  # the latter for brackets that are no address
            return None
        is_same = (target.scheme, target.host, target.port) == (url.scheme, url.host, url.port)
        return target if is_same and not target.userinfo else None

    def failure(self, error: Exception) -> TransportError:
        """Return the transport error for an exception of httpx2."""
        return failure(error, self.origin, self.connect_timeout, lambda: self._by_proxy)

    @property
    def _by_proxy(self) -> str:
        """Return the proxy in use, in words; empty if there is none, or the given `http_client` sets it."""
        if self._given is not None or self._app is not None:
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
                f"{self.origin} sent a response with the content coding {shown!r}, which the client did "
                "not accept",
                may_have_begun=True,
                may_pass=False,
            )

    async def finish(self, response: httpx2.Response) -> None:
        """Read a complete response to its end, so that its connection is kept, and close it."""
        try:
            await within(FINISH, self.beginning(response))
        except (TransportError, TimeoutError):
            pass  # it has said all
        finally:
            await response.aclose()

    async def whole(self, response: httpx2.Response) -> bytes:
        """Return the body of a response.

        Raises:
            TransportError: The body is too large or incomplete.
        """
        body = await self.beginning(response, self.max_answer + 1)
        if len(body) > self.max_answer:
            raise self.too_large()
        return body

    def too_large(self) -> TransportError:
        """Return the error for a message that is too large."""
        return TransportError(
            f"{self.origin} sent a message of more than {self.max_answer:,} bytes, the limit. Raise "
            "max_answer=",
            may_have_begun=True,
            may_pass=False,
        )

    async def beginning(self, response: httpx2.Response, most: int = MAX_REFUSAL) -> bytes:
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
                    if size >= most:
                        break
        except self.failures as error:
            raise self.failure(error) from error
        return b"".join(parts)[:most]
