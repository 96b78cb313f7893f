"""Methods outside the core protocol and extensions: names, params, results, and the clients that may call them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import Access, Context, Extension, ProtocolError, RegistrationError, Server, ToolError
from mcpkit.extensions import ExtensionResult
from mcpkit.middleware import CallTool, ToolCall
from mcpkit.testing import connect
from tests.helpers.tables import each_row

ID = "com.example/thing"
KNOWS = {"extensions": {ID: {}}}
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}}


async def refusal(server: Server, method: str, params: Any = None, **options: Any) -> ProtocolError:
    async with connect(server, **options) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.request(method, params)
    return raised.value


# Methods


@each_row("name", [
    "tools/call", "initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel",
    "elicitation/create", "notifications/thing", "notifications/cancelled", "rpc.discover", "", "thing/dö",
    "thing\n", "x" * 129, None,
])  # fmt: skip
def test_method_reserved_name_is_refused(name: Any) -> None:
    for registry in (Server("s"), Extension(ID)):
        with pytest.raises(RegistrationError):
            registry.method(name)


@each_row(("options", "message"), [
    ({"protocol_versions": ["2026-07-28", "2027-01-01"]}, "unknown '2027-01-01'"),
    ({"protocol_versions": []}, "the list is empty"),
    ({"protocol_versions": "2026-07-28"}, "protocol_versions must be a list"),
    ({"name_param": "other"}, "name_param must be one of its parameters"),
    ({"name_param": "number"}, "Annotate 'number' as `str`"),
    ({"access": Access(requires_capabilities="flying")}, "unknown client capability 'flying'"),
    ({"access": Access(requires_capabilities=7)}, "requires must be a list"), ({"timeout": -1}, "timeout"),
])  # fmt: skip
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


class Total(BaseModel):
    total: Annotated[int, Field(ge=0)]


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.method("thing/find")
    async def find(id: str, place: Place | None = None, notes: list[str] | None = None) -> Found:
        return Found(id, place or Place(row=1), notes or [])

    @server.method("thing/count", protocol_versions=["2025-06-18", HANDSHAKE, STATELESS])
    def count_in_thread(id: str, ctx: Context) -> Total:
        assert ctx.method == "thing/count"
        return Total(total=len(id))

    @server.method("thing/forget")
    async def forget(id: str) -> None:
        return None

    return server


async def test_method_is_served(server: Server, revision: str) -> None:
    added = {"resultType": "complete", "_meta": SERVER_INFO} if revision == STATELESS else {}
    async with connect(server, protocol_version=revision) as client:
        found = await client.request("thing/find", {"id": "a", "place": {"row": 3}})
        assert found == {"id": "a", "place": {"row": 3}, "notes": [], **added}
        assert await client.request("thing/count", {"id": "abc"}) == {"total": 3, **added}
        assert await client.request("thing/forget", {"id": "a"}) == added
    assert (await refusal(server, "thing/count", protocol_version="2025-03-26")).code == -32601


@each_row(("params", "message"), [
    (None, "id: expected a string, but it is missing"), ({"id": True}, "id: expected a string, got true"),
    ({"id": "a", "place": {"row": "x"}}, "place.row"), ({"id": "a", "notes": [1.5]}, "notes[0]"),
])  # fmt: skip
async def test_method_wrong_params_are_refused(server: Server, params: Any, message: str) -> None:
    error = await refusal(server, "thing/find", params)
    assert error.code == -32602
    assert message in error.message


async def test_method_errors(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.method("thing/raise")
    async def fail(which: str) -> dict[str, int]:
        raise {
            "protocol": ProtocolError(-32602, "There is no such thing", {"id": 1}),
            "tool": ToolError("It is closed"),
        }.get(which, KeyError("secret"))

    @server.method("thing/wrong")
    async def wrong() -> Found:
        return "wrong"  # type: ignore[return-value]  # the mistake that is tested

    @server.method("thing/number")
    async def number() -> Any:
        return 7

    refused = await refusal(server, "thing/raise", {"which": "protocol"}, protocol_version=revision)
    assert (refused.code, refused.message, refused.data) == (-32602, "There is no such thing", {"id": 1})
    for method, which, message in [
        ("thing/raise", "tool", "It is closed$"),
        ("thing/raise", "other", r"Internal error \(ref "),
        ("thing/wrong", None, "the method ran, but result: expected an object, got"),
        ("thing/number", None, "the method ran, but result is an int. Return a JSON object"),
    ]:
        params = {"which": which} if which else {}
        error = await refusal(server, method, params, protocol_version=revision)
        assert error.code == -32603
        assert re.match(message, error.message)
    assert "thing/number: the method ran, but result is an int" in caplog.text


MISSING = {"requiredCapabilities": KNOWS}


@each_row(("method", "revision", "capabilities", "expected"), [
    ("thing/do", STATELESS, KNOWS, {"id": "a"}), ("thing/do", STATELESS, {}, (-32021, MISSING)),
    *[("thing/do", each, KNOWS, (-32601, None)) for each in ("2024-11-05", HANDSHAKE)],
    *[("thing/old", each, KNOWS, {"done": 1}) for each in ("2024-11-05", HANDSHAKE, STATELESS)],
    *[("thing/old", each, {}, (-32602, MISSING)) for each in ("2024-11-05", HANDSHAKE)],
])  # fmt: skip
async def test_method_of_extension_needs_declared_extension(method, revision, capabilities, expected) -> None:
    server = Server("s")
    thing = server.extension(ID)

    @thing.method("thing/do")
    async def do(id: str) -> dict[str, str]:
        return {"id": id}

    @thing.method("thing/old", protocol_versions=["2024-11-05", HANDSHAKE, STATELESS])
    async def old() -> dict[str, int]:
        return {"done": 1}

    options = {"protocol_version": revision, "capabilities": capabilities}
    if isinstance(expected, dict):
        async with connect(server, **options) as client:
            result = await client.request(method, {"id": "a"} if method == "thing/do" else None)
            assert {name: value for name, value in result.items() if name in expected} == expected
    else:  # without its params, as the capability is checked first
        error = await refusal(server, method, {}, **options)
        assert (error.code, error.data) == expected


# Extensions


@each_row("identifier", [
    "", "thing", "/thing", "com.example/", "com..example/thing", "1com.example/thing", "com.example-/thing",
    "com.example/thing.", "com.example/thing/more", "com.example/thing\n", "com.exämple/thing", None, 7,
])  # fmt: skip
def test_extension_wrong_identifier_is_refused(identifier: Any) -> None:
    for register in (Extension, Server("s").extension):
        with pytest.raises(RegistrationError, match=r"com\.example/receipts"):
            register(identifier)


async def test_extension_is_advertised_in_stateless_version_only(revision: str) -> None:
    server = Server("s")
    server.extension(ID, {"max": 3})
    server.include(Extension("com.example/other"))
    async with connect(server, protocol_version=revision) as client:
        advertised = client.server_capabilities.get("extensions")
    assert advertised == ({ID: {"max": 3}, "com.example/other": {}} if revision == STATELESS else None)


@dataclass
class Ticket:
    id: str
    place: int = 1


@pytest.fixture
def queueing() -> Server:
    """A server with tools that return tickets."""
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def queue(ctx: Context) -> Ticket | ExtensionResult:
        if not thing.is_supported(ctx):
            assert thing.client_settings(ctx) is None
            return Ticket("plain")
        return thing.result(ctx, "ticket", Ticket("special", 7))

    @server.tool
    def queue_in_thread(ctx: Context) -> ExtensionResult:
        return thing.result(ctx, "ticket", {"id": "special", "_meta": {"com.example/a": 1}})

    return server


async def test_extension_result_has_own_type(queueing: Server) -> None:
    async with connect(queueing, capabilities=KNOWS) as client:
        result = await client.call_tool("queue")
        assert result.type == "ticket"
        assert result.raw == {"resultType": "ticket", "id": "special", "place": 7, "_meta": SERVER_INFO}
        assert (result.content, result.structured_content, result.is_error) == ([], None, False)
        threaded = await client.call_tool("queue_in_thread")
        assert (threaded.type, threaded.meta) == ("ticket", {**SERVER_INFO, "com.example/a": 1})


@each_row(("revision", "declared"), [
    (HANDSHAKE, KNOWS), (STATELESS, {}), (STATELESS, {"extensions": {"com.example/other": {}}}),
    (STATELESS, {"extensions": {ID: 1}}), (STATELESS, {"extensions": []}),
])  # fmt: skip
async def test_extension_result_for_others_is_core(revision: str, declared: Any, queueing: Server) -> None:
    async with connect(queueing, protocol_version=revision, capabilities=declared) as client:
        result = await client.call_tool("queue")
    assert (result.type, result.is_error) == ("complete", False)
    assert result.text == '{"id":"plain","place":1}'


async def test_extension_result_for_client_without_it_is_error(queueing: Server) -> None:
    error = await refusal(queueing, "tools/call", {"name": "queue_in_thread"})
    assert (error.code, error.data) == (-32021, MISSING)


async def test_extension_middleware_replaces_result(queueing: Server) -> None:
    thing = Extension("com.example/wrapper")

    @thing.middleware("tools/call")
    async def wrap(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        if call.name == "slow" and thing.is_supported(call.ctx):
            return thing.result(call.ctx, "ticket", {"id": "1"})
        return await call_next(call)

    queueing.tool(lambda: 1, name="slow")
    queueing.include(thing)
    async with connect(queueing, capabilities={"extensions": {thing.identifier: {}}}) as client:
        ticket = await client.call_tool("slow")
        assert ticket.raw == {"resultType": "ticket", "id": "1", "_meta": SERVER_INFO}
        assert (await client.call_tool("queue")).text == '{"id":"plain","place":1}'


async def test_extension_notification_is_sent(revision: str) -> None:
    server = Server("s")
    thing = server.extension(ID)

    @server.tool
    async def notify(ctx: Context) -> str:
        await thing.notify(ctx, "notifications/thing/begun", {"id": "1"})
        await thing.notify(ctx, "notifications/thing")
        return "done"

    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("notify")
        assert await client.notification("notifications/thing/begun") == {"id": "1"}
        assert client.notifications == [{"jsonrpc": "2.0", "method": "notifications/thing"}]
