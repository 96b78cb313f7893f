"""Methods outside the core protocol: names, params, results, and the clients that may call them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import (
    Access,
    Context,
    Extension,
    ProtocolError,
    RegistrationError,
    Server,
    ToolError,
)
from mcpkit.extensions import ExtensionResult
from mcpkit.middleware import CallTool, ToolCall
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


ID = "com.example/thing"


KNOWS = {"extensions": {ID: {}}}


HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


EVERY = [*HANDSHAKE, "2026-07-28"]


async def refusal(server: Server, method: str, params: Any = None, **options: Any) -> ProtocolError:
    async with connect(server, **options) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.request(method, params)
    return raised.value


def core_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what the stateless era adds."""
    return {name: value for name, value in result.items() if name not in {"resultType", "_meta"}}


@each_row(
    "name",
    [
        "tools/call", "initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel",
        "elicitation/create", "roots/list", "notifications/thing", "notifications/cancelled", "rpc.discover",
        "", "thing do", "thing/dö", "thing\n", "x" * 129, None,
    ],
)  # fmt: skip
def test_method_reserved_name_is_refused(name: Any) -> None:
    for registry in (Server("s"), Extension(ID)):
        with pytest.raises(RegistrationError):
            registry.method(name)


@each_row(
    ("options", "message"),
    [
        ({"protocol_versions": ["2026-07-28", "2027-01-01"]}, "unknown '2027-01-01'"),
        ({"protocol_versions": []}, "the list is empty"),
        ({"protocol_versions": "2026-07-28"}, "protocol_versions must be a list"),
        ({"protocol_versions": 2026}, "protocol_versions must be a list"),
        ({"name_param": "other"}, "name_param must be one of its parameters"),
        ({"name_param": "number"}, "Annotate 'number' as `str`"),
        ({"access": Access(requires_capabilities="flying")}, "unknown client capability 'flying'"),
        ({"access": Access(requires_capabilities=7)}, "requires must be a list"), ({"timeout": -1}, "timeout"),
    ],
)  # fmt: skip
def test_method_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    def do(id: str, number: int = 0) -> dict[str, str]:
        return {"id": id}

    for registry in (Server("s"), Extension(ID)):
        with pytest.raises(RegistrationError, match=message):
            registry.method("thing/do", **options)(do)


class Place(TypedDict):
    row: int


@dataclass
class Found:
    id: str
    place: Place
    notes: list[str]


