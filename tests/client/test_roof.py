"""Several servers under one roof."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from mcpkit import Client, Context, ProtocolError, Server, SyncClient
from mcpkit.client.roof import Roof
from tests.helpers.scripted_transport import Message, ScriptedTransport
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio


def weather() -> Server:
    server = Server("Weather", instructions="Ask for a city.")

    @server.tool
    def forecast(city: str) -> str:
        return f"sunny in {city}"

    @server.tool
    def delete_all() -> str:
        return "deleted"

    @server.prompt
    def report(city: Literal["Oslo", "Odda"]) -> str:
        return f"Write about {city}"

    @server.resource("weather://{city}")
    def of_city(city: Literal["Oslo", "Odda"]) -> str:
        return f"sunny in {city}"

    @server.resource("shared://about")
    def about() -> str:
        return "of weather"

    return server


def maps() -> Server:
    server = Server("Maps")

    @server.tool
    async def find(place: str, ctx: Context) -> str:
        await ctx.info("looking")
        return f"{place} is here"

    @server.resource("maps://world")
    def world() -> str:
        return "round"

    @server.resource("shared://about")
    def about() -> str:
        return "of maps"

    return server


def both(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"weather": weather(), "maps": maps(), **more}}


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def make(request: pytest.FixtureRequest) -> Callable[..., Client]:
    return lambda target, **options: Client(target, revision=request.param, **options)


async def test_tools_are_told_apart_by_their_servers(make: Callable[..., Client]) -> None:
    async with make(both()) as client:
        assert [tool["name"] for tool in await client.list_tools()] == [
            "weather_forecast",
            "weather_delete_all",
            "maps_find",
        ]
        assert (await client.call("weather_forecast", {"city": "Oslo"})).text == "sunny in Oslo"
        assert (await client.call("maps_find", {"place": "Oslo"})).text == "Oslo is here"


async def test_a_tool_is_called_without_having_been_listed(make: Callable[..., Client]) -> None:
    async with make(both()) as client:
        assert (await client.call("maps_find", {"place": "Oslo"})).text == "Oslo is here"


async def test_prompts_are_told_apart_too(make: Callable[..., Client]) -> None:
    async with make(both()) as client:
        assert [prompt["name"] for prompt in await client.list_prompts()] == ["weather_report"]
        [message] = await client.get_prompt("weather_report", {"city": "Oslo"})
        assert message["content"]["text"] == "Write about Oslo"
        assert await client.complete("weather_report", "city", "Os") == ["Oslo"]


async def test_resources_keep_their_uris(make: Callable[..., Client]) -> None:
    async with make(both()) as client:
        assert [each["uri"] for each in await client.list_resources()] == ["shared://about", "maps://world"]
        assert [each["uriTemplate"] for each in await client.list_resource_templates()] == [
            "weather://{city}"
        ]
        assert (await client.read("maps://world"))[0]["text"] == "round"
        assert (await client.read("weather://Oslo"))[0]["text"] == "sunny in Oslo"
        assert (await client.read("shared://about"))[0]["text"] == "of weather"
        assert (await client.servers["maps"].read("shared://about"))[0]["text"] == "of maps"
        assert await client.complete("weather://{city}", "city", "Os") == ["Oslo"]


async def test_a_resource_that_nobody_lists_is_asked_for_in_order(make: Callable[..., Client]) -> None:
    hidden = Server("Hidden")
    hidden.resource("hidden://listed")(about)
    async with make(both(hidden=hidden)) as client:
        await client.list_resources()
        hidden.resource("hidden://it", name="it")(about)
        assert (await client.read("hidden://it"))[0]["text"] == "of nobody"
        with pytest.raises(ProtocolError, match="other://it"):
            await client.read("other://it")


def about() -> str:
    return "of nobody"


async def test_what_no_server_has_is_told(make: Callable[..., Client]) -> None:
    async with make(both()) as client:
        await client.list_tools()
        with pytest.raises(
            ProtocolError, match="no server has wether_forecast among its tools; did you mean weather_"
        ):
            await client.call("wether_forecast")
        with pytest.raises(
            ProtocolError, match="no server has other among its prompts: they begin with weather_, maps_"
        ):
            await client.get_prompt("other")
        with pytest.raises(ProtocolError, match="forecasts"):
            await client.call("weather_forecasts")


async def test_each_server_is_a_client_of_its_own(make: Callable[..., Client]) -> None:
    async with make(both()) as client:
        assert list(client.servers) == ["weather", "maps"]
        assert client.servers["weather"].server_info["name"] == "Weather"
        assert (await client.servers["maps"].call("find", {"place": "Oslo"})).text == "Oslo is here"
        assert client.instructions == "weather: Ask for a city."
        for name in ("revision", "revision_reason", "server_info", "server_capabilities"):
            with pytest.raises(ValueError, match=rf"several servers.*client\.servers\['weather'\]\.{name}"):
                getattr(client, name)
        with pytest.raises(ValueError, match="several servers"):
            await client.request("ping")


async def test_handlers_are_those_of_all_servers() -> None:
    said: list[object] = []
    async with Client(both(), log=lambda level, data, logger: said.append(data), log_level="info") as client:
        await client.call("maps_find", {"place": "Oslo"})
    assert said == ["looking"]


async def test_the_log_level_is_told_to_those_that_log() -> None:
    said: list[object] = []
    client = Client(both(), revision="2025-11-25", log=lambda level, data, logger: said.append(data))
    async with client:
        await client.set_log_level("error")
        await client.call("maps_find", {"place": "Oslo"})
        await client.set_log_level("info")
        await client.call("maps_find", {"place": "Oslo"})
    assert said == ["looking"]


@pytest.mark.slow
async def test_the_log_level_is_told_to_a_server_that_is_reached_later(tmp_path: Path) -> None:
    said: list[object] = []
    late = {"command": sys.executable, "args": ["server.py"], "cwd": str(tmp_path)}
    client = Client(both(late=late), revision="2025-11-25", log=lambda level, data, logger: said.append(data))
    async with client:
        await client.set_log_level("error")
        (tmp_path / "server.py").write_text(SCRIPT)
        await client.call("late_say", {"level": "warning"})
        await client.call("late_say", {"level": "error"})
    assert said == ["error"]


async def test_of_one_server_everything_keeps_its_name(make: Callable[..., Client]) -> None:
    async with make({"mcpServers": {"weather": weather()}}) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["forecast", "delete_all"]
        assert (await client.call("forecast", {"city": "Oslo"})).text == "sunny in Oslo"
        assert (await client.read("weather://Oslo"))[0]["text"] == "sunny in Oslo"
        assert client.server_info["name"] == "Weather"
        assert client.revision == client.servers["weather"].revision
        assert client.instructions == "Ask for a city."
        assert "tools" in client.server_capabilities
        assert client.revision_reason
        assert (await client.request("tools/list"))["tools"]


async def test_a_plain_client_is_its_only_server() -> None:
    async with Client(weather()) as client:
        assert client.servers == {"server": client}
        assert client.failures == {}


SCRIPT = """
from mcpkit import Context, Server

