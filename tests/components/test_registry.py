"""Registering components: names, order, replacing, enabling, removing, and tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import RegistrationError, Registry, Server
from mcpkit.testing import Client, connect

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


def test_registry_remove_returns_component(server: Server) -> None:
    server.tool(greet)
    assert server.tools.remove("greet").function is greet
    assert "greet" not in server.tools
    with pytest.raises(KeyError):
        server.tools.remove("greet")


def nothing() -> dict[str, str]:
    return {}


def test_registry_listener_receives_changes_until_removed() -> None:
    outer, inner, changes = Registry(), Registry(), list[tuple[str, str | None]]()
    inner.tool(greet)
    end = outer.listeners.add(lambda change: changes.append((change.kind, change.uri)))
    included = outer.include(inner, prefix="in")
    inner.tools.disable("greet")
    inner.resource_updated("data://x")
    inner.method("thing/do")(nothing)  # which no list holds
    included.remove()
    inner.resource_updated("data://x")
    end()
    end()
    outer.tool(greet)
    assert changes == [("tools", None), ("tools", None), ("resource", "data://in/x"), ("tools", None)]


def test_registry_forward_reference_is_resolved(server: Server) -> None:
    @server.tool
    def forecast(place: Place) -> str:
        return place.name

    server.resolve()
    schema = server.tools["forecast"].arguments.schema
    assert schema["properties"]["place"]["properties"] == {"name": {"type": "string"}}


@dataclass
class Place:
    name: str


def report() -> str:
    """A report."""
    return "report"


async def names_of_all(client: Client) -> list[str]:
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


async def test_tags_component_with_other_disabled_tag_stays_disabled(tagged: Server) -> None:
    server = tagged
    server.disable(tags={"old"})
    server.disable(tags={"secret"})
    server.enable(tags={"old"})
    async with connect(server) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["tool", "plain"]


def test_tags_string_is_refused(tagged: Server) -> None:
    with pytest.raises(TypeError, match=r"write tags=\{'old'\}"):
        tagged.disable(tags="old")
