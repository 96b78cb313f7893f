"""Options of a server from its constructor or the environment, and alternatives to unsupported ones."""

from __future__ import annotations

import os
from typing import Final

from ..mcp_fastmcp.settings import Settings as PlainSettings

_HTTP = "host port sse_path message_path streamable_http_path json_response stateless_http debug log_level"
_OWN = """
website_url icons tools version lifespan on_duplicate on_duplicate_tools on_duplicate_resources on_duplicate_prompts
mask_error_details strict_input_validation dereference_schemas client_log_level experimental_capabilities
"""
_UNUSED = """
dependencies list_page_size request_state_security session_state_store sampling_handler sampling_handler_behavior
include_fastmcp_meta run_middleware
"""
HTTP: Final = frozenset(_HTTP.split())
OWN: Final = HTTP | frozenset(_OWN.split())
UNUSED: Final = frozenset(_UNUSED.split())
_VISIBLE = "call tool.disable(), or use @server.tool(access=Access(visible=...)) of mcpkit"
_CHANGED = "declare the components with the names and arguments that they should have"
_INCLUDED = "use server.include(...) of mcpkit, or call the other server with mcpkit.Client"
_TASKS = "use @server.tool(task=True) of mcpkit"
REFUSED: Final = {
    **dict.fromkeys(("include_tags", "exclude_tags", "enable", "disable"), _VISIBLE),
    **dict.fromkeys(
        ("transforms", "tool_transformations", "add_transform", "add_tool_transformation"), _CHANGED
    ),
    **dict.fromkeys(("providers", "add_provider", "as_proxy", "from_openapi", "from_fastapi"), _INCLUDED),
    **dict.fromkeys(("middleware", "add_middleware"), "use @server.middleware of mcpkit"),
    **dict.fromkeys(("cache_ttl", "cache_scope"), "use Server(cache=...) of mcpkit"),
    **dict.fromkeys(("tasks", "add_extension", "get_tasks", "docket"), _TASKS),
    **dict.fromkeys(
        ("_tool_manager", "_resource_manager", "_prompt_manager", "local_provider"), "use mcp.list_tools()"
    ),
    "auth": "use Server(auth=...) of mcpkit",
    "resource_security": "omit it: paths outside the folder are always rejected",
    "tool_serializer": "return a ToolResult",
    "tool_names": "set the names on the tools of the other server",
    **dict.fromkeys(
        ("add_template", "add_completion_handler"),
        "use the decorators @mcp.resource(uri) and @mcp.completion",
    ),
    **dict.fromkeys(("get_resource", "get_resources"), "use await mcp.list_resources()"),
    **dict.fromkeys(
        ("get_resource_template", "get_resource_templates"), "use await mcp.list_resource_templates()"
    ),
    "get_prompts": "use await mcp.list_prompts()",
    **dict.fromkeys(("unmount", "from_client"), "mount only the servers that should be served"),
    "add_resource_fn": "use @mcp.resource(uri)",
}
ASKED: Final = {"version": "pass only the name: each component has one version", "task_meta": _TASKS}
"""Arguments of lookups and calls that are not supported."""


class Settings(PlainSettings):
    """Settings from environment variables `FASTMCP_...`."""

    mask_error_details: bool = False
    strict_input_validation: bool = False
    client_log_level: str | None = None
    transport: str = "stdio"


_GIVEN = {name: os.environ.get(f"FASTMCP_{name.upper()}") for name in Settings.model_fields}
settings = Settings.model_validate({name: value for name, value in _GIVEN.items() if value is not None})
