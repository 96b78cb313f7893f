"""Servers in the process of their client: over two streams of Python objects, and for agent SDKs."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pydantic_core import from_json

from .._utils.concurrency import require_loop
from .._utils.exceptions import ProtocolError
from ..engine.engine import Served
from ..engine.message_dispatch import Connection
from ..identity.principals_and_scopes import ANYONE, Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, RequestId, is_id, is_object
from ..protocol.revisions import LATEST_HANDSHAKE

if TYPE_CHECKING:
    from types import ModuleType

    from _typeshed import Incomplete as Anything
else:
    Anything = object

logger = logging.getLogger(__name__)

# Object streams, such as anyio's memory streams

# Bytes waiting for the client above which input is not read, and handlers that wait for room are blocked.
_MAX_QUEUED = 1024 * 1024

_FLUSH_TIME = 1.0  # seconds in which the client must read the remaining messages after it closed its side

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Sent = TypeVar("Sent")
Sent_contra = TypeVar("Sent_contra", contravariant=True)


class ObjectSource(AsyncIterable[Item_co], Protocol[Item_co]):
    """Asynchronous iterable of messages, such as `anyio.abc.ObjectReceiveStream`."""

    def aclose(self) -> Awaitable[None]:
        """Close the stream."""
        ...


class ObjectSink(Protocol[Sent_contra]):
    """Stream for messages, such as `anyio.abc.ObjectSendStream`."""

    def send(self, item: Sent_contra, /) -> Awaitable[None]:
        """Send a message as soon as there is room for it."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Close the stream."""
        ...


async def serve_objects(
    server: Served,
    read: ObjectSource[Item | Exception],
    write: ObjectSink[Sent],
    *,
    dump: Callable[[Item], Json],
    make: Callable[[Json], Sent],
    principal: Principal = ANYONE,
) -> None:
    """Serve one client over object streams, until `read` ends or fails, or the client closes `write`.

    Then running requests are cancelled, and answered with an error if the client still reads. The lifespan is left, and
    both streams are closed. A cancellation has the same effects, except for the responses. A client can repeat the
    handshake, as agents do that have lost its state. Running requests continue.

    Input is not read while more than a megabyte waits for the client. Exceptions in `read`, which represent unreadable
    messages, are logged, because an unreadable message has no ID to answer. Exceptions of `dump` and `make` are logged
    as well.

    Args:
        server: The server.
        read: Messages from the client.
        write: Messages to the client.
        dump: Converts an item of `read` to a JSON-RPC message.
        make: Converts a JSON-RPC message to an item of `write`.
        principal: Principal of the client.

    Raises:
        RuntimeError: The running event loop is not one of asyncio.
        BaseException: The exception of the lifespan or of a stream, except anyio's errors for a closed peer.
    """
    require_loop("mcpkit")
    from anyio import CancelScope

    pipe = _ObjectPipe(read, write, dump, make)

    async def fail_without_lifespan() -> None:
        await server.engine.ready()
        await asyncio.Event().wait()  # until it is cancelled

    async def serve() -> None:
        async with server.engine.running():
            connection = Connection(
                server, pipe.send, ready=pipe.ready, principal=principal, may_begin_again=True
            )
            startup = asyncio.create_task(fail_without_lifespan())
            receiving = asyncio.create_task(pipe.receive(connection))
            sending = asyncio.create_task(pipe.run())
            is_read = False
            try:
                await asyncio.wait((startup, receiving, sending), return_when=asyncio.FIRST_COMPLETED)
                if startup.done():
                    startup.result()
                is_read = not sending.done()
            finally:
                startup.cancel()
                receiving.cancel()
                await connection.aclose(graceful=is_read)
                pipe.end()
                if is_read:
                    await asyncio.wait((sending,), timeout=_FLUSH_TIME)
                sending.cancel()
                await asyncio.wait((startup, receiving, sending))
                await write.aclose()
                await read.aclose()
            for task in (receiving, sending):
                if not task.cancelled():
                    task.result()

    # A cancel scope of anyio cancels its tasks again and again; in a task of its own the end is reached in order.
    serving = asyncio.create_task(serve())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        serving.cancel()
        with CancelScope(shield=True):
            await asyncio.wait((serving,))
        if not serving.cancelled():
            serving.result()
        raise


