"""A client of several servers: names, resources, failures of some servers."""

import logging
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Client, ClientGroup, ProtocolError, Server
from mcpkit.client.client_group import MAX_NAME_LENGTH, UniqueNames

weather = Server("Weather", instructions="Ask for a city.")


@weather.tool
def forecast(city: str) -> str:
    return f"sunny in {city}"


@weather.prompt
def report(city: str) -> str:
    return f"Write about {city}"


@weather.resource("weather://{city}")
def of_city(city: Literal["Oslo", "Odda"]) -> str:
    return f"sunny in {city}"


@weather.resource("shared://about")
def about_weather() -> str:
    return "of weather"


maps = Server("Maps")


@maps.tool
def find(place: str) -> str:
    return f"{place} is here"


@maps.resource("maps://world")
def world() -> str:
    return "round"


@maps.resource("shared://about")
def about_maps() -> str:
    return "of maps"


def two_servers(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"weather": weather, "maps": maps, **more}}


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def make(request: pytest.FixtureRequest) -> Callable[..., Client]:
    return lambda target, **options: ClientGroup(target, protocol_version=request.param, **options)


async def test_tools_are_prefixed_by_server_and_resources_keep_their_uris(make) -> None:
    async with make(two_servers()) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["weather_forecast", "maps_find"]
        assert (await client.call_tool("weather_forecast", {"city": "Oslo"})).text == "sunny in Oslo"
        assert (await client.call_tool("maps_find", {"place": "Oslo"})).text == "Oslo is here"
        assert [each["uri"] for each in await client.list_resources()] == ["shared://about", "maps://world"]
        [template] = await client.list_resource_templates()
        assert template["uriTemplate"] == "weather://{city}"
        assert (await client.read_resource("maps://world"))[0]["text"] == "round"
        assert (await client.read_resource("weather://Oslo"))[0]["text"] == "sunny in Oslo"
        assert (await client.read_resource("shared://about"))[0]["text"] == "of weather"
        assert (await client.servers["maps"].read_resource("shared://about"))[0]["text"] == "of maps"
        assert await client.complete("weather://{city}", "city", "Os") == ["Oslo"]


async def test_group_settings_apply_to_all_servers(make: Callable[..., Client]) -> None:
    async with make(two_servers(), roots=[]) as client:
        assert client.instructions == "weather: Ask for a city."
        client.roots = ["/srv"]
        assert client.roots == client.servers["maps"].roots == ["/srv"]
        await client.set_log_level("error")
        await client.notify("notifications/com.example/read")
        assert await client.complete("weather://{city}", "city", "Od") == ["Odda"]
        assert await client.complete("weather_report", "city", "O") == []
        with pytest.raises(ValueError, match="servers"):
            await client.request("ping")


async def test_group_of_one_server_has_its_names(make: Callable[..., Client]) -> None:
    async with make({"mcpServers": {"weather": weather}}) as client:
        assert client.instructions == "Ask for a city."
        assert "tools" in client.server_capabilities
        assert await client.complete("weather://{city}", "city", "Os") == ["Oslo"]


async def test_unknown_name_is_error_with_suggestion(make: Callable[..., Client]) -> None:
    async with make(two_servers()) as client:
        await client.list_tools()
        with pytest.raises(ProtocolError, match="has wether_forecast among its tools; did you mean weather_"):
            await client.call_tool("wether_forecast")
        with pytest.raises(ProtocolError, match="other among its prompts: they begin with weather_, maps_"):
            await client.get_prompt("other")
        with pytest.raises(ProtocolError, match="forecasts"):
            await client.call_tool("weather_forecasts")


async def test_unreachable_server_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    config = two_servers(gone={"command": "no-such-program"}, refused={"url": "http://127.0.0.1:1/mcp"})
    with caplog.at_level(logging.WARNING):
        async with ClientGroup(config) as client:
            assert list(client.failures) == ["gone", "refused"]
            assert "no-such-program" in str(client.failures["gone"])
            assert [tool["name"] for tool in await client.list_tools()][-1] == "maps_find"
            assert (await client.read_resource("maps://world"))[0]["text"] == "round"
            with pytest.raises(ConnectionError, match="no-such-program"):
                await client.call_tool("gone_tool")
    for record, name in zip(caplog.records, ("gone", "refused"), strict=True):
        assert f"The server {name} is left out until it can be reached" in record.getMessage()


async def test_all_servers_unreachable_is_error() -> None:
    two = {"mcpServers": {"a": {"command": "no-such-program"}, "b": {"command": "nor-this"}}}
    with pytest.raises(ConnectionError, match=r"none of the 2 servers .*: a: .*no-such.*; b: .*nor-this"):
        await ClientGroup(two).__aenter__()
    with pytest.raises(ConnectionError, match=r"^(?!none of).*no-such-program"):
        await ClientGroup({"command": "no-such-program"}).__aenter__()


def test_names_that_collide_are_numbered() -> None:
    servers = ["a b", "a_b", "a.b"]
    assert list(UniqueNames(servers).assign({name: ["c"] for name in servers})) == [
        "a_b_c",
        "a_b_2_c",
        "a_b_3_c",
    ]


SERVERS = st.lists(st.text("ab_ .", max_size=3), min_size=2, max_size=4, unique=True)
TOOLS = st.lists(
    st.text("ab_", min_size=1, max_size=3) | st.text("ab", min_size=60, max_size=66), unique=True
)


@given(SERVERS.flatmap(lambda servers: st.fixed_dictionaries(dict.fromkeys(servers, TOOLS))))
def test_names_are_unique_and_reversible(listed: dict[str, list[str]]) -> None:
    names = UniqueNames(list(listed))
    meant = names.assign(listed)
    assert sorted(meant.values()) == sorted((server, own) for server in listed for own in listed[server])
    assert all(len(name) <= MAX_NAME_LENGTH for name in meant)
    for name, place in meant.items():
        if names.is_unambiguous(name):
            assert names.split(name) == place
