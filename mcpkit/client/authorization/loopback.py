"""The default login: the browser of this machine, with a redirect to a local port."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

from ..._utils.option_checks import check_count, check_function, check_seconds
from ...execution.coroutines import within
from .browser import check_page, open_browser
from .errors import AuthorizationFailedError
from .redirect_listener import RedirectListener, is_loopback_redirect
from .roles import RedirectReceiver

OpenBrowser = Callable[[str], Awaitable[object] | object]
"""Shows the user the page at a URL; it may be `async`."""

LOGIN_TIMEOUT: Final = 300.0
"""Seconds that a user has for a login."""


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
        here = [uri for uri in registered if is_loopback_redirect(uri) and not self._has_port]
        return self._receive_redirect([*here, self._redirect_uri])

    @asynccontextmanager
    async def _receive_redirect(self, uris: list[str]) -> AsyncGenerator[RedirectReceiver]:
        async with AsyncExitStack() as stack:
            yield _RedirectReceiver(await _listening(stack, uris), self._timeout, self._open_browser)


async def _listening(stack: AsyncExitStack, uris: list[str]) -> RedirectListener:
    """Return a listener at the first URI with a free port."""
    problem = ""
    for uri in uris:
        try:
            return await stack.enter_async_context(RedirectListener(uri))
        except OSError as error:
            problem = str(error)
    raise AuthorizationFailedError(problem, may_pass=True)


class _RedirectReceiver:
    """Receives the redirect of the browser."""

    def __init__(self, listener: RedirectListener, timeout: float, open_browser: OpenBrowser) -> None:
        self._listener = listener
        self._timeout = timeout
        self._open_browser = open_browser

    @property
    def redirect_uri(self) -> str:
        """The redirect URI."""
        return self._listener.redirect_uri

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        """Open the page, and return the query parameters of the redirect."""
        try:
            check_page(url)
        except ValueError as error:
            raise AuthorizationFailedError(str(error)) from error
        self._listener.expect(state)
        try:
            return await within(self._timeout, self._visited(url))
        except TimeoutError:
            raise AuthorizationFailedError(
                f"the login was not completed within {self._timeout:g} s. Log in again", may_pass=True
            ) from None

    async def _visited(self, url: str) -> Mapping[str, str]:
        if inspect.iscoroutinefunction(self._open_browser):
            await self._open_browser(url)
        else:
            # Which may wait for the browser, that gets its page from here.
            shown = await asyncio.to_thread(self._open_browser, url)
            if inspect.isawaitable(shown):
                await shown
        return await self._listener.redirect()
