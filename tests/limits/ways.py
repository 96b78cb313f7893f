"""How the tests of limits ask: in both eras, over a pipe and over HTTP."""

from __future__ import annotations

import json
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpkit import Server
from tests.helpers.pipe import Pipe, open_pipe, stateless_meta
from tests.helpers.raw_client import Answer, Client, Judge, Session, serving

WAYS = ("a pipe, handshake", "a pipe, stateless", "HTTP, handshake", "HTTP, stateless")
LATEST = {"handshake": "2025-11-25", "stateless": "2026-07-28"}
LONG = 10_000
"""Bytes that no refusal has, however much is refused."""

NO_HEADERS: Mapping[str, str] = {}
RAW_ID = 7
"""The id in bytes that are sent as they are."""

limit = pytest.mark.limit
"""Names the row of the page on limits that a test holds."""


def around(bound: int) -> list[int]:
    """Return what is tried of a bound: just below, at it, above, and far above."""
    return sorted({max(0, bound - 1), bound, bound + 1, 2 * bound, 100 * bound})


class Told(NamedTuple):
    """What a client is told.

    Attributes:
        status: The status; None over a pipe.
        message: The response.
        headers: The headers; none over a pipe.
        notes: The notifications that came before it.
    """

    status: int | None
    message: dict[str, Any]
    headers: Mapping[str, str] = NO_HEADERS
    notes: Sequence[dict[str, Any]] = ()

    @property
    def is_refused(self) -> bool:
        return "error" in self.message or self.message["result"].get("isError", False)

    @property
    def code(self) -> int | None:
        return self.message.get("error", {}).get("code")

    @property
    def text(self) -> str:
        if "error" in self.message:
            text: str = self.message["error"]["message"]
        else:
            text = self.message["result"]["content"][0]["text"]
        return text

    def refused(self, code: int | None, words: str, status: int = 200) -> None:
        """Assert that it is a refusal, short and in words that say what to change; None for a tool's own."""
        assert self.is_refused, str(self.message)[:500]
        assert (self.code, self.status or status) == (code, status), self.text[:500]
        assert words in self.text, self.text[:500]
        assert len(json.dumps(self.message)) < LONG
        assert "Traceback" not in self.text
        assert "ref " not in self.text


class Asker(ABC):
    """A client that asks in one way."""

    def __init__(self, era: str) -> None:
        self.era = era
        self._ids = 100

    @abstractmethod
    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, id: Any = None, **meta: Any
    ) -> Told:
        """Send a request, and return what is told."""

    @abstractmethod
    def begin(self, name: str) -> None:
        """Call a tool, and do not wait for what is told."""

    @abstractmethod
    async def send(self, body: bytes, method: str = "tools/call", name: str | None = "echo") -> Told:
        """Send bytes that may be no message, and return what is told."""

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Told:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}}, **more)

    async def goes_on(self) -> None:
        """Assert that the next request is served."""
        assert not (await self.ask("tools/list")).is_refused

    def request(self, id_: Any, method: str, params: dict[str, Any], **meta: Any) -> dict[str, Any]:
        """Return a request of the era."""
        if self.era == "stateless":
            params = {**params, "_meta": stateless_meta() | meta}
        elif meta:
            params = {**params, "_meta": meta}
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}

    def new_id(self) -> int:
        self._ids += 1
        return self._ids


class PipeAsker(Asker):
    def __init__(self, era: str, pipe: Pipe) -> None:
        super().__init__(era)
        self.pipe = pipe
        self._begun: set[int] = set()

    def begin(self, name: str) -> None:
        self._begun.add(id_ := self.new_id())
        self.pipe.send(self.request(id_, "tools/call", {"name": name, "arguments": {}}))

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, id: Any = None, **meta: Any
    ) -> Told:
        id = self.new_id() if id is None else id
        self.pipe.send(self.request(id, method, params or {}, **meta))
        return await self._told()

    async def send(self, body: bytes, method: str = "tools/call", name: str | None = "echo") -> Told:
        self.pipe.methods[RAW_ID] = [(method, LATEST[self.era])]
        self.pipe.send(body)
        return await self._told()

    async def _told(self) -> Told:
        notes = []
        while "method" in (message := await self.pipe.receive()) or message.get("id") in self._begun:
            if "method" in message:
                notes.append(message)
        return Told(None, message, notes=notes)


class WebAsker(Asker):
    def __init__(self, era: str, client: Client, session: Session | None) -> None:
        super().__init__(era)
        self.client = client
        self.session = session

    def begin(self, name: str) -> None:
        (self.client if self.session is None else self.session).call(name, id=self.new_id())

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, id: Any = None, **meta: Any
    ) -> Told:
        id = self.new_id() if id is None else id
        if self.session is None:
            return await told(self.client.ask(method, params, id=id, meta=meta))
        params = {**(params or {}), "_meta": meta} if meta else params
        return await told(self.session.ask(method, params, id=id))

    async def send(self, body: bytes, method: str = "tools/call", name: str | None = "echo") -> Told:
        if self.session is None:
            headers = {"mcp-protocol-version": LATEST["stateless"], "mcp-method": method, "mcp-name": name}
            return await told(self.client.post(body, headers, judge=_Blind(self.client.folder, "")))
        headers = self.session.headers()
        return await told(self.client.post(body, headers, judge=_Blind(self.client.folder, "")))


class _Blind(Judge):
    """Looks at nothing: bytes may be a message whose id only the server can tell."""

    def check(self, message: Any) -> Any:
        return message


async def told(answer: Answer) -> Told:
    """Return what a client is told over HTTP."""
    await answer.head()
    *notes, message = await answer.messages() if answer.is_stream else [(await answer.whole()).json()]
    assert answer.status is not None
    return Told(answer.status, message, answer.headers, notes)


@asynccontextmanager
async def asking(
    way: str, server: Server, folder: Path, *, revision: str | None = None, **options: Any
) -> AsyncIterator[Any]:
    """Serve a server, and connect a client in one of `WAYS`."""
    transport, _, era = way.partition(", ")
    if transport == "a pipe":
        async with open_pipe(server, revision or LATEST[era], folder) as pipe:
            yield PipeAsker(era, pipe)
    else:
        async with serving(server, folder, **options) as client:
            session = await client.initialize(revision or LATEST[era]) if era == "handshake" else None
            yield WebAsker(era, client, session)


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """Measure the memory that is taken beside what there was, at most at a time: a function that returns the bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
