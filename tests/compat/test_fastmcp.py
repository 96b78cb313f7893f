"""Servers and tests written for fastmcp, in this process."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

import mcpkit
from mcpkit.compat.fastmcp import Client, Context, FastMCP
from mcpkit.compat.fastmcp.fastmcp_components import NotFoundError, ToolError
from mcpkit.compat.fastmcp.fastmcp_tools import Tool, ToolResult
from tests.helpers.tables import each_row


def shop() -> FastMCP:
    mcp = FastMCP("shop", instructions="Buy.")

    @mcp.tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

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
        assert [tool.name for tool in await client.list_tools()] == ["add", "fail"]
        result = await client.call_tool("add", {"a": 1})
        assert (result.data, result.structured_content, result.is_error) == (3, {"result": 3}, False)
        assert result.content[0].text == "3"
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


@dataclass
class Seat:
    row: int
    window: bool = False


Taste = Enum("Taste", {"SWEET": "sweet", "SOUR": "sour"})


@each_row(("response_type", "field", "content", "data"), [
    (int, {"type": "integer"}, {"value": 3}, 3),
    (bool, {"type": "boolean"}, {"value": True}, True),
    (["a", "b"], {"type": "string", "enum": ["a", "b"]}, {"value": "b"}, "b"),
    ([["a", "b"]], {"type": "array", "items": {"enum": ["a", "b"]}}, {"value": ["a"]}, ["a"]),
    ({"a": {"title": "A"}, "b": {}},
     {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]}, {"value": "a"}, "a"),
    ([{"a": {"title": "A"}}],
     {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, {"value": ["a"]}, ["a"]),
    (Literal["x", "y"], {"type": "string", "enum": ["x", "y"]}, {"value": "x"}, "x"),
    (Taste, {"type": "string", "enum": ["sweet", "sour"]}, {"value": "sour"}, Taste.SOUR),
    (Seat, None, {"row": 4, "window": True}, Seat(4, window=True)),
])  # fmt: skip
async def test_context_elicit_requests_a_form_and_returns_its_data(response_type, field, content, data):
    mcp = FastMCP("asks")
    answers: list[Any] = []

    @mcp.tool
    async def ask(ctx: Context) -> None:
        answers.append(await ctx.elicit("Which?", response_type))

    async def fill(request: mcpkit.client.FormRequest) -> dict[str, Any]:
        properties = request.schema["properties"]
        if field is None:
            assert (list(properties), request.schema["required"]) == (["row", "window"], ["row"])
        else:
            assert {key: properties["value"][key] for key in field} == field
        return content

    async with mcpkit.Client(mcp.served, elicitation_handler=fill) as client:
        await client.call_tool("ask")
    assert [(each.action, each.data) for each in answers] == [("accept", data)]


@each_row(("response_type", "options", "message"), [
    (None, {}, "requires a response_type"), (list[Seat], {}, "forms are flat"),
    (Seat, {"response_title": "Seat"}, "work only with single values"),
])  # fmt: skip
async def test_context_elicit_of_type_without_form_raises(response_type, options, message):
    mcp = FastMCP("asks")

    @mcp.tool
    async def ask(ctx: Context) -> str:
        with pytest.raises(TypeError, match=message):
            await ctx.elicit("Which?", response_type, **options)
        return "raised"

    async with Client(mcp) as client:
        assert (await client.call_tool("ask")).data == "raised"


async def test_http_app_has_own_routes_and_middleware():
    mcp = shop()

    @mcp.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> PlainTextResponse:
        return PlainTextResponse("well")

    @mcp.tool
    def where(ctx: Context) -> list[str]:
        from mcpkit.compat.fastmcp.function_calls import get_http_headers, get_http_request

        return [get_http_request().url.path, get_http_headers()["x-shop"], str(ctx.transport)]

    app: Any = mcp.http_app(path="/api/mcp", middleware=[Middleware(CORSMiddleware, allow_origins=["*"])])
    assert callable(app.lifespan)
    async with mcpkit.Client(app, path="/api/mcp", headers={"X-Shop": "1"}) as client:
        answer = await client.call_tool("where", {})
    assert answer.structured_content == {"result": ["/api/mcp", "1", "streamable-http"]}
    response = TestClient(app).get("/health", headers={"Origin": "https://example.com"})
    assert (response.text, response.headers["access-control-allow-origin"]) == ("well", "*")


REFUSED: dict[str, tuple[Any, str]] = {
    "auth": (object(), "Server(auth=...)"), "middleware": ([object()], "@server.middleware"),
    "providers": ([object()], "server.include"), "transforms": ([object()], "names and arguments"),
    "include_tags": ({"a"}, "visible="), "tasks": (True, "task=True"),
    "resource_security": (object(), "outside the folder"),
}  # fmt: skip


@pytest.mark.parametrize("option", REFUSED)
def test_unsupported_options_raise_with_alternative(option: str) -> None:
    value, alternative = REFUSED[option]
    with pytest.raises(NotImplementedError, match=f"{option}=.*{re.escape(alternative)}"):
        FastMCP("x", **{option: value})
    FastMCP("x", **{option: None})


async def names_after(mount: Any) -> list[str]:
    """Return the tools of a server after another has been mounted."""
    main, sub = FastMCP("main"), FastMCP("sub")
    sub.tool(lambda a: a, name="add")
    mounted = mount(main, sub)
    if mounted is not None:
        await mounted
    async with Client(main) as client:
        return [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize("mount", [
    lambda main, sub: main.mount(sub, "x"), lambda main, sub: main.mount("x", sub),
    lambda main, sub: main.mount(sub, prefix="x"), lambda main, sub: main.mount(prefix="x", server=sub),
    lambda main, sub: main.mount(sub, "x", False),
    lambda main, sub: main.mount("x", sub, tool_separator="_", resource_separator="+"),
    lambda main, sub: main.import_server("x", sub), lambda main, sub: main.import_server(sub, "x"),
    lambda main, sub: main.import_server(server=sub, prefix="x"),
])  # fmt: skip
async def test_mount_accepts_argument_orders_of_all_versions(mount: Any) -> None:
    assert await names_after(mount) == ["x_add"]


@pytest.mark.parametrize(("use", "text"), [
    (lambda main, sub: main.mount(sub, "x", True), "as_proxy"),
    (lambda main, sub: main.mount(sub, "x", {"add": "plus"}), "tool_names"),
    (lambda main, sub: main.mount(sub, "x", None, None), "by name"),
    (lambda main, sub: main.mount("x", sub, tool_separator="/"), "tool_separator"),
    (lambda main, sub: main.mount("x", "y"), "takes a FastMCP and"),
    (lambda main, sub: main.mount(sub, 5), "and a string or None"),
    (lambda main, sub: main.mount(main), "onto itself"),
    (lambda main, sub: main.tool("name", "description"), "description="),
    (lambda main, sub: main.prompt("name", "description"), "description="),
    (lambda main, sub: main.add_tool(len, "name"), "name="),
    (lambda main, sub: FastMCP("x", "y", None), "lifespan="),
    (lambda main, sub: main.run_sse_async("127.0.0.1", 1, 2, 3, 4, 5), "positional"),
    (lambda main, sub: main.run_http_async("http", "127.0.0.1"), "show_banner"),
    (lambda main, sub: FastMCP.from_openapi({}), "from_openapi.*mcpkit"),
    (lambda main, sub: FastMCP.as_proxy, "as_proxy.*mcpkit"),
    (lambda main, sub: FastMCP.no_such_thing, "type object 'FastMCP' has no attribute 'no_such_thing'"),
    (lambda main, sub: FastMCP("x", nonsense=1), r"FastMCP\(\) got an unexpected .* 'nonsense'"),
    (lambda main, sub: main.tool(nonsense=1)(lambda: 1), r"tool\(\) got an unexpected .* 'nonsense'"),
    (lambda main, sub: main.tool(task=True)(lambda: 1), r"task= of tool\(\).*task=True"),
    (lambda main, sub: main.tool("a", name="b"), "as keyword"),
    (lambda main, sub: main.tool(1), "must be a function"),
    (lambda main, sub: main.tool(Tool.enable), "method"),
    (lambda main, sub: main.resource(lambda: 1), "@resource"),
    (lambda main, sub: main.tool(output_schema={"type": "string"}, name="a")(lambda: 1), "object types"),
    (lambda main, sub: Client("https://example.com"), r"mcpkit\.Client"),
    (lambda main, sub: Client(main, sampling_handler=print), "sampling_handler= of Client.*mcpkit"),
    (lambda main, sub: ToolResult(), "Either content or structured_content"),
    (lambda main, sub: ToolResult(structured_content=[1]), "must be a dict"),
])  # fmt: skip
async def test_unsupported_arguments_are_rejected_with_message(use: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError, AttributeError), match=text):
        await names_after(use)
