"""Static providers, whose components are served like registered ones; transforms; life and updates of providers."""

import asyncio
import json
import string
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Context, Provider, RegistrationError, Registry, Resource, ResourceTemplate, Server, Tool
from mcpkit.providers.provider_and_transforms import KINDS, Kind, Prefix, Transform
from mcpkit.testing import connect
from mcpkit.transports import Connection
from tests.helpers.waiting import until


def tool(name: str, **options: Any) -> Tool:
    async def text() -> str:
        return name

    return Tool(text, name=name, **options)


class StaticProvider(Provider):
    """A static provider of components that can be replaced."""

    kinds = frozenset({"tools", "resources"})

    def __init__(self, *tools: Tool, resources: Any = ()) -> None:
        self.shown: Any = {"tools": tools, "resources": resources}

    def snapshot(self, kind: Kind) -> Any:
        return self.shown[kind]

    def show(self, *tools: Tool) -> None:
        self.shown["tools"] = tools
        self.changed("tools")


class Dynamic(StaticProvider):
    """The same, looked up at each request."""

    def snapshot(self, kind: Kind) -> None:
        return None

    async def list(self, kind: Kind, ctx: Any) -> Any:
        return self.shown[kind]


class Only(Transform):
    """Hides all tools but some."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def apply(self, component: Any) -> Any:
        return component if component.key in self.names else None


def tool_names(owner: Registry) -> list[str]:
    return [each.key for each in owner.catalog.tools]


async def test_static_provider_is_listed_and_called_like_registered_components() -> None:
    server, static = (
        Server("s"),
        StaticProvider(tool("a"), tool("b"), resources=(Resource(lambda: "x", "note://x", name="x"),)),
    )
    server.tool(lambda: "", name="own")
    server.include(static, prefix="static")
    server.tool(lambda: "", name="late")
    async with connect(server, protocol_version="2025-11-25") as client:
        assert [each["name"] for each in await client.list_tools()] == ["own", "static_a", "static_b", "late"]
        assert (await client.call_tool("static_b")).text == "b"
        assert (await client.read_resource("note://static/x"))[0]["uri"] == "note://static/x"
        client.notifications.clear()
        await asyncio.to_thread(static.show, tool("c"))
        await until(lambda: bool(client.notifications))
        assert [each["name"] for each in await client.list_tools()] == ["own", "late", "static_c"]
        assert client.notifications[0]["method"] == "notifications/tools/list_changed"
    assert server.catalog.providers == ()


def test_static_provider_changes_keep_order_and_what_is_disabled() -> None:
    server = Server("s")
    a, b, c = (tool(name) for name in "abc")
    static = StaticProvider(a, b, c)
    with server.include(static):
        kept = server.catalog.tools["c"]
        server.catalog.tools.disable("b")
        server.catalog.tools.remove("a")
        static.show(a, tool("b"), c)
        assert tool_names(server) == [
            "b",
            "c",
        ]  # what was removed here stays so until its provider replaces it
        assert server.catalog.tools["c"] is kept
        assert not server.catalog.tools["b"].is_enabled
        server.disable(tags={"old"})
        static.show(tool("b", tags={"old"}), c)
        server.enable(tags={"old"})
        assert server.catalog.tools["b"].is_enabled  # as `enable` by tag enables all with it
        server.disable(tags={"old"})
        static.show(tool("b"), c)
        assert server.catalog.tools["b"].is_enabled  # as it lost the disabled tag
        static.show(c, tool("a"))
        assert tool_names(server) == ["c", "a"]
    assert tool_names(server) == []


def test_static_provider_name_in_use_is_refused() -> None:
    server, static = Server("s"), StaticProvider(tool("a"))
    server.tool(lambda: "", name="a")
    with pytest.raises(RegistrationError, match="two tools are named 'a'"):
        server.include(static)
    assert server.catalog.tools["a"].position == min(each.position for each in server.catalog.tools)
    server.include(static, prefix="p")
    with pytest.raises(RegistrationError, match="is already included"):
        server.include(static, prefix="p")
    server.tool(lambda: "", name="p_b")
    with pytest.raises(RegistrationError, match="two tools are named 'p_b'"):
        static.show(tool("b"), tool("c"))
    assert tool_names(server) == ["a", "p_b", "p_c"]  # the others are served
    before = server.catalog.changes
    static.changed("resources")
    assert server.catalog.changes == before  # nothing has changed
    static.show(*static.shown["tools"], tool("d"))
    assert tool_names(server) == ["a", "p_b", "p_c", "p_d"]


def test_static_provider_wrong_component_is_refused() -> None:
    for wrong in ("add", Resource(lambda: "x", "note://x", name="x")):
        with pytest.raises(TypeError, match=r"StaticProvider returned .* for tools, which is not a tool"):
            Server("s").include(StaticProvider(wrong))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_transforms_hide_and_rename_static_and_dynamic_components() -> None:
    server = Server("s")
    for name, provider in {
        "s": StaticProvider(tool("a"), tool("b")),
        "d": Dynamic(tool("a"), tool("b")),
    }.items():
        server.catalog.include(provider, [Only("a"), Prefix("in"), Prefix(name)])
    async with connect(server) as client:
        assert [each["name"] for each in await client.list_tools()] == ["s_in_a", "d_in_a"]
        for name in ("s_in_a", "d_in_a"):
            assert (await client.call_tool(name)).text == "a"
        for name in ("s_in_b", "d_in_b", "d_a", "in_a"):
            with pytest.raises(Exception, match="Unknown tool"):
                await client.call_tool(name)


async def test_static_providers_add_no_function_call_to_requests() -> None:
    plain, nested = Server("plain"), Server("nested")
    for number in range(10):
        plain.catalog.add(tool(f"t{number}"))
        transforms = [Transform(), Prefix("x"), Transform(), Prefix(f"p{number}"), Transform()]
        nested.catalog.include(StaticProvider(tool(f"t{number}")), transforms)
    for method, params in (("tools/list", {}), ("tools/call", {"name": "{}"})):
        counts = [
            await count_calls(server, method, {key: value.format(name) for key, value in params.items()})
            for server, name in ((plain, "t5"), (nested, "p5_x_t5"))
        ]
        assert counts[0] == counts[1] > 0


async def count_calls(server: Server, method: str, params: Any) -> int:
    """Return the number of Python functions that are called for a request, once its components are in use."""
    responses: list[Any] = []
    connection = Connection(server, responses.append)
    meta = {
        f"io.modelcontextprotocol/{key}": value
        for key, value in (("protocolVersion", "2026-07-28"), ("clientCapabilities", {}))
    }
    request = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    ).encode()
    calls: list[str] = []
    for _ in range(3):
        calls.clear()
        sys.setprofile(
            lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None
        )
        try:
            connection.receive(request)
            await connection.drain()
        finally:
            sys.setprofile(None)
        assert b'"result"' in bytes(responses[-1])
    await connection.aclose()
    return len(calls)


async def test_included_registry_of_registry_follows_switches_at_each_depth() -> None:
    inner, middle, outer = Registry(), Registry(), Server("outer")
    inner.tool(lambda: "", name="a", tags={"old"})
    middle.include(inner, prefix="in")
    outer.include(middle)
    copy = outer.catalog.tools["in_a"]
    for switch, is_enabled in (
        (inner.disable, False), (inner.enable, True), (middle.disable, False), (inner.disable, False),
        (inner.enable, False), (middle.enable, True), (outer.disable, False),
    ):  # fmt: skip
        switch(tags={"old"})
        assert copy.is_enabled is is_enabled, switch
    assert outer.catalog.tools["in_a"] is copy


async def test_provider_lifespan_is_open_while_the_server_runs() -> None:
    events: list[str] = []

    class Living(StaticProvider):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            events.append("open")
            yield
            events.append("closed")

    registry, server = Registry(), Server("s")
    registry.include(Living(tool("a")))
    server.include(registry)
    async with connect(server) as client:
        assert (await client.call_tool("a")).text == "a"
        assert events == ["open"]
        registry.include(Living(tool("b")))  # while the server runs
        await until(lambda: len(events) == 2)
    assert events == ["open", "open", "closed", "closed"]


@pytest.mark.parametrize("kind", [StaticProvider, Dynamic])
async def test_provider_of_an_included_server_has_the_state_of_that_server(kind) -> None:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        yield f"state of {server.name}"

    async def state(ctx: Context[str]) -> str:
        return ctx.state

    inner, outer = Server("inner", lifespan=lifespan), Server("outer", lifespan=lifespan)
    inner.include(kind(Tool(state)))
    outer.include(inner, prefix="in")
    outer.include(kind(Tool(state)))
    async with connect(outer) as client:
        assert (await client.call_tool("state")).text == "state of outer"
        assert (await client.call_tool("in_state")).text == "state of inner"


@pytest.mark.parametrize(("kind", "scope"), [(StaticProvider, "public"), (Dynamic, "private")])
async def test_list_with_a_dynamic_provider_is_private(kind: type[StaticProvider], scope: str) -> None:
    server = Server("s")
    server.include(kind(tool("a")))
    async with connect(server, protocol_version="2026-07-28") as client:
        assert (await client.request("tools/list"))["cacheScope"] == scope


async def test_provider_resource_update_has_the_uri_of_the_client() -> None:
    static, inner, server = (
        StaticProvider(resources=[Resource(lambda: "x", "note://x", name="x")]),
        Registry(),
        Server("s"),
    )
    inner.include(static, prefix="in")
    server.include(inner, prefix="out")
    async with (
        connect(server) as client,
        client.listen(resource_subscriptions=["note://out/in/x"]) as changes,
    ):
        await asyncio.to_thread(static.resource_updated, "note://x")
        assert (await anext(changes)).uri == "note://out/in/x"


async def test_provider_watch_is_open_while_a_client_is_subscribed(revision: str) -> None:
    events: list[str] = []

    class Watching(StaticProvider):
        @asynccontextmanager
        async def watch(self, uri: str) -> AsyncIterator[None]:
            events.append(f"open {uri}")
            self.resource_updated(uri)
            try:
                yield
            finally:
                events.append(f"closed {uri}")

    inner, server = Registry(), Server("s")
    inner.include(Watching(resources=[Resource(lambda: "x", "note://x", name="x")]), prefix="in")
    server.include(inner, prefix="out")
    uris = ["note://out/in/x", "note://out/in/later", "note://out/other"]
    async with connect(server, protocol_version=revision) as client:
        async with client.listen(resource_subscriptions=uris) as changes:
            assert {(await anext(changes)).uri for _ in range(2)} == set(uris[:2])
            assert sorted(events) == ["open note://later", "open note://x"]
        await until(lambda: len(events) == 4)
    assert sorted(events[2:]) == ["closed note://later", "closed note://x"]


_PREFIXES = st.text(string.ascii_letters + string.digits + "._-/:{}", min_size=1, max_size=6)
_KEYS = st.one_of(st.text(max_size=20), st.from_regex(r"[a-z]+:(//)?[a-z/:{}+]*", fullmatch=True))


@given(st.sampled_from(KINDS), _KEYS, st.lists(_PREFIXES, max_size=4))
def test_original_is_the_inverse_of_rename(kind: Kind, key: str, prefixes: list[str]) -> None:
    transforms = [Transform(), *map(Prefix, prefixes)]
    renamed = key
    for transform in transforms:
        renamed = transform.rename(kind, renamed)
    found: str | None = renamed
    for transform in reversed(transforms):
        assert found is not None
        found = transform.original(kind, found)
    assert found == key


@given(st.sampled_from(KINDS), _KEYS, _PREFIXES)
def test_original_of_a_key_without_the_prefix_is_none(kind: Kind, key: str, prefix: str) -> None:
    transform = Prefix(prefix)
    original = transform.original(kind, key)
    assert original is None or transform.rename(kind, original) == key


def test_prefix_of_a_template_keeps_its_expressions() -> None:
    template = Prefix("p").apply(ResourceTemplate(lambda name: name, "data://{name}", name="t"))
    assert template.key == "data://p/{name}"
    assert template.template.match("data://p/x") == {"name": "x"}
