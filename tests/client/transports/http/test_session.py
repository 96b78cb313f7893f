"""Sessions: their ids, and the stream of what the server says unasked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from mcpkit import Client, StatusError, TransportError
from mcpkit.client.transports.http import session as http_session
from mcpkit.client.transports.http import stream as http_stream
from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.helpers.heard import Heard
from tests.helpers.scripted_http import SESSION, Asked, Reply, Script, greeting, scripted, text
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

REVISION = "2025-11-25"
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def done(asked: Asked, reply: Reply) -> None:
    await reply.result(text("done"))


def over(url: str, revision: str = REVISION) -> tuple[HttpTransport, Client]:
    transport = HttpTransport(url)
    return transport, Client(transport, revision=revision, tries=1)


class Listening:
    """A server's stream, which is scripted connection by connection; the last step is repeated."""

    def __init__(self, *steps: Script) -> None:
        self.steps = list(steps)
        self.asked: list[Asked] = []
        self.times: list[float] = []

    async def __call__(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        self.times.append(time.monotonic())
        await (self.steps.pop(0) if len(self.steps) > 1 else self.steps[0])(asked, reply)
        self.times.append(time.monotonic())


async def stays(asked: Asked, reply: Reply) -> None:
    await reply.begin_stream()
    await reply.event(CHANGED)
    await reply.hang_up()


def tells(**event: Any) -> Script:
    async def step(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(CHANGED, **event)
        await reply.end_stream()

    return step


def answers(status: int) -> Script:
    async def step(asked: Asked, reply: Reply) -> None:
        await reply.send(status)

    return step


async def test_the_id_is_sent_with_all_that_follows_and_the_session_ended() -> None:
    async with scripted(greeting(done)) as server:
        _, client = over(server.url)
        async with client:
            await client.call("bake")
    first, *rest = server.asked
    assert first.rpc == "initialize"
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    assert {asked.headers["mcp-session-id"] for asked in rest} == {SESSION}
    assert {asked.headers["mcp-protocol-version"] for asked in rest} == {REVISION}
    assert [asked.method for asked in rest].count("GET") == 1
    assert rest[-1].method == "DELETE"


async def test_the_revision_that_was_agreed_upon_is_sent() -> None:
    async with scripted(greeting(done, revision="2025-03-26")) as server, over(server.url)[1] as client:
        await client.call("bake")
    assert {asked.headers["mcp-protocol-version"] for asked in server.asked[1:]} == {"2025-03-26"}


@pytest.mark.parametrize("revision", [REVISION, "2026-07-28"])
async def test_without_an_id_there_is_no_stream_and_no_end(revision: str) -> None:
    async with scripted(greeting(done, session=None)) as server, over(server.url, revision)[1] as client:
        await client.call("bake")
    assert {asked.method for asked in server.asked} == {"POST"}


@pytest.mark.parametrize("id_", ["a b", "ä", "\x7f"])
async def test_an_id_that_no_header_can_have_is_refused(id_: str) -> None:
    async with scripted(greeting(done, session=id_)) as server:
        with pytest.raises(TransportError, match="visible ASCII"):
            await over(server.url)[1].__aenter__()


@pytest.mark.parametrize("status", [200, 204, 404, 405, 500])
async def test_a_server_may_refuse_to_end_the_session(status: int) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await (answers(status) if asked.method == "DELETE" else greeting(done))(asked, reply)

    async with scripted(script) as server, over(server.url)[1] as client:
        await client.call("bake")
    assert server.of("DELETE")


async def test_a_server_that_does_not_answer_is_left_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        if asked.method == "DELETE":
            await reply.hang_up()
        else:
            await greeting(done)(asked, reply)

    monkeypatch.setattr(http_session, "_FAREWELL", 0.05)
    async with scripted(script) as server:
        async with over(server.url)[1] as client:
            await client.call("bake")
        await until(lambda: not server.open)


async def test_what_the_server_says_unasked_is_heard() -> None:
    listening = Listening(stays)
    async with scripted(greeting(done, stream=listening)) as server:
        heard: list[str] = []
        client = over(server.url)[1]
        client._link.listeners.add(lambda method, params: heard.append(method))
        async with client:
            await until(lambda: heard)
            assert (await client.call("bake")).text == "done"
        await until(lambda: not server.open)
    assert heard == [CHANGED["method"]]
    assert listening.asked[0].headers["accept"] == "text/event-stream"


async def test_the_stream_is_there_before_the_first_call() -> None:
    order: list[str] = []

    async def stream(asked: Asked, reply: Reply) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        order.append("stream")
        await stays(asked, reply)

    async def call(asked: Asked, reply: Reply) -> None:
        order.append("call")
        await done(asked, reply)

    async with scripted(greeting(call, stream=stream)) as server, over(server.url)[1] as client:
        await client.call("bake")
    assert order == ["stream", "call"]


async def test_a_stream_that_does_not_come_keeps_no_call_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        await reply.hang_up()

    monkeypatch.setattr(http_session, "_PATIENCE", 0.05)
    async with scripted(greeting(done, stream=stream)) as server, over(server.url)[1] as client:
        assert (await client.call("bake")).text == "done"
        assert server.of("GET")


async def test_the_stream_is_joined_again_where_it_was() -> None:
    listening = Listening(tells(id_="a", retry=120), tells(retry=60), stays)
    async with scripted(greeting(done, stream=listening)) as server:
        transport, client = over(server.url)
        missed: list[None] = []
        transport.missed.add(lambda: missed.append(None))
        async with client:
            await until(lambda: len(listening.asked) == 3)
    assert [asked.headers.get("last-event-id") for asked in listening.asked] == [None, "a", "a"]
    assert missed == []
    _, ended, began, ended_again, began_again, *_ = listening.times
    assert 0.118 <= began - ended < http_stream.RETRY
    assert 0.058 <= began_again - ended_again < http_stream.RETRY


async def test_where_it_does_not_go_on_where_it_was_something_may_have_been_missed() -> None:
    listening = Listening(tells(retry=0), tells(), stays)
    async with scripted(greeting(done, stream=listening)) as server:
        transport, client = over(server.url)
        missed: list[None] = []
        transport.missed.add(lambda: missed.append(None))
        async with client:
            await until(lambda: len(missed) == 2)
    assert [asked.headers.get("last-event-id") for asked in listening.asked] == [None, None, None]


@pytest.mark.parametrize("status", [400, 401, 404, 405, 406])
async def test_a_server_without_such_a_stream_is_asked_once(status: int) -> None:
    listening = Listening(answers(status))
    async with scripted(greeting(done, stream=listening)) as server, over(server.url)[1] as client:
        await until(lambda: listening.times[1:])
        assert (await client.call("bake")).text == "done"
        assert client._link.is_open
    assert len(listening.asked) == 1


async def test_a_web_page_in_its_place_is_no_stream() -> None:
    async def page(asked: Asked, reply: Reply) -> None:
        await reply.send(200, b"<p>hello", {"Content-Type": "text/html"})

    listening = Listening(page)
    async with scripted(greeting(done, stream=listening)) as server, over(server.url)[1] as client:
        await until(lambda: listening.times[1:])
        assert (await client.call("bake")).text == "done"
    assert len(listening.asked) == 1


async def test_a_stream_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_stream, "RETRY", 0.0)
    listening = Listening(answers(503))
    async with scripted(greeting(done, stream=listening)) as server, over(server.url)[1] as client:
        await until(lambda: len(listening.asked) == http_stream.MOST_FAILURES)
        assert (await client.call("bake")).text == "done"
    assert len(listening.asked) == http_stream.MOST_FAILURES


async def test_a_stream_of_a_server_that_is_away_is_asked_for_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = [answers(503)] * (http_stream.MOST_FAILURES + 3)
    monkeypatch.setattr(http_session, "LONGEST_WAIT", 0.01)
    listening = Listening(tells(id_="a", retry=1), *away, stays)
    async with scripted(greeting(done, stream=listening)) as server, over(server.url)[1] as client:
        await until(lambda: len(listening.asked) == len(away) + 2)
        assert client._link.is_open
    assert {asked.headers.get("last-event-id") for asked in listening.asked[1:]} == {"a"}


@pytest.mark.parametrize("status", [400, 401, 405, 409])
async def test_a_stream_that_cannot_go_on_where_it_was_begins_anew(status: int) -> None:
    listening = Listening(tells(id_="a", retry=1), answers(status), stays)
    async with scripted(greeting(done, stream=listening)) as server:
        transport, client = over(server.url)
        missed: list[None] = []
        transport.missed.add(lambda: missed.append(None))
        async with client:
            await until(lambda: len(listening.asked) == 3)
            assert (await client.call("bake")).text == "done"
    is_passing = status == 409
    told = [asked.headers.get("last-event-id") for asked in listening.asked]
    assert told == [None, "a", "a" if is_passing else None]
    assert len(missed) == (0 if is_passing else 1)


async def test_a_message_that_is_too_large_does_not_come_again_and_again() -> None:
    async def shouts(asked: Asked, reply: Reply) -> None:
        await reply.begin_stream()
        await reply.event(id_="a", retry=1)
        await reply.chunk(b"data: " + b"x" * 3000)
        await reply.hang_up()

    listening = Listening(shouts, stays)
    async with (
        scripted(greeting(done, stream=listening)) as server,
        Client(HttpTransport(server.url, max_answer=2000), revision=REVISION),
    ):
        await until(lambda: len(listening.asked) == 2)
    assert "last-event-id" not in listening.asked[1].headers


async def test_each_failure_in_a_row_makes_the_wait_longer() -> None:
    listening = Listening(tells(retry=20), *[answers(503)] * 3, stays)
    async with scripted(greeting(done, stream=listening)) as server, over(server.url)[1]:
        await until(lambda: len(listening.asked) == 5)
    waits = [listening.times[place + 1] - listening.times[place] for place in (1, 3, 5, 7)]
    for wait, least in zip(waits, (0.018, 0.018, 0.038, 0.078), strict=True):
        assert wait >= least


async def test_a_404_after_that_means_that_the_session_has_gone() -> None:
    async def waits(asked: Asked, reply: Reply) -> None:
        await reply.hang_up()

    listening = Listening(tells(retry=50), answers(404))
    async with scripted(greeting(waits, stream=listening)) as server:
        client = over(server.url)[1]
        async with client:
            call = asyncio.ensure_future(client.call("bake", retry=True))
            with pytest.raises(StatusError, match="session") as caught:
                await call
            assert caught.value.session_is_gone
            assert not client._link.is_open
        assert not server.of("DELETE")
        await until(lambda: not server.open)


async def test_a_token_that_cannot_be_had_ends_the_stream_alone(caplog: pytest.LogCaptureFixture) -> None:
    is_broken = False

    def token() -> str:
        if is_broken:
            raise LookupError("no token today")
        return "token"

    async def breaks(asked: Asked, reply: Reply) -> None:
        nonlocal is_broken
        is_broken = True
        await tells(retry=0)(asked, reply)

    async with (
        scripted(greeting(done, stream=breaks)) as server,
        Client(HttpTransport(server.url, token=token), revision=REVISION) as client,
    ):
        await until(lambda: "no token today" in caplog.text)
        with pytest.raises(LookupError, match="no token today"):
            await client.call("bake")


async def test_a_stream_of_the_session_before_is_joined_again_there() -> None:
    ids = iter(["first", "second"])
    goes_on = asyncio.Event()
    joined: list[str] = []

    async def call(asked: Asked, reply: Reply) -> None:
        await goes_on.wait()
        await reply.begin_stream()
        await reply.event(id_="a", retry=0)
        await reply.end_stream()

    async def join(asked: Asked, reply: Reply) -> None:
        joined.append(asked.headers["mcp-session-id"])
        await reply.send(404)

    async def script(asked: Asked, reply: Reply) -> None:
        session = next(ids) if asked.rpc == "initialize" else None
        await greeting(call, session=session, stream=join)(asked, reply)

    async with scripted(script) as server:
        transport, heard = HttpTransport(server.url), Heard(REVISION)
        await transport.open(heard)
        await transport.send(heard.wire.request("initialize", {"protocolVersion": REVISION}))
        calling = asyncio.ensure_future(transport.send(heard.wire.request("tools/call", {"name": "long"})))
        await until(lambda: server.of("POST", "tools/call"))
        await transport.send(heard.wire.request("initialize", {"protocolVersion": REVISION}))
        goes_on.set()
        with pytest.raises(TransportError, match="the answer is lost") as caught:
            await calling
        assert caught.value.session_is_gone
        await transport.close()
    assert joined == ["first"]
    assert [asked.headers["mcp-session-id"] for asked in server.of("DELETE")] == ["second"]


async def test_another_initialize_begins_another_session() -> None:
    ids = iter(["first", "second"])

    async def script(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize":
            await greeting(done, session=next(ids))(asked, reply)
        elif asked.rpc == "tools/call" and asked.headers["mcp-session-id"] == "first":
            await reply.send(404)
        else:
            await greeting(done, stream=stays)(asked, reply)

    async with scripted(script) as server:
        async with Client(HttpTransport(server.url), revision=REVISION) as client:
            await until(lambda: len(server.of("GET")) == 1)
            assert (await client.call("bake")).text == "done"
            await until(lambda: len(server.of("GET")) == 2)
        await until(lambda: not server.open)
    told = [asked.headers.get("mcp-session-id") for asked in server.of("POST", "initialize")]
    assert told == [None, None]
    assert [asked.headers["mcp-session-id"] for asked in server.of("GET")] == ["first", "second"]
