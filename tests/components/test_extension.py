"""Extensions of the protocol: how they are made, attached, advertised and asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from mcpkit import (
    Context,
    Extension,
    ExtensionResult,
    MissingCapabilityError,
    ProtocolError,
    RegistrationError,
    Registry,
    Server,
    ToolError,
)
from mcpkit.common.errors import OutputError
from mcpkit.testing import Client, connect
from tests.typed.extension import server as typed_server

pytestmark = pytest.mark.anyio

ID = "com.example/thing"
HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
EVERY = [*HANDSHAKE, STATELESS]
KNOWS = {"extensions": {ID: {}}}


@dataclass
class Ticket:
    id: str
    place: int = 1


# Making one


@pytest.mark.parametrize(
    "identifier",
    [
        "com.example/thing",
        "io.modelcontextprotocol/tasks",
        "a/b",
        "com.ex-ample2/Thing_2.x-y",
    ],
)
def test_identifiers_have_a_domain_and_a_name(identifier: str) -> None:
    extension = Extension(identifier)
    assert (extension.identifier, extension.settings) == (identifier, {})
    assert extension.capability == f"extensions.{identifier}"


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "thing",
        "/thing",
        "com.example/",
        "com.example",
        "com..example/thing",
        "1com.example/thing",
        "com.example-/thing",
        "com.example/-thing",
        "com.example/thing.",
        "com.example/thing/more",
        "com.example/thing\n",
        "com.exämple/thing",
        "com example/thing",
        None,
        7,
    ],
)
def test_other_identifiers_are_refused(identifier: Any) -> None:
    with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
        Extension(identifier)
    with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
        Server("s").extension(identifier)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["max"], "a dict whose keys are strings"),
        ("max", "a dict whose keys are strings"),
        ({1: 2}, "a dict whose keys are strings"),
        ({"max": math.nan}, "has no form in JSON"),
        ({"max": object()}, "has no form in JSON"),
        ({"max": "\ud800"}, "has no form in JSON"),
    ],
)
def test_settings_are_a_json_object(settings: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").extension(ID, settings)


def test_settings_are_kept_as_they_were_given() -> None:
    settings = {"max": 3, "kinds": ["a"]}
    extension = Extension(ID, settings)
    settings["kinds"].append("b")  # type: ignore[attr-defined]  # the test knows that it is a list
    assert extension.settings == {"max": 3, "kinds": ["a"]}


def test_there_is_one_of_each_identifier() -> None:
    server = Server("s")
    extension = server.extension(ID)
    with pytest.raises(RegistrationError, match="already"):
        server.extension(ID, {"max": 3})
    assert server.extensions == {ID: extension}
    with pytest.raises(RegistrationError, match="with the settings"):
        server.include(Extension(ID, {"max": 3}))
    assert server.extensions == {ID: extension}


def test_a_ready_made_one_is_included() -> None:
    with pytest.raises(RegistrationError, match=r"include\(\.\.\.\)"):
        Server("s").extension(Extension(ID))  # type: ignore[arg-type]  # the mistake that is tested


# Advertising


@pytest.mark.parametrize("revision", EVERY)
async def test_it_is_advertised_where_the_revision_knows_extensions(revision: str) -> None:
    server = Server("s")
    server.extension(ID, {"max": 3})
    server.include(Extension("com.example/other"))
    async with connect(server, revision=revision) as client:
        advertised = client.server_capabilities.get("extensions")
    assert advertised == ({ID: {"max": 3}, "com.example/other": {}} if revision == STATELESS else None)


async def test_what_includes_a_server_has_its_extensions() -> None:
    inner, middle, outer = Server("inner"), Registry(), Server("outer")
    outer.include(middle)
    middle.include(inner, prefix="in")
    thing = inner.extension(ID)  # last, so that it is heard of on the way out

    @thing.tool
    async def do() -> str:
        return "done"

    @thing.method("thing/do")
    async def do_it() -> dict[str, str]:
        return {"done": "yes"}

    @thing.middleware("tools/call")
    async def shout(call: Any, call_next: Any) -> Any:
        result = await call_next(call)
        result["content"] = [{"type": "text", "text": result.text.upper()}]
        return result

    @inner.middleware("tools/call")
    async def never(call: Any, call_next: Any) -> Any:
        raise ToolError("the middleware of an included server counts for itself alone")

    async with connect(outer, capabilities=KNOWS) as client:
        assert client.server_capabilities["extensions"] == {ID: {}}
        assert (await client.call("in_do")).text == "DONE"
        assert (await client.request("thing/do"))["done"] == "yes"


async def test_two_servers_with_the_same_extension_can_be_included() -> None:
    outer = Server("outer")
    for name in ("one", "other"):
        inner = Server(name)
        inner.extension(ID, {"max": 3})
        outer.include(inner, prefix=name)
    async with connect(outer) as client:
        assert client.server_capabilities["extensions"] == {ID: {"max": 3}}


async def test_a_server_of_its_own_may_have_nothing_but_an_extension() -> None:
    server = Server("s")
    server.extension(ID)
    async with connect(server) as client:
        assert client.server_capabilities == {"extensions": {ID: {}}}
        with pytest.raises(ProtocolError, match="Method not found: tools/list"):
            await client.list_tools()


# What clients declare


async def ask(client: Client, tool: str = "look") -> Any:
    return (await client.call(tool)).structured


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"extensions": {}},
        {"extensions": {"com.example/other": {}}},
        {"extensions": {ID: 1}},
        {"extensions": []},
    ],
)
async def test_a_client_that_has_not_declared_it_does_not_support_it(declared: dict[str, Any]) -> None:
    async with connect(looking(), capabilities=declared) as client:
        assert await ask(client) == {"supported": False, "settings": None}


async def test_a_client_that_has_declared_it_supports_it() -> None:
    async with connect(looking(), capabilities={"extensions": {ID: {"kinds": ["a"]}}}) as client:
        assert await ask(client) == {"supported": True, "settings": {"kinds": ["a"]}}


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_no_client_of_an_older_revision_supports_it(revision: str) -> None:
    async with connect(looking(), revision=revision, capabilities=KNOWS) as client:
        assert '"supported":false' in (await client.call("look")).text
        assert (await client.call("declared")).text == "true"


def looking() -> Server:
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def look(ctx: Context) -> dict[str, Any]:
        return {"supported": thing.is_supported(ctx), "settings": thing.client_settings(ctx)}

    @server.tool
    async def declared(ctx: Context) -> bool:
        return ctx.client.supports(thing.capability)

    return server


# Result types


def queueing(*, is_careful: bool = True) -> Server:
    """A server whose tool gives tickets to those who know them."""
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def queue(ctx: Context) -> Ticket | ExtensionResult:
        if is_careful and not thing.is_supported(ctx):
            return Ticket("plain")
        return thing.result(ctx, "ticket", Ticket("special", 7))

    @server.tool
    def queue_in_thread(ctx: Context) -> ExtensionResult:
        return thing.result(ctx, "ticket", {"id": "special", "_meta": {"com.example/a": 1}})

    return server


async def test_a_tool_answers_with_a_type_of_its_own() -> None:
    async with connect(queueing(), capabilities=KNOWS) as client:
        result = await client.call("queue")
        assert result.type == "ticket"
        assert result.data.keys() == {"resultType", "id", "place", "_meta"}
        assert (result.data["id"], result.data["place"]) == ("special", 7)
        assert result.meta.keys() == {"io.modelcontextprotocol/serverInfo"}
        assert (result.content, result.structured, result.is_error) == ([], None, False)
        threaded = await client.call("queue_in_thread")
        assert threaded.type == "ticket"
        assert threaded.meta.keys() == {"io.modelcontextprotocol/serverInfo", "com.example/a"}


@pytest.mark.parametrize("revision", EVERY)
async def test_other_clients_get_what_the_core_protocol_has(revision: str) -> None:
    declared = {} if revision == STATELESS else KNOWS
    async with connect(queueing(), revision=revision, capabilities=declared) as client:
        result = await client.call("queue")
    assert result.type == "complete"
    assert result.text == '{"id":"plain","place":1}'
    assert not result.is_error


async def test_its_type_stays_out_of_the_output_schema() -> None:
    async with connect(queueing()) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
    assert tools["queue"]["outputSchema"]["required"] == ["id"]
    assert "outputSchema" not in tools["queue_in_thread"]


async def test_a_client_that_does_not_know_it_is_told_what_it_lacks() -> None:
    async with connect(queueing(is_careful=False)) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.call("queue")
    assert raised.value.code == -32021
    assert raised.value.data == {"requiredCapabilities": KNOWS}


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_it_never_reaches_an_older_revision(revision: str) -> None:
    async with connect(queueing(is_careful=False), revision=revision, capabilities=KNOWS) as client:
        result = await client.call("queue")
    assert result.is_error
    assert ID in result.text


@pytest.mark.parametrize(
    ("result_type", "members", "error"),
    [
        ("", None, ValueError),
        ("complete", None, ValueError),
        ("input_required", None, ValueError),
        (None, None, ValueError),
        ("ticket", [1], TypeError),
        ("ticket", "text", TypeError),
        ("ticket", {"value": object()}, OutputError),
    ],
)
async def test_a_result_that_is_none_is_refused_where_it_is_made(
    result_type: Any, members: Any, error: type[Exception]
) -> None:
    server = Server("s")
    thing = server.extension(ID)
    seen: list[Exception] = []

    @server.tool
    async def make(ctx: Context) -> str:
        try:
            thing.result(ctx, result_type, members)
        except Exception as caught:
            seen.append(caught)
        return "done"

    async with connect(server, capabilities=KNOWS) as client:
        await client.call("make")
    assert len(seen) == 1
    assert isinstance(seen[0], error)


async def test_a_result_cannot_be_made_for_a_client_without_it() -> None:
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def make(ctx: Context) -> str:
        with pytest.raises(MissingCapabilityError, match=ID):
            thing.result(ctx, "ticket")
        return "done"

    async with connect(server) as client:
        assert (await client.call("make")).text == "done"


async def test_a_later_revision_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is narrowed for revisions that are no longer the newest are results of the core protocol alone."""
    monkeypatch.setattr("mcpkit.engine.methods.LATEST", "2027-01-01")
    async with connect(queueing(), capabilities=KNOWS) as client:
        assert (await client.call("queue")).type == "ticket"


