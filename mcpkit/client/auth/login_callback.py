"""The user's browser in a login: opens pages, and receives the redirect at a port of this machine (RFC 8252)."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from errno import EADDRINUSE
from hmac import compare_digest
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qs, parse_qsl, urlsplit

from typing_extensions import Self

from ..._utils.option_checks import check_count, check_function, check_seconds
from ...execution.coroutines import within
from .authorization_server_client import AuthorizationFailedError

OpenBrowser = Callable[[str], Awaitable[object] | object]
"""Shows the user the page at a URL; it may be `async`."""

LOGIN_TIMEOUT: Final = 300.0
"""Seconds that a user has for a login."""

_PAGE_URL: Final = re.compile(r"https?://[A-Za-z0-9\[][#&+,./0-9:;=?@A-Z\[\]_a-z~%-]*")
"""URLs without characters that browsers or shells may interpret."""
_PATH: Final = re.compile(r"/[!-~]*")
_ADDRESSES: Final[Mapping[str, tuple[str, ...]]] = {
    "127.0.0.1": ("127.0.0.1",),
    "::1": ("::1",),
    "localhost": ("127.0.0.1", "::1"),  # browsers connect to either
}
_MAX_CONNECTIONS: Final = 32
_REQUEST_TIMEOUT: Final = 10.0
"""Seconds in which a connection must have sent its request. Browsers open some connections that never send one."""
_MAX_HEAD: Final = 32 * 1024
"""The most bytes of the head of a request. Some servers have long codes."""
_MAX_PARAMETERS: Final = 50
_REQUEST_LINE: Final = re.compile(rb"([A-Za-z]{1,20}) (/[!-~]*) HTTP/1\.[01]")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_UNIQUE: Final = ("code", "error", "iss", "state")
"""Parameters that must not be repeated."""
_TITLE: Final = "You can close this page"
_TEXT: Final = "The program that started the login has received the response."
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""


class RedirectReceiver(Protocol):
    """Receives the response of an authorization server at a redirect URI."""

    @property
    def redirect_uri(self) -> str:
        """The redirect URI."""
        ...

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        """Show the user the authorization page, and return the query parameters of the redirect.

        Args:
            url: The URL of the page: `https`, or `http` of this machine.
            state: The `state` of the request. Redirects without it, or with another one, are ignored.

        Returns:
            The query parameters, each of which occurred once.

        Raises:
            AuthorizationFailedError: The page cannot be shown, or the user did not finish in time.
        """
        ...


class Browser(Protocol):
    """Shows pages of authorization servers to the user. The page is not requested before the user sees it."""

    def receive_redirect(
        self, registered: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[RedirectReceiver]:
        """Wait for a redirect until the context is left.

        Args:
            registered: The redirect URIs that the client has registered. If it has none, or none of them is free, the
                receiver has another `redirect_uri`.

        Returns:
            A context manager with the receiver of the redirect.

        Raises:
            AuthorizationFailedError: No redirect can be received.
        """
        ...


# Opening a page


async def open_browser(url: str) -> None:
    """Open a page in the user's browser, or print its URL to standard error if no browser can be seen.

    Args:
        url: The URL of the page.

    Raises:
        ValueError: It is not the URL of a web page.
    """
    check_page(url)
    if is_headless() or not await asyncio.to_thread(_open, url):
        sys.stderr.write(f"{login_instructions(url)}\n")
        sys.stderr.flush()


def check_page(url: str) -> None:
    """Check that a URL is that of a web page: servers choose it, and it is passed to local programs.

    Raises:
        ValueError: It is not.
    """
    if _PAGE_URL.fullmatch(url) is None:
        raise ValueError(
            "the URL of the login page must begin with https:// and contain only printable ASCII"
        )


def is_headless() -> bool:
    """Return whether the user cannot see a browser: over SSH, or without a display."""
    if os.environ.get("BROWSER"):
        return False
    always_has_display = sys.platform in {"win32", "darwin"} and "SSH_CONNECTION" not in os.environ
    return not (always_has_display or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def login_instructions(url: str) -> str:
    """Return the text with the URL to visit, and instructions for another machine."""
    text = f"To log in, open this page:\n\n    {url}\n"
    [redirect_uri, *_] = parse_qs(urlsplit(url).query).get("redirect_uri", [""])
    port = urlsplit(redirect_uri).port if redirect_uri.startswith("http:") else None
    if port is not None and "SSH_CONNECTION" in os.environ:
        text += (
            f"\nIf the browser runs on another machine, first connect with ssh -L {port}:127.0.0.1:{port}\n"
        )
    return text


def _open(url: str) -> bool:
    import webbrowser

    try:
        controller = webbrowser.get()
        is_in_terminal = isinstance(controller, webbrowser.GenericBrowser) and not isinstance(
            controller, webbrowser.BackgroundBrowser
        )
        if is_in_terminal and not os.environ.get("BROWSER"):
            return False  # it would take over the terminal of this program
        return controller.open(url)
    except (webbrowser.Error, OSError):
        return False


# The request of the redirect


class ExpectedRedirect(NamedTuple):
    """The expected redirect.

    Attributes:
        host: Its host and port.
        path: Its path.
        state: The `state` of the authorization request, which only its recipients know. Empty before that request.
    """

    host: str
    path: str
    state: str


class UnexpectedRequestError(Exception):
    """A request is not the expected redirect.

    Args:
        status: The HTTP status of the response.
        message: The text of the response.
    """

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def parse_redirect(head: bytes, expected: ExpectedRedirect) -> Mapping[str, str]:
    """Return the query parameters of the expected redirect.

    Args:
        head: The request up to the empty line.
        expected: The expected redirect.

    Raises:
        UnexpectedRequestError: It is another request.
    """
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    request_line = _REQUEST_LINE.fullmatch(first)
    fields = [match for line in lines if (match := _FIELD.fullmatch(line)) is not None]
    if request_line is None or len(fields) < len(lines):
        raise UnexpectedRequestError("400 Bad Request", "This is not a valid HTTP request.")
    hosts = [field[2].strip().lower() for field in fields if field[1].lower() == b"host"]
    if hosts != [expected.host.lower().encode()]:
        # A web page can make its own name resolve to this machine (DNS rebinding); its requests have that name.
        raise UnexpectedRequestError(
            "421 Misdirected Request", "The Host header is not that of the redirect URI."
        )
    path, _, query = request_line[2].decode("ascii").partition("?")
    if path != expected.path:
        raise UnexpectedRequestError("404 Not Found", "There is no page at this path.")
    if request_line[1] != b"GET":
        raise UnexpectedRequestError("405 Method Not Allowed", "This page only supports GET.")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS, errors="strict")
    except ValueError:
        raise UnexpectedRequestError("400 Bad Request", "The query of the URL is malformed.") from None
    names, parameters = [name for name, _ in pairs], dict(pairs)
    is_ambiguous = any(names.count(name) > 1 for name in _UNIQUE)
    if is_ambiguous or ("code" in parameters) == ("error" in parameters):
        raise UnexpectedRequestError("400 Bad Request", "This is not an authorization response.")
    state = expected.state.encode()
    if not state or not compare_digest(parameters.get("state", "").encode(), state):
        raise UnexpectedRequestError(
            "400 Bad Request", "This authorization response belongs to another login. Start the login again."
        )
    return parameters


def _page(status: str, title: str, text: str) -> bytes:
    """Return a response with a page for the user that loads and links nothing.

    Args:
        status: The HTTP status with its phrase.
        title: The title, a fixed text without any part of the request.
        text: Instructions for the user, also a fixed text.
    """
    body = _PAGE.format(title=title, text=text).encode()
    allow = "Allow: GET\r\n" if status.startswith("405") else ""
    head = (
        f"HTTP/1.1 {status}\r\n"
        f"{allow}"
        "Content-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Referrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "X-Frame-Options: DENY\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


# The listener


def is_loopback_redirect(uri: str) -> bool:
    """Return whether a redirect URI leads to this machine, so that this process can receive the redirect."""
    try:
        parts = urlsplit(uri)
        is_here = parts.scheme == "http" and parts.hostname in _ADDRESSES and parts.port != 0
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    return is_here and is_plain and _PATH.fullmatch(parts.path or "/") is not None


class RedirectListener:
    """Listens for the response to one authorization request, while its context is open.

    Other requests are refused: those with another path, method, Host or state, and those that are too large.

    Args:
        redirect_uri: The redirect URI: `http://127.0.0.1:PORT/PATH`, or with `localhost` or `[::1]`. Without a port it
            takes a free one.
        timeout: Seconds that the user has for the login.
        open_browser: Shows the user a page.

    Attributes:
        redirect_uri: The redirect URI, with its port once the context has been entered.

    Raises:
        ValueError: The URI does not lead to this machine.
    """

    def __init__(
        self, redirect_uri: str, timeout: float = LOGIN_TIMEOUT, open_browser: OpenBrowser = open_browser
    ) -> None:
        if not is_loopback_redirect(redirect_uri):
            raise ValueError(
                f"the redirect URI {redirect_uri!r} does not lead to this machine. Use http://127.0.0.1,"
                " http://localhost or http://[::1] with a path and an optional port"
            )
        self.redirect_uri = redirect_uri
        self._timeout = timeout
        self._open_browser = open_browser
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            OSError: The port is in use.
        """
        self._response: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        sockets = _bind(self.redirect_uri)
        parts = urlsplit(self.redirect_uri)
        host = f"[{parts.hostname}]" if parts.hostname == "::1" else parts.hostname
        netloc = f"{host}:{sockets[0].getsockname()[1]}"
        self.redirect_uri = f"http://{netloc}{parts.path}"
        # Browsers leave out the default port of the scheme.
        self._expected = ExpectedRedirect(netloc.removesuffix(":80"), parts.path or "/", "")
        try:
            for each in sockets:
                server = await asyncio.start_server(self._accept, sock=each, limit=_MAX_HEAD)
                self._servers.append(server)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        connections = dict(self._connections)
        for task in connections:
            task.cancel()
        for task, writer in connections.items():
            await asyncio.wait([task])
            with suppress(OSError):
                await writer.wait_closed()
        for server in servers:
            await server.wait_closed()

    def expect(self, state: str) -> None:
        """Accept the redirect with this `state` from now on. No redirect is accepted before.

        Raises:
            ValueError: The state is too short to be a secret.
        """
        if len(state) < 16:
            raise ValueError(
                "state must be a secret of at least 16 characters, such as secrets.token_urlsafe()"
            )
        self._expected = self._expected._replace(state=state)

    async def redirect(self) -> Mapping[str, str]:
        """Wait for the redirect and return its parameters: `code` or `error`, `state`, and possibly `iss`."""
        return await asyncio.shield(self._response)

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        """Open the page, and return the query parameters of the redirect."""
        try:
            check_page(url)
        except ValueError as error:
            raise AuthorizationFailedError(str(error)) from error
        self.expect(state)
        try:
            return await within(self._timeout, self._visit(url))
        except TimeoutError:
            raise AuthorizationFailedError(
                f"the login was not completed within {self._timeout:g} s. Log in again", may_pass=True
            ) from None

    async def _visit(self, url: str) -> Mapping[str, str]:
        if inspect.iscoroutinefunction(self._open_browser):
            await self._open_browser(url)
        else:
            # In a thread, because it may wait for the browser, which gets its page from this event loop.
            result = await asyncio.to_thread(self._open_browser, url)
            if inspect.isawaitable(result):
                await result
        return await self.redirect()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(lambda task: self._connections.pop(task).close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):
            await within(_REQUEST_TIMEOUT, self._respond(reader, writer))

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parameters: Mapping[str, str] | None = None
        try:
            parameters = parse_redirect(await reader.readuntil(b"\r\n\r\n"), self._expected)
            if self._response.done():
                raise UnexpectedRequestError("410 Gone", "This login is already complete.")
            page = _page("200 OK", _TITLE, _TEXT)
        except UnexpectedRequestError as error:
            parameters = None
            page = _page(error.status, "Unexpected request", error.message)
        except asyncio.LimitOverrunError:
            status, text = "431 Request Header Fields Too Large", "The request header is too long."
            page = _page(status, "Unexpected request", text)
        except asyncio.IncompleteReadError:
            return
        writer.write(page)
        if parameters is not None:
            self._response.set_result(parameters)
        writer.write_eof()
        while await reader.read(_MAX_HEAD):
            pass  # if a connection is closed with unread data, the other side may lose the response


