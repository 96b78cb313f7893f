"""A server as agent SDKs take one into their process: in the shape of `mcp.server.Server`, as far as they use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ...engine.engine import Served
from ...protocol.types import Json
from ...state.principal import Principal
from ..object_streams import ObjectSink, ObjectSource
from .calls import Calls
from .installed import installed
from .session_messages import SessionMessage, serve_messages

if TYPE_CHECKING:
    from _typeshed import Incomplete as Anything
else:
    Anything = object


@dataclass(frozen=True)
class InitializationOptions:
    """What `run` is handed back by those who ask for it first; the server says itself what it is and what it can do.

    Attributes:
        server_name: The server's name.
        server_version: Its version.
    """

    server_name: str
    server_version: str


@dataclass(frozen=True)
class Answer:
    """A result as handlers of `mcp` 1.x return it.

    Attributes:
        root: The result, an object of the installed `mcp.types`.
    """

    root: object


class _Model(Protocol):
    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> Json: ...


class _Request(Protocol):
    @property
    def params(self) -> _Model: ...


ServedT = TypeVar("ServedT", bound=Served)

Validate = Callable[[Json], object]
"""Makes an object of `mcp.types`."""


class SdkServer(Generic[ServedT], Anything):  # type: ignore[misc]  # the SDKs are typed to take a server of `mcp`
    """What `Server.as_sdk_server` returns, which tells how it is used.

    Args:
        server: Who answers.
        principal: Who the agent is.

    Attributes:
        server: Who answers; it may be served in any other way as well.
        name: The server's name.
        version: The server's version.
    """

    def __init__(self, server: ServedT, principal: Principal) -> None:
        self.server = server
        self._principal = principal
        self._calls = Calls(server, principal)
        self.name = server.engine.runtime.name
        self.version = server.engine.version

    def create_initialization_options(self) -> InitializationOptions:
        """Return what `run` takes."""
        return InitializationOptions(self.name, self.version)

    async def run(
        self,
        read: ObjectSource[SessionMessage | Exception],
        write: ObjectSink[SessionMessage],
        initialization_options: InitializationOptions | None = None,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve one client, until `read` ends; see `serve_messages`. Any number of clients may be served at a time.

        Args:
            read: Its messages, as `mcp.shared.message.SessionMessage`.
            write: What it is told, as the same.
            initialization_options: Taken for those who give it; it changes nothing.
            raise_exceptions: The same: what goes wrong in a handler is answered.

        Raises:
            BaseException: Whatever entering or leaving the server's lifespan raised.
        """
        await serve_messages(self.server, read, write, self._principal)

    @cached_property
    def request_handlers(self) -> dict[type, Callable[[_Request], Awaitable[Answer]]]:
        """What lists and calls tools, by `ListToolsRequest` and `CallToolRequest` of the installed `mcp.types`.

        Each takes such a request, and returns an object whose `root` is the result. There is no session to open: see
        `aclose`. A call ends when whoever awaits it is cancelled. What a handler raises has its text for the client.

        Raises:
            ImportError: The package `mcp` is not installed.
        """
        types = installed("mcp.types")
        return {
            types.ListToolsRequest: partial(self._list_tools, types.ListToolsResult.model_validate),
            types.CallToolRequest: partial(self._call_tool, types.CallToolResult.model_validate),
        }

    async def aclose(self) -> None:
        """Leave the lifespan in this event loop, where `request_handlers` have entered it; see `Calls.aclose`."""
        await self._calls.aclose()

    async def _list_tools(self, validate: Validate, request: object) -> Answer:
        """List all tools: whoever asks by a handler turns no pages."""
        tools: list[object] = []
        params: Json = {}
        while True:
            page = await self._calls.ask("tools/list", params)
            tools.extend(page["tools"])
            if "nextCursor" not in page:
                return Answer(validate({"tools": tools}))
            params = {"cursor": page["nextCursor"]}

    async def _call_tool(self, validate: Validate, request: _Request) -> Answer:
        params = request.params.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Answer(validate(await self._calls.ask("tools/call", params)))
