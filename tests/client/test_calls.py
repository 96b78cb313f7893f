"""Calls of the client: time, progress, cancellation, questions, and what servers answer that is none."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from mcpkit import Client, Context, ProtocolError, Server
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, text
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio
REVISIONS = ["2025-11-25", "2026-07-28"]


def scripted(answer: Any) -> ScriptedTransport:
    """Be a server of the stateless era, and answer everything else as the test says."""

    def script(transport: ScriptedTransport, message: Message) -> Any:
        return [discovered(message)] if message["method"] == "server/discover" else answer(transport, message)

    return ScriptedTransport(script)


def silent() -> ScriptedTransport:
    return scripted(lambda transport, message: [])


async def test_a_call_is_given_up_when_its_time_is_over() -> None:
    transport = silent()
    async with Client(transport) as client:
        with pytest.raises(TimeoutError, match="tools/call has not been answered in time"):
            await client.call("bake", timeout=0.01)
        await until(lambda: transport.methods()[-1] == "notifications/cancelled")
        given_up = transport.sent[-1]["params"]
        assert given_up == {"requestId": transport.sent[-2]["id"], "reason": "the time for it is over"}


async def test_the_time_of_the_client_holds_for_all_its_calls() -> None:
    async with Client(silent(), timeout=0.01) as client:
        with pytest.raises(TimeoutError):
            await client.list_tools()


async def test_progress_is_a_sign_of_life_and_the_maximum_holds_all_the_same() -> None:
    tokens: list[Any] = []

    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "tools/call":
            tokens.append(message["params"]["_meta"]["progressToken"])
        return []

    transport = scripted(answer)
    steps: list[tuple[float, float | None, str | None]] = []
    async with Client(transport) as client:
        call = asyncio.create_task(
            client.call("bake", progress=lambda *step: steps.append(step), timeout=0.2, max_timeout=0.6)
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


async def test_a_time_out_while_sending_is_a_time_out_and_no_cancellation() -> None:
    sending = asyncio.Event()

    class Stuck(ScriptedTransport):
        def send(self, message: Any) -> Any:
            if message.method == "tools/call":
                sending.set()
                return asyncio.Event().wait()
            return super().send(message)

    async with Client(
        Stuck(lambda transport, message: [discovered(message)] if "id" in message else [])
    ) as client:
        with pytest.raises(TimeoutError):
            await client.call("bake", timeout=0.01)
        sending.clear()
        task = asyncio.create_task(client.call("bake", timeout=30))
        await sending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("revision", REVISIONS)
async def test_cancelling_reaches_the_server(revision: str) -> None:
    server, started, ended = Server("bakery"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def bake() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Client(server, revision=revision) as client:
        call = asyncio.create_task(client.call("bake"))
        await started.wait()
        call.cancel()
        await ended.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_an_initialize_is_never_cancelled_at_the_server() -> None:
    transport = ScriptedTransport(lambda transport, message: [])
    with pytest.raises(TimeoutError):
        async with Client(transport, revision="2025-11-25", connect_timeout=0.01):
            pass
    assert transport.methods() == ["initialize"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_fails_in_a_progress_callback_is_raised_by_the_call(revision: str) -> None:
    server = Server("bakery")

    @server.tool
    async def bake(ctx: Context) -> str:
        await ctx.progress(1, 2)
        return "bread"

    def fail(*step: object) -> None:
        raise ZeroDivisionError

    async with Client(server, revision=revision) as client:
        with pytest.raises(ZeroDivisionError):
            await client.call("bake", progress=fail)
        assert (await client.call("bake")).text == "bread"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_log_messages_are_heard(revision: str) -> None:
    server, heard = Server("bakery"), list[tuple[str, Any, str | None]]()

    @server.tool
    async def bake(ctx: Context) -> str:
        await ctx.debug("flour")
        await ctx.warning("hot")
        return "bread"

    def log(level: str, data: Any, logger: str | None) -> None:
        heard.append((level, data, logger))

    async with Client(server, revision=revision, log=log, log_level="warning") as client:
        await client.call("bake")
        assert [(level, data) for level, data, _ in heard] == [("warning", "hot")]
        await client.set_log_level("debug")
        await client.call("bake")
        assert [level for level, _, _ in heard] == ["warning", "debug", "warning"]


def test_there_must_be_such_a_level() -> None:
    with pytest.raises(ProtocolError, match="expected one of debug, info"):
        Client(Server("bakery"), log_level="loud")


@pytest.mark.parametrize(
    "answer",
    [
        {"content": {}},
        {"content": [5]},
        {"tools": {}},
        {"tools": ["bake"]},
        {"contents": 1},
        {"messages": 1},
        {"completion": []},
        {"completion": {"values": [1]}},
        {"completion": {}},
    ],
)
async def test_what_is_no_answer_is_said_to_be_none(answer: Any) -> None:
    transport = scripted(lambda transport, message: [{"id": message["id"], "result": answer}])
    async with Client(transport) as client:
        for ask in (
            lambda: client.call("bake"),
            client.list_tools,
            client.list_resources,
            client.list_resource_templates,
            client.list_prompts,
            lambda: client.read("data://x"),
            lambda: client.get_prompt("plan"),
            lambda: client.complete("plan", "city", "O"),
        ):
            with pytest.raises(ProtocolError) as caught:
                await ask()
            assert caught.value.code == -32603


@pytest.mark.parametrize(
    "line",
    [
        {"id": "1", "result": {}},
        {"method": "notifications/unheard"},
        {"method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}},
        {"method": "notifications/progress", "params": {"progressToken": [], "progress": "x"}},
        {"method": "notifications/cancelled", "params": {"requestId": {}}},
        {"method": "notifications/message", "params": {"level": 3}},
        {"method": 5},
        {"nothing": True},
    ],
)
async def test_what_nobody_has_asked_for_does_no_harm(line: Message) -> None:
    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        return [line, text(message, "bread")]

    async with Client(scripted(answer), log=lambda *message: None) as client:
        assert (await client.call("bake")).text == "bread"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_question_that_nobody_answers_is_refused(revision: str) -> None:
    server = Server("bakery")

    @server.tool
    async def bake(ctx: Context) -> str:
        answer = await ctx.elicit("How many?", int)
        return str(answer)

    async with Client(server, revision=revision) as client:
        try:
            said = (await client.call("bake")).text
        except ProtocolError as error:
            said = str(error)
        assert "elicitation" in said


async def test_many_calls_at_once_get_their_own_answers() -> None:
    server = Server("bakery")

    @server.tool
    async def bake(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async with Client(server) as client:
        results = await asyncio.gather(*(client.call("bake", {"number": number}) for number in range(200)))
    assert [result.structured for result in results] == list(range(200))


async def test_it_is_closed_twice_in_other_tasks_and_opened_again() -> None:
    server = Server("bakery")

    @server.tool
    async def bake() -> str:
        return "bread"

    client = Client(server)
    for _ in range(2):
        await asyncio.create_task(client.__aenter__())
        assert (await client.call("bake")).text == "bread"
        await asyncio.gather(client.close(), client.close())
        await asyncio.create_task(client.close())
        with pytest.raises(ConnectionError, match="the client is not open"):
            await client.call("bake")


async def test_what_waits_when_it_is_closed_is_told() -> None:
    transport = silent()
    client = Client(transport)
    async with client:
        call = asyncio.create_task(client.call("bake"))
        await until(lambda: transport.methods()[-1] == "tools/call")
    with pytest.raises(ConnectionError, match="the client has been closed"):
        await call
    assert not transport.is_open


def test_before_it_is_open_nothing_is_agreed_upon() -> None:
    client = Client(Server("bakery"))
    for name in ("revision", "revision_reason", "server_info", "server_capabilities", "instructions"):
        with pytest.raises(ConnectionError, match="async with Client"):
            getattr(client, name)


@pytest.mark.slow
async def test_nothing_is_left_over() -> None:
    before = asyncio.all_tasks()
    server = Server("bakery")

    @server.tool
    async def bake() -> str:
        return "bread"

    async with Client(server, timeout=5) as client:
        for _ in range(3):
            await client.call("bake", progress=lambda *step: None)
        call = asyncio.create_task(client.call("bake"))
        call.cancel()
        await asyncio.wait((call,))
    await asyncio.sleep(0)
    gc.collect()
    assert asyncio.all_tasks() == before