class _ObjectPipe(Generic[Item, Sent]):
    """Messages of the client, and a queue of those to the client, sent in order as fast as the client reads."""

    def __init__(
        self,
        read: ObjectSource[Item | Exception],
        write: ObjectSink[Sent],
        dump: Callable[[Item], Json],
        make: Callable[[Json], Sent],
    ) -> None:
        self._read, self._write, self._dump, self._make = read, write, dump, make
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._size = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def receive(self, connection: Connection) -> None:
        """Pass messages of the client to the connection, until the stream ends."""
        from anyio import BrokenResourceError, ClosedResourceError

        with suppress(BrokenResourceError, ClosedResourceError):
            async for item in self._read:
                if isinstance(item, Exception):
                    logger.warning("ignored a message from the client that could not be read: %s", item)
                    continue
                try:
                    message = self._dump(item)
                    try:
                        line = jsonrpc.encode(message)
                    except ValueError:  # half of a surrogate pair, which the connection refuses under its id
                        line = json.dumps(message).encode()
                except Exception:
                    logger.exception("ignored a message from the client that is not JSON-RPC: %.200r", item)
                    continue
                connection.receive(line)
                await self.ready()

    def send(self, message: bytes) -> None:
        """Queue a message."""
        self._queue.put_nowait(message)
        self._size += len(message)
        if self._size > _MAX_QUEUED:
            self._has_room.clear()

    async def ready(self) -> None:
        """Wait until the client has read enough."""
        await self._has_room.wait()

    def end(self) -> None:
        """Make `run` return once the queue is empty."""
        self._queue.put_nowait(None)

    async def run(self) -> None:
        """Send messages until the end, or until the client closes the stream."""
        from anyio import BrokenResourceError, ClosedResourceError

        with suppress(BrokenResourceError, ClosedResourceError):
            while (message := await self._queue.get()) is not None:
                try:
                    item = self._make(from_json(message))
                except Exception:
                    logger.exception(
                        "a message could not be converted for the stream, so the client does not receive it: %.200r",
                        message,
                    )
                else:
                    await self._write.send(item)
                self._size -= len(message)
                if self._size <= _MAX_QUEUED:
                    self._has_room.set()


# Messages in the classes of the package `mcp`, of any version

MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")  # members of JSON-RPC messages


class SessionMessage(Protocol):
    """Protocol of `mcp.shared.message.SessionMessage`.

    Attributes:
        message: The JSON-RPC message: a root model in 1.x, one of several models in 2.x.
        metadata: Metadata of the transport.
    """

    message: object
    metadata: object


async def serve_messages(
    server: Served,
    read: ObjectSource[SessionMessage | Exception],
    write: ObjectSink[SessionMessage],
    principal: Principal = ANYONE,
) -> None:
    """Serve one client of the package `mcp`, until `read` ends; see `serve_objects`.

    Args:
        server: The server.
        read: Messages from the client.
        write: Messages to the client, in the same classes.
        principal: Principal of the client.

    Raises:
        BaseException: The exception of the lifespan of the server.
    """
    messages = SessionMessages()
    source = messages.received(read)
    await serve_objects(server, source, write, dump=messages.dump, make=messages.make, principal=principal)


