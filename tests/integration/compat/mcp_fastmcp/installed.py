"""Tools that use the classes of an installed `mcp`, 1.x or 2.x: what they say and return, as JSON."""

import asyncio
import json

from mcp import types
from mcp.shared.exceptions import UrlElicitationRequiredError

from mcpkit.compat.mcp_fastmcp.mcp_components import ToolManager

try:
    from mcp.server.mcpserver import Audio, Context, Image
except ImportError:
    from mcp.server.fastmcp import Audio, Context, Image


def made(model, **members):
    return model.model_validate(members)


def with_context(x: int, ctx: Context) -> str:
    return f"{x} {ctx}"


def optional_context(x: int, ctx: Context | None = None) -> str:
    return f"{x} {ctx}"


def text() -> list[types.TextContent]:
    return [types.TextContent(type="text", text="hi")]


def blocks():
    picture = made(types.ImageContent, type="image", data="eA==", mimeType="image/png")
    contents = made(types.TextResourceContents, uri="a://b", text="x", mimeType="text/plain")
    link = types.ResourceLink(type="resource_link", uri="a://b", name="x")
    resource = types.EmbeddedResource(type="resource", resource=contents)
    return [Image(data=b"x"), Audio(data=b"y"), picture, resource, link]


def whole() -> types.CallToolResult:
    return made(types.CallToolResult, content=text(), structuredContent={"a": 1}, isError=True)


def visit():
    form = {"mode": "url", "url": "https://example.org", "message": "m", "elicitationId": "1"}
    raise UrlElicitationRequiredError([made(types.ElicitRequestURLParams, **form)])


async def used(function):
    hints = made(types.ToolAnnotations, readOnlyHint=True)
    tool = ToolManager().add_tool(function, annotations=hints, icons=[types.Icon(src="a://b")])
    try:
        result = await tool.run({"x": 1}, context="C", convert_result=True)
    except Exception as error:
        return [type(error).__name__, str(error)]
    said = [*(tool.icons or ()), tool.annotations]
    content = result[0] if isinstance(result, tuple) else result
    shown = content if isinstance(content, list) else [content]
    assert all(type(each).__module__ == "mcpkit.compat.types" for each in [*said, *shown]), (said, shown)
    dumped = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in [*said, *shown]]
    return [tool.context_kwarg, dumped, result[1] if isinstance(result, tuple) else None]


async def main():
    functions = (with_context, optional_context, text, blocks, whole, visit)
    print(json.dumps({function.__name__: await used(function) for function in functions}))


if __name__ == "__main__":
    asyncio.run(main())
