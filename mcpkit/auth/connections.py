"""Requests to a provider's endpoints, bounded in size and time, by connections that are kept."""

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
    """What an endpoint has answered.

    Attributes:
        url: The endpoint.
        what: What it is, for messages.
        status: The HTTP status.
    """

    url: str
    what: str
    status: int
    _response: httpx2.Response = field(repr=False)
    _body: bytes = field(repr=False)

    def members(self) -> dict[str, object]:
        """Return the JSON object that has been answered.

        Raises:
            FetchError: It is none.
        """
        return members_of(self._response, self._body, self.url, self.what)


class Connections:
    """The connections to a provider, of each event loop its own, or a client of the author's.

    Args:
        http_client: The author's, which says all about TLS and proxies, and is not closed.
        timeout: Seconds in which each answer must have come whole.

    Attributes:
        open_clients: What there is of its own, by event loop.
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
        """Post a form, and return what is answered, whatever that is; no redirect is followed.

        Args:
            url: The endpoint.
            what: What it is, for messages: "introspection at https://id.example.com".
            form: The form.
            headers: What goes along.
            is_repeatable: As `ask` has it.

        Raises:
            FetchError: There is no answer.
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
        """Send any request, and return what is answered.

        Args:
            method: The method.
            url: The endpoint.
            what: What it is, for messages.
            headers: What goes along.
            content: The body.
            is_repeatable: Whether it may be sent twice. It is where a connection breaks that was kept too long; what
                may not goes over one of its own, unless the author's client has one.

        Raises:
            FetchError: There is no answer.
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
        """Ask; where a connection has broken that was kept too long, once more."""
        import httpx2

        client = self._http_client or self._own_client(url, keeps_connections=is_repeatable)
        if client.is_closed:
            raise FetchError(f"{what}: http_client= is closed")
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
        """Return the client for a URL: what is not encrypted, or is here, is asked in another way than the rest."""
        parts = urlsplit(url)
        clients = self.open_clients.setdefault(asyncio.get_running_loop(), {})
        kind = (parts.scheme, is_loopback(parts.hostname), keeps_connections)
        if kind not in clients:
            clients[kind] = own_client(url, keeps_connections=keeps_connections)
        return clients[kind]
