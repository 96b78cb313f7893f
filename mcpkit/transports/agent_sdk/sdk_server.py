"""Server for agent SDKs that accept one in their process, with the interface of `mcp.server.Server` that they use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ...engine.engine import Served
from ...identity.principals_and_scopes import Principal
from ...protocol.jsonrpc import Json
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


class _Model(Protocol):
    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> Json: ...


class _Request(Protocol):
    @property
    def params(self) -> _Model: ...


ServedT = TypeVar("ServedT", bound=Served)

Validate = Callable[[Json], object]
"""Creates an object of `mcp.types`."""


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
        self.server = server
        self._principal = principal
        self._calls = Calls(server, principal)
        self.name = server.engine.runtime.name
        self.version = server.engine.version

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
    def request_handlers(self) -> dict[type, Callable[[_Request], Awaitable[Answer]]]:
        """Handlers for `ListToolsRequest` and `CallToolRequest` of the installed `mcp.types`.

        Each takes such a request, and returns an object with the result in `root`. No session needs to be opened; see
        `aclose`. Cancelling the awaiting task cancels the call. Exceptions of a handler contain the message for the
        client.

        Raises:
            ImportError: The package `mcp` is not installed.
        """
        types = installed("mcp.types")
        return {
            types.ListToolsRequest: partial(self._list_tools, types.ListToolsResult.model_validate),
            types.CallToolRequest: partial(self._call_tool, types.CallToolResult.model_validate),
        }

    async def aclose(self) -> None:
        """Leave the lifespan that `request_handlers` entered in this event loop; see `Calls.aclose`."""
        await self._calls.aclose()

    async def _list_tools(self, validate: Validate, request: object) -> Answer:
        """Return all tools, of all pages."""
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
