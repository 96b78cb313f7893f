"""`@tool`, `@resource`, `@prompt` free of any server, and `include` of what they mark."""

from __future__ import annotations

import asyncio
import pickle
import types
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import ProtocolError, RegistrationError, Registry, Server, prompt, resource, tool
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


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


class Derived(Base):
    @tool
    def greet(self, name: str) -> str:
        return f"{self.greeting}, dear {name}!"

    def farewell(self) -> str:
        return "unmarked here"


class Static:
    @tool
    @staticmethod
    def outer_static(x: int) -> int:
        return x

    @staticmethod
    @tool
    def inner_static(x: int) -> int:
        return x

    @tool
    @classmethod
    def outer_class(cls) -> str:
        return cls.__name__

    @classmethod
    @prompt
    def inner_class(cls, x: str) -> str:
        return f"{cls.__name__} {x}"


@dataclass  # compares by value, so it cannot be hashed
class Adder:
    amount: int

    def __call__(self, x: int) -> int:
        return x + self.amount


def module(**members: Any) -> types.ModuleType:
    made = types.ModuleType("made")
    vars(made).update(members)
    return made


def names(server: Server) -> list[str]:
    return [tool.name for tool in server.tools]


def test_marking_leaves_the_function_as_it_is() -> None:
    assert top_level(3) == 6
    assert vars(top_level) == {}
    assert pickle.loads(pickle.dumps(top_level)) is top_level
    assert type(vars(Static)["outer_static"]) is staticmethod
    assert type(vars(Static)["outer_class"]) is classmethod


async def test_a_module_gives_what_is_marked_in_it() -> None:
    server = Server("s")
    server.include(module(a=top_level, b=renamed, c=unmarked, d=3, again=top_level))
    assert names(server) == ["top_level", "second"]
    async with connect(server) as client:
        assert (await client.call("top_level", {"x": 4})).structured == 8


def test_a_module_may_hold_objects_that_refuse_to_be_looked_at() -> None:
    class Proxy:
        __hash__ = None  # type: ignore[assignment]  # as proxies out of their context

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"{name} outside of a context")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared outside of a context")

    server = Server("s")
    server.include(module(proxy=Proxy(), a=top_level))
    assert names(server) == ["top_level"]


async def test_an_object_gives_its_methods_bound_to_it() -> None:
    server = Server("s")
    server.include(Base("Hi"))
    assert names(server) == ["greet", "farewell"]
    async with connect(server) as client:
        assert (await client.call("greet", {"name": "Ada"})).text == "Hi, Ada!"
        assert (await client.read("data://greeting"))[0]["text"] == "Hi"
        (listed,) = [tool for tool in await client.list_tools() if tool["name"] == "greet"]
        assert listed["inputSchema"]["properties"].keys() == {"name"}


async def test_a_method_replaced_in_a_subclass_counts_when_the_replacement_is_marked() -> None:
    server = Server("s")
    server.include(Derived())
    assert names(server) == ["greet"]
    async with connect(server) as client:
        assert (await client.call("greet", {"name": "Ada"})).text == "Hello, dear Ada!"


@pytest.mark.parametrize("source", [Static, Static()])
async def test_static_and_class_methods_come_from_the_class_or_an_instance(source: Any) -> None:
    server = Server("s")
    server.include(source)
    assert names(server) == ["outer_static", "inner_static", "outer_class"]
    async with connect(server) as client:
        assert (await client.call("outer_static", {"x": 1})).structured == 1
        assert (await client.call("outer_class")).text == "Static"
        (message,) = await client.get_prompt("inner_class", {"x": "y"})
        assert message["content"]["text"] == "Static y"


def test_a_class_with_methods_says_to_include_an_instance() -> None:
    with pytest.raises(RegistrationError, match="include an instance of Base"):
        Server("s").include(Base)


def test_a_marked_function_can_be_included_by_itself() -> None:
    server = Server("s")
    server.include(top_level)
    assert names(server) == ["top_level"]


async def test_callable_objects_can_be_marked_even_when_they_cannot_be_hashed() -> None:
    add = tool(name="add")(Adder(2))
    server = Server("s")
    server.include(module(add=add, other=Adder(2)))
    async with connect(server) as client:
        assert (await client.call("add", {"x": 1})).structured == 3
        assert names(server) == ["add"]


@pytest.mark.parametrize("source", [unmarked, module(), 3, object()])
def test_where_nothing_is_marked_there_is_nothing_to_include(source: Any) -> None:
    with pytest.raises(RegistrationError, match="nothing to include"):
        Server("s").include(source)


@pytest.mark.parametrize("thing", [3, "text", object()])
def test_only_callables_can_be_marked(thing: Any) -> None:
    with pytest.raises(RegistrationError, match="is no function"):
        tool(thing)


def test_a_function_may_carry_several_marks() -> None:
    def both(city: str) -> str:
        return city

    tool(prompt(both))
    tool(name="other")(both)
    server = Server("s")
    server.include(both)
    assert names(server) == ["both", "other"]
    assert [each.name for each in server.prompts] == ["both"]


