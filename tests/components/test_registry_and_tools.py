"""Tools: the callables that may be registered, their options, their arguments and their results."""

from __future__ import annotations

import functools
import types
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from pydantic import AliasPath, BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import (
    Context,
    Icon,
    RegistrationError,
    Registry,
    Server,
    Tool,
    ToolResult,
    prompt,
    resource,
    tool,
)
from mcpkit.extensions import ParamHeader
from mcpkit.testing import connect
from tests.helpers.tables import each_row


@pytest.fixture
def server() -> Server:
    return Server("s")


class Greeter:
    def method(self, name: str) -> str:
        return greet("Hello", name)

    @classmethod
    def class_method(cls, name: str) -> str:
        return greet("Hello", name)

    @staticmethod
    def static_method(name: str) -> str:
        return greet("Hello", name)

    __call__ = method


class AsyncGreeter:
    async def __call__(self, name: str) -> str:
        return f"Hello, {name}!"


def greet(greeting: str, name: str) -> str:
    return f"{greeting}, {name}!"


async def async_greet(greeting: str, name: str) -> str:
    return greet(greeting, name)


def returns_awaitable(name: str):  # type: ignore[no-untyped-def]  # so that it shows at the call only
    return async_greet("Hello", name)


@functools.wraps(async_greet)
def wrapper(*args: Any, **kwargs: Any) -> Awaitable[str]:
    return async_greet(*args, **kwargs)


@each_row(("function", "name"), [
    (Greeter().method, "method"), (Greeter.class_method, "class_method"),
    (Greeter.static_method, "static_method"), (Greeter(), "Greeter"), (AsyncGreeter(), "AsyncGreeter"),
    (functools.partial(greet, "Hello"), "greet"), (returns_awaitable, "returns_awaitable"),
    (functools.partial(wrapper, "Hello"), "async_greet"),
])  # fmt: skip
async def test_tool_of_any_callable(function: Any, name: str) -> None:
    server = Server("s")
    assert server.tool(function) is function
    async with connect(server) as client:
        (listed,) = await client.list_tools()
        assert listed["name"] == name
        assert listed["inputSchema"]["properties"].keys() == {"name"}
        assert (await client.call_tool(name, {"name": "Ada"})).text == "Hello, Ada!"


class CityArguments(TypedDict):
    city: str


@each_row("schema", [
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}, CityArguments,
    {"city": Annotated[str, "Where"]},
])  # fmt: skip
async def test_tool_with_input_schema_takes_dict(schema: Any) -> None:
    server = Server("s")

    @server.tool(input_schema=schema)
    async def forecast(arguments: dict[str, Any], ctx: Context) -> str:
        return f"sunny in {arguments['city']}"

    async with connect(server) as client:
        assert (await client.call_tool("forecast", {"city": "Rome"})).text == "sunny in Rome"
        result = await client.call_tool("forecast", {"city": 3.5})
        assert result.is_error
        assert "city" in result.text


async def test_tool_result_without_promised_data_is_error(server: Server) -> None:
    @server.tool
    def f(broken: bool) -> int:
        return ToolResult("text") if broken else ToolResult("text", structured=1)  # type: ignore[return-value]

    async with connect(server) as client:
        assert (await client.call_tool("f", {"broken": False})).structured_content == 1
        refused = await client.call_tool("f", {"broken": True})
    assert refused.is_error
    assert refused.text == (
        "the tool ran, but its return type declares structured content, and the ToolResult has none. "
        "Pass structured= to ToolResult"
    )


PICTURE: Icon = {"src": "https://shop.example/cart.png", "sizes": ["48x48"], "theme": "dark"}


def sell() -> str:
    return "sold"


