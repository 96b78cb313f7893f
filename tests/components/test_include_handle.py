"""What `include` returns takes back all that came by it."""

from __future__ import annotations

import asyncio
import threading
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpkit import Extension, ProtocolError, RegistrationError, Registry, Server, prompt, resource, tool
from mcpkit.middleware import CallNext, Request
from mcpkit.testing import Client, connect

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


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
    return [component.key for part in registry.parts for component in part]


@pytest.mark.parametrize("prefix", ["", "w"])
@pytest.mark.parametrize("make", [Weather, weather])
def test_all_that_was_brought_goes_and_the_rest_stays(make: Any, prefix: str) -> None:
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


def test_methods_go_as_well() -> None:
    server, registry = Server("s"), Registry()

    @registry.method("weather/now")
    def now() -> dict[str, str]:
        return {"sky": "blue"}

    server.include(registry).remove()
    assert keys(server) == []


def test_what_is_included_twice_is_taken_back_once() -> None:
    server, registry = Server("s"), weather()
    first, second = server.include(registry, prefix="a"), server.include(registry, prefix="b")
    first.remove()
    first.remove()
    assert "b_forecast" in server.tools
    assert "a_forecast" not in server.tools
    registry.tool(lambda: "", name="later")
    assert [key for key in keys(server) if key.endswith("later")] == ["b_later"]
    second.remove()
    registry.tool(lambda: "", name="latest")
    assert keys(server) == []
    assert server.included == []


def test_later_changes_and_updates_are_followed_no_more() -> None:
    server, registry = Server("s"), weather()
    updates: list[str | None] = []
    server.listeners.add(lambda change: change.uri and updates.append(change.uri))
    included = server.include(registry)
    registry.resource_updated("data://stations")
    included.remove()
    registry.resource_updated("data://stations")
    registry.tools.remove("forecast")
    assert updates == ["data://stations"]


def test_what_was_replaced_since_stays() -> None:
    server = Server("s")
    included = server.include(weather())
    server.tool(lambda: "mine", name="forecast", replace=True)
    server.prompts.remove("plan")
    included.remove()
    assert keys(server) == ["forecast"]


def test_nested_includes_lose_it_too() -> None:
    outer, middle = Server("outer"), Registry()
    included = middle.include(weather(), prefix="w")
    outer.include(middle, prefix="m")
    assert "m_w_forecast" in outer.tools
    included.remove()
    assert keys(outer) == keys(middle) == []


def test_a_with_block_takes_it_back() -> None:
    server = Server("s")
    with server.include(weather()) as included:
        assert repr(included).startswith("<Included <mcpkit.engine.registry.Registry")
        assert "forecast" in server.tools
    assert keys(server) == []


def test_a_module_and_a_component_are_taken_back_as_well() -> None:
    module = types.ModuleType("weather")
    module.forecast = tool(name="forecast")(lambda: "")  # type: ignore[attr-defined]  # a module made here
    server = Server("s")
    server.include(module).remove()
    assert keys(server) == []


@pytest.mark.parametrize("make", [Weather, weather])
def test_an_include_that_fails_leaves_nothing_behind(make: Any) -> None:
    server = Server("s")
    server.prompt(lambda: "", name="plan")
    source = make()
    with pytest.raises(RegistrationError, match="there are two prompts 'plan'"):
        server.include(source)
    assert keys(server) == ["plan"]
    assert server.included == []
    if isinstance(source, Registry):
        source.tool(lambda: "", name="later")
    assert keys(server) == ["plan"]


async def listening(client: Client, revision: str) -> asyncio.Future[Any]:
    if revision != "2026-07-28":
        return asyncio.ensure_future(asyncio.sleep(0))
    wanted = {f"{name}ListChanged": True for name in ("tools", "resources", "prompts")}
    task = asyncio.ensure_future(client.request("subscriptions/listen", {"notifications": wanted}))
    await client.notification("notifications/subscriptions/acknowledged")
    return task


@pytest.mark.parametrize("revision", REVISIONS)
async def test_clients_hear_of_it_once_for_each_list(revision: str) -> None:
    server = Server("s")
    included = server.include(weather())
    async with connect(server, revision=revision) as client:
        task = await listening(client, revision)
        included.remove()
        told = {
            name: await client.notification(f"notifications/{name}/list_changed")
            for name in ("tools", "resources", "prompts")
        }
        assert len(told) == 3
        assert client.notifications == []
        assert await client.list_tools() == await client.list_resources() == await client.list_prompts() == []
        with pytest.raises(ProtocolError, match="Unknown tool: forecast"):
            await client.call("forecast")
        task.cancel()


@pytest.mark.parametrize("is_registry", [False, True])
def test_no_list_shows_half_of_it(is_registry: bool) -> None:
    """Lists are taken while a thread includes and takes back, over and over."""
    server = Server("s", offers={"resources"})
    source: Any = Pair()
    if is_registry:
        source = Registry()
        source.include(Pair())
    is_over = threading.Event()

    def change() -> None:
        while not is_over.is_set():
            server.include(source).remove()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        sizes = {len(list(server.tools)) for _ in range(20_000)}
    finally:
        is_over.set()
        thread.join()
    assert sizes <= {0, 2}


class Pair:
    @tool
    def one(self) -> str:
        return ""

    @tool
    def two(self) -> str:
        return ""


async def test_an_extension_and_its_middleware_go_with_it() -> None:
    extension = Extension("com.example/notes", {"colour": "red"})
    extension.tool(lambda: "noted", name="note")
    seen: list[str] = []

    @extension.middleware
    async def see(request: Request, call_next: CallNext) -> Any:
        seen.append(request.method)
        return await call_next(request)

    inner, outer = Registry(), Server("outer")
    included = inner.include(extension)
    outer.include(inner)
    outer.tool(lambda: "", name="own")
    async with connect(outer) as client:
        assert "com.example/notes" in client.server_capabilities["extensions"]
        await client.call("note")
        seen.clear()
        included.remove()
        await client.call("own")
        assert seen == []
        assert "extensions" not in (await client.request("server/discover"))["capabilities"]
    again = outer.include(extension)
    other = Registry()
    other.include(extension)
    outer_too = outer.include(other, prefix="too")
    again.remove()
    assert outer.extensions == {"com.example/notes": extension}
    outer_too.remove()
    assert outer.extensions == {}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_plugin_comes_and_goes_with_the_lifespan_of_its_host(revision: str) -> None:
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        with server.include(Weather(), prefix="w"):
            yield

    server = Server("s", lifespan=lifespan)
    for _ in range(2):
        async with connect(server, revision=revision) as client:
            assert (await client.call("w_forecast")).text == "sunny"
        assert keys(server) == []