server = Server("process")


@server.tool
async def say(level: str, ctx: Context) -> None:
    await ctx.log(level, level)


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@server.tool
def crash() -> None:
    import os
    os._exit(3)


server.run()
"""


@pytest.mark.slow
async def test_processes_and_servers_at_urls(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SCRIPT)
    with in_thread(weather().asgi()) as url:
        servers = {
            "process": {"command": sys.executable, "args": ["server.py"], "excludeTools": ["crash", "say"]},
            "remote": {"url": f"{url}/mcp", "includeTools": ["forecast"]},
        }
        (path := tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        async with Client(path) as client:
            assert [tool["name"] for tool in await client.list_tools()] == ["process_add", "remote_forecast"]
            assert (await client.call("process_add", {"a": 1, "b": 2})).structured == 3
            assert (await client.call("remote_forecast", {"city": "Oslo"})).text == "sunny in Oslo"
            with pytest.raises(ProtocolError, match="leaves out the tool crash of the server process"):
                await client.call("process_crash")
            with pytest.raises(ProtocolError, match="leaves out the tool delete_all of the server remote"):
                await client.call("remote_delete_all")


@pytest.mark.slow
async def test_tools_of_a_single_entry_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SCRIPT)
    entry = {"command": sys.executable, "args": ["server.py"], "includeTools": ["add"]}
    async with Client(entry, cwd=tmp_path) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["add"]
        with pytest.raises(ProtocolError, match="leaves out the tool crash"):
            await client.call("crash")


async def test_a_server_that_cannot_be_reached_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    config = both(gone={"command": "no-such-program"}, refused={"url": "http://127.0.0.1:1/mcp"})
    with caplog.at_level(logging.WARNING):
        async with Client(config) as client:
            assert list(client.failures) == ["gone", "refused"]
            assert "no-such-program" in str(client.failures["gone"])
            assert [tool["name"] for tool in await client.list_tools()][-1] == "maps_find"
            assert (await client.call("maps_find", {"place": "Oslo"})).text == "Oslo is here"
            assert (await client.read("maps://world"))[0]["text"] == "round"
            with pytest.raises(ConnectionError, match="no-such-program"):
                await client.call("gone_tool")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "The server gone is left out, as it cannot be reached",
        "The server refused is left out, as it cannot be reached",
    ]


@pytest.mark.slow
async def test_a_server_that_was_left_out_is_tried_again_when_it_is_called(tmp_path: Path) -> None:
    late = {"command": sys.executable, "args": ["server.py"], "cwd": str(tmp_path)}
    async with Client(both(late=late)) as client:
        assert list(client.failures) == ["late"]
        (tmp_path / "server.py").write_text(SCRIPT)
        assert (await client.call("late_add", {"a": 1, "b": 2})).structured == 3
        assert client.failures == {}
        assert "late_add" in [tool["name"] for tool in await client.list_tools()]


async def test_where_no_server_can_be_reached_that_is_raised() -> None:
    two = {"mcpServers": {"a": {"command": "no-such-program"}, "b": {"command": "nor-this"}}}
    with pytest.raises(
        ConnectionError, match=r"none of the 2 servers can be reached: a: .*no-such.*; b: .*nor-this"
    ):
        await Client(two).__aenter__()
    with pytest.raises(ConnectionError, match=r"^(?!none of).*no-such-program"):
        await Client({"command": "no-such-program"}).__aenter__()


async def test_a_server_that_fails_to_list_is_left_out_of_the_list(caplog: pytest.LogCaptureFixture) -> None:
    def script(transport: ScriptedTransport, message: Message) -> Any:
        if message["method"] == "server/discover":
            supported = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "resultType": "complete",
            }
            return [{"jsonrpc": "2.0", "id": message["id"], "result": supported}]
        return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "broken"}}]

    broken = ScriptedTransport(script)
    with caplog.at_level(logging.WARNING):
        async with Client(both(broken=broken)) as client:
            assert [tool["name"] for tool in await client.list_tools()][-1] == "maps_find"
    assert caplog.messages == ["What the server broken has is left out of a list: broken"]
    async with Client({"mcpServers": {"broken": broken}}) as client:
        with pytest.raises(ProtocolError, match="broken"):
            await client.list_tools()


async def test_a_client_of_several_can_be_opened_again() -> None:
    client = Client(both())
    for _ in range(2):
        async with client:
            assert (await client.call("maps_find", {"place": "Oslo"})).text == "Oslo is here"
        await client.close()
        with pytest.raises(ConnectionError, match="the client is not open"):
            await client.call("maps_find", {"place": "Oslo"})


@pytest.mark.slow
def test_without_an_event_loop_it_is_the_same() -> None:
    with SyncClient(both(gone={"command": "no-such-program"})) as client:
        assert [tool["name"] for tool in client.list_tools()][-1] == "maps_find"
        assert client.call("maps_find", {"place": "Oslo"}).text == "Oslo is here"
        assert client.servers["weather"].call("forecast", {"city": "Oslo"}).text == "sunny in Oslo"
        assert client.servers["weather"].server_info["name"] == "Weather"
        assert client.instructions == "weather: Ask for a city."
        assert list(client.failures) == ["gone"]


async def test_notifications_go_to_all_servers() -> None:
    def script(transport: ScriptedTransport, message: Message) -> Any:
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"},
        }
        return [{"jsonrpc": "2.0", "id": message["id"], "result": result}] if "id" in message else []

    transports = [ScriptedTransport(script), ScriptedTransport(script)]
    config = {"mcpServers": {"a": transports[0], "b": transports[1]}}
    async with Client(config, revision="2025-11-25") as client:
        await client.notify("notifications/roots/list_changed")
        assert [each.methods()[-1] for each in transports] == ["notifications/roots/list_changed"] * 2


def test_everything_that_a_client_has_is_there_under_a_roof() -> None:
    public = {name for name in dir(Client) if not name.startswith("_")}
    assert public - vars(Roof).keys() == {"tools"}  # which is made of two others


async def test_tools_of_several_servers_are_functions() -> None:
    async with Client(both()) as client:
        tools = await client.tools()
        assert await tools["weather_forecast"](city="Oslo") == "sunny in Oslo"


def test_what_a_client_takes_is_shown() -> None:
    assert list(inspect.signature(Client).parameters)[:2] == ["target", "revision"]


def test_an_option_that_there_is_not_is_told() -> None:
    with pytest.raises(TypeError, match="a client has no option timout="):
        Client(both(), timout=3)  # type: ignore[call-arg]