@each_row(("options", "message"), [
    *[({"name": name}, "1 to 128 of the characters") for name in ("", "x" * 129, "a b", "a/b", "a\n", "\u0661")],
    ({"icons": "https://shop.example/cart.png"}, "icons must be a list"),
    ({"icons": ["https://shop.example/cart.png"]}, "icon must be a dict with src"),
    ({"icons": [{"url": "https://shop.example/cart.png"}]}, "unknown member 'url'"),
    ({"icons": [{"mimeType": "image/png"}]}, "'src' is missing"),
    ({"icons": [{"src": 3}]}, "src: expected a string, got 3"),
    ({"icons": [{**PICTURE, "sizes": "48x48"}]}, "sizes: expected an array"),
    ({"icons": [{**PICTURE, "theme": "blue"}]}, "theme: expected"),
    ({"icons": [{"src": "javascript:alert(1)"}]}, "https: or data:"),
    ({"meta": {"a": object()}}, "meta cannot be converted to JSON"), ({"meta": {1: 2}}, "a dict with string keys"),
    ({"meta": ["a"]}, "a dict with string keys"), ({"title": 3}, "title must be a string"),
    ({"description": b"text"}, "description must be a string"), ({"tags": "orders"}, "must be a set of words"),
    ({"annotations": {"readOnlyHint": "yes"}}, "readOnlyHint: expected true or false"),
    ({"annotations": ["readOnlyHint"]}, "must be a dict with title, readOnlyHint"),
])  # fmt: skip
def test_tool_wrong_option_is_refused(server: Server, options: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        server.tool(sell, **options)
    assert len(server.catalog.tools) == 0


@each_row(("options", "message"), [
    ({"mime_type": "png"}, "media type such as text/plain"),
    ({"mime_type": 3}, "media type such as text/plain"), ({"size": -1}, "number of bytes of at least 0"),
    ({"size": "3"}, "number of bytes of at least 0"),
    ({"annotations": {"audience": "user"}}, "audience: expected an array"),
])  # fmt: skip
def test_resource_wrong_option_is_refused(server: Server, options: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        server.resource("shop://cart", **options)(sell)


@each_row(("thing", "message"), [
    ("sell", "is not a function. Write name='sell'"), (Greeter, "Greeter is a class"), (3, "3 is not a function"),
])  # fmt: skip
def test_tool_of_non_function_is_refused(thing: Any, message: str) -> None:
    for register in (Server("s").tool, tool):
        with pytest.raises(RegistrationError, match=message):
            register(thing)


async def test_tool_argument_with_alias(server: Server) -> None:
    @server.tool
    def find(
        start: Annotated[int, Field(validation_alias=AliasPath("$from"))],
        limit: Annotated[int, Field(alias="$limit")] = 5,
    ) -> list[int]:
        """Find.

        Args:
            start: The start.
            $limit: The limit.
        """
        return [start, limit]

    async with connect(server) as client:
        (tool,) = await client.list_tools()
        descriptions = {name: each["description"] for name, each in tool["inputSchema"]["properties"].items()}
        assert descriptions == {"$from": "The start.", "$limit": "The limit."}
        assert tool["inputSchema"]["required"] == ["$from"]
        assert (await client.call_tool("find", {"$from": 3, "$limit": 4})).text == "[3,4]"
        assert "start: unknown argument" in (await client.call_tool("find", {"start": 3})).text


def test_tool_wrapper_without_wraps_is_refused(server: Server) -> None:
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    async def async_wrapper(*positional: Any, **named: Any) -> Any: ...

    for function, names in [
        (wrapper, r"wrapper: \*args and \*\*kwargs"), (async_wrapper, r"wrapper: \*positional and \*\*named"),
    ]:  # fmt: skip
        with pytest.raises(RegistrationError, match=rf"{names} do not name.* @functools\.wraps\(function\)"):
            server.tool(function)


@pytest.mark.parametrize("name", ["ctx", "context"])
def test_tool_untyped_context_parameter_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    namespace: dict[str, Any] = {}
    exec(f"def look({name}, a=1): return a\ndef lazily(a=1, {name}=None): return a", namespace)
    server.tool(namespace["look"])
    server.prompt(namespace["lazily"])
    advice = (
        f"the parameter {name!r} has no type annotation, so clients see it as an argument. Write `{name}: "
        "Context` to receive the Context"
    )
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [("WARNING", f"{kind}: {advice}") for kind in ("tool 'look'", "prompt 'lazily'")]
    for uri in ("a://b", "a://{a}"):
        with pytest.raises(RegistrationError, match=f"the parameter {name!r}. Write"):
            server.resource(uri)(namespace["look"])


# Arguments that are sent as headers

KEYWORD = "x-mcp-header"
REGION = {"type": "string", KEYWORD: "Region"}
Region = Annotated[str, ParamHeader("Region")]


class Place(BaseModel):
    region: Region


class Arguments(TypedDict):
    region: Region


class Tree(BaseModel):
    label: Region
    children: list[Tree] = []


class Optionally(BaseModel):
    region: Annotated[str | None, ParamHeader("Region")] = None


async def test_header_is_published_in_schema(server: Server) -> None:
    @server.tool
    def execute(region: Region, query: str) -> str:
        """Execute SQL.

        Args:
            region: Where to execute it.
            query: What to execute.
        """
        return query

    schemas = {
        "json": {"type": "object", "properties": {"region": REGION}}, "types": {"region": Region}, "class": Arguments,
    }  # fmt: skip
    for name, schema in schemas.items():
        server.tool(lambda arguments: "", name=name, input_schema=schema)
    async with connect(server) as client:
        tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in await client.list_tools()}
    assert tools == {
        "execute": {
            "region": {**REGION, "description": "Where to execute it."},
            "query": {"type": "string", "description": "What to execute."},
        },
        **{name: {"region": REGION} for name in schemas},
    }
    for component in server.catalog.tools:
        (parameter,) = component.mirrored
        assert (parameter.header, parameter.path) == (b"mcp-param-region", ("region",))


R = ParamHeader("R")


@each_row(("hint", "default", "message"), [
    (Annotated[str, ParamHeader("")], ..., "argument 'region': '' is not a valid HTTP header name; use letters"),
    (Annotated[str, ParamHeader("The Region")], ..., "'The Region' is not a valid HTTP header name"),
    (Annotated[str, ParamHeader("Region\n")], ..., "is not a valid HTTP header name"),
    (Annotated[str, ParamHeader(7)], ..., "7 is not a valid HTTP header name"),  # type: ignore[arg-type]
    (Annotated[float, R], ..., "'R' does not support this type: the text of a number is not exact"),
    (Annotated[str | None, R], ..., 'may be null; .* own type instead of None, such as `= ""`'),
    (Annotated[int | None, R], None, "may be null; give it a default .* such as `= 0`"),
    (Annotated[str, R], None, "set at `anyOf`.*, and a default of that type instead of None"),
    (Annotated[str, R] | None, None, "is set at `anyOf`.*; use one type, and a default"),
    (Annotated[str | int, R], ..., "use `str`, `int` or `bool`"),
    (tuple[Annotated[str, R], int], ..., "is set at `prefixItems`"),
    (dict[str, Annotated[str, R]], ..., "is set at `additionalProperties`"),
    (list[Place], ..., "argument 'region.region': .* is set at `items`"), (Tree, ..., "is set at `\\$defs`"),
    (Optionally, ..., "argument 'region.region': .* may be null"),
])  # fmt: skip
def test_header_wrong_mark_is_refused(server: Server, hint: Any, default: Any, message: str) -> None:
    def execute(region: Any) -> None: ...

    execute.__annotations__["region"] = hint
    if default is not ...:
        execute.__defaults__ = (default,)
    with pytest.raises(RegistrationError, match=f"^execute: .*{message}"):
        server.tool(execute)
    assert len(server.catalog.tools) == 0


@each_row(("schema", "message"), [
    ({KEYWORD: "Region"}, "input_schema: the header 'Region' is set at the root"),
    ({"properties": {"a": {KEYWORD: "Region"}}}, "argument 'a': .* use `str`, `int` or `bool`"),
    ({"properties": {"a": {"type": ["string", "null"], KEYWORD: "R"}}}, 'may be null; .* such as `= ""`'),
    ({"properties": {"a": {"type": ["string"], KEYWORD: "R"}}}, "use `str`, `int` or `bool`"),
    ({"properties": {"a": {"type": "number", KEYWORD: "R"}}}, "not exact"),
    ({"properties": {"a": {"type": "string", KEYWORD: None}}}, "None is not a valid HTTP header name"),
    ({"properties": {"a": {"items": REGION}}}, "argument 'a': .* is set at `items`"),
    ({"properties": {"a": {"not": REGION}}}, "is set at `not`"),
    ({"allOf": [{"properties": {"a": REGION}}]}, "argument 'a': .* is set at `allOf`"),
    ({"dependentSchemas": {"b": {"properties": {"a": REGION}}}}, "is set at `dependentSchemas`"),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": REGION}}, r"is set at `\$defs`"),
])  # fmt: skip
def test_header_wrong_mark_in_explicit_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").tool(lambda arguments: "", name="f", input_schema={"type": "object", **schema})


# Registering and including components: names, order, tags, prefixes, and taking components back


def first() -> str:
    return ""


def second() -> str:
    return ""


def keys(registry: Registry) -> list[str]:
    return [component.key for part in registry.catalog.parts for component in part]


def tool_names(server: Server) -> list[str]:
    return [tool.name for tool in server.catalog.tools]


@each_row(("register", "functions"), [
    (lambda server, function: server.tool(function, name="x"), (first, second)),
    (lambda server, function: server.prompt(function, name="x"), (first, second)),
    (lambda server, function: server.resource("data://x", name="x")(function), (first, second)),
    (lambda server, function: server.resource("data://{x}", name="x")(function), (lambda x: x,
     lambda x: "")),
])  # fmt: skip
def test_registry_duplicate_error_names_both_places(register: Any, functions: Any) -> None:
    server = Server("s")
    register(server, functions[0])
    with pytest.raises(RegistrationError) as caught:
        register(server, functions[1])
    for function in functions:
        code = function.__code__
        assert f"{code.co_filename}:{code.co_firstlineno}" in str(caught.value)
    assert "replace=True" in str(caught.value)


async def test_tags_disable_and_enable_components(server: Server) -> None:
    server.tool(first, name="tool", tags={"old"})
    server.tool(first, name="another", tags={"old", "secret"})
    server.tool(first, name="plain")
    server.prompt(first, name="prompt", tags={"old"})
    server.resource("data://x", name="resource", tags={"old"})(first)
    server.resource("data://x/{name}", name="template", tags={"old"})(lambda name: name)
    names = ["tool", "another", "plain", "prompt", "resource", "template"]
    async with connect(server) as client:
        for change, expected in [
            (server.enable, names), (server.disable, ["plain"]), (server.enable, names),
        ]:  # fmt: skip
            change(tags={"old"})
            listed = [*await client.list_tools(), *await client.list_prompts(),
                *await client.list_resources(), *await client.list_resource_templates()]  # fmt: skip
            assert [each["name"] for each in listed] == expected
    with pytest.raises(TypeError, match=r"Write tags=\{'old'\}"):
        server.disable(tags="old")


# Including modules and objects


@tool
def top_level(x: int) -> int:
    """Double."""
    return 2 * x


@tool(name="second")
def renamed() -> str:
    return "second"


class Weather:
    """Marked methods of every kind."""

    def __init__(self, sky: str = "sunny") -> None:
        self.sky = sky

    @tool
    def forecast(self, place: str) -> str:
        return f"{self.sky} in {place}"

    @resource("data://stations")
    def stations(self) -> str:
        return self.sky

    @resource("data://stations/{name}")
    def station(self, name: str) -> str:
        return name

    @prompt
    def plan(self) -> str:
        return "plan"

    @property
    def broken(self) -> str:
        raise RuntimeError("an unmarked property must not be read")


def module(**members: Any) -> types.ModuleType:
    made = types.ModuleType("made")
    vars(made).update(members)
    return made


async def test_include_module(server: Server) -> None:
    server.include(module(a=top_level, b=renamed, c=first, d=3, again=top_level))
    assert tool_names(server) == ["top_level", "second"]
    async with connect(server) as client:
        assert (await client.call_tool("top_level", {"x": 4})).structured_content == 8


async def test_include_object_binds_methods(server: Server) -> None:
    server.include(Weather("grey"))
    async with connect(server) as client:
        assert (await client.call_tool("forecast", {"place": "Rome"})).text == "grey in Rome"
        assert (await client.read_resource("data://stations"))[0]["text"] == "grey"
        (listed,) = await client.list_tools()
        assert listed["inputSchema"]["properties"].keys() == {"place"}


@each_row(
    ("source", "message"),
    [(Weather, "Include an instance of Weather"), *[(each, "nothing to include") for each in (first, module(), 3)]],
)  # fmt: skip
def test_include_without_marks_is_refused(source: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").include(source)


async def test_include_prefix_in_names_and_uris(server: Server) -> None:
    registry = Registry()
    registry.tool(top_level)
    registry.prompt(first, name="plan")
    registry.resource("data://x/y")(first)
    server.include(registry, prefix="weather")
    async with connect(server) as client:
        assert (await client.call_tool("weather_top_level", {"x": 1})).structured_content == 2
        assert (await client.read_resource("data://weather/x/y"))[0]["uri"] == "data://weather/x/y"
        assert [each["name"] for each in await client.list_prompts()] == ["weather_plan"]


def test_include_registry_is_followed(server: Server) -> None:
    registry = Registry()
    registry.tool(top_level)
    server.include(registry)
    registry.tool(first)
    assert tool_names(server) == ["top_level", "first"]
    registry.catalog.tools.disable("first")
    assert server.catalog.tools.get("first") is None
    registry.catalog.tools.enable("first")
    assert server.catalog.tools.get("first") is not None
    registry.catalog.tools.add(Tool(renamed, name="first"), replace=True)
    assert server.catalog.tools["first"].function is renamed
    registry.catalog.tools.remove("top_level")
    assert tool_names(server) == ["first"]


def test_include_registry_refuses_a_later_name_in_use(server: Server) -> None:
    registry, other = Registry(), Server("other")
    server.tool(first)
    other.include(registry)
    server.include(registry)
    with pytest.raises(RegistrationError, match="two tools are named 'first'"):
        registry.tool(first)
    registry.tool(second)
    assert keys(registry) == keys(other) == ["second"]
    assert tool_names(server) == ["first", "second"]


def test_include_cycle_is_refused() -> None:
    outer, inner = Registry(), Registry()
    outer.include(inner)
    for registry in (outer, inner):
        with pytest.raises(RegistrationError, match="itself"):
            registry.include(outer)


def weather() -> Registry:
    registry = Registry()
    registry.include(Weather())
    return registry


@pytest.mark.parametrize("prefix", ["", "w"])
@pytest.mark.parametrize("make", [Weather, weather])
def test_included_remove_removes_everything(make: Callable[[], Any], prefix: str, server: Server) -> None:
    server.tool(first, name="own")
    included = server.include(make(), prefix=prefix)
    for _ in range(2):
        assert len(keys(server)) == 5
        for _ in range(2):
            included.remove()
            assert keys(server) == ["own"]
        included = server.include(make(), prefix=prefix)


@pytest.mark.parametrize("make", [Weather, weather])
def test_include_that_fails_adds_nothing(make: Callable[[], Any], server: Server) -> None:
    server.prompt(first, name="plan")
    source = make()
    with pytest.raises(RegistrationError, match="two prompts are named 'plan'"):
        server.include(source)
    if isinstance(source, Registry):
        source.tool(first, name="later")
    assert keys(server) == ["plan"]
    assert server.catalog.included == []
