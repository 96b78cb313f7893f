"""`Client(server)` for tests of fastmcp servers: a client in the same process."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import Self

from ...client.client import Client as NativeClient
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from .. import types
from .components import check
from .exceptions import ToolError
from .refusing import Refuses, check_positional
from .server import FastMCP

_TASKS = "use @server.tool(task=True) and Client of mcpkit"
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
        "sampling_capabilities",
        "prior_discover",
        "input_required_max_rounds",
        "result_claims",
    ),
    "use mcpkit.Client(server.served, elicitation_handler=..., sampling_handler=..., roots=...)",
)
_WHOLE = """
session initialize_result server_info server_capabilities instructions protocol_version new set_roots close initialize
set_sampling_callback set_elicitation_callback set_logging_level
"""
_ATTRIBUTES: dict[str, str] = dict.fromkeys(_WHOLE.split(), "use mcpkit.Client(server.served)")
_ASKED = {
    **dict.fromkeys(("version", "cache_mode"), "pass only the name"),
    **dict.fromkeys(("task", "task_id", "ttl"), _TASKS),
}
_UNUSED = ("timeout", "progress_handler", "meta", "max_pages")


@dataclass
class CallToolResult:
    """The result of a tool; `data` is the return value of its function."""

    content: list[Incomplete]
    structured_content: Json | None
    meta: Json | None
    data: Incomplete = None
    is_error: bool = False


class Client(Refuses):
    """A client of a server in the same process.

    Args:
        transport: The server.
        options: Options of fastmcp. They are ignored if that is harmless, and refused otherwise.

    Raises:
        NotImplementedError: `transport` is not a FastMCP, or an option is not supported.
    """

    refused = _ATTRIBUTES

    def __init__(self, transport: object, *positional: object, **options: Incomplete) -> None:
        check_positional("Client()", positional, "name=, timeout=")
        check(
            "Client()",
            options,
            ("timeout",),
            _REFUSED,
            ("name", "init_timeout", "auto_initialize", "log_handler", "progress_handler", "cache", "verify"),
        )
        if not isinstance(transport, FastMCP):
            raise NotImplementedError(
                f"mcpkit.compat supports only Client(server) with a FastMCP, got {transport!r}. Use mcpkit.Client for "
                "URLs, scripts, commands and configurations"
            )
        self._client = NativeClient(
            transport.served, timeout=options.get("timeout"), cache=False, validate_results=False
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
        """Return True if the client is connected."""
        return self._is_open

    async def ping(self) -> bool:
        """Check that the server responds."""
        await self.list_tools()
        return True

    async def list_tools(self, **options: object) -> list[types.Tool]:
        """Return all tools."""
        check("list_tools()", options, (), _ASKED, _UNUSED)
        listed = (await self._client.request("tools/list"))["tools"]
        return [types.Tool.model_validate(each) for each in listed]

    async def list_resources(self, **options: object) -> list[types.Resource]:
        """Return all resources."""
        check("list_resources()", options, (), _ASKED, _UNUSED)
        return [types.Resource.model_validate(each) for each in await self._client.list_resources()]

    async def list_resource_templates(self, **options: object) -> list[types.ResourceTemplate]:
        """Return all resource templates."""
        check("list_resource_templates()", options, (), _ASKED, _UNUSED)
        return [
            types.ResourceTemplate.model_validate(each)
            for each in await self._client.list_resource_templates()
        ]

    async def list_prompts(self, **options: object) -> list[types.Prompt]:
        """Return all prompts."""
        check("list_prompts()", options, (), _ASKED, _UNUSED)
        return [types.Prompt.model_validate(each) for each in await self._client.list_prompts()]

    async def call_tool_mcp(
        self, name: str, arguments: Json | None = None, **options: object
    ) -> types.CallToolResult:
        """Call a tool, and return the `CallToolResult` of the protocol."""
        check("call_tool_mcp()", options, (), _ASKED, _UNUSED)
        said = await self._client.request("tools/call", {"name": name, "arguments": arguments or {}})
        return types.CallToolResult.model_validate(said)

    async def call_tool(
        self, name: str, arguments: Json | None = None, *, raise_on_error: bool = True, **options: object
    ) -> CallToolResult:
        """Call a tool. Raises ToolError if it fails, unless `raise_on_error` is False."""
        check("call_tool()", options, (), _ASKED, _UNUSED)
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

    async def read_resource(self, uri: Incomplete, **options: object) -> list[Incomplete]:
        """Return the contents of a resource."""
        check("read_resource()", options, (), _ASKED, _UNUSED)
        said = {"contents": await self._client.read_resource(str(uri))}
        found: list[Incomplete] = types.ReadResourceResult.model_validate(said).contents
        return found

    async def get_prompt(
        self, name: str, arguments: Json | None = None, **options: object
    ) -> types.GetPromptResult:
        """Return the messages of a prompt."""
        check("get_prompt()", options, (), _ASKED, _UNUSED)
        said = await self._client.request("prompts/get", {"name": name, "arguments": arguments or {}})
        return types.GetPromptResult.model_validate(said)

    async def complete(
        self, ref: Incomplete, argument: dict[str, str], context_arguments: dict[str, str] | None = None
    ) -> Incomplete:
        """Return the completion of an argument."""
        asked: Json = {
            "ref": ref.model_dump(mode="json", by_alias=True, exclude_none=True),
            "argument": argument,
        }
        if context_arguments:
            asked["context"] = {"arguments": context_arguments}
        said = await self._client.request("completion/complete", asked)
        return types.Completion.model_validate(said["completion"])
