"""The browser of this machine, and where it comes back to: what logs users in unless something else is given."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

from ...calls.coroutines import within
from ...common.functions import check_function
from ...common.numbers import check_count, check_seconds
from .browser import check_page, open_browser
from .errors import AuthorizationFailedError
from .redirect_listener import RedirectListener, is_loopback_redirect
from .roles import RedirectReceiver

OpenBrowser = Callable[[str], Awaitable[object] | object]
"""Shows the user a page."""

LOGIN_TIMEOUT: Final = 300.0
"""Seconds that a person has for a login."""


class LocalCallbackServer:
    """Shows pages in the user's browser, and waits for it to come back to a port of this machine (RFC 8252).

        Client(url, auth=OAuth(browser=LocalCallbackServer(port=8123)))

    It listens only while a login is under way. Where there is no browser to be seen, as over SSH, it says on standard
    error which page is to be visited.

    Args:
        port: The port, where the client is registered with one; 0 for one that is free.
        path: The path of the redirect URI.
        host: The host that it names: `127.0.0.1`, or `localhost` or `[::1]` for authorization servers that want it.
        timeout: Seconds that the user has.
        open_browser: Shows the user a page in another way: called with its URL; may be `async`, and is run in a thread
            where it is not.

    Raises:
        TypeError: An argument is none of its kind.
        ValueError: Nothing leads to this machine by these.
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
        """Wait for the browser until the context is left.

        Args:
            registered: Redirect URIs that the client has registered; the first of them that leads to this machine, by a
                port that is free, is taken, unless `port=` says which one.

        Raises:
            AuthorizationFailedError: The port is taken.
        """
        here = [uri for uri in registered if is_loopback_redirect(uri) and not self._has_port]
        return self._receive_redirect([*here, self._redirect_uri])

    @asynccontextmanager
    async def _receive_redirect(self, uris: list[str]) -> AsyncGenerator[RedirectReceiver]:
        async with AsyncExitStack() as stack:
            yield _RedirectReceiver(await _listening(stack, uris), self._timeout, self._open_browser)


async def _listening(stack: AsyncExitStack, uris: list[str]) -> RedirectListener:
    """Return a listener at the first URI where there can be one."""
    problem = ""
    for uri in uris:
        try:
            return await stack.enter_async_context(RedirectListener(uri))
        except OSError as error:
            problem = str(error)
    raise AuthorizationFailedError(problem, may_pass=True)


class _RedirectReceiver:
    """Where the browser comes back to."""

    def __init__(self, listener: RedirectListener, timeout: float, open_browser: OpenBrowser) -> None:
        self._listener = listener
        self._timeout = timeout
        self._open_browser = open_browser

    @property
    def redirect_uri(self) -> str:
        """Where it waits."""
        return self._listener.redirect_uri

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        """Show the page, and return the parameters of the answer."""
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
