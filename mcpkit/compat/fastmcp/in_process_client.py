"""`Client(server)` for tests of fastmcp servers: a client in the same process."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import Self

from ...client.client import Client as NativeClient
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from .. import types
from .fastmcp_components import Replacement, ToolError, alternatives, check_options, check_positional
from .fastmcp_server import FastMCP

_OPTION_ALTERNATIVES = alternatives("""
roots sampling_handler elicitation_handler auth mode extensions client_info message_handler sampling_capabilities \
prior_discover input_required_max_rounds result_claims: use mcpkit.Client(server.served, elicitation_handler=..., \
sampling_handler=..., roots=...)
""")
_ATTRIBUTE_ALTERNATIVES = alternatives("""
session initialize_result server_info server_capabilities instructions protocol_version new set_roots close initialize \
set_sampling_callback set_elicitation_callback set_logging_level: use mcpkit.Client(server.served)
""")
_CALL_ALTERNATIVES = alternatives("""
version cache_mode: pass only the name
task task_id ttl: use @server.tool(task=True) and Client of mcpkit
""")
_IGNORED_OPTIONS = ("timeout", "progress_handler", "meta", "max_pages")


def _check(function: str, options: Json) -> None:
    check_options(function, options, (), _CALL_ALTERNATIVES, _IGNORED_OPTIONS)


@dataclass
class CallToolResult:
    """The result of a tool; `data` is the return value of its function."""

    content: list[Incomplete]
    structured_content: Json | None
    meta: Json | None
    data: Incomplete = None
    is_error: bool = False


class Client(Replacement):
    """A client of a server in the same process.

    Args:
        transport: The server.
        options: Options of fastmcp. They are ignored if that is harmless, and refused otherwise.

    Raises:
        NotImplementedError: `transport` is not a FastMCP, or an option is not supported.
    """

    refused = _ATTRIBUTE_ALTERNATIVES

    def __init__(self, transport: object, *positional: object, **options: Incomplete) -> None:
        check_positional("Client()", positional, "name=, timeout=")
        check_options(
            "Client()",
            options,
            ("timeout",),
            _OPTION_ALTERNATIVES,
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

    async def __aexit__(self, *exception: Incomplete) -> None:
        self._is_open = False
        await self._client.__aexit__(*exception)

    def is_connected(self) -> bool:
        """Return True if the client is connected."""
        return self._is_open

    async def ping(self) -> bool:
        """Check that the server responds."""
        await self.list_tools()
        return True

    async def list_tools(self, **options: object) -> list[types.Tool]:
        """Return all tools."""
        _check("list_tools()", options)
        listed = (await self._client.request("tools/list"))["tools"]
        return [types.Tool.model_validate(each) for each in listed]

    async def list_resources(self, **options: object) -> list[types.Resource]:
        """Return all resources."""
        _check("list_resources()", options)
        return [types.Resource.model_validate(each) for each in await self._client.list_resources()]

    async def list_resource_templates(self, **options: object) -> list[types.ResourceTemplate]:
        """Return all resource templates."""
        _check("list_resource_templates()", options)
        return [
            types.ResourceTemplate.model_validate(each)
            for each in await self._client.list_resource_templates()
        ]

    async def list_prompts(self, **options: object) -> list[types.Prompt]:
        """Return all prompts."""
        _check("list_prompts()", options)
        return [types.Prompt.model_validate(each) for each in await self._client.list_prompts()]

    async def call_tool_mcp(
        self, name: str, arguments: Json | None = None, **options: object
    ) -> types.CallToolResult:
        """Call a tool, and return the `CallToolResult` of the protocol."""
        _check("call_tool_mcp()", options)
        params = {"name": name, "arguments": arguments or {}}
        return types.CallToolResult.model_validate(await self._client.request("tools/call", params))

    async def call_tool(
        self, name: str, arguments: Json | None = None, *, raise_on_error: bool = True, **options: object
    ) -> CallToolResult:
        """Call a tool. Raises ToolError if it fails, unless `raise_on_error` is False."""
        _check("call_tool()", options)
        result = await self.call_tool_mcp(name, arguments)
        if result.isError and raise_on_error:
            raise ToolError(
                getattr(result.content[0], "text", "")
                if result.content
                else f"Tool '{name}' returned an error"
            )
        data = structured = result.structuredContent
        meta: Json = (result.meta or {}).get("fastmcp") or {}
        if structured is not None and meta.get("wrap_result", False):
            data = structured.get("result")
        return CallToolResult(
            result.content, structured, result.meta, None if result.isError else data, result.isError
        )

    async def read_resource(self, uri: Incomplete, **options: object) -> list[Incomplete]:
        """Return the contents of a resource."""
        _check("read_resource()", options)
        result = {"contents": await self._client.read_resource(str(uri))}
        contents: list[Incomplete] = types.ReadResourceResult.model_validate(result).contents
        return contents

    async def get_prompt(
        self, name: str, arguments: Json | None = None, **options: object
    ) -> types.GetPromptResult:
        """Return the messages of a prompt."""
        _check("get_prompt()", options)
        params = {"name": name, "arguments": arguments or {}}
        return types.GetPromptResult.model_validate(await self._client.request("prompts/get", params))

    async def complete(
        self, ref: Incomplete, argument: dict[str, str], context_arguments: dict[str, str] | None = None
    ) -> Incomplete:
        """Return the completion of an argument."""
        params: Json = {
            "ref": ref.model_dump(mode="json", by_alias=True, exclude_none=True),
            "argument": argument,
        }
        if context_arguments:
            params["context"] = {"arguments": context_arguments}
        result = await self._client.request("completion/complete", params)
        return types.Completion.model_validate(result["completion"])
