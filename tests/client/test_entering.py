"""A client is entered by many, again and again, and says where it cannot be used."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpkit import Client, Context, Server, SyncClient
from mcpkit.protocol.client import Outgoing
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered
from tests.helpers.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

server = Server("bakery")


@server.tool
def bake() -> str:
    """Bake."""
    return "bread"


def silent(kind: type[ScriptedTransport] = ScriptedTransport) -> ScriptedTransport:
    def answer(transport: ScriptedTransport, message: Message) -> list[Message]:
        return [discovered(message)] if message.get("method") == "server/discover" else []

    return kind(answer)


async def _call(client: Client) -> str:
    return (await client.call("bake")).text


@pytest.mark.parametrize("target", [server, {"mcpServers": {"a": server, "b": Server("empty")}}])
async def test_it_is_closed_when_the_last_block_is_left(target: Server) -> None:
    client, name = Client(target), "bake" if isinstance(target, Server) else "a_bake"
    async with client:
        async with client:
            assert (await client.call(name)).text == "bread"
        assert (await client.call(name)).text == "bread"
    with pytest.raises(ConnectionError, match="the client is not open"):
        await client.call(name)
    async with client:
        assert (await client.call(name)).text == "bread"


async def test_requests_of_a_web_application_share_it() -> None:
    client = Client(server)

    async def serve() -> str:
        async with client:
            return await _call(client)

    for _ in range(3):
        assert await asyncio.gather(*(serve() for _ in range(10))) == ["bread"] * 10


async def test_whoever_gives_up_entering_it_leaves_it_to_the_others() -> None:
    held: list[Message] = []
    transport = ScriptedTransport(lambda _, message: held.append(message) or [])
    client = Client(transport)
    patient, hasty = (asyncio.ensure_future(client.__aenter__()) for _ in range(2))
    await until(lambda: bool(held))
    hasty.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hasty
    transport.say(discovered(held[0]))
    await asyncio.wait_for(patient, PATIENCE)
    assert client.revision == "2026-07-28"
    await client.close()


async def test_it_is_closed_for_all_blocks_at_once() -> None:
    client = Client(server)
    async with client, client:
        await client.close()
        with pytest.raises(ConnectionError, match="the client is not open"):
            await client.call("bake")
    async with client:
        assert await _call(client) == "bread"


@pytest.mark.slow
async def test_it_is_opened_again_while_it_is_being_closed(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "from mcpkit import Server\nserver = Server('bakery')\n\n\n@server.tool\ndef bake() -> str:\n"
        "    return 'bread'\n\n\nserver.run()\n"
    )
    client = Client(script)
    await client.__aenter__()
    leaving = asyncio.ensure_future(client.__aexit__(None, None, None))
    await asyncio.sleep(0)
    async with client:
        assert leaving.done()
        assert await _call(client) == "bread"
        await leaving


async def test_what_is_under_way_is_given_up_when_it_is_left() -> None:
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
        call = asyncio.ensure_future(client.call("wait"))
        await until(lambda: transport.methods()[-1] == "tools/call")
    assert transport.methods()[-1] == "notifications/cancelled"
    with pytest.raises(ConnectionError, match="has been closed"):
        await call
    async with Client(slow) as client:
        call = asyncio.ensure_future(client.call("wait"))
        await begun.wait()
    assert ended == ["cancelled"]
    with pytest.raises(ConnectionError, match="has been closed"):
        await call


async def test_a_call_that_is_cancelled_as_it_is_left_is_given_up_too() -> None:
    transport = silent()

    async def use() -> None:
        async with Client(transport) as client:
            await client.call("wait")

    using = asyncio.ensure_future(use())
    await until(lambda: transport.methods()[-1:] == ["tools/call"])
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert transport.methods()[-1] == "notifications/cancelled"


async def test_it_is_not_held_up_by_a_server_that_takes_nothing_when_it_is_left() -> None:
    class Deaf(ScriptedTransport):
        async def send(self, message: Outgoing) -> None:  # type: ignore[override]
            super().send(message)
            if message.method == "notifications/cancelled":
                await asyncio.Event().wait()

    transport = silent(Deaf)
    async with Client(transport) as client:
        call = asyncio.ensure_future(client.call("wait"))
        await until(lambda: transport.methods()[-1] == "tools/call")
    with pytest.raises(ConnectionError, match="has been closed"):
        await call


async def test_another_event_loop_is_told_to_have_one_of_its_own() -> None:
    async with Client(server) as client:

        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="open in another event loop"):
                asyncio.run(_call(client))
            with pytest.raises(RuntimeError, match="open in another event loop"):
                asyncio.run(client.__aenter__())

        await asyncio.to_thread(elsewhere)
        assert await _call(client) == "bread"


def test_a_notification_needs_an_open_client() -> None:
    with pytest.raises(ConnectionError, match="the client is not open: write"):
        Client(server).notify("notifications/roots/list_changed")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"timeout": "soon"}, TypeError, "timeout must be a number of seconds above 0, or None, got 'soon'"),
        ({"timeout": 0}, ValueError, "timeout must be a number of seconds above 0"),
        ({"max_timeout": -1}, ValueError, "max_timeout must be a number of seconds above 0"),
        ({"progress": 3}, TypeError, "progress must be a function of done, total and message, got 3"),
        (
            {"arguments": {"name": object()}},
            ValueError,
            r"the params of tools/call have no form in JSON: .*Give plain values",
        ),
    ],
)
async def test_a_call_says_what_is_wrong_with_its_options(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    async with Client(server) as client:
        with pytest.raises(error, match=message):
            await client.call("bake", **options)  # type: ignore[call-overload]
        assert await _call(client) == "bread"


def test_threads_enter_the_one_that_waits_together() -> None:
    client, texts = SyncClient(server), list[str]()

    def use() -> None:
        for _ in range(5):
            with client:
                texts.append(client.call("bake").text)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["bread"] * 40
    with client:
        with client:
            pass
        assert client.call("bake").text == "bread"
    assert "mcpkit-client" not in [thread.name for thread in threading.enumerate()]


def test_one_of_several_servers_is_closed_with_all() -> None:
    with SyncClient({"mcpServers": {"a": server, "b": Server("empty")}}) as client:
        with client.servers["a"] as one:
            assert one.call("bake").text == "bread"
        one.close()
        assert one.call("bake").text == "bread"


def test_a_callback_cannot_close_the_one_that_waits() -> None:
    slow = Server("slow")

    @slow.tool
    async def work(ctx: Context) -> None:
        await ctx.progress(1, 2)

    with SyncClient(slow) as client, pytest.raises(RuntimeError, match="a callback of SyncClient cannot"):
        client.call("work", progress=lambda *_: client.close())


async def test_a_notebook_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    with SyncClient(server) as client:
        assert client.call("bake").text == "bread"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    with pytest.raises(RuntimeError, match="an event loop is running"), SyncClient(server):
        pass
