"""Calls of a client: timeouts, progress, cancellation, malformed answers, opening and closing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Client, Context, ProtocolError, Server, Timeout
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, text
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio


def scripted(answer: Any) -> ScriptedTransport:
    """Be a server of the stateless era, and answer everything else as the test says."""

    def script(transport: ScriptedTransport, message: Message) -> Any:
        return [discovered(message)] if message["method"] == "server/discover" else answer(transport, message)

    return ScriptedTransport(script)


def silent() -> ScriptedTransport:
    return scripted(lambda transport, message: [])


async def test_call_timeout_cancels_request() -> None:
    transport = silent()
    async with Client(transport) as client:
        with pytest.raises(TimeoutError, match="the server did not answer tools/call in time"):
            await client.call_tool("bake", timeout=0.01)
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")
        given_up = transport.sent[-1]["params"]
        assert given_up == {"requestId": transport.sent[-2]["id"], "reason": "the request timed out"}


async def test_call_progress_extends_timeout_up_to_maximum() -> None:
    tokens: list[Any] = []

    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "tools/call":
            tokens.append(message["params"]["_meta"]["progressToken"])
        return []

    transport = scripted(answer)
    steps: list[tuple[float, float | None, str | None]] = []
    async with Client(transport) as client:
        call = asyncio.create_task(
            client.call_tool(
                "bake", progress=lambda *step: steps.append(step), timeout=Timeout(response=0.2, total=0.6)
            )
        )
        while not call.done():
            if tokens:
                params = {"progressToken": tokens[0], "progress": len(steps) + 1, "total": 9}
                transport.say({"method": "notifications/progress", "params": params})
            await asyncio.wait((call,), timeout=0.02)
        with pytest.raises(TimeoutError):
            await call
    assert steps[:2] == [(1, 9, None), (2, 9, None)]
    assert len(steps) > 12


async def test_initialize_is_never_cancelled() -> None:
    transport = ScriptedTransport(lambda transport, message: [])
    with pytest.raises(TimeoutError):
        async with Client(transport, protocol_version="2025-11-25", timeout=Timeout(connect=0.01)):
            pass
    assert transport.methods() == ["initialize"]


@pytest.mark.parametrize("answer", [
    {"content": {}}, {"content": [5]}, {"tools": {}}, {"tools": ["bake"]}, {"contents": 1}, {"messages": 1},
    {"completion": []}, {"completion": {"values": [1]}}, {"completion": {}},
])  # fmt: skip
async def test_answer_malformed_is_protocol_error(answer: Any) -> None:
    transport = scripted(lambda transport, message: [{"id": message["id"], "result": answer}])
    async with Client(transport) as client:
        for ask in (
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
                await ask()
            assert caught.value.code == -32603


@pytest.mark.parametrize("line", [
    {"id": "1", "result": {}}, {"method": "notifications/unheard"},
    {"method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}},
    {"method": "notifications/progress", "params": {"progressToken": [], "progress": "x"}},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"method": "notifications/message", "params": {"level": 3}},
    {"method": 5}, {"nothing": True},
])  # fmt: skip
async def test_unsolicited_messages_are_ignored(line: Message) -> None:
    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        return [line, text(message, "bread")]

    async with Client(scripted(answer), log_handler=lambda *message: None) as client:
        assert (await client.call_tool("bake")).text == "bread"


async def test_client_closes_twice_and_reopens() -> None:
    server = Server("bakery")

    @server.tool
    async def bake() -> str:
        return "bread"

    client = Client(server)
    for _ in range(2):
        await asyncio.create_task(client.__aenter__())
        assert (await client.call_tool("bake")).text == "bread"
        await asyncio.gather(client.close(), client.close())
        await asyncio.create_task(client.close())
        with pytest.raises(ConnectionError, match="the client is not open"):
            await client.call_tool("bake")


bakery = Server("bakery")


@bakery.tool
def bake() -> str:
    """Bake."""
    return "bread"


async def test_client_exit_cancels_pending_calls() -> None:
    ended: list[str] = []
    slow = Server("slow")
    begun = asyncio.Event()

    @slow.tool
    async def wait(ctx: Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    transport = silent()
    async with Client(transport) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await until(lambda: transport.methods()[-1] == "tools/call")
    assert transport.methods()[-1] == "notifications/cancelled"
    with pytest.raises(ConnectionError, match="the client is closed"):
        await call
    async with Client(slow) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await begun.wait()
    assert ended == ["cancelled"]
    with pytest.raises(ConnectionError, match="the client is closed"):
        await call


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"timeout": "soon"}, TypeError, "must be a number of seconds above 0, or None, got 'soon'"),
    ({"timeout": 0}, ValueError, "must be a number of seconds above 0"),
    ({"progress": 3}, TypeError, "progress must be a function of done, total and message, got 3"),
    ({"arguments": {"name": object()}}, ValueError,
     r"the params of tools/call cannot be converted to JSON: .*Pass plain JSON values"),
])  # fmt: skip
async def test_call_invalid_options_are_refused(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    async with Client(bakery) as client:
        with pytest.raises(error, match=message):
            await client.call_tool("bake", **options)  # type: ignore[call-overload]
        assert (await client.call_tool("bake")).text == "bread"