def _bind(uri: str) -> list[socket.socket]:
    """Return sockets at the addresses of a URI, all with one port.

    Raises:
        OSError: The port is in use.
    """
    parts = urlsplit(uri)
    port = parts.port or 0
    sockets: list[socket.socket] = []
    try:
        for address in _ADDRESSES[str(parts.hostname)]:
            each = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            try:
                if sys.platform == "win32":  # where another process could bind the port, too
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
                else:  # so that the port of the last login can be used again at once
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                each.bind((address, port))
            except OSError as error:
                each.close()
                if sockets and error.errno != EADDRINUSE:
                    continue  # a machine without IPv6
                raise
            sockets.append(each)
            port = each.getsockname()[1]
    except OSError as error:
        for each in sockets:
            each.close()
        raise OSError(
            error.errno,
            f"cannot listen on {uri} for the authorization response: {error.strerror or error}. Use another port",
        ) from error
    return sockets


class LocalCallbackServer:
    """Opens pages in the user's browser, and receives the redirect on a port of this machine (RFC 8252).

        Client(url, auth=OAuth(browser=LocalCallbackServer(port=8123)))

    It listens only during a login. Without a visible browser, as over SSH, it prints the URL to standard error.

    Args:
        port: The port of the redirect URI, if the client is registered with one. 0 takes a free port.
        path: The path of the redirect URI.
        host: The host of the redirect URI: `127.0.0.1`, or `localhost` or `[::1]` if the authorization server requires
            it.
        timeout: Seconds that the user has for the login.
        open_browser: Shows the user a page in another way. It is called with the URL and may be `async`; otherwise it
            runs in a thread.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The redirect URI does not lead to this machine.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        path: str = "/callback",
        host: str = "127.0.0.1",
        timeout: float = LOGIN_TIMEOUT,
        open_browser: OpenBrowser = open_browser,
    ) -> None:
        check_count("port", port, least=0)
        check_seconds("timeout", timeout)
        check_function("open_browser", open_browser, "the URL of a page")
        self._redirect_uri = f"http://{host}{f':{port}' if port else ''}{path}"
        if not is_loopback_redirect(self._redirect_uri):
            raise ValueError(
                f"the redirect URI {self._redirect_uri!r} does not lead to this machine. Use 127.0.0.1, localhost or"
                " [::1] as host= and an absolute path, as in http://127.0.0.1:8123/callback"
            )
        self._has_port = bool(port)
        self._timeout = timeout
        self._open_browser = open_browser

    def receive_redirect(
        self, registered: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[RedirectReceiver]:
        """Listen for the redirect until the context is left.

        Args:
            registered: The redirect URIs that the client has registered. The first of them that leads to this machine
                with a free port is used, unless `port` is set.

        Returns:
            A context manager with the receiver of the redirect.

        Raises:
            AuthorizationFailedError: The port is in use.
        """
        uris = [uri for uri in registered if is_loopback_redirect(uri) and not self._has_port]
        return self._receive_redirect([*uris, self._redirect_uri])

    @asynccontextmanager
    async def _receive_redirect(self, uris: list[str]) -> AsyncGenerator[RedirectReceiver]:
        async with AsyncExitStack() as stack:
            problem = ""
            for uri in uris:
                try:
                    listener = await stack.enter_async_context(
                        RedirectListener(uri, self._timeout, self._open_browser)
                    )
                except OSError as error:
                    problem = str(error)
                else:
                    break
            else:
                raise AuthorizationFailedError(problem, may_pass=True)
            yield listener
