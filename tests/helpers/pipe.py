"""The raw client of the wire tests: whole messages in, whole messages out, each one judged."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Server
from mcpkit.engine.subscription_filters_and_delivery import SubscriptionHub
from mcpkit.identity.principals_and_scopes import ANYONE, Change, Principal
from mcpkit.transports import Connection
from tests.helpers.official import META, Judge

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
REVISIONS = HANDSHAKE + STATELESS

REMOVED = ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
"""The methods of the handshake era that are not served to a stateless request."""

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The member of the result that has the items, by method."""

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header `Mcp-Name` repeats, by method."""


def stateless_meta(revision: str = "2026-07-28", **more: Any) -> dict[str, Any]:
    """Return the `_meta` that a stateless request must have."""
    return {
        META + "protocolVersion": revision,
        META + "clientInfo": {"name": "wire", "version": "1"},
        META + "clientCapabilities": {},
        **more,
    }


def message(method: str, params: dict[str, Any] | None = None, id_: Any = 1) -> dict[str, Any]:
    """Return a request; without an id, a notification."""
    members: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return {name: value for name, value in members.items() if value is not None}


def initialize(revision: str = "2025-11-25", **params: Any) -> dict[str, Any]:
    """Return an `initialize` request."""
    info = {"name": "test", "version": "1"}
    default = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    return message("initialize", default | params, "initialize")


def http_request(method: str, **params: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the headers and the body of a stateless request over HTTP."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": STATELESS[-1],
        "Mcp-Method": method,
    }
    if (name := params.get(NAMED_BY.get(method, ""))) is not None:
        headers["Mcp-Name"] = name
    return headers, message(method, {**params, "_meta": stateless_meta()})


class Pipe:
    """Speaks to a server through a `Connection`, one JSON message at a time.

    What the server sends is judged by the schema of the pipe's revision, or of the stateless
    revision where it answers a request or a subscription of that.
    """

    def __init__(self, server: Server, revision: str, folder: Path, principal: Principal = ANYONE) -> None:
        self.revision = revision
        self.folder = folder
        self.out: asyncio.Queue[Any] = asyncio.Queue()
        self.verdict: AssertionError | None = None
        self.judge = Judge(folder, revision)
        self.methods = self.judge.methods
        self.connection = Connection(server, self._judge, principal=principal)
        self.ids = 0

    def _judge(self, line: bytes) -> None:
        message = json.loads(line)
        try:
            assert b"\n" not in line
            self.judge.check(message)
        except AssertionError as error:  # it must fail the test, not the server
            self.verdict = self.verdict or error
        self.out.put_nowait(message)

    def send(self, message: Any) -> None:
        """Send any JSON value, or bytes as they are."""
        self.judge.expect(message)
        self.connection.receive(message if isinstance(message, bytes) else json.dumps(message).encode())

    def start(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        """Send a request of this pipe's revision and return its id."""
        self.ids += 1
        self.send(self.message(self.ids, method, params, **meta))
        return self.ids

    def message(
        self, id_: str | int, method: str, params: dict[str, Any] | None = None, **meta: Any
    ) -> dict[str, Any]:
        """Return a request of this pipe's revision."""
        params = dict(params or {})
        if self.revision in STATELESS:
            params["_meta"] = {**stateless_meta(self.revision), **meta}
        elif meta:
            params["_meta"] = meta
        return message(method, params or None, id_)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send(message(method, params, None))

    def cancel(self, id_: str | int) -> None:
        """Cancel a request."""
        self.notify("notifications/cancelled", {"requestId": id_})

    async def receive(self) -> Any:
        """Return the next message; a silence of ten seconds is a failure."""
        message = await asyncio.wait_for(self.out.get(), 10)
        if self.verdict is not None:
            raise self.verdict
        return message

    async def question(self, method: str) -> dict[str, Any]:
        """Return the next request of the server's, skipping notifications."""
        while "id" not in (message := await self.receive()):
            pass
        assert message.get("method") == method, message
        return message

    def reply(self, question: dict[str, Any], result: dict[str, Any]) -> None:
        """Answer a request of the server's."""
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    async def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and return the response, skipping notifications."""
        id_ = self.start(method, params, **meta)
        while True:
            message = await self.receive()
            if message.get("id") == id_:
                return message

    async def result(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        message = await self.request(method, params, **meta)
        assert "result" in message, message
        return message["result"]

    async def error(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and return its error."""
        message = await self.request(method, params, **meta)
        assert "error" in message, message
        return message["error"]

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, **meta: Any
    ) -> dict[str, Any]:
        """Call a tool and return its result."""
        return await self.result("tools/call", {"name": name, "arguments": arguments or {}}, **meta)

    async def text(self, name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> str:
        """Call a tool and return the text of its first block."""
        return (await self.call_tool(name, arguments, **meta))["content"][0]["text"]

    async def answered(self) -> list[Any]:
        """Wait until all requests have been answered; return what has been sent since the last look."""
        await asyncio.wait_for(self.connection.drain(), 10)
        await settle()
        if self.verdict is not None:
            raise self.verdict
        return [self.out.get_nowait() for _ in range(self.out.qsize())]

    async def quiet(self) -> None:
        """Assert that nothing more has been sent, once the server has had the time to."""
        assert await self.answered() == []

    async def initialize(self, **params: Any) -> dict[str, Any]:
        """Open a session of this pipe's revision."""
        result = await self.result("initialize", initialize(self.revision, **params)["params"])
        self.notify("notifications/initialized")
        return result


async def settle() -> None:
    """Let everything run that can run without waiting for something from outside."""
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def open_pipe(
    server: Server,
    revision: str,
    folder: Path,
    *,
    initialize: bool = True,
    principal: Principal = ANYONE,
    capabilities: dict[str, Any] | None = None,
) -> AsyncIterator[Pipe]:
    """Connect a pipe; in the handshake era with its session open."""
    async with server.running():
        pipe = Pipe(server, revision, folder, principal)
        try:
            if initialize and revision in HANDSHAKE:
                await pipe.initialize(capabilities=capabilities or {})
            yield pipe
        finally:
            await pipe.connection.aclose()


class Ear:
    """Records changes.

    Args:
        then: Called one for each change, the last of them first.
    """

    principal = ANYONE

    def __init__(self, *then: Callable[[], None]) -> None:
        self.heard: list[Change] = []
        self.then = list(then)

    def changed(self, change: Change) -> None:
        self.heard.append(change)
        if self.then:
            self.then.pop()()

    @property
    def uris(self) -> list[str | None]:
        return [change.uri for change in self.heard]


def updated(uri: str) -> Change:
    return Change("resource", uri)


def count_listeners(server: Server) -> int:
    """Return the number of event loops that receive the server's changes."""
    return sum(
        isinstance(getattr(each, "__self__", None), SubscriptionHub)
        for each in server.catalog.listeners._all.values()
    )


Wire = Callable[..., AbstractAsyncContextManager[Pipe]]
