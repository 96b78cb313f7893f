"""Messages as the package `mcp` carries them, of whichever version."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from ...engine.engine import Served
from ...protocol.jsonrpc import RequestId, is_id, is_object
from ...protocol.types import Json
from ...state.principal import ANYONE, Principal
from ..object_streams import ObjectSink, ObjectSource, serve_objects

if TYPE_CHECKING:
    from types import ModuleType

MEMBERS: Final = ("jsonrpc", "id", "method", "params", "result", "error")
"""What messages of JSON-RPC have."""


class SessionMessage(Protocol):
    """What `mcp.shared.message.SessionMessage` has.

    Attributes:
        message: The JSON-RPC message: in 1.x a root model, in 2.x one of several models.
        metadata: What the transport says about it.
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
        read: What the client says.
        write: What it is told, in the classes of what it says.
        principal: Who it is.

    Raises:
        BaseException: Whatever entering or leaving the server's lifespan raised.
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
    """The messages of one client, read and made: what is made is of the classes of what was read last."""

    _types: ModuleType
    _wrap: Callable[[object], SessionMessage]

    def __init__(self) -> None:
        self._unanswered: dict[RequestId, Callable[[], Awaitable[None]]] = {}

    async def arriving(
        self, read: ObjectSource[SessionMessage | Exception]
    ) -> AsyncGenerator[SessionMessage | Exception]:
        """Pass on what is read, and close it in the end.

        A request that is cancelled has no answer. Of `mcp` 2.x, transports that must end it in their own way
        (`on_request_unanswered`) are told so.
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
        """Return a message as JSON-RPC."""
        message = _message_of(item)
        self._wrap, self._types = type(item), sys.modules[type(message).__module__]
        found: Json = {name: value for name in MEMBERS if (value := getattr(message, name, None)) is not None}
        tell = getattr(item.metadata, "on_request_unanswered", None)
        if tell is not None and "id" in found:
            self._unanswered[found["id"]] = tell
        return found

    def make(self, message: Json) -> SessionMessage:
        """Return a JSON-RPC message as the client carries them; it has said something before."""
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
