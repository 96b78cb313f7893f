"""The raw client of the wire tests: whole messages in, whole messages out, each one judged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import ProtocolError, Server
from mcpkit.client import CallResult
from mcpkit.engine.subscription_filters_and_delivery import SubscriptionHub
from mcpkit.identity.principal import ANYONE, Change, Principal
from mcpkit.protocol.client import ClientWire, ErrorReceived, NotificationReceived, ResultReceived
from mcpkit.transports import Connection
from tests.helpers.official import META, Judge

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
REVISIONS = HANDSHAKE + STATELESS

REMOVED = ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
"""The methods of the handshake era that are not served to a stateless request."""

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
    """Writes down what it hears.

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


def hearing(server: Server) -> int:
    """Return in how many event loops somebody hears of the server's changes."""
    return sum(
        isinstance(getattr(each, "__self__", None), SubscriptionHub)
        for each in server.catalog.listeners._all.values()
    )


class ImpatientClient:
    """Sends each request at once.

    Args:
        server: The server.
        revision: The revision that it speaks.

    Attributes:
        notifications: All notifications that have come, oldest first.
        server_capabilities: What the server declares, once it has been opened.
        waiting: What waits for an answer, by id.
    """

    def __init__(self, server: Server, revision: str) -> None:
        self.notifications: list[dict[str, Any]] = []
        self.server_capabilities: dict[str, Any] = {}
        self.waiting: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._wire = ClientWire(revision, info={"name": "t", "version": "1"}, capabilities={})
        self._arrival = asyncio.Event()
        self._connection = Connection(server, self._receive)

    async def open(self) -> None:
        """Initialize, or discover."""
        if self._wire.revision in STATELESS:
            self.server_capabilities = (await self.request("server/discover"))["capabilities"]
            return
        info = {"clientInfo": self._wire.info, "capabilities": {}}
        result = await self.request("initialize", {"protocolVersion": self._wire.revision, **info})
        self.server_capabilities = result["capabilities"]
        self._connection.receive(self._wire.notification("notifications/initialized").line)

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, and return its result."""
        sent = self._wire.request(method, params)
        future = self.waiting[sent.id] = asyncio.get_running_loop().create_future()
        self._connection.receive(sent.line)
        try:
            return await future
        finally:
            del self.waiting[sent.id]
            if (given_up := self._wire.cancel(sent.id, "nobody waits")) is not None:
                self._connection.receive(given_up.line)

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> CallResult:
        """Call a tool."""
        return CallResult(await self.request("tools/call", {"name": name, "arguments": arguments or {}}))

    async def _list(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.request(f"{kind}/list"))[kind]
        return found

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools."""
        return await self._list("tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        """Return the resources."""
        return await self._list("resources")

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Return the prompts."""
        return await self._list("prompts")

    async def read_resource(self, uri: str) -> list[dict[str, Any]]:
        """Read a resource."""
        contents: list[dict[str, Any]] = (await self.request("resources/read", {"uri": uri}))["contents"]
        return contents

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Get a prompt."""
        params = {"name": name, "arguments": arguments or {}}
        messages: list[dict[str, Any]] = (await self.request("prompts/get", params))["messages"]
        return messages

    async def complete(self, reference: str, argument: str, value: str) -> list[str]:
        """Complete an argument of a prompt."""
        params = {
            "ref": {"type": "ref/prompt", "name": reference},
            "argument": {"name": argument, "value": value},
        }
        values: list[str] = (await self.request("completion/complete", params))["completion"]["values"]
        return values

    async def notification(self, method: str) -> dict[str, Any]:
        """Wait for a notification, take it out of `notifications`, and return its params."""
        while True:
            for index, message in enumerate(self.notifications):
                if message["method"] == method:
                    del self.notifications[index]
                    params: dict[str, Any] = message.get("params", {})
                    return params
            self._arrival.clear()
            await self._arrival.wait()

    async def close(self) -> None:
        """Cancel what runs."""
        await self._connection.aclose()
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the client has been closed"))

    def _receive(self, line: bytes) -> None:
        for event in self._wire.receive(line):
            if isinstance(event, ResultReceived):
                self.waiting[event.id].set_result(event.result)
            elif isinstance(event, ErrorReceived):
                self.waiting[event.id].set_exception(ProtocolError(event.code, event.message, event.data))
            elif isinstance(event, NotificationReceived):
                told = {} if event.params is None else {"params": event.params}
                self.notifications.append({"method": event.method, **told})
                self._arrival.set()
