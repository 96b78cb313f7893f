"""A low-level server with each of its decorators."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.server.stdio
import mcp.types as types
from mcp.server import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[dict[str, Any]]:
    yield {"lines": ["first"]}


server: Server = Server("ledger", lifespan=lifespan)
LINE = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
    "required": ["text"],
}


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [
        types.Tool(name="write", description="Write a line", inputSchema=LINE),
        types.Tool(
            name="sum",
            title="The sum",
            inputSchema={"type": "object"},
            outputSchema={
                "type": "object",
                "properties": {"lines": {"type": "integer"}},
                "required": ["lines"],
            },
            annotations=types.ToolAnnotations(readOnlyHint=True),
        ),
        types.Tool(name="fail", inputSchema={"type": "object", "properties": {"how": {"type": "string"}}}),
        types.Tool(name="ask", inputSchema={"type": "object"}),
    ]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    context = server.request_context
    lines = context.lifespan_context["lines"]
    if name == "write":
        lines.append(arguments["text"])
        if context.meta is not None and context.meta.progressToken is not None:
            await context.session.send_progress_notification(context.meta.progressToken, 1, 2, "written")
        await context.session.send_log_message(level="info", data={"lines": len(lines)}, logger="ledger")
        await context.session.send_resource_updated(AnyUrl("ledger://lines"))
        return [types.TextContent(type="text", text=f"{len(lines)} lines")]
    if name == "sum":
        return {"lines": len(lines)}
    if name == "ask":
        roots = await context.session.list_roots()
        await context.session.send_tool_list_changed()
        return [types.TextContent(type="text", text=str([str(root.uri) for root in roots.roots]))], {
            "asked": True
        }
    if name == "fail":
        if arguments.get("how") == "error":
            raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message="not so", data={"why": 1}))
        raise ValueError(f"failed {arguments.get('how')}")
    raise ValueError(f"Unknown tool: {name}")


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [
        types.Resource(uri=AnyUrl("ledger://lines"), name="lines", description="All", mimeType="text/plain")
    ]


@server.list_resource_templates()
async def list_resource_templates() -> list[types.ResourceTemplate]:
    return [types.ResourceTemplate(uriTemplate="ledger://lines/{number}", name="line")]


@server.read_resource()
async def read_resource(uri: AnyUrl) -> Any:
    if str(uri) == "ledger://lines":
        return "\n".join(server.request_context.lifespan_context["lines"])
    if str(uri) == "ledger://lines/0":
        return [ReadResourceContents(content=b"zero", mime_type="application/octet-stream")]
    raise ValueError(f"No such line: {uri}")


@server.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    await server.request_context.session.send_resource_updated(uri)


@server.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    return None


@server.set_logging_level()
async def set_logging_level(level: types.LoggingLevel) -> None:
    await server.request_context.session.send_log_message(level, f"now {level}")


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    arguments = [types.PromptArgument(name="year", description="Which", required=True)]
    return [types.Prompt(name="report", title="Report", description="Report a year", arguments=arguments)]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    if name != "report" or not arguments:
        raise ValueError(f"Unknown prompt or no year: {name}")
    said = types.TextContent(type="text", text=f"Report {arguments['year']}")
    return types.GetPromptResult(
        description="A report", messages=[types.PromptMessage(role="user", content=said)]
    )


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument, context: Any) -> types.Completion | None:
    if isinstance(ref, types.PromptReference):
        return types.Completion(values=["2024", "2025"], total=2, hasMore=False)
    return None


async def main() -> None:
    async with mcp.server.stdio.stdio_server() as (read, write):
        await server.run(
            read,
            write,
            InitializationOptions(
                server_name="ledger",
                server_version="0.3",
                capabilities=server.get_capabilities(
                    notification_options=NotificationOptions(tools_changed=True),
                    experimental_capabilities={"a": {}},
                ),
                instructions="Keep the ledger.",
            ),
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