# Prefixes


async def test_a_prefix_goes_before_names_and_into_uris() -> None:
    registry = Registry()
    registry.tool(top_level)
    registry.prompt(unmarked, name="plan")
    registry.resource("data://x/y")(unmarked)
    server = Server("s")
    server.include(registry, prefix="weather")
    assert names(server) == ["weather_top_level"]
    async with connect(server) as client:
        assert (await client.call("weather_top_level", {"x": 1})).structured == 2
        assert (await client.read("data://weather/x/y"))[0]["uri"] == "data://weather/x/y"
        assert [each["name"] for each in await client.list_prompts()] == ["weather_plan"]


async def test_a_prefixed_template_matches_the_prefixed_uri() -> None:
    registry = Registry()

    @registry.resource("data://items/{name}")
    def item(name: str) -> str:
        return name

    server = Server("s")
    server.include(registry, prefix="shop")
    async with connect(server) as client:
        assert (await client.read("data://shop/items/pen"))[0]["text"] == "pen"
        with pytest.raises(ProtocolError, match="not found"):
            await client.read("data://items/pen")


def test_one_source_may_be_included_under_two_prefixes() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry, prefix="a")
    server.include(registry, prefix="b")
    registry.tool(unmarked)
    assert names(server) == ["a_top_level", "b_top_level", "a_unmarked", "b_unmarked"]


# Registries and servers are followed


def test_a_registry_is_followed_live() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry)
    registry.tool(unmarked)
    assert names(server) == ["top_level", "unmarked"]
    registry.tools.disable("unmarked")
    assert server.tools.get("unmarked") is None
    registry.tools.enable("unmarked")
    assert server.tools.get("unmarked") is not None
    registry.tool(renamed, name="unmarked", replace=True)
    assert server.tools["unmarked"].function is renamed
    registry.tools.remove("top_level")
    assert names(server) == ["unmarked"]


def test_disabling_in_the_server_leaves_the_registry_alone() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry)
    server.tools.disable("top_level")
    assert registry.tools.get("top_level") is not None


async def test_clients_hear_of_a_change_in_an_included_server() -> None:
    inner, outer = Server("inner"), Server("outer", offers=["tools"])
    outer.include(inner, prefix="in")
    async with connect(outer, revision="2025-11-25") as client:
        inner.tool(top_level)
        await client.notification("notifications/tools/list_changed")
        assert [each["name"] for each in await client.list_tools()] == ["in_top_level"]


async def test_clients_hear_of_an_update_in_an_included_server() -> None:
    inner, outer = Server("inner"), Server("outer")
    inner.resource("data://x")(unmarked)
    outer.include(inner, prefix="in")
    async with connect(outer, revision="2025-11-25") as client:
        await client.request("resources/subscribe", {"uri": "data://in/x"})
        inner.resource_updated("data://x")
        update = await asyncio.wait_for(client.notification("notifications/resources/updated"), 5)
        assert update["uri"] == "data://in/x"


async def test_without_a_prefix_an_update_keeps_its_uri() -> None:
    inner, outer = Server("inner"), Server("outer")
    inner.resource("data://x")(unmarked)
    outer.include(inner)
    async with connect(outer, revision="2025-11-25") as client:
        await client.request("resources/subscribe", {"uri": "data://x"})
        inner.resource_updated("data://x")
        update = await asyncio.wait_for(client.notification("notifications/resources/updated"), 5)
        assert update["uri"] == "data://x"


def test_including_twice_is_a_duplicate() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry)
    with pytest.raises(RegistrationError, match="top_level"):
        server.include(registry)


def test_what_the_server_removed_is_no_longer_the_registrys_to_change() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry)
    server.tools.remove("top_level")
    registry.tools.disable("top_level")
    registry.tools.remove("top_level")
    assert names(server) == []


def test_what_the_server_replaced_is_no_longer_the_registrys_to_change() -> None:
    server, registry = Server("s"), Registry()
    registry.tool(top_level)
    server.include(registry)
    server.tool(unmarked, name="top_level", replace=True)
    registry.tools.disable("top_level")
    registry.tools.remove("top_level")
    assert server.tools["top_level"].function is unmarked
    assert server.tools["top_level"].is_enabled


def test_a_registry_cannot_include_itself_even_by_way_of_another() -> None:
    first, second = Registry(), Registry()
    with pytest.raises(RegistrationError, match="itself"):
        first.include(first)
    first.include(second)
    with pytest.raises(RegistrationError, match="itself"):
        second.include(first)


def test_a_name_that_is_taken_is_an_error_where_it_is_added() -> None:
    server, registry = Server("s"), Registry()
    server.tool(top_level)
    server.include(registry)
    with pytest.raises(RegistrationError, match="there are two tools 'top_level'"):
        registry.tool(top_level)