class Model(BaseModel):
    total: Annotated[int, Field(ge=0)]


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.method("thing/find")
    async def find(id: str, place: Place | None = None, notes: list[str] | None = None) -> Found:
        return Found(id, place or Place(row=1), notes or [])

    @server.method("thing/find_in_thread")
    def find_in_thread(id: str, ctx: Context) -> Model:
        assert ctx.method == "thing/find_in_thread"
        return Model(total=len(id))

    @server.method("thing/forget")
    async def forget(id: str) -> None:
        return None

    @server.method("thing/all")
    async def take_all(**members: Any) -> dict[str, Any]:
        return {"got": members}

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_method_is_served(server: Server, revision: str) -> None:
    async with connect(server, protocol_version=revision) as client:
        found = await client.request("thing/find", {"id": "a", "place": {"row": 3}})
        assert core_result(found) == {"id": "a", "place": {"row": 3}, "notes": []}
        assert core_result(await client.request("thing/find_in_thread", {"id": "abc"})) == {"total": 3}
        assert core_result(await client.request("thing/forget", {"id": "a"})) == {}
        assert ("resultType" in found) is (revision == "2026-07-28")
        if revision == "2026-07-28":
            assert found["resultType"] == "complete"
            assert found["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}}


@each_row(
    ("params", "message"),
    [
        (None, "id: expected a string, but it is missing"), ({}, "id: expected a string, but it is missing"),
        ({"id": True}, "id: expected a string, got true"), ({"id": None}, "id: expected a string, got null"),
        ({"id": "a", "place": {}}, "place.row"), ({"id": "a", "place": {"row": "x"}}, "place.row"),
        ({"id": "a", "notes": [1.5]}, r"notes\[0\]"),
    ],
)  # fmt: skip
async def test_method_wrong_params_are_refused(server: Server, params: Any, message: str) -> None:
    error = await refusal(server, "thing/find", params)
    assert error.code == -32602
    assert message.replace("\\", "") in error.message


@each_row("revision", EVERY)
async def test_method_is_limited_to_named_versions(revision: str) -> None:
    server = Server("s")

    @server.method("thing/do", protocol_versions=["2025-06-18", "2026-07-28"])
    async def do() -> dict[str, int]:
        return {"done": 1}

    if revision in {"2025-06-18", "2026-07-28"}:
        async with connect(server, protocol_version=revision) as client:
            assert (await client.request("thing/do"))["done"] == 1
    else:
        assert (await refusal(server, "thing/do", protocol_version=revision)).code == -32601


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_method_errors(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.method("thing/refuse")
    async def refuse() -> dict[str, int]:
        raise ProtocolError(-32602, "There is no such thing", {"id": 1})

    @server.method("thing/say")
    async def say() -> dict[str, int]:
        raise ToolError("It is closed")

    @server.method("thing/fail")
    async def fail() -> dict[str, int]:
        raise KeyError("secret")

    @server.method("thing/wrong")
    async def wrong() -> Found:
        return "wrong"  # type: ignore[return-value]  # the mistake that is tested

    @server.method("thing/number")
    async def number() -> Any:
        return 7

    @server.method("thing/surrogate")
    async def surrogate() -> dict[str, str]:
        return {"text": "\ud800"}

    refused = await refusal(server, "thing/refuse", protocol_version=revision)
    assert (refused.code, refused.message, refused.data) == (-32602, "There is no such thing", {"id": 1})
    tool_error = await refusal(server, "thing/say", protocol_version=revision)
    assert (tool_error.code, tool_error.message) == (-32603, "It is closed")
    for method, message in {
        "thing/fail": r"Internal error \(ref ",
        "thing/wrong": "the method ran, but result: expected an object, got",
        "thing/number": "the method ran, but result is an int. Return a JSON object",
        "thing/surrogate": "the method ran, but result.text cannot be converted to JSON: a lone surrogate",
    }.items():
        error = await refusal(server, method, protocol_version=revision)
        assert error.code == -32603
        assert re.match(message, error.message)
    assert "thing/number: the method ran, but result is an int" in caplog.text


@pytest.fixture
def extended() -> Server:
    server = Server("s")
    thing = server.extension(ID)

    @thing.method("thing/do")
    async def do(id: str) -> dict[str, str]:
        return {"id": id}

    @thing.method("thing/sample", access=Access(requires_capabilities="sampling"))
    async def sample() -> dict[str, str]:
        return {}

    @thing.method("thing/old", protocol_versions=EVERY)
    async def old() -> dict[str, int]:
        return {"done": 1}

    return server


async def test_method_of_extension_needs_declared_extension(extended: Server) -> None:
    async with connect(extended, capabilities=KNOWS) as client:
        assert (await client.request("thing/do", {"id": "a"}))["id"] == "a"
    for params in ({"id": "a"}, {}, {"id": 7}):  # before anything is looked at
        error = await refusal(extended, "thing/do", params)
        assert (error.code, error.data) == (-32021, {"requiredCapabilities": KNOWS})


@each_row("revision", HANDSHAKE)
async def test_method_of_extension_is_missing_in_handshake_versions(extended: Server, revision: str) -> None:
    error = await refusal(extended, "thing/do", {"id": "a"}, protocol_version=revision, capabilities=KNOWS)
    assert error.code == -32601


@each_row("revision", HANDSHAKE)
async def test_method_of_extension_may_name_handshake_versions(extended: Server, revision: str) -> None:
    async with connect(extended, protocol_version=revision, capabilities=KNOWS) as client:
        assert await client.request("thing/old") == {"done": 1}
    error = await refusal(extended, "thing/old", protocol_version=revision)
    assert (error.code, error.data) == (-32602, {"requiredCapabilities": KNOWS})


STATELESS = "2026-07-28"


@dataclass
class Ticket:
    id: str
    place: int = 1


@each_row(
    "identifier",
    [
        "", "thing", "/thing", "com.example/", "com.example", "com..example/thing", "1com.example/thing",
        "com.example-/thing", "com.example/-thing", "com.example/thing.", "com.example/thing/more",
        "com.example/thing\n", "com.exämple/thing", "com example/thing", None, 7,
    ],
)  # fmt: skip
def test_extension_wrong_identifier_is_refused(identifier: Any) -> None:
    with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
        Extension(identifier)
    with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
        Server("s").extension(identifier)


@each_row("revision", ["2025-11-25", STATELESS])
async def test_extension_is_advertised_in_stateless_version_only(revision: str) -> None:
    server = Server("s")
    server.extension(ID, {"max": 3})
    server.include(Extension("com.example/other"))
    async with connect(server, protocol_version=revision) as client:
        advertised = client.server_capabilities.get("extensions")
    assert advertised == ({ID: {"max": 3}, "com.example/other": {}} if revision == STATELESS else None)


async def call_look(client: TestClient, tool: str = "look") -> Any:
    return (await client.call_tool(tool)).structured_content


@each_row(
    "declared",
    [
        {}, {"extensions": {}}, {"extensions": {"com.example/other": {}}}, {"extensions": {ID: 1}},
        {"extensions": []},
    ],
)  # fmt: skip
async def test_extension_undeclared_is_not_supported(declared: dict[str, Any]) -> None:
    async with connect(looking(), capabilities=declared) as client:
        assert await call_look(client) == {"supported": False, "settings": None}


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


def queueing(*, is_careful: bool = True) -> Server:
    """A server whose tool returns tickets to clients with the extension."""
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


async def test_extension_result_has_own_type() -> None:
    async with connect(queueing(), capabilities=KNOWS) as client:
        result = await client.call_tool("queue")
        assert result.type == "ticket"
        assert result.raw.keys() == {"resultType", "id", "place", "_meta"}
        assert (result.raw["id"], result.raw["place"]) == ("special", 7)
        assert result.meta.keys() == {"io.modelcontextprotocol/serverInfo"}
        assert (result.content, result.structured_content, result.is_error) == ([], None, False)
        threaded = await client.call_tool("queue_in_thread")
        assert threaded.type == "ticket"
        assert threaded.meta.keys() == {"io.modelcontextprotocol/serverInfo", "com.example/a"}


@each_row("revision", ["2025-11-25", STATELESS])
async def test_extension_result_is_core_result_for_other_clients(revision: str) -> None:
    declared = {} if revision == STATELESS else KNOWS
    async with connect(queueing(), protocol_version=revision, capabilities=declared) as client:
        result = await client.call_tool("queue")
    assert result.type == "complete"
    assert result.text == '{"id":"plain","place":1}'
    assert not result.is_error


async def test_extension_result_for_client_without_it_is_error() -> None:
    async with connect(queueing(is_careful=False)) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.call_tool("queue")
    assert raised.value.code == -32021
    assert raised.value.data == {"requiredCapabilities": KNOWS}


def make_wrapper() -> Extension:
    """An extension that puts tickets in the place of results."""
    thing = Extension(ID)

    @thing.middleware("tools/call")
    async def wrap(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        if call.name == "slow" and thing.is_supported(call.ctx):
            return thing.result(call.ctx, "ticket", {"id": "1"})
        return await call_next(call)

    return thing


def make_server() -> Server:
    server = Server("s")

    @server.tool
    async def slow() -> int:
        return 1

    @server.tool
    async def quick() -> int:
        return 2

    return server


async def test_extension_middleware_replaces_result() -> None:
    server = make_server()
    server.include(make_wrapper())
    async with connect(server, capabilities=KNOWS) as client:
        ticket = await client.call_tool("slow")
        assert ticket.raw == {
            "resultType": "ticket",
            "id": "1",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}},
        }
        assert (await client.call_tool("quick")).structured_content == 2


@each_row("revision", ["2025-11-25", STATELESS])
async def test_extension_notification_is_sent(revision: str) -> None:
    server = Server("s")
    thing = server.extension("com.example/thing")

    @server.tool
    async def notify(ctx: Context) -> str:
        await thing.notify(ctx, "notifications/thing/begun", {"id": "1"})
        await thing.notify(ctx, "notifications/thing")
        return "done"

    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("notify")
        assert await client.notification("notifications/thing/begun") == {"id": "1"}
        assert client.notifications == [{"jsonrpc": "2.0", "method": "notifications/thing"}]
