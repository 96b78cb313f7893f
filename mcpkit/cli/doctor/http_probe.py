"""A URL under test: raw HTTP requests, and connections by Streamable HTTP and HTTP+SSE."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from ..._utils.package import __version__
from ...auth.oauth_http_client import describe_failure
from ...auth.urls_and_discovery import is_loopback
from ...auth.verifier import auth_library
from ...client.http.event_stream_reader import EventParser, TooLargeEventError
from ...execution.coroutines import within
from ...protocol.http_headers import NAMED_BY
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import LATEST_HANDSHAKE, PROTOCOL_VERSION
from .protocol_checks import (
    ACKNOWLEDGED,
    Answer,
    Probe,
    answer_from_message,
    initialize_params,
    stateless_params,
)

if TYPE_CHECKING:
    import httpx2

ACCEPTED: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
EVENTS: Final = "text/event-stream"
_MAX_SIZE: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class HttpReply:
    """An HTTP response, or the reason why there is none.

    Attributes:
        status: Its status; 0 if there is none.
        headers: Its headers, names in lower case.
        message: The message that matches; None if there is none.
        problem: Why there is no response; empty otherwise.
        kind: The kind of problem: `dns`, `refused`, `tls`, `closed` or `time`.
        seconds: Its duration.
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

    @property
    def answer(self) -> Answer:
        """The answer in its message."""
        if self.message is None:
            return Answer(problem=str(self), seconds=self.seconds, status=self.status)
        return answer_from_message(self.message, self.seconds, self.status)

    def __str__(self) -> str:
        if not self.status:
            return self.problem
        return f"HTTP {self.status}" + (f" ({self.type})" if self.type else "")