# Components


async def test_it_adds_tools_resources_and_prompts() -> None:
    server = Server("s")
    thing = Extension(ID)

    @thing.tool(meta={"ui": {"resourceUri": "ui://thing/view"}})
    async def show() -> str:
        return "shown"

    @thing.resource("ui://thing/view", mime_type="text/html;profile=mcp-app")
    async def view() -> str:
        return "<p>"

    server.include(thing)

    @thing.prompt
    def suggest() -> str:
        return "Do the thing"

    async with connect(server) as client:
        assert (await client.list_tools())[0]["_meta"] == {"ui": {"resourceUri": "ui://thing/view"}}
        assert (await client.read("ui://thing/view"))[0]["mimeType"] == "text/html;profile=mcp-app"
        assert (await client.get_prompt("suggest"))[0]["content"]["text"] == "Do the thing"


async def test_a_tool_of_an_extension_may_require_it() -> None:
    server = Server("s")
    thing = server.extension(ID)

    @thing.tool(requires=thing.capability)
    async def only() -> str:
        return "for those who know"

    async with connect(server, capabilities=KNOWS) as client:
        assert (await client.call("only")).text == "for those who know"
    async with connect(server) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.call("only")
    assert raised.value.code == -32021


async def test_what_the_checkers_have_read_is_served() -> None:
    async with connect(typed_server, capabilities={**KNOWS, "sampling": {}}) as client:
        assert (await client.request("thing/get", {"id": "a"}))["id"] == "a"
        assert (await client.request("thing/count", {"least": 3}))["count"] == 3
        assert (await client.call("queue")).data["id"] == "3"
