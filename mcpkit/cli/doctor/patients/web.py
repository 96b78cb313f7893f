"""Requests to a URL, of whose answers everything is seen."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ...._utils.package import __version__
from ....auth.http_client import describe_failure
from ....auth.urls import is_loopback
from ....auth.verifier import auth_library
from ....client.transports.http.event_stream import EventStream, TooLargeEventError
from ....execution.coroutines import within
from ....protocol.jsonrpc import Json, is_object

if TYPE_CHECKING:
    import httpx2

ACCEPTED: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
EVENTS: Final = "text/event-stream"
_MOST: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Reply:
    """An answer of HTTP.

    Attributes:
        status: Its status; 0 where there is none.
        headers: Its headers, names in lower case.
        message: The message that was waited for; None where there was none.
        problem: Why there is no answer; empty where there is one.
        kind: What kind of problem: `dns`, `refused`, `tls`, `closed` or `time`.
        seconds: How long it took.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    message: Json | None = None
    problem: str = ""
    kind: str = ""
    seconds: float = 0.0

    @property
    def type(self) -> str:
        """Its content type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def __str__(self) -> str:
        if not self.status:
            return self.problem
        return f"HTTP {self.status}" + (f" ({self.type})" if self.type else "")


class Web:
    """Sends requests to one URL.

    Args:
        url: The URL.
        headers: What goes along with each.
        patience: Seconds that each answer may take.

    Attributes:
        url: As given.
    """

    def __init__(self, url: str, headers: Mapping[str, str], patience: float) -> None:
        self.url = url
        self.patience = patience
        self._headers = headers
        self._library = auth_library("httpx2")
        self._client = self._made()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _made(self) -> httpx2.AsyncClient:
        """Return another client, whose connections are its own."""
        from ...._utils import http_proxies as proxies  # which needs httpx2

        parts = urlsplit(self.url)
        return proxies.client(
            self._library.create_ssl_context() if parts.scheme == "https" else False,
            trust_env=not is_loopback(parts.hostname),  # by which proxies are named
            limits=self._library.Limits(max_connections=100, max_keepalive_connections=20),
            headers={"User-Agent": f"mcpkit-doctor/{__version__}"},
            timeout=self.patience,
        )

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: object = None,
        *,
        is_wanted: Callable[[Json], bool] | None = None,
        is_new: bool = False,
        seconds: float | None = None,
        url: str | None = None,
    ) -> Reply:
        """Send a request, and read the answer until what is wanted.

        Args:
            method: The HTTP method.
            headers: What goes along.
            body: What is sent: bytes, or a value of JSON; None for nothing.
            is_wanted: Says whether a message of the answer is the one; None for an answer that is not read.
            is_new: Whether it goes over a new connection.
            seconds: How long to wait; None for as long as each answer may take.
            url: Where it goes; None for the URL of all.
        """
        seconds = self.patience if seconds is None else seconds
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        begun = asyncio.get_running_loop().time()
        client = self._made() if is_new else self._client
        try:
            return await within(
                seconds, self._sent(client, method, url or self.url, headers, content, is_wanted, begun)
            )
        except (TimeoutError, self._library.TimeoutException):
            return Reply(problem=f"no response within {seconds:g} s", kind="time", seconds=seconds)
        except (self._library.HTTPError, self._library.InvalidURL, OSError, TooLargeEventError) as error:
            return Reply(problem=describe_failure(error, self.url), kind=_kind(error))
        finally:
            if is_new:
                await client.aclose()

    async def _sent(
        self,
        client: httpx2.AsyncClient,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        is_wanted: Callable[[Json], bool] | None,
        begun: float,
    ) -> Reply:
        request = client.build_request(method, url, headers={**self._headers, **headers}, content=content)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            found = {name.lower(): value for name, value in response.headers.items()}
            reply = Reply(response.status_code, found)
            is_stream = reply.type == EVENTS
            message = None
            if is_wanted is not None:
                message = await _first(response, is_wanted, is_stream=is_stream)
            passed = asyncio.get_running_loop().time() - begun
            return Reply(response.status_code, found, message, seconds=passed)
        finally:
            await response.aclose()

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """Open a stream by GET, until the end of the block; whatever goes wrong is raised."""
        request = self._client.build_request(
            "GET", self.url, headers={**self._headers, **headers, "Accept": EVENTS}
        )
        request.extensions["timeout"] = {"connect": self.patience, "read": None, "write": None, "pool": None}
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()


async def _first(
    response: httpx2.Response, is_wanted: Callable[[Json], bool], *, is_stream: bool
) -> Json | None:
    """Return the first message of an answer that is wanted."""
    if is_stream:
        events = EventStream(_MOST)
        async for chunk in response.aiter_bytes():
            for event in events.feed(chunk):
                message = _object(event.data)
                if message is not None and is_wanted(message):
                    return message
        return None
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MOST:
            raise TooLargeEventError
    message = _object(bytes(body))
    return message if message is not None and is_wanted(message) else None


def _object(text: bytes) -> Json | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _kind(error: BaseException) -> str:
    """Return what kind of failure an error is, by what it comes from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "dns"
        if isinstance(cause, ssl.SSLError):
            return "tls"
        if isinstance(cause, ConnectionRefusedError):
            return "refused"
        cause = cause.__cause__ or cause.__context__
    return "refused" if isinstance(error, auth_library("httpx2").ConnectError) else "closed"