@dataclass
class HttpProbe(Probe):
    """Server under test at a URL.

    Attributes:
        url: The URL after redirects.
        headers: Headers of each request.
        is_sse: Whether only HTTP+SSE is used.
        first: The response to the first request.
        session: The session that checks use; None if there is none.
        sse: The HTTP+SSE stream; None if it is not supported.
        notification_reply: The response to the first notification.
    """

    url: str = field(kw_only=True)
    headers: Mapping[str, str] = field(kw_only=True)
    is_sse: bool = False
    first: HttpReply = field(default_factory=HttpReply)
    session: HttpConnection | None = None
    sse: SseConnection | None = None
    notification_reply: HttpReply = field(default_factory=HttpReply)
    _clients: dict[str, httpx2.AsyncClient] = field(default_factory=dict[str, "httpx2.AsyncClient"])

    @property
    def session_id(self) -> str | None:
        """The id of the session; None if there is none."""
        return None if self.session is None else self.session.headers.get("Mcp-Session-Id")

    @property
    def has_credentials(self) -> bool:
        """True if requests have an Authorization header."""
        return any(name.lower() == "authorization" for name in self.headers)

    @property
    def http_client(self) -> httpx2.AsyncClient:
        """A client with open connections to the URL."""
        if self.url not in self._clients:
            self._clients[self.url] = self._new_client()
        return self._clients[self.url]

    def _new_client(self) -> httpx2.AsyncClient:
        library = auth_library("httpx2")
        from ..._utils import http_proxies  # it needs httpx2

        parts = urlsplit(self.url)
        verify = library.create_ssl_context() if parts.scheme == "https" else False
        return http_proxies.client(
            verify,
            trust_env=not is_loopback(parts.hostname),  # no proxies of the environment for this machine
            limits=library.Limits(max_keepalive_connections=20),
            headers={"User-Agent": f"mcpkit-doctor/{__version__}", **self.headers},
            timeout=None,  # `send` has one for the whole response
        )

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: object = None,
        *,
        matches: Callable[[Json], bool] | None = None,
        is_new: bool = False,
        seconds: float | None = None,
        url: str | None = None,
    ) -> HttpReply:
        """Send a request, and read the response up to a matching message.

        Args:
            method: The HTTP method.
            headers: More headers.
            body: Bytes or a JSON value; None for no body.
            matches: Returns whether a message is the one to wait for; None to leave the body unread.
            is_new: Whether to use a new connection.
            seconds: Timeout; None for `response_timeout`.
            url: The URL; None for that of this probe.
        """
        seconds = self.response_timeout if seconds is None else seconds
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        client = self._new_client() if is_new else self.http_client
        started_at = time.monotonic()

        async def exchange() -> HttpReply:
            request = client.build_request(method, url or self.url, headers=headers, content=content)
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                found = {name.lower(): value for name, value in response.headers.items()}
                reply = HttpReply(response.status_code, found)
                message = None if matches is None else await _first_match(response, reply.type, matches)
                return replace(reply, message=message, seconds=time.monotonic() - started_at)
            finally:
                await response.aclose()

        library = auth_library("httpx2")
        try:
            return await within(seconds, exchange())
        except (TimeoutError, library.TimeoutException):
            return HttpReply(problem=f"no response within {seconds:g} s", kind="time", seconds=seconds)
        except (library.HTTPError, library.InvalidURL, OSError, TooLargeEventError) as error:
            return HttpReply(problem=describe_failure(error, self.url), kind=_failure_kind(error))
        finally:
            if is_new:
                await client.aclose()

    async def initialize(
        self,
        revision: str = LATEST_HANDSHAKE,
        more: Mapping[str, str] | None = None,
        *,
        keeps_session: bool = False,
    ) -> HttpReply:
        """Send `initialize`, and delete the new session unless it is kept.

        Args:
            revision: The requested revision.
            more: More headers.
            keeps_session: Whether the session is kept.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params(revision)}
        seconds = self.first_timeout if keeps_session else None
        headers = {**ACCEPTED, **(more or {})}
        reply = await self.send(
            "POST", headers, body, matches=lambda each: "method" not in each, seconds=seconds
        )
        session = reply.headers.get("mcp-session-id")
        if session is not None and not keeps_session:
            await self.send("DELETE", {"Mcp-Session-Id": session, **(more or {})})
        return reply

    async def enter_session(self, reply: HttpReply) -> None:
        """Use the session of a response to `initialize`."""
        result = reply.answer.result
        if result is None:
            return
        self.initialize_result = result
        headers: dict[str, str] = {}
        version = result.get("protocolVersion")
        if isinstance(version, str) and version >= "2025-06-18":
            headers["MCP-Protocol-Version"] = version
        if (session := reply.headers.get("mcp-session-id")) is not None and session.isascii():
            headers["Mcp-Session-Id"] = session
        self.session = HttpConnection(self, headers)
        self.send_request = self.session.request
        self.notification_reply = await self.session.notify("notifications/initialized")

    async def close(self) -> None:
        """Close all connections."""
        if self.sse is not None:
            await self.sse.close()
        for client in self._clients.values():
            await client.aclose()


async def _first_match(
    response: httpx2.Response, content_type: str, matches: Callable[[Json], bool]
) -> Json | None:
    """Return the first message of a response that matches."""
    if content_type == EVENTS:
        events = EventParser(_MAX_SIZE)
        async for chunk in response.aiter_bytes():
            for event in events.feed(chunk):
                message = _parse_object(event.data)
                if message is not None and matches(message):
                    return message
        return None
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _MAX_SIZE:
            raise TooLargeEventError
    message = _parse_object(bytes(body))
    return message if message is not None and matches(message) else None


def _parse_object(text: bytes) -> Json | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _failure_kind(error: BaseException) -> str:
    """Return the kind of a failed request by the cause of the exception."""
    kinds = {socket.gaierror: "dns", ssl.SSLError: "tls", ConnectionRefusedError: "refused"}
    cause: BaseException | None = error
    while cause is not None:
        for cls, kind in kinds.items():
            if isinstance(cause, cls):
                return kind
        cause = cause.__cause__ or cause.__context__
    return "refused" if isinstance(error, auth_library("httpx2").ConnectError) else "closed"


class HttpConnection:
    """Connection by Streamable HTTP.

    Args:
        probe: Sends the requests.
        headers: Headers of each request: those of the session.

    Attributes:
        headers: Headers of each request.
        tries: How often a request is sent if the server responds that the session is unknown.
    """

    def __init__(self, probe: HttpProbe, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.tries = 1
        self._probe = probe
        self._last = 0

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: object = None,
        *,
        tries: int | None = None,
        matches: Callable[[Json], bool] | None = None,
        is_new: bool = False,
        seconds: float | None = None,
    ) -> HttpReply:
        """Send an HTTP request of the session; it is repeated while an instance does not know the session.

        Args:
            method: The HTTP method.
            headers: Headers besides those of the session.
            body: Bytes or a JSON value; None for no body.
            tries: How often it is sent; None for `tries` of the connection.
            matches: Returns whether a message is the one to wait for; None to leave the body unread.
            is_new: Whether to use a new connection.
            seconds: Timeout.
        """
        headers, reply = {**self.headers, **headers}, HttpReply()
        for _ in range(self.tries if tries is None else tries):
            reply = await self._probe.send(
                method, headers, body, matches=matches, is_new=is_new, seconds=seconds
            )
            if reply.status != 404:
                break
        return reply

    async def request(self, method: str, params: Json | None = None) -> Answer:
        """Send a request, and wait for its response."""
        return (await self.reply(method, params, tries=self.tries)).answer

    async def reply(
        self,
        method: str,
        params: Json | None = None,
        *,
        more: Mapping[str, str] | None = None,
        tries: int = 1,
        is_new: bool = False,
        seconds: float | None = None,
        ends_with: str | None = None,
    ) -> HttpReply:
        """Send a request, and return the HTTP response.

        Args:
            method: The method.
            params: Its parameters. Those of a stateless revision also determine headers.
            more: More headers.
            tries: How often it is sent if the server responds that the session is unknown.
            is_new: Whether to use a new connection.
            seconds: Timeout.
            ends_with: A notification that completes the request, too.
        """
        self._last += 1
        key, params, headers = self._last, params or {}, dict(ACCEPTED)
        if "_meta" in params:
            headers |= {"MCP-Protocol-Version": params["_meta"][PROTOCOL_VERSION], "Mcp-Method": method}
            if named := params.get(NAMED_BY.get(method, "")):
                headers["Mcp-Name"] = str(named)
        message = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}

        def matches(each: Json) -> bool:
            is_answer = "method" not in each and each.get("id") in {key, None}
            return is_answer or (ends_with is not None and each.get("method") == ends_with)

        headers |= more or {}
        return await self.send(
            "POST", headers, message, tries=tries, matches=matches, is_new=is_new, seconds=seconds
        )

    async def notify(self, method: str) -> HttpReply:
        """Send a notification, and return the HTTP response."""
        return await self.send("POST", ACCEPTED, {"jsonrpc": "2.0", "method": method}, tries=8)

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Send `subscriptions/listen`, and wait for the acknowledgement."""
        params = stateless_params(params)
        reply = await self.reply("subscriptions/listen", params, seconds=seconds, ends_with=ACKNOWLEDGED)
        if reply.message is not None and reply.message.get("method") == ACKNOWLEDGED:
            granted = reply.message.get("params")
            return Answer(granted if is_object(granted) else {})
        return reply.answer


