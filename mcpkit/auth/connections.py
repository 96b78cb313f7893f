"""Requests to the endpoints of a provider over pooled connections, with limits on size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlencode, urlsplit
from weakref import WeakKeyDictionary

from .fetching import FetchError, body_of, failure, members_of, own_client
from .urls import is_loopback

if TYPE_CHECKING:
    import httpx2

_OwnClients: TypeAlias = "dict[tuple[str, bool, bool], httpx2.AsyncClient]"


@dataclass(frozen=True)
class Answer:
    """Response of an endpoint.

    Attributes:
        url: URL of the endpoint.
        what: Name of the endpoint, for messages.
        status: The HTTP status.
    """

    url: str
    what: str
    status: int
    _response: httpx2.Response = field(repr=False)
    _body: bytes = field(repr=False)

    def members(self) -> dict[str, object]:
        """Return the JSON object of the body.

        Raises:
            FetchError: The body is not a JSON object.
        """
        return members_of(self._response, self._body, self.url, self.what)


class Connections:
    """Connections to a provider: a client for each event loop, or the client of the caller.

    Args:
        http_client: Client to use, with its TLS and proxy settings. It is not closed. None makes one for each event
            loop.
        timeout: Seconds in which a response must be complete.

    Attributes:
        open_clients: The clients made here, by event loop.
    """

    def __init__(self, http_client: httpx2.AsyncClient | None, timeout: float) -> None:
        self._http_client = http_client
        self._timeout = timeout
        self.open_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _OwnClients] = WeakKeyDictionary()

    async def post(
        self,
        url: str,
        what: str,
        form: Mapping[str, str],
        headers: Mapping[str, str],
        *,
        is_repeatable: bool = True,
    ) -> Answer:
        """Post a form, and return the response whatever its status. Redirects are not followed.

        Args:
            url: URL of the endpoint.
            what: Name of the endpoint for messages, such as "introspection at https://id.example.com".
            form: Fields of the form.
            headers: Additional headers.
            is_repeatable: Whether the request may be sent twice; see `ask`.

        Raises:
            FetchError: The endpoint sent no response.
        """
        more = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        content = urlencode(form).encode()
        return await self.ask("POST", url, what, more, content, is_repeatable=is_repeatable)

    async def ask(
        self,
        method: str,
        url: str,
        what: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        *,
        is_repeatable: bool = True,
    ) -> Answer:
        """Send a request, and return the response whatever its status.

        Args:
            method: The HTTP method.
            url: URL of the endpoint.
            what: Name of the endpoint for messages.
            headers: Additional headers.
            content: The body.
            is_repeatable: Whether the request may be sent twice. It is repeated once if a pooled connection breaks.
                Other requests use a connection of their own, unless `http_client` is given.

        Raises:
            FetchError: The endpoint sent no response.
        """
        sent = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate", **headers}
        try:
            return await asyncio.wait_for(
                self._patiently(method, url, what, sent, content, is_repeatable), self._timeout
            )
        except asyncio.TimeoutError:
            raise FetchError(f"{what}: {url} did not respond within {self._timeout:g} s") from None

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        for client in self.open_clients.pop(asyncio.get_running_loop(), {}).values():
            await client.aclose()

    async def _patiently(
        self,
        method: str,
        url: str,
        what: str,
        headers: Mapping[str, str],
        content: bytes | None,
        is_repeatable: bool,
    ) -> Answer:
        """Send a request, and repeat it once if a pooled connection breaks."""
        import httpx2

        client = self._http_client or self._own_client(url, keeps_connections=is_repeatable)
        if client.is_closed:
            raise FetchError(f"{what}: http_client= is closed. Pass an open client")
        for is_last in (False, True) if is_repeatable else (True,):
            try:
                async with client.stream(
                    method, url, content=content, headers=headers, follow_redirects=False
                ) as response:
                    body = await body_of(response, url, what)
                    return Answer(url, what, response.status_code, response, body)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                if is_last:
                    raise FetchError(f"{what}: {failure(error, url)}") from None
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                raise FetchError(f"{what}: {failure(error, url)}") from None
        raise AssertionError

    def _own_client(self, url: str, *, keeps_connections: bool) -> httpx2.AsyncClient:
        """Return the client for a URL. Plain http and loopback URLs have clients of their own."""
        parts = urlsplit(url)
        clients = self.open_clients.setdefault(asyncio.get_running_loop(), {})
        kind = (parts.scheme, is_loopback(parts.hostname), keeps_connections)
        if kind not in clients:
            clients[kind] = own_client(url, keeps_connections=keeps_connections)
        return clients[kind]
