"""Registering and including components: names, order, tags, prefixes, and taking components back."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import RegistrationError, Registry, Server, Tool, prompt, resource, tool
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


def other_function(name: str) -> str:
    return name


def constant() -> str:
    return ""


@pytest.fixture
def server() -> Server:
    return Server("s")


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
def test_registry_duplicate_error_names_both_places(server: Server, kind: str) -> None:
    def register(function: Any) -> None:
        if kind == "tool":
            server.tool(function, name="x")
        elif kind == "prompt":
            server.prompt(function, name="x")
        elif kind == "template":
            server.resource("data://x/{name}")(function)
        else:
            server.resource("data://x")(function)

    first, second = (constant, lambda: "") if kind == "resource" else (greet, other_function)
    if kind == "resource":
        second.__name__ = "second"
    register(first)
    with pytest.raises(RegistrationError) as caught:
        register(second)
    for function in (first, second):
        code = function.__code__
        assert f"{code.co_filename}:{code.co_firstlineno}" in str(caught.value)
    assert "replace=True" in str(caught.value)


def test_registry_forward_reference_is_resolved(server: Server) -> None:
    @server.tool
    def forecast(place: Place) -> str:
        return place.name

    server.catalog.resolve()
    schema = server.catalog.tools["forecast"].arguments.schema
    assert schema["properties"]["place"]["properties"] == {"name": {"type": "string"}}


@dataclass
class Place:
    name: str


def report() -> str:
    """A report."""
    return "report"


async def names_of_all(client: TestClient) -> list[str]:
    found: list[dict[str, Any]] = [*await client.list_tools(), *await client.list_prompts(),
        *await client.list_resources(), *await client.list_resource_templates()]  # fmt: skip
    return [each["name"] for each in found]


@pytest.fixture
def tagged() -> Server:
    server = Server("tagged")
    server.tool(report, name="tool", tags={"old"})
    server.tool(report, name="another", tags={"old", "secret"})
    server.tool(report, name="plain")
    server.prompt(report, name="prompt", tags={"old"})
    server.resource("data://x", name="resource", tags={"old"})(report)
    server.resource("data://x/{y}", name="template", tags={"old"})(lambda y: y)
    return server


async def test_tags_disable_and_enable_components(tagged: Server) -> None:
    server = tagged
    async with connect(server) as client:
        everything = await names_of_all(client)
        server.disable(tags={"old"})
        assert await names_of_all(client) == ["plain"]
        server.enable(tags=["old"])
        assert (
            await names_of_all(client)
            == everything
            == ["tool", "another", "plain", "prompt", "resource", "template"]
        )


def test_tags_string_is_refused(tagged: Server) -> None:
    with pytest.raises(TypeError, match=r"Write tags=\{'old'\}"):
        tagged.disable(tags="old")


@tool
def top_level(x: int) -> int:
    """Double."""
    return 2 * x


@tool(name="second")
def renamed() -> str:
    return "second"


def unmarked() -> str:
    return ""


class Base:
    def __init__(self, greeting: str = "Hello") -> None:
        self.greeting = greeting

    @tool
    def greet(self, name: str) -> str:
        return f"{self.greeting}, {name}!"

    @tool
    def farewell(self) -> str:
        return "Bye"

    @resource("data://greeting")
    def read(self) -> str:
        return self.greeting

    @property
    def broken(self) -> str:
        raise RuntimeError("an unmarked property must not be read")


def module(**members: Any) -> types.ModuleType:
    made = types.ModuleType("made")
    vars(made).update(members)
    return made


def tool_names(server: Server) -> list[str]:
    return [tool.name for tool in server.catalog.tools]


async def test_include_module() -> None:
    server = Server("s")
    server.include(module(a=top_level, b=renamed, c=unmarked, d=3, again=top_level))
    assert tool_names(server) == ["top_level", "second"]
    async with connect(server) as client:
        assert (await client.call_tool("top_level", {"x": 4})).structured_content == 8


async def test_include_object_binds_methods() -> None:
    server = Server("s")
    server.include(Base("Hi"))
    assert tool_names(server) == ["greet", "farewell"]
    async with connect(server) as client:
        assert (await client.call_tool("greet", {"name": "Ada"})).text == "Hi, Ada!"
        assert (await client.read_resource("data://greeting"))[0]["text"] == "Hi"
        (listed,) = [tool for tool in await client.list_tools() if tool["name"] == "greet"]
        assert listed["inputSchema"]["properties"].keys() == {"name"}


def test_include_class_with_methods_is_refused() -> None:
    with pytest.raises(RegistrationError, match="Include an instance of Base"):
        Server("s").include(Base)


@each_row("source", [unmarked, module(), 3, object()])
def test_include_without_marks_is_refused(source: Any) -> None:
    with pytest.raises(RegistrationError, match="nothing to include"):
        Server("s").include(source)


async def test_include_prefix_in_names_and_uris() -> None:
    registry = Registry()
    registry.tool(top_level)
    registry.prompt(unmarked, name="plan")
    registry.resource("data://x/y")(unmarked)
    server = Server("s")
    server.include(registry, prefix="weather")
    assert tool_names(server) == ["weather_top_level"]
    async with connect(server) as client:
        assert (await client.call_tool("weather_top_level", {"x": 1})).structured_content == 2
        assert (await client.read_resource("data://weather/x/y"))[0]["uri"] == "data://weather/x/y"
        assert [each["name"] for each in await client.list_prompts()] == ["weather_plan"]


def test_include_registry_is_followed() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry)
    registry.tool(unmarked)
    assert tool_names(server) == ["top_level", "unmarked"]
    registry.catalog.tools.disable("unmarked")
    assert server.catalog.tools.get("unmarked") is None
    registry.catalog.tools.enable("unmarked")
    assert server.catalog.tools.get("unmarked") is not None
    registry.catalog.tools.add(Tool(renamed, name="unmarked"), replace=True)
    assert server.catalog.tools["unmarked"].function is renamed
    registry.catalog.tools.remove("top_level")
    assert tool_names(server) == ["unmarked"]


def test_include_cycle_is_refused() -> None:
    first, second = Registry(), Registry()
    with pytest.raises(RegistrationError, match="itself"):
        first.include(first)
    first.include(second)
    with pytest.raises(RegistrationError, match="itself"):
        second.include(first)


class Weather:
    """Marked methods of every kind."""

    @tool
    def forecast(self) -> str:
        return "sunny"

    @resource("data://stations")
    def stations(self) -> str:
        return "north"

    @resource("data://stations/{name}")
    def station(self, name: str) -> str:
        return name

    @prompt
    def plan(self) -> str:
        return "plan"


def weather() -> Registry:
    registry = Registry()
    registry.include(Weather())
    return registry


def keys(registry: Registry) -> list[str]:
    return [component.key for part in registry.catalog.parts for component in part]


@pytest.mark.parametrize("prefix", ["", "w"])
@pytest.mark.parametrize("make", [Weather, weather])
def test_included_remove_takes_back_all_components(make: Any, prefix: str) -> None:
    server = Server("s")
    server.tool(lambda: "", name="own")
    included = server.include(make(), prefix=prefix)
    assert len(keys(server)) == 5
    included.remove()
    assert keys(server) == ["own"]
    included.remove()
    assert keys(server) == ["own"]
    server.include(make(), prefix=prefix)
    assert len(keys(server)) == 5


@pytest.mark.parametrize("make", [Weather, weather])
def test_include_that_fails_adds_nothing(make: Any) -> None:
    server = Server("s")
    server.prompt(lambda: "", name="plan")
    source = make()
    with pytest.raises(RegistrationError, match="two prompts are named 'plan'"):
        server.include(source)
    assert keys(server) == ["plan"]
    assert server.catalog.included == []
    if isinstance(source, Registry):
        source.tool(lambda: "", name="later")
    assert keys(server) == ["plan"]