class SseConnection:
    """Connection by HTTP+SSE, the transport of 2024-11-05.

    Args:
        probe: Sends the requests.

    Attributes:
        endpoint: The URL for messages; empty before the endpoint event.
    """

    def __init__(self, probe: HttpProbe) -> None:
        self.endpoint = ""
        self._probe = probe
        self._last = 0
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._has_endpoint = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> HttpReply:
        """Open the stream, wait for the endpoint event, and return the HTTP response."""
        reply = await self._probe.send("GET", {"Accept": EVENTS})
        if reply.status != 200 or reply.type != EVENTS:
            return reply
        self._reading = asyncio.ensure_future(self._read())
        named = asyncio.ensure_future(self._has_endpoint.wait())
        await asyncio.wait(
            (named, self._reading), timeout=self._probe.response_timeout, return_when=asyncio.FIRST_COMPLETED
        )
        named.cancel()
        return reply

    async def close(self) -> None:
        """Close the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def request(self, method: str, params: Json | None = None) -> Answer:
        """Send a request, and wait for its response on the stream."""
        self._last += 1
        key = self._last
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[key] = answered
        seconds = self._probe.response_timeout
        message = {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}
        reply = await self._probe.send("POST", ACCEPTED, message, url=self.endpoint)
        if not 200 <= reply.status < 300:
            return Answer(problem=str(reply), status=reply.status)
        started_at = time.monotonic()
        await asyncio.wait((answered,), timeout=seconds)
        self._pending.pop(key)
        if not answered.done():
            return Answer(problem=f"no response on the stream within {seconds:g} s")
        return answer_from_message(answered.result(), time.monotonic() - started_at)

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._probe.send("POST", ACCEPTED, {"jsonrpc": "2.0", "method": method}, url=self.endpoint)

    async def _read(self) -> None:
        events = EventParser(_MAX_SIZE)
        client, url = self._probe.http_client, self._probe.url
        async with client.stream("GET", url, headers={"Accept": EVENTS}) as response:
            async for chunk in response.aiter_bytes():
                for event in events.feed(chunk):
                    if event.name == b"endpoint":
                        self.endpoint = urljoin(url, event.data.decode("utf-8", "replace"))
                        self._has_endpoint.set()
                    elif (message := _parse_object(event.data)) is not None and "method" not in message:
                        key = message.get("id")
                        answered = self._pending.get(key) if isinstance(key, int) else None
                        if answered is not None and not answered.done():
                            answered.set_result(message)
