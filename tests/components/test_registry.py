"""Registering and including components: names, order, tags, prefixes, and taking components back."""

import types
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import RegistrationError, Registry, Server, Tool, prompt, resource, tool
from mcpkit.testing import connect
from tests.helpers.tables import each_row


def first() -> str:
    return ""


def second() -> str:
    return ""


@pytest.fixture
def server() -> Server:
    return Server("s")


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
