"""Messages in the classes of the package `mcp`, of any version."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from ...engine.engine import Served
from ...identity.principals_and_scopes import ANYONE, Principal
from ...protocol.jsonrpc import Json, RequestId, is_id, is_object
from ..object_streams import ObjectSink, ObjectSource, serve_objects

if TYPE_CHECKING:
    from types import ModuleType

MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")
"""Members of JSON-RPC messages."""


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
    await serve_objects(
        server,
        messages.arriving(read),
        write,
        dump=messages.dump,
        make=messages.make,
        principal=principal,
    )


class SessionMessages:
    """Converts the messages of one client. Created messages have the classes of the last one read."""

    _types: ModuleType
    _wrap: Callable[[object], SessionMessage]

    def __init__(self) -> None:
        self._unanswered: dict[RequestId, Callable[[], Awaitable[None]]] = {}

    async def arriving(
        self, read: ObjectSource[SessionMessage | Exception]
    ) -> AsyncGenerator[SessionMessage | Exception]:
        """Yield messages of a stream, and close it at the end.

        A cancelled request gets no response. Transports of `mcp` 2.x that must end such a request are notified
        (`on_request_unanswered`).
        """
        try:
            async for item in read:
                yield item
                if not isinstance(item, Exception):
                    await self._tell_unanswered(_message_of(item))
        finally:
            await read.aclose()

    async def _tell_unanswered(self, message: object) -> None:
        if getattr(message, "method", None) != "notifications/cancelled":
            return
        params: object = getattr(message, "params", None)
        id_ = params.get("requestId") if is_object(params) else None
        if is_id(id_) and (tell := self._unanswered.pop(id_, None)) is not None:
            await tell()

    def dump(self, item: SessionMessage) -> Json:
        """Convert a message to JSON-RPC."""
        message = _message_of(item)
        self._wrap, self._types = type(item), sys.modules[type(message).__module__]
        found: Json = {name: value for name in MEMBERS if (value := getattr(message, name, None)) is not None}
        tell = getattr(item.metadata, "on_request_unanswered", None)
        if tell is not None and "id" in found:
            self._unanswered[found["id"]] = tell
        return found

    def make(self, message: Json) -> SessionMessage:
        """Convert a JSON-RPC message to a message for the client, which must have sent one before."""
        if "method" in message:
            name = "JSONRPCRequest" if "id" in message else "JSONRPCNotification"
        else:
            name = "JSONRPCError" if "error" in message else "JSONRPCResponse"
            self._unanswered.pop(message.get("id", ""), None)
        made = getattr(self._types, name).model_validate(message)
        root_model = self._types.JSONRPCMessage
        return self._wrap(root_model(made) if isinstance(root_model, type) else made)


def _message_of(item: SessionMessage) -> object:
    return getattr(item.message, "root", item.message)
