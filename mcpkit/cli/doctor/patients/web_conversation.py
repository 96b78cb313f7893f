"""Conversations with a server at a URL: by Streamable HTTP, in either era, and by HTTP with SSE."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import urljoin

from ....client.transports.http.event_stream import EventStream
from ....protocol.http_headers import NAMED_BY
from ....protocol.jsonrpc import Json, is_object
from .conversation import ACKNOWLEDGED, Answer, answer_of, stateless
from .web import ACCEPTED, Reply, Web

_MOST: Final = 64 * 1024 * 1024


class WebConversation:
    """Asks by Streamable HTTP.

    Args:
        web: Sends requests.
        headers: What goes along with each: those of a session.
        revision: The revision of the stateless era that is spoken; None in the handshake era.

    Attributes:
        headers: As given.
        tries: How often a request is sent that reaches an instance which does not know the session.
    """

    def __init__(self, web: Web, headers: Mapping[str, str], revision: str | None = None) -> None:
        self.headers = headers
        self.tries = 1
        self._web = web
        self._revision = revision
        self._last = 0

    async def ask(
        self,
        method: str,
        params: Json | None = None,
        *,
        name: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its answer."""
        reply = Reply()
        for _ in range(self.tries):
            reply = await self.reply(method, params, name=name, seconds=seconds)
            if reply.status != 404:
                break
        return _answer(reply)

    async def reply(
        self,
        method: str,
        params: Json | None = None,
        *,
        name: int | str | None = None,
        seconds: float | None = None,
        more: Mapping[str, str] | None = None,
        is_new: bool = False,
        ends_with: str | None = None,
    ) -> Reply:
        """Send a request, and return how it was answered.

        Args:
            method: The method.
            params: Its parameters.
            name: The id of the request.
            seconds: How long to wait.
            more: More headers.
            is_new: Whether it goes over a new connection.
            ends_with: A notification that is an answer, too.
        """
        self._last += 1
        key = self._last if name is None else name
        params = params or {}
        headers = {**ACCEPTED, **self.headers}
        if self._revision is not None:
            params = stateless(self._revision, params)
            headers |= {"MCP-Protocol-Version": self._revision, "Mcp-Method": method}
            if named := params.get(NAMED_BY.get(method, "")):
                headers["Mcp-Name"] = str(named)
        message = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}

        def is_wanted(each: Json) -> bool:
            is_answer = "method" not in each and each.get("id") in {key, None}
            return is_answer or (ends_with is not None and each.get("method") == ends_with)

        return await self._web.send(
            "POST", {**headers, **(more or {})}, message, is_wanted=is_wanted, seconds=seconds, is_new=is_new
        )

    async def tell(self, method: str) -> None:
        """Send a notification."""
        await self.told(method)

    async def told(self, method: str) -> Reply:
        """Send a notification, and return how it was answered."""
        reply = Reply()
        for _ in range(8):
            message = {"jsonrpc": "2.0", "method": method}
            reply = await self._web.send("POST", {**ACCEPTED, **self.headers}, message)
            if reply.status != 404:
                break
        return reply

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Listen to changes, and wait until that is acknowledged."""
        reply = await self.reply("subscriptions/listen", params, seconds=seconds, ends_with=ACKNOWLEDGED)
        message = reply.message
        if message is not None and message.get("method") == ACKNOWLEDGED:
            granted = message.get("params")
            return Answer(granted if is_object(granted) else {})
        return _answer(reply)


class SseConversation:
    """Asks by HTTP with SSE, as 2024-11-05 has it.

    Args:
        web: Sends requests.

    Attributes:
        endpoint: Where messages go; empty before the stream has named it.
    """

    def __init__(self, web: Web) -> None:
        self.endpoint = ""
        self._web = web
        self._last = 0
        self._pending: dict[int | str, asyncio.Future[Json]] = {}
        self._stack = AsyncExitStack()
        self._named = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> Reply:
        """Open the stream, and wait for the endpoint; the reply says whether it is one."""
        reply = await self._web.send("GET", {"Accept": "text/event-stream"})
        if reply.status != 200 or reply.type != "text/event-stream":
            return reply
        self._reading = asyncio.ensure_future(self._read())
        named = asyncio.ensure_future(self._named.wait())
        await asyncio.wait(
            (named, self._reading), timeout=self._web.patience, return_when=asyncio.FIRST_COMPLETED
        )
        named.cancel()
        return reply

    async def close(self) -> None:
        """Leave the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def ask(
        self,
        method: str,
        params: Json | None = None,
        *,
        name: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its answer on the stream."""
        self._last += 1
        key = self._last if name is None else name
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Json] = loop.create_future()
        self._pending[key] = answered
        begun, seconds = loop.time(), self._web.patience if seconds is None else seconds
        message = {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}
        reply = await self._web.send("POST", ACCEPTED, message, url=self.endpoint)
        if not 200 <= reply.status < 300:
            return Answer(problem=str(reply), status=reply.status)
        await asyncio.wait((answered,), timeout=seconds)
        self._pending.pop(key)
        if not answered.done():
            return Answer(problem=f"no response on the stream within {seconds:g} s")
        return answer_of(answered.result(), loop.time() - begun)

    async def tell(self, method: str) -> None:
        """Send a notification."""
        await self._web.send("POST", ACCEPTED, {"jsonrpc": "2.0", "method": method}, url=self.endpoint)

    async def listen(self, params: Json, seconds: float) -> Answer:
        """There is nothing of it in this transport."""
        return Answer(problem="no response: HTTP+SSE has no subscriptions/listen")

    async def _read(self) -> None:
        events = EventStream(_MOST)
        async with self._web.stream({}) as response:
            async for chunk in response.aiter_bytes():
                for event in events.feed(chunk):
                    self._take(event.name, event.data)

    def _take(self, name: bytes, data: bytes) -> None:
        if name == b"endpoint":
            self.endpoint = urljoin(self._web.url, data.decode("utf-8", "replace"))
            self._named.set()
            return
        try:
            message: object = json.loads(data)
        except ValueError:
            return
        key = message.get("id") if is_object(message) else None
        waiting = self._pending.get(key) if isinstance(key, int | str) else None
        if is_object(message) and waiting is not None and not waiting.done() and "method" not in message:
            waiting.set_result(message)


def _answer(reply: Reply) -> Answer:
    if reply.message is not None:
        return answer_of(reply.message, reply.seconds, reply.status)
    return Answer(problem=str(reply), seconds=reply.seconds, status=reply.status)
