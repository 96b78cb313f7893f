"""Listens on this machine for the redirect at the end of a login (RFC 8252, section 7.3)."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from errno import EADDRINUSE
from typing import Final
from urllib.parse import urlsplit

from typing_extensions import Self

from ...execution.coroutines import within
from .redirect_request import MOST, Expected, RefusedError, page, redirected

_PATH: Final = re.compile(r"/[!-~]*")
_MOST_CONNECTIONS: Final = 32
_SECONDS: Final = 10.0
"""Seconds in which a connection must have sent its request. Browsers open some connections that never send one."""
_HOSTS: Final[Mapping[str, tuple[str, ...]]] = {
    "127.0.0.1": ("127.0.0.1",),
    "::1": ("::1",),
    "localhost": ("127.0.0.1", "::1"),  # browsers take either
}
_TITLE = "You can close this page"
_TEXT = "The program that started the login has received the response."


class RedirectListener:
    """Listens for the response to one authorization request, while its context is open.

    Other requests are refused: those with another path, method, Host or state, and those that are too large.

    Args:
        redirect_uri: The redirect URI: `http://127.0.0.1:PORT/PATH`, or with `localhost` or `[::1]`. Without a port it
            takes a free one.

    Attributes:
        redirect_uri: The redirect URI, with its port once the context has been entered.

    Raises:
        ValueError: The URI does not lead to this machine.
    """

    def __init__(self, redirect_uri: str) -> None:
        if not is_loopback_redirect(redirect_uri):
            raise ValueError(
                f"the redirect URI {redirect_uri!r} does not lead to this machine. Use http://127.0.0.1,"
                " http://localhost or http://[::1] with a path and an optional port"
            )
        self.redirect_uri = redirect_uri
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            OSError: The port is in use.
        """
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        sockets = _bound(self.redirect_uri)
        parts = urlsplit(self.redirect_uri)
        host = f"[{parts.hostname}]" if parts.hostname == "::1" else parts.hostname
        netloc = f"{host}:{sockets[0].getsockname()[1]}"
        self.redirect_uri = f"http://{netloc}{parts.path}"
        # Browsers leave out the port that is the scheme's own.
        self._expected = Expected(netloc.removesuffix(":80"), parts.path or "/", "")
        try:
            for each in sockets:
                self._servers.append(await asyncio.start_server(self._connected, sock=each, limit=MOST))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    def expect(self, state: str) -> None:
        """Accept the redirect with this `state` from now on. No redirect is accepted before.

        Raises:
            ValueError: The state is too short to be a secret.
        """
        if len(state) < 16:
            raise ValueError(
                "state must be a secret of at least 16 characters, such as secrets.token_urlsafe()"
            )
        host, path, _ = self._expected
        self._expected = Expected(host, path, state)

    async def redirect(self) -> Mapping[str, str]:
        """Wait for the redirect and return its parameters: `code` or `error`, `state`, and possibly `iss`."""
        return await asyncio.shield(self._answer)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task).close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError):
            await within(_SECONDS, self._answered(reader, writer))

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found: Mapping[str, str] | None = None
        try:
            found = redirected(await reader.readuntil(b"\r\n\r\n"), self._expected)
            if self._answer.done():
                raise RefusedError("410 Gone", "This login is already complete.")
            answer = page("200 OK", _TITLE, _TEXT)
        except RefusedError as refused:
            found = None
            answer = page(refused.status, "Unexpected request", refused.message)
        except asyncio.LimitOverrunError:
            answer = page(
                "431 Request Header Fields Too Large", "Unexpected request", "The request header is too long."
            )
        except asyncio.IncompleteReadError:
            return
        writer.write(answer)
        if found is not None:
            self._answer.set_result(found)
        writer.write_eof()
        while await reader.read(MOST):
            pass  # a connection that is closed with something unread may lose what was written

    async def _close(self) -> None:
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


def is_loopback_redirect(uri: str) -> bool:
    """Return whether a redirect URI leads to this machine, so that this process can receive the redirect."""
    try:
        parts = urlsplit(uri)
        is_here = parts.scheme == "http" and parts.hostname in _HOSTS and parts.port != 0
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    return is_here and is_plain and _PATH.fullmatch(parts.path or "/") is not None


def _bound(uri: str) -> list[socket.socket]:
    """Return sockets at the addresses of a URI, all with one port.

    Raises:
        OSError: The port is in use.
    """
    parts = urlsplit(uri)
    addresses = _HOSTS[str(parts.hostname)]
    port = parts.port or 0
    bound: list[socket.socket] = []
    try:
        for address in addresses:
            each = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            try:
                if sys.platform == "win32":  # where another process could take the port, too
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
                else:
                    each.setsockopt(
                        socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
                    )  # after an earlier login, at once
                each.bind((address, port))
            except OSError as error:
                each.close()
                if bound and error.errno != EADDRINUSE:
                    continue  # a machine without IPv6
                raise
            bound.append(each)
            port = each.getsockname()[1]
    except OSError as error:
        for each in bound:
            each.close()
        raise OSError(
            error.errno,
            f"cannot listen on {uri} for the authorization response: {error.strerror or error}. Use "
            "another port",
        ) from error
    return bound
