"""Servers and tests written for fastmcp, in this process."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse

import mcpkit
from mcpkit.compat.standalone import Client, Context, FastMCP
from mcpkit.compat.standalone.exceptions import NotFoundError, ToolError
from mcpkit.compat.standalone.tools import Tool, ToolResult

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Point(BaseModel):
    x: int


def shop() -> FastMCP:
    mcp = FastMCP("shop", instructions="Buy.")

    @mcp.tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @mcp.tool
    def point(x: int) -> Point:
        return Point(x=x)

    @mcp.tool
    async def fail(ctx: Context) -> None:
        raise ToolError(f"{ctx.fastmcp.name} is closed")

    @mcp.resource("data://{name}")
    def data(name: str) -> str:
        return name

    @mcp.prompt
    def ask(what: str) -> str:
        return f"What is {what}?"

    return mcp


async def test_client_returns_results_of_tools():
    async with Client(shop()) as client:
        assert client.is_connected()
        assert await client.ping()
        assert [tool.name for tool in await client.list_tools()] == ["add", "point", "fail"]
        result = await client.call_tool("add", {"a": 1})
        assert (result.data, result.structured_content, result.is_error) == (3, {"result": 3}, False)
        assert result.content[0].text == "3"
        assert (await client.call_tool("point", {"x": 1})).data == {"x": 1}
        with pytest.raises(ToolError, match="shop is closed"):
            await client.call_tool("fail")
        assert (await client.call_tool("fail", raise_on_error=False)).is_error
        assert [each.text for each in await client.read_resource("data://a")] == ["a"]
        assert [each.uriTemplate for each in await client.list_resource_templates()] == ["data://{name}"]
        assert await client.list_resources() == []
        assert [each.name for each in await client.list_prompts()] == ["ask"]
        prompt = await client.get_prompt("ask", {"what": "this"})
        assert prompt.messages[0].content.text == "What is this?"


async def test_server_methods_work_without_client():
    mcp = shop()
    assert (await mcp.call_tool("add", {"a": 1})).structured_content == {"result": 3}
    assert [part.content for part in await mcp.read_resource("data://a")] == ["a"]
    assert (await mcp.render_prompt("ask", {"what": "x"})).messages[0].content["text"] == "What is x?"
    assert list(await mcp.get_tools()) == [tool.name for tool in await mcp.list_tools()]
    with pytest.raises(NotFoundError):
        await mcp.call_tool("nowhere")


async def test_decorators_return_the_function():
    mcp = FastMCP()

    @mcp.tool
    def add(a: int) -> int:
        return a + 1

    assert add(1) == 2
    mcp.remove_tool("add")
    with pytest.raises(NotFoundError):
        mcp.remove_tool("add")
    tool = mcp.add_tool(Tool.from_function(add, name="again", enabled=False))
    assert await mcp.list_tools() == []
    tool.enable()
    assert (await mcp.get_tool("again")).parameters["required"] == ["a"]
    assert (await tool.run({"a": "2"})).structured_content == {"result": 3}


async def test_mask_error_details_hides_unexpected_errors():
    mcp = FastMCP(mask_error_details=True, strict_input_validation=True)

    @mcp.tool
    def fail(on_purpose: bool, count: int = 1) -> None:
        raise ToolError("on purpose") if on_purpose else ValueError("secret")

    async with Client(mcp) as client:
        with pytest.raises(ToolError, match=r"^Error calling tool 'fail'$"):
            await client.call_tool("fail", {"on_purpose": False})
        with pytest.raises(ToolError, match=r"^on purpose$"):
            await client.call_tool("fail", {"on_purpose": True})
        with pytest.raises(ToolError, match="valid integer"):
            await client.call_tool("fail", {"on_purpose": True, "count": "1"})


async def test_context_sample_and_list_roots_request_the_client():
    mcp = FastMCP("asks")

    @mcp.tool
    async def summarize(ctx: Context) -> list[str]:
        said = await ctx.sample("A text", system_prompt="Be short", model_preferences="small", max_tokens=5)
        return [said.text, *(str(root.uri) for root in await ctx.list_roots())]

    async def sample(request: Any) -> str:
        assert request.params["systemPrompt"] == "Be short"
        return "Short"

    async with mcpkit.Client(mcp.served, sampling_handler=sample, roots=["file:///home"]) as client:
        assert (await client.call_tool("summarize", {})).structured_content == {
            "result": ["Short", "file:///home"]
        }


async def test_http_app_has_own_routes_and_middleware():
    mcp = shop()
    seen: list[str] = []

    class Watching:
        def __init__(self, app: Any, name: str) -> None:
            self.app, self.name = app, name

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(self.name)
            await self.app(scope, receive, send)

    @mcp.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> PlainTextResponse:
        return PlainTextResponse("well")

    @mcp.tool
    def where(ctx: Context) -> list[str]:
        from mcpkit.compat.standalone.dependencies import get_http_headers, get_http_request

        return [get_http_request().url.path, get_http_headers()["x-shop"], str(ctx.transport)]

    app: Any = mcp.http_app(path="/api/mcp", middleware=[Middleware(Watching, name="watching")])
    assert callable(app.lifespan)
    async with mcpkit.Client(app, path="/api/mcp", headers={"X-Shop": "1"}) as client:
        answer = await client.call_tool("where", {})
    assert answer.structured_content == {"result": ["/api/mcp", "1", "streamable-http"]}
    assert "watching" in seen


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"auth": object()}, "Server(auth=...)"),
    ({"middleware": [object()]}, "@server.middleware"),
    ({"providers": [object()]}, "server.include"),
    ({"transforms": [object()]}, "names and arguments"),
    ({"include_tags": {"a"}}, "visible="),
    ({"tasks": True}, "task=True"),
    ({"resource_security": object()}, "outside the folder"),
]


@pytest.mark.parametrize(("options", "cure"), REFUSED)
def test_unsupported_options_raise_with_alternative(options, cure):
    with pytest.raises(NotImplementedError, match=f"{next(iter(options))}=.*{re.escape(cure)}"):
        FastMCP("x", **options)
    FastMCP("x", **dict.fromkeys(options))


def test_unknown_keywords_raise():
    mcp = FastMCP("x")
    with pytest.raises(TypeError, match=r"FastMCP\(\) got an unexpected keyword argument 'nonsense'"):
        FastMCP("x", nonsense=1)
    with pytest.raises(TypeError, match=r"tool\(\) got an unexpected keyword argument 'nonsense'"):
        mcp.tool(nonsense=1)(lambda: 1)
    with pytest.raises(NotImplementedError, match=r"task= of tool\(\).*task=True"):
        mcp.tool(name="a", task=True)(lambda: 1)
    mcp.tool(name="a", task=False)(lambda: 1)
    with pytest.raises(TypeError, match="as keyword"):
        mcp.tool("a", name="b")
    with pytest.raises(TypeError, match="must be a function"):
        mcp.tool(1)
    with pytest.raises(TypeError, match="method"):
        mcp.tool(Tool.enable)
    with pytest.raises(TypeError, match="@resource"):
        mcp.resource(lambda: 1)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"mcpkit\.Client"):
        Client("https://example.com")  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"sampling_handler= of Client\(\).*mcpkit\.Client"):
        Client(mcp, sampling_handler=print)


def test_invalid_tool_results_are_rejected():
    with pytest.raises(ValueError, match="Either content or structured_content"):
        ToolResult()
    with pytest.raises(ValueError, match="must be a dict"):
        ToolResult(structured_content=[1])
    with pytest.raises(ValueError, match="object types"):
        FastMCP("x").tool(output_schema={"type": "string"}, name="a")(lambda: 1)
