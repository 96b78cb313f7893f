"""Registering: names, places, order, replacing, enabling and removing, from any thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mcpkit import Method, Prompt, RegistrationError, Registry, Resource, ResourceTemplate, Server, Tool


def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


def another(name: str) -> str:
    return name


def constant() -> str:
    return ""


def data_of(name: str) -> dict[str, str]:
    return {"name": name}


@pytest.fixture
def server() -> Server:
    return Server("s")


def test_what_is_registered_keeps_the_order_of_registration(server: Server) -> None:
    for name in "cab":
        server.tool(greet, name=name)
    assert [tool.name for tool in server.tools] == ["c", "a", "b"]


def test_a_decorator_returns_the_function_itself(server: Server) -> None:
    assert server.tool(greet) is greet
    assert server.tool(name="x")(greet) is greet
    assert server.prompt(greet) is greet
    assert server.prompt(name="x")(greet) is greet
    assert server.resource("data://x")(constant) is constant


def test_a_uri_with_expressions_makes_a_template(server: Server) -> None:
    server.resource("data://x")(constant)
    server.resource("data://{name}")(greet)
    assert [resource.uri for resource in server.resources] == ["data://x"]
    assert [template.uri_template for template in server.resource_templates] == ["data://{name}"]


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
def test_a_duplicate_names_both_places(server: Server, kind: str) -> None:
    def register(function: Any) -> None:
        if kind == "tool":
            server.tool(function, name="x")
        elif kind == "prompt":
            server.prompt(function, name="x")
        elif kind == "template":
            server.resource("data://x/{name}")(function)
        else:
            server.resource("data://x")(function)

    first, second = (constant, lambda: "") if kind == "resource" else (greet, another)
    if kind == "resource":
        second.__name__ = "second"
    register(first)
    with pytest.raises(RegistrationError) as caught:
        register(second)
    for function in (first, second):
        code = function.__code__
        assert f"{code.co_filename}:{code.co_firstlineno}" in str(caught.value)
    assert "replace=True" in str(caught.value)


def test_replace_takes_the_place_of_the_first(server: Server) -> None:
    server.tool(greet, name="x")
    server.tool(greet, name="y")
    server.tool(another, name="x", replace=True)
    assert [(tool.name, tool.function) for tool in server.tools] == [("x", another), ("y", greet)]


def test_replace_is_no_error_where_there_is_nothing_to_replace(server: Server) -> None:
    server.tool(greet, replace=True)
    assert "greet" in server.tools


def test_a_tool_and_a_prompt_may_have_one_name(server: Server) -> None:
    server.tool(greet)
    server.prompt(greet)
    assert server.tools["greet"].function is server.prompts["greet"].function


def test_one_function_may_be_several_tools(server: Server) -> None:
    server.tool(server.tool(greet, name="a"), name="b")
    assert len(server.tools) == 2


def test_removing_returns_what_was_removed(server: Server) -> None:
    server.tool(greet)
    assert server.tools.remove("greet").function is greet
    assert "greet" not in server.tools
    with pytest.raises(KeyError):
        server.tools.remove("greet")


def test_what_is_disabled_cannot_be_got_but_is_still_there(server: Server) -> None:
    server.tool(greet)
    server.tools.disable("greet")
    assert server.tools.get("greet") is None
    assert "greet" in server.tools
    server.tools.enable("greet")
    assert server.tools.get("greet") is server.tools["greet"]


@pytest.mark.parametrize("action", ["enable", "disable", "remove"])
def test_what_is_not_there_is_a_key_error(server: Server, action: str) -> None:
    with pytest.raises(KeyError):
        getattr(server.tools, action)("unheard")


def test_ready_made_components_are_added_by_their_kind(server: Server) -> None:
    for component in (
        Tool(greet),
        Prompt(greet),
        Resource(constant, "data://x"),
        ResourceTemplate(greet, "data://{name}"),
        Method(data_of, "data/get"),
    ):
        server.add(component)
    assert [len(part) for part in server.parts] == [1, 1, 1, 1, 1]


def test_a_component_added_to_two_servers_is_switched_in_one_of_them_alone() -> None:
    first, second, tool = Server("first"), Server("second"), Tool(greet)
    first.add(tool)
    second.add(tool)
    first.tools.disable("greet")
    assert first.tools.get("greet") is None
    assert second.tools.get("greet") is not None


def test_only_components_can_be_added(server: Server) -> None:
    with pytest.raises(RegistrationError, match="Tool"):
        server.add(greet)  # type: ignore[arg-type]  # on purpose


def test_an_unbound_method_says_how_to_mark_it(server: Server) -> None:
    with pytest.raises(RegistrationError, match="include an instance"):

        class _Tools:
            @server.tool  # type: ignore[type-var]  # on purpose
            @classmethod
            def make(cls) -> str:
                return ""


def test_a_resource_without_its_uri_says_what_to_write(server: Server) -> None:
    with pytest.raises(RegistrationError, match=r'@resource\("'):
        server.resource(constant)  # type: ignore[arg-type]  # on purpose


def test_listeners_hear_what_happened_to_which_component() -> None:
    registry, heard = Registry(), []
    stop = registry.listen(
        lambda part, action, component: heard.append((part.list_name, action, component.key))
    )
    registry.tool(greet)
    registry.tools.disable("greet")
    registry.tools.disable("greet")
    registry.tools.remove("greet")
    registry.resource("data://{name}")(greet)
    stop()
    registry.prompt(greet)
    assert heard == [
        ("tools", "added", "greet"),
        ("tools", "switched", "greet"),
        ("tools", "removed", "greet"),
        ("resources", "added", "data://{name}"),
    ]


def nothing() -> dict[str, str]:
    return {}


def test_who_listens_to_a_registry_hears_of_lists_and_updates_until_it_is_over() -> None:
    outer, inner, heard = Registry(), Registry(), list[tuple[str, str | None]]()
    inner.tool(greet)
    end = outer.listeners.add(lambda change: heard.append((change.kind, change.uri)))
    included = outer.include(inner, prefix="in")
    inner.tools.disable("greet")
    inner.resource_updated("data://x")
    inner.method("thing/do")(nothing)  # which no list holds
    included.remove()
    inner.resource_updated("data://x")
    end()
    end()
    outer.tool(greet)
    assert heard == [("tools", None), ("tools", None), ("resource", "data://in/x"), ("tools", None)]


def test_threads_may_register_and_remove_at_once(server: Server) -> None:
    def work(number: int) -> None:
        for index in range(50):
            server.tool(greet, name=f"t{number}.{index}")
            if index % 2:
                server.tools.remove(f"t{number}.{index}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    positions = [tool.position for tool in server.tools]
    assert len(positions) == 100
    assert positions == sorted(set(positions))


def test_a_forward_reference_may_be_defined_after_the_function(server: Server) -> None:
    @server.tool
    def forecast(place: Place) -> str:
        return place.name

    server.resolve()
    schema = server.tools["forecast"].arguments.schema
    assert schema["properties"]["place"]["properties"] == {"name": {"type": "string"}}


def test_a_reference_that_nobody_defines_is_an_error_that_names_it(server: Server) -> None:
    server.tool(_lost)
    with pytest.raises(RegistrationError, match="Nowhere"):
        server.resolve()


def test_once_resolved_a_function_that_cannot_be_is_refused_at_once(server: Server) -> None:
    server.resolve()
    with pytest.raises(RegistrationError, match="Nowhere"):
        server.tool(_lost)
    assert len(server.tools) == 0


def _lost(place: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821 - on purpose
    return ""


from dataclasses import dataclass  # noqa: E402 - what `forecast` refers to is defined below it


@dataclass
class Place:
    name: str