class SessionMessages:
    """Converts the messages of one client. Created messages have the classes of the last one read."""

    _types: ModuleType
    _wrap: Callable[[object], SessionMessage]

    def __init__(self) -> None:
        self._on_unanswered: dict[RequestId, Callable[[], Awaitable[None]]] = {}

    async def received(
        self, read: ObjectSource[SessionMessage | Exception]
    ) -> AsyncGenerator[SessionMessage | Exception]:
        """Yield messages of a stream, and close it at the end.

        A cancelled request gets no response. Transports of `mcp` 2.x that must end such a request are notified
        (`on_request_unanswered`).
        """
        try:
            async for item in read:
                yield item
                message = None if isinstance(item, Exception) else _message_of(item)
                if getattr(message, "method", None) == "notifications/cancelled":
                    params: object = getattr(message, "params", None)
                    id_ = params.get("requestId") if is_object(params) else None
                    if is_id(id_) and (notify := self._on_unanswered.pop(id_, None)) is not None:
                        await notify()
        finally:
            await read.aclose()

    def dump(self, item: SessionMessage) -> Json:
        """Convert a message to JSON-RPC."""
        message = _message_of(item)
        self._wrap, self._types = type(item), sys.modules[type(message).__module__]
        found: Json = {name: value for name in MEMBERS if (value := getattr(message, name, None)) is not None}
        notify = getattr(item.metadata, "on_request_unanswered", None)
        if notify is not None and "id" in found:
            self._on_unanswered[found["id"]] = notify
        return found

    def make(self, message: Json) -> SessionMessage:
        """Convert a JSON-RPC message to a message for the client, which must have sent one before."""
        if "method" in message:
            name = "JSONRPCRequest" if "id" in message else "JSONRPCNotification"
        else:
            name = "JSONRPCError" if "error" in message else "JSONRPCResponse"
            self._on_unanswered.pop(message.get("id", ""), None)
        made = getattr(self._types, name).model_validate(message)
        root_model = self._types.JSONRPCMessage
        return self._wrap(root_model(made) if isinstance(root_model, type) else made)


def _message_of(item: SessionMessage) -> object:
    return getattr(item.message, "root", item.message)


# Servers for agent SDKs, with the interface of `mcp.server.Server` that they use


@dataclass(frozen=True)
class InitializationOptions:
    """Initialization options for `run`, which ignores them.

    Attributes:
        server_name: Name of the server.
        server_version: Version of the server.
    """

    server_name: str
    server_version: str


@dataclass(frozen=True)
class Answer:
    """Result of a request handler, as in `mcp` 1.x.

    Attributes:
        root: The result, an object of the installed `mcp.types`.
    """

    root: object


ServedT = TypeVar("ServedT", bound=Served)

Validate = Callable[[Json], object]  # creates an object of `mcp.types`


