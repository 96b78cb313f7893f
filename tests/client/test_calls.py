"""Opening a client and its calls: negotiation, timeouts, progress, malformed answers, closing, and SyncClient."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Client, Context, ProtocolError, Retries, Server, SyncClient, Timeout
from mcpkit.client import Change, version_negotiation
from mcpkit.protocol.revisions import ALL
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, error, initialized, text
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock, until

Answer = Callable[[ScriptedTransport, Message], list[Message]]
bakery = Server("bakery", version="7", instructions="Ask for bread.")


@bakery.tool
async def bake(ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    return "bread"


@bakery.resource("bread://rye")
def rye() -> str:
    return "rye"


@bakery.prompt
def toast(name: str) -> str:
    return f"A toast to {name}."


def handshake(transport: ScriptedTransport, message: Message) -> list[Message]:
    """Answer as a server of the handshake era."""
    if message["method"] == "initialize":
        return [initialized(message)]
    return [error(message, -32601)] if "id" in message else []


def nothing(transport: ScriptedTransport, message: Message) -> list[Message]:
    return []


def scripted(method: str, answer: Answer, others: Answer = handshake) -> ScriptedTransport:
    """Be a server with an answer of the test to one method; the other methods have those of `others`."""
    return ScriptedTransport(
        lambda transport, message: (answer if message["method"] == method else others)(transport, message)
    )


def stateless(answer: Answer) -> ScriptedTransport:
    """Be a server of the stateless era, with answers of the test to all but `server/discover`."""
    return scripted("server/discover", lambda transport, message: [discovered(message)], answer)


@pytest.mark.parametrize("revision", ALL)
async def test_revision_requested_is_used(revision: str) -> None:
    async with Client(bakery, protocol_version=revision) as client:
        assert client.protocol_version == revision
        assert client.protocol_version_reason == "as requested"
        assert client.server_info == {"name": "bakery", "version": "7"}


def test_revision_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown revision '2027-01-01'\\. Supported are 2024-11-05"):
        Client(bakery, protocol_version="2027-01-01")


@each_row(("to_discover", "reason"), [
    *[({"error": {"code": code, "message": "no"}}, f"server/discover with error {code}")
      for code in (-32601, -32602, -32000, 0)],
    ({"result": {}}, "without supportedVersions"),
    ({"result": {"supportedVersions": "2026-07-28"}}, "without supportedVersions"),
    ({"result": {"supportedVersions": ["2025-11-25"]}}, "the server supports only the protocol versions 2025-11-25"),
    ({"error": {"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"]}}},
     "the server supports only the protocol versions 2025-06-18"),
])  # fmt: skip
async def test_discover_refused_falls_back_to_initialize(to_discover: Message, reason: str) -> None:
    transport = scripted("server/discover", lambda _, message: [{"id": message["id"], **to_discover}])
    async with Client(transport) as client:
        assert client.protocol_version == "2025-11-25"
        assert reason in client.protocol_version_reason
        assert client.server_info == {"name": "scripted", "version": "1"}
    assert transport.methods() == ["server/discover", "initialize", "notifications/initialized"]
    assert transport.sent[1]["params"]["protocolVersion"] == "2025-11-25"
    assert "_meta" not in transport.sent[1]["params"]


@each_row(("code", "data"), [
    (-32020, None), (-32021, None),
    (-32022, {"supported": ["2030-01-01"]}), (-32022, {"supported": None}), (-32022, {"supported": [7]}),
])  # fmt: skip
async def test_discover_stateless_error_does_not_fall_back(code: int, data: Any) -> None:
    transport = scripted("server/discover", lambda _, message: [error(message, code, "what is wrong", data)])
    with pytest.raises(ProtocolError, match=r"what is wrong|revision in common"):
        async with Client(transport):
            pass
    assert transport.methods() == ["server/discover"]
    assert not transport.is_open


@pytest.mark.parametrize("agreed", ["2026-07-28", 7])
async def test_initialize_unknown_counter_offer_is_refused(agreed: Any) -> None:
    transport = scripted("initialize", lambda _, message: [initialized(message, agreed)])
    with pytest.raises(ProtocolError, match="client and server have no revision in common"):
        async with Client(transport):
            pass
    assert "notifications/initialized" not in transport.methods()


@pytest.mark.parametrize("is_late", [False, True], ids=["no answer", "late answer"])
async def test_discover_ignored_falls_back_unless_answer_is_late(is_late, monkeypatch) -> None:
    monkeypatch.setattr(version_negotiation, "DISCOVER_TIMEOUT", 0.01)

    def initialize(transport: ScriptedTransport, message: Message) -> list[Message]:
        if is_late:
            return [discovered(transport.sent[0]), error(message, -32601)]
        return [initialized(message)]

    transport = scripted("initialize", initialize, nothing)
    async with Client(transport) as client:
        assert client.server_info["name"] == "scripted"
        assert client.protocol_version == ("2026-07-28" if is_late else "2025-11-25")
        if not is_late:
            assert "did not answer server/discover within" in client.protocol_version_reason
    assert ("notifications/initialized" in transport.methods()) is not is_late


async def test_initialize_is_never_cancelled() -> None:
    transport = ScriptedTransport(nothing)
    with pytest.raises(TimeoutError):
        async with Client(transport, protocol_version="2025-11-25", timeout=Timeout(connect=0.01)):
            pass
    assert transport.methods() == ["initialize"]


async def test_total_timeout_limits_opening_and_retries() -> None:
    is_silent = False

    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        if is_silent:
            return []
        if message["method"] == "tools/call":
            transport.die()
            return []
        return handshake(transport, message)

    limits: Any = {"timeout": Timeout(total=0.2), "retry": True}
    transport = ScriptedTransport(answer)
    async with Client(transport, retries=Retries(attempts=100)) as client:
        with pytest.raises(TimeoutError, match=r"tools/call was not answered within 0\.2 s"):
            await client.call_tool("bake", **limits)
        is_silent = True
        transport.die()
        with pytest.raises(TimeoutError, match="tools/call"):
            await client.call_tool("bake", **limits)


async def test_call_timeout_cancels_request() -> None:
    transport = stateless(nothing)
    async with Client(transport) as client:
        with pytest.raises(TimeoutError, match="the server did not answer tools/call in time"):
            await client.call_tool("bake", timeout=0.01)
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")
        expected = {"requestId": transport.sent[-2]["id"], "reason": "the request timed out"}
        assert transport.sent[-1]["params"] == expected


async def test_call_progress_extends_timeout_up_to_maximum() -> None:
    tokens: list[Any] = []

    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "tools/call":
            tokens.append(message["params"]["_meta"]["progressToken"])
        return []

    transport = stateless(answer)
    steps: list[tuple[float, float | None, str | None]] = []
    options: Any = {"progress": lambda *step: steps.append(step), "timeout": Timeout(response=10, total=60)}
    async with Client(transport) as client:
        call = asyncio.create_task(client.call_tool("bake", **options))
        await until(lambda: tokens)
        clock = LoopClock()
        while not call.done():
            clock.ahead += 9
            params = {"progressToken": tokens[0], "progress": len(steps) + 1, "total": 9}
            transport.deliver({"method": "notifications/progress", "params": params})
            for _ in range(20):
                await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await call
    assert steps[:2] == [(1, 9, None), (2, 9, None)]
    assert len(steps) == 7, "one each 9 of 60 seconds, and that at the end"


@each_row("result", [
    {"content": {}}, {"content": [5]}, {"tools": {}}, {"tools": ["bake"]}, {"contents": 1}, {"messages": 1},
    {"completion": []}, {"completion": {"values": [1]}}, {"completion": {}},
])  # fmt: skip
async def test_answer_malformed_is_protocol_error(result: Any) -> None:
    transport = stateless(lambda _, message: [{"id": message["id"], "result": result}])
    async with Client(transport) as client:
        for request in (
            lambda: client.call_tool("bake"),
            client.list_tools,
            client.list_resources,
            client.list_resource_templates,
            client.list_prompts,
            lambda: client.read_resource("data://x"),
            lambda: client.get_prompt("plan"),
            lambda: client.complete("plan", "city", "O"),
        ):
            with pytest.raises(ProtocolError) as caught:
                await request()
            assert caught.value.code == -32603


@each_row("line", [
    {"id": "1", "result": {}}, {"method": "notifications/unheard"},
    {"method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}},
    {"method": "notifications/progress", "params": {"progressToken": [], "progress": "x"}},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"method": "notifications/message", "params": {"level": 3}},
    {"method": 5}, {"nothing": True},
])  # fmt: skip
async def test_unsolicited_messages_are_ignored(line: Message) -> None:
    transport = stateless(lambda _, message: [line, text(message, "bread")])
    async with Client(transport, log_handler=lambda *message: None) as client:
        assert (await client.call_tool("bake")).text == "bread"


async def test_client_closes_twice_and_reopens() -> None:
    client = Client(bakery)
    for _ in range(2):
        await asyncio.create_task(client.__aenter__())
        assert (await client.call_tool("bake")).text == "bread"
        await asyncio.gather(client.close(), client.close())
        await asyncio.create_task(client.close())
        with pytest.raises(ConnectionError, match="the client is not open"):
            await client.call_tool("bake")


async def test_client_exit_cancels_pending_calls() -> None:
    transport = stateless(nothing)
    async with Client(transport) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await until(lambda: transport.methods()[-1] == "tools/call")
    assert transport.methods()[-1] == "notifications/cancelled"
    with pytest.raises(ConnectionError, match="the client is closed"):
        await call


@each_row(("options", "error", "message"), [
    ({"timeout": "soon"}, TypeError, "must be a number of seconds above 0, or None, got 'soon'"),
    ({"timeout": 0}, ValueError, "must be a number of seconds above 0"),
    ({"progress": 3}, TypeError, "progress must be a function of done, total and message, got 3"),
    ({"arguments": {"name": object()}}, ValueError,
     r"the params of tools/call cannot be converted to JSON: .*Pass plain JSON values"),
])  # fmt: skip
async def test_call_invalid_options_are_refused(options, error, message) -> None:
    async with Client(bakery) as client:
        with pytest.raises(error, match=message):
            await client.call_tool("bake", **options)
        assert (await client.call_tool("bake")).text == "bread"


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_sync_client_has_operations_of_client(revision: str) -> None:
    steps: list[float] = []
    with SyncClient(bakery, protocol_version=revision) as client:
        assert client.protocol_version == revision
        assert client.protocol_version_reason == "as requested"
        assert client.server_info["name"] == "bakery"
        assert "tools" in client.server_capabilities
        assert client.instructions == "Ask for bread."
        result = client.call_tool("bake", progress=lambda *step: steps.append(step[0]))
        assert result.text == "bread"
        assert [tool["name"] for tool in client.list_tools()] == ["bake"]
        assert [each["uri"] for each in client.list_resources()] == ["bread://rye"]
        assert client.list_resource_templates() == []
        assert [each["name"] for each in client.list_prompts()] == ["toast"]
        assert client.read_resource("bread://rye")[0]["text"] == "rye"
        assert client.get_prompt("toast", {"name": "Ada"})[0]["content"]["text"] == "A toast to Ada."
        assert client.request("tools/list")["tools"]
        client.set_log_level("error")
        with pytest.raises(ProtocolError):
            client.call_tool("unknown")
    assert steps == [1]


def test_sync_client_roots_can_be_changed_and_tools_called_by_name() -> None:
    server = Server("places")

    @server.tool
    async def where(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.list_roots()]

    client = SyncClient(server)
    client.roots = ["file:///before"]
    with client:
        assert client.tools()["where"]() == ["file:///before"]
        client.roots = ["file:///after"]
        assert client.tools()["where"]() == ["file:///after"]
    assert client.roots == ["file:///after"]


def test_sync_client_of_several_servers_has_a_client_of_each() -> None:
    changing, failing = Server("changing"), {"command": "/no/such/program"}
    changing.tool(lambda: "rye", name="rye")
    servers = {"bakery": bakery, "changing": changing, "failing": failing}
    with SyncClient({"mcpServers": servers}) as client:
        assert list(client.failures) == ["failing"]
        with client.servers["bakery"] as one:
            assert one.call_tool("bake").text == "bread"
        assert client.call_tool("bakery_bake").text == "bread"
        with client.listen(tools_list_changed=True) as changes:
            changing.tool(lambda: "oats", name="oats")
            assert next(changes) == Change("tools")
            client.close()
            assert list(changes) == []


def test_sync_client_in_its_own_callback_raises() -> None:
    with SyncClient(bakery) as client:
        raised: list[str] = []

        def progress(*_: object) -> None:
            with pytest.raises(RuntimeError) as error:
                client.ping()
            raised.append(str(error.value))

        client.call_tool("bake", progress=progress)
    assert "a callback of SyncClient must not use the client" in raised[0]


def test_sync_client_has_all_coroutine_methods() -> None:
    methods = {name for name, value in vars(Client).items() if asyncio.iscoroutinefunction(value)}
    assert {name for name in methods if name[0] != "_" and not hasattr(SyncClient, name)} == set()


def loops() -> int:
    """Count the threads of clients."""
    return sum(thread.name == "mcpkit-client" for thread in threading.enumerate())


def test_sync_client_thread_ends_on_close() -> None:
    before = loops()
    client = SyncClient(bakery)
    for _ in range(3):
        with client:
            client.call_tool("bake")
            assert loops() == before + 1
        client.close()
        assert loops() == before
    with pytest.raises(ConnectionError, match="not open"):
        client.call_tool("bake")


def test_sync_watch_yields_changes(revision: str) -> None:
    server = Server("changing")

    @server.resource("x://a")
    def read() -> str:
        return "text"

    @server.tool
    async def change() -> None:
        server.notify_resource_updated("x://a")

    with SyncClient(server, protocol_version=revision) as client:
        with client.listen(resource_subscriptions="x://a") as changes:
            client.call_tool("change")
            assert next(changes) == Change("resource", "x://a")
            client.call_tool("change")
            for change in changes:
                assert change == Change("resource", "x://a")
                break
        assert list(changes) == []
        changes.close()
        with pytest.raises(ProtocolError, match="the list of prompts"):
            client.listen(prompts_list_changed=True).__enter__()
