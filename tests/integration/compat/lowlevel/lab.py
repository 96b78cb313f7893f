"""A low-level server in the style of the many that there are; the same source runs on `mcp` 1.x and on mcpkit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import mcp.types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import McpError, UrlElicitationRequiredError

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[dict[str, Any]]:
    yield {"database": server.name}


server = Server("lab", "1.2.3", "Try things.", website_url="https://example.com", lifespan=lifespan)
received: list[str] = []
kept: list[Any] = []
background: set[asyncio.Task[None]] = set()


def text(value: object) -> types.TextContent:
    return types.TextContent(type="text", text=str(value))


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [
        types.Tool(name="greet a person", description="  Greet.\n  ", inputSchema=PERSON),
        types.Tool(
            name="add",
            title="Adds",
            inputSchema={"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}},
            outputSchema=SUM,
            annotations=types.ToolAnnotations(readOnlyHint=True, title="Sum"),
            icons=[types.Icon(src="data:image/png;base64,aaaa", mimeType="image/png", sizes=["1x1"])],
            _meta={"a": {"b": [1, None]}},
        ),
        types.Tool(name="broken", inputSchema={"type": "nothing"}),
        types.Tool(name="contents", inputSchema={}),
    ]


async def greet(arguments: dict[str, Any]) -> Any:
    return [text(f"Hello {arguments['name']}")]


async def add(arguments: dict[str, Any]) -> Any:
    answers = {
        "dict": {"sum": 3}, "wrong": {"sum": "3"}, "none": [text("no structure")],
        "both": ([text("three")], {"sum": 3, "more": None}),
        "result": types.CallToolResult(content=[text("3")], structuredContent={"sum": "x"}, _meta={"m": 1}),
    }  # fmt: skip
    return answers[arguments["b"]]


async def contents(arguments: dict[str, Any]) -> Any:
    file = types.TextResourceContents(uri="file:///a b.txt", text="ä\n", mimeType="text/x", _meta={"k": 1})
    notes = types.Annotations(audience=["user"], priority=0.5)
    return [
        text("text"),
        types.TextContent(type="text", text="noted", annotations=notes, _meta={"x": 1}),
        types.ImageContent(type="image", data="aaaa", mimeType="image/png"),
        types.AudioContent(type="audio", data="aaaa", mimeType="audio/wav"),
        types.EmbeddedResource(type="resource", resource=file),
        types.ResourceLink(type="resource_link", name="l", uri="https://example.com", size=3),
    ]


async def nothing(_: dict[str, Any]) -> Any:
    return None


async def generated(_: dict[str, Any]) -> Any:
    return (text(number) for number in range(2))


async def fails(arguments: dict[str, Any]) -> Any:
    url = "https://example.com/login"
    page = types.ElicitRequestURLParams(message="Log in", url=url, elicitationId="e1")
    raise {
        "value": ValueError("a value is wrong: ä"),
        "empty": RuntimeError(),
        "key": KeyError("key"),
        "mcp": McpError(types.ErrorData(code=-32099, message="own", data={"a": 1})),
        "url": UrlElicitationRequiredError([page]),
    }[arguments["kind"]]


async def context(_: dict[str, Any]) -> Any:
    ctx = server.request_context
    client = ctx.session.client_params
    capabilities = [
        types.ClientCapabilities(roots=types.RootsCapability(listChanged=True)),
        types.ClientCapabilities(sampling=types.SamplingCapability()),
        *(types.ClientCapabilities(experimental={"x": {"y": number}}) for number in (1, 2)),
    ]
    return [
        text(ctx.request_id is not None),
        text(ctx.meta.model_dump_json() if ctx.meta else None),
        text((ctx.lifespan_context, ctx.request)),
        text((client.clientInfo.name, client.protocolVersion, client.capabilities.model_dump_json())),
        text([ctx.session.check_client_capability(each) for each in capabilities]),
    ]


async def notifies(_: dict[str, Any]) -> Any:
    ctx = server.request_context
    session = ctx.session
    await session.send_log_message("debug", {"a": [1, None]}, "me", related_request_id=ctx.request_id)
    await session.send_log_message(level="error", data="plain")
    await session.send_log_message(level="info", data=datetime(2026, 1, 2))
    for done in (1, 1, 0.5):
        await session.send_progress_notification(ctx.meta.progressToken, done, total=2, message="m")
    await session.send_progress_notification("other", 3)
    await session.send_resource_updated("file:///a")
    await session.send_resource_list_changed()
    await session.send_tool_list_changed()
    await session.send_prompt_list_changed()
    await session.send_elicit_complete("e1")
    changed = types.ResourceUpdatedNotification(
        params=types.ResourceUpdatedNotificationParams(uri="file:///b")
    )
    await session.send_notification(types.ServerNotification(changed))
    return []


async def asks(arguments: dict[str, Any]) -> Any:
    session = server.request_context.session
    roots = types.ServerRequest(types.ListRootsRequest())
    tools = [types.Tool(name="t", inputSchema={})]

    def sample(**more: Any) -> Any:
        return session.create_message(
            [types.SamplingMessage(role="user", content=text("Say it"))],
            max_tokens=10,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["x"],
            include_context="none",
            model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="m")], speedPriority=1),
            metadata={"a": 1},
            **more,
        )

    answer = await {
        "form": lambda: session.elicit_form("Where?", FORM),
        "old form": lambda: session.elicit(message="Where?", requestedSchema=FORM),
        "page": lambda: session.elicit_url("Log in", "https://example.com/", "e2"),
        "roots": session.list_roots, "ping": session.send_ping,
        "own": lambda: session.send_request(roots, types.ListRootsResult), "sample": sample,
        "sample with tools": lambda: sample(tools=tools),
    }[arguments["kind"]]()  # fmt: skip
    return [text(answer.model_dump_json())]


async def later(_: dict[str, Any]) -> Any:
    """Answer at once, and tell and ask afterwards."""
    session = server.request_context.session
    kept.append(session)
    begun = asyncio.Event()

    async def send_later() -> None:
        await begun.wait()
        await session.send_log_message("info", "later")
        await session.send_tool_list_changed()
        roots = await session.list_roots()
        await session.send_log_message("info", [str(each.uri) for each in roots.roots])

    task = asyncio.create_task(send_later())
    background.add(task)
    asyncio.get_running_loop().call_later(0.05, begun.set)
    return [text(all(each is session for each in kept))]


async def notes(_: dict[str, Any]) -> Any:
    return [text(received)]


FUNCTIONS = (add, asks, contents, context, fails, generated, later, notes, nothing, notifies)
TOOLS: dict[str, Any] = {"greet a person": greet, **{each.__name__: each for each in FUNCTIONS}}


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    if name not in TOOLS:
        raise ValueError(f"Unknown tool: {name}")
    return await TOOLS[name](arguments)


@server.list_resources()
async def list_resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
    cursor = request.params.cursor if request.params else None
    if cursor == "wrong":
        raise McpError(types.ErrorData(code=-32602, message="Invalid cursor"))
    resources = [types.Resource(uri="file:///a b", name="a", mimeType="text/plain", size=1)]
    return types.ListResourcesResult(
        resources=resources, nextCursor=None if cursor else "2", _meta={"p": cursor}
    )


@server.list_resource_templates()
async def list_resource_templates() -> list[types.ResourceTemplate]:
    return [types.ResourceTemplate(uriTemplate="file:///{+path}", name="files", description="d")]


@server.read_resource()
async def read_resource(uri: Any) -> Any:
    parts = [ReadResourceContents("a", "text/a"), ReadResourceContents(b"b", "image/b", {"k": 1})]
    known = {"x:text": "text", "x:bytes": b"\x00\xff", "x:parts": [*parts, ReadResourceContents("c")]}
    if str(uri) not in known:
        raise ValueError(f"nothing at {uri}")
    return known[str(uri)]


@server.subscribe_resource()
async def subscribe(uri: Any) -> None:
    received.append(f"+{uri}")


@server.unsubscribe_resource()
async def unsubscribe(uri: Any) -> None:
    received.append(f"-{uri}")


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    argument = types.PromptArgument(name="who", description="d", required=True)
    return [types.Prompt(name="p", title="P", arguments=[argument]), types.Prompt(name="q")]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    if name != "p":
        raise ValueError(f"Unknown prompt: {name}")
    message = types.PromptMessage(role="user", content=text(arguments))
    return types.GetPromptResult(description="d", messages=[message])


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion | None:
    if argument.value == "none":
        return None
    return types.Completion(
        values=[ref.type, argument.name, str(context and context.arguments)], total=9, hasMore=True
    )


@server.set_logging_level()
async def set_level(level: str) -> None:
    received.append(level)


async def main() -> None:
    capabilities = server.get_capabilities(
        notification_options=NotificationOptions(tools_changed=True),
        experimental_capabilities={"x": {"y": 1}},
    )
    options = InitializationOptions(
        server_name="lab over stdio",
        server_version="4.5.6",
        capabilities=capabilities,
        instructions="Try more.",
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


if __name__ == "__main__":
    asyncio.run(main())