class SdkServer(Generic[ServedT], Anything):  # type: ignore[misc]  # the SDKs are typed to take a server of `mcp`
    """Server for agent SDKs; see `Server.as_sdk_server`.

    Args:
        server: The server.
        principal: Principal of the agent.

    Attributes:
        server: The server, which can be served in other ways as well.
        name: Name of the server.
        version: Version of the server.
    """

    def __init__(self, server: ServedT, principal: Principal) -> None:
        self.server, self._principal = server, principal
        self._sessions: dict[asyncio.AbstractEventLoop, _ImplicitSession] = {}
        self.name, self.version = server.engine.runtime.name, server.engine.version

    def create_initialization_options(self) -> InitializationOptions:
        """Return the options for `run`."""
        return InitializationOptions(self.name, self.version)

    async def run(
        self,
        read: ObjectSource[SessionMessage | Exception],
        write: ObjectSink[SessionMessage],
        initialization_options: InitializationOptions | None = None,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve one client, until `read` ends; see `serve_messages`. Several clients can be served at the same time.

        Args:
            read: Messages from the client, as `mcp.shared.message.SessionMessage`.
            write: Messages to the client, in the same class.
            initialization_options: Accepted for compatibility; it has no effect.
            raise_exceptions: Accepted for compatibility; errors of handlers are always sent as responses.

        Raises:
            BaseException: The exception of the lifespan of the server.
        """
        await serve_messages(self.server, read, write, self._principal)

    @cached_property
    def request_handlers(self) -> dict[type, Callable[[Any], Awaitable[Answer]]]:
        """Handlers for `ListToolsRequest` and `CallToolRequest` of the installed `mcp.types`.

        Each takes such a request, and returns an object with the result in `root`. No session needs to be opened; see
        `aclose`. Cancelling the awaiting task cancels the call. Exceptions of a handler contain the message for the
        client.

        Raises:
            ImportError: The package `mcp` is not installed.
        """
        try:
            types = import_module("mcp.types")
        except ModuleNotFoundError as error:
            raise ImportError(
                f"as_sdk_server() needs the package mcp, but {error.name} cannot be imported. Install the "
                "agent SDK, which includes it, or mcp>=1.23"
            ) from error
        return {
            types.ListToolsRequest: partial(self._list_tools, types.ListToolsResult.model_validate),
            types.CallToolRequest: partial(self._call_tool, types.CallToolResult.model_validate),
        }

    async def aclose(self) -> None:
        """Cancel requests of this event loop, and leave the lifespan that `request_handlers` entered in it.

        The next request enters it again.

        Raises:
            BaseException: The exception of the lifespan of the server.
        """
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            session.closing.set()
            await session.life

    async def _list_tools(self, validate: Validate, request: object) -> Answer:
        """Return all tools, of all pages."""
        tools: list[object] = []
        params: Json = {}
        while True:
            page = await self._send("tools/list", params)
            tools.extend(page["tools"])
            if "nextCursor" not in page:
                return Answer(validate({"tools": tools}))
            params = {"cursor": page["nextCursor"]}

    async def _call_tool(self, validate: Validate, request: Any) -> Answer:
        params = request.params.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Answer(validate(await self._send("tools/call", params)))

    async def _send(self, method: str, params: Json) -> Json:
        """Send a request in the session of this event loop, and return its result.

        The first request in a loop enters the lifespan. The end of the loop leaves it, because `asyncio.run` cancels
        remaining tasks.
        """
        loop = require_loop("a tool of mcpkit")
        session = self._sessions.get(loop)
        if session is None or session.life.done():
            for closed in [each for each in tuple(self._sessions) if each.is_closed()]:
                self._sessions.pop(closed, None)
            session = self._sessions[loop] = _ImplicitSession(self.server, self._principal)
        return await session.request(method, params)


class _ImplicitSession:
    """Session of callers that open and close none, in one event loop. It lasts as long as its task.

    The client declares no capabilities, and requests to it are not possible.

    Attributes:
        life: Task that enters and leaves the lifespan of the server.
        closing: Set to leave the lifespan.
    """

    def __init__(self, server: Served, principal: Principal) -> None:
        loop = asyncio.get_running_loop()
        self._server, self._principal = server, principal
        self._ids = count(1)
        self._responses: dict[object, asyncio.Future[Json]] = {}
        self._connection: asyncio.Future[Connection] = loop.create_future()
        self.closing = asyncio.Event()
        self.life = loop.create_task(self._live(), name="mcpkit-agent-sdk")

    async def request(self, method: str, params: Json) -> Json:
        """Send a request, and return its result. Cancelling this call cancels the request.

        Raises:
            ProtocolError: The server responded with an error.
            BaseException: The exception of the lifespan of the server.
        """
        connection = await asyncio.shield(self._connection)
        id_ = next(self._ids)
        response: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._responses[id_] = response
        connection.receive(jsonrpc.encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}))
        try:
            return await response
        except asyncio.CancelledError:
            connection.receive(jsonrpc.notification("notifications/cancelled", {"requestId": id_}))
            raise
        finally:
            self._responses.pop(id_, None)

    async def _live(self) -> None:
        engine = self._server.engine
        client = {"name": "agent-sdk", "version": ""}
        params = {"protocolVersion": LATEST_HANDSHAKE, "capabilities": {}, "clientInfo": client}
        initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        try:
            async with engine.running():
                await engine.ready()
                connection = Connection(self._server, self._receive, principal=self._principal)
                connection.receive(jsonrpc.encode(initialize))
                connection.receive(jsonrpc.notification("notifications/initialized"))
                self._connection.set_result(connection)
                try:
                    await self.closing.wait()
                finally:
                    await connection.aclose(graceful=True)
        except BaseException as error:
            if self._connection.done():
                raise
            self._connection.set_exception(error)

    def _receive(self, line: bytes) -> None:
        """Deliver a response to its request; all other messages are dropped."""
        message: Json = jsonrpc.decode(line)
        response = self._responses.pop(message.get("id"), None)
        if response is None or response.done() or "method" in message:
            return
        if "error" in message:
            error = message["error"]
            response.set_exception(ProtocolError(error["code"], error["message"], error.get("data")))
        else:
            response.set_result(message["result"])
