"""`Client(server)`: asks a server in the same process, as the tests of fastmcp servers do."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import Self

from ...client.client import Client as NativeClient
from ...protocol.types import Incomplete, Json
from .. import types
from .components import check
from .exceptions import ToolError
from .server import FastMCP

_REFUSED: dict[str, str] = dict.fromkeys(
    (
        "roots",
        "sampling_handler",
        "elicitation_handler",
        "auth",
        "mode",
        "extensions",
        "client_info",
        "message_handler",
    ),
    "use mcpkit.Client(server.served, elicit=..., sample=..., roots=...)",
)


@dataclass
class CallToolResult:
    """What a tool has answered; `data` is what it has returned."""

    content: list[Incomplete]
    structured_content: Json | None
    meta: Json | None
    data: Incomplete = None
    is_error: bool = False


class Client:
    """A client of a server in the same process.

    Args:
        transport: The server.
        options: Refused or, where that does no harm, not used.

    Raises:
        NotImplementedError: It is no FastMCP, or an option is not here.
    """

    def __init__(self, transport: object, **options: Incomplete) -> None:
        check(
            "Client()",
            options,
            ("timeout",),
            _REFUSED,
            ("name", "init_timeout", "log_handler", "progress_handler"),
        )
        if not isinstance(transport, FastMCP):
            raise NotImplementedError(
                f"Client({transport!r}) is not here, only Client(server) of a FastMCP: mcpkit.Client takes URLs, "
                "scripts, commands and configurations"
            )
        self._client = NativeClient(
            transport.served, timeout=options.get("timeout"), cache=False, validate=False
        )
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(self, *of: Incomplete) -> None:
        self._is_open = False
        await self._client.__aexit__(*of)

    def is_connected(self) -> bool:
        """Say whether it is connected."""
        return self._is_open

    async def ping(self) -> bool:
        """See whether the server is there."""
        await self.list_tools()
        return True

    async def list_tools(self) -> list[types.Tool]:
        """Return all tools."""
        listed = (await self._client.request("tools/list"))["tools"]
        return [types.Tool.model_validate(each) for each in listed]

    async def list_resources(self) -> list[types.Resource]:
        """Return all resources."""
        return [types.Resource.model_validate(each) for each in await self._client.list_resources()]

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Return all templates of resources."""
        return [
            types.ResourceTemplate.model_validate(each)
            for each in await self._client.list_resource_templates()
        ]

    async def list_prompts(self) -> list[types.Prompt]:
        """Return all prompts."""
        return [types.Prompt.model_validate(each) for each in await self._client.list_prompts()]

    async def call_tool_mcp(self, name: str, arguments: Json | None = None) -> types.CallToolResult:
        """Call a tool, and return what it has answered as it stands."""
        said = await self._client.request("tools/call", {"name": name, "arguments": arguments or {}})
        return types.CallToolResult.model_validate(said)

    async def call_tool(
        self, name: str, arguments: Json | None = None, *, raise_on_error: bool = True, **options: Incomplete
    ) -> CallToolResult:
        """Call a tool. Raises ToolError if it fails, unless that is not wanted."""
        check(
            "call_tool()",
            options,
            (),
            {"version": "call it by its name"},
            ("timeout", "progress_handler", "meta"),
        )
        result = await self.call_tool_mcp(name, arguments)
        if result.isError and raise_on_error:
            raise ToolError(
                getattr(result.content[0], "text", "")
                if result.content
                else f"Tool '{name}' returned an error"
            )
        data = structured = result.structuredContent
        ours: Json = (result.meta or {}).get("fastmcp") or {}
        is_wrapped = ours.get("wrap_result", False)
        if structured is not None and is_wrapped:
            data = structured.get("result")
        return CallToolResult(
            result.content, structured, result.meta, None if result.isError else data, result.isError
        )

    async def read_resource(self, uri: Incomplete) -> list[Incomplete]:
        """Return the contents of a resource."""
        said = {"contents": await self._client.read(str(uri))}
        found: list[Incomplete] = types.ReadResourceResult.model_validate(said).contents
        return found

    async def get_prompt(self, name: str, arguments: Json | None = None) -> types.GetPromptResult:
        """Return the messages of a prompt."""
        said = await self._client.request("prompts/get", {"name": name, "arguments": arguments or {}})
        return types.GetPromptResult.model_validate(said)

    async def complete(self, ref: Incomplete, argument: dict[str, str]) -> Incomplete:
        """Return what completes an argument."""
        asked = ref.model_dump(mode="json", by_alias=True, exclude_none=True)
        said = await self._client.request("completion/complete", {"ref": asked, "argument": argument})
        return types.Completion.model_validate(said["completion"])
