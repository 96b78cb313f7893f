"""Event streams that clients come back to ("Resumability and Redelivery", "Multiple Connections", SEP-1699)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from asgi_client import Answer, Event, Serve, Session
from mcpkit import Context, Server

pytestmark = pytest.mark.anyio

OLDER = ["2025-03-26", "2025-06-18"]
SECRET = "a secret of sixteen bytes and more"


class Steps:
    """Lets a tool take one step at a time."""

    def __init__(self) -> None:
        self.turns: asyncio.Queue[str] = asyncio.Queue()
        self.taken: asyncio.Queue[str] = asyncio.Queue()

    async def take(self, *names: str) -> None:
        for name in names:
            self.turns.put_nowait(name)
            assert await asyncio.wait_for(self.taken.get(), 10) == name


@pytest.fixture
def steps() -> Steps:
    return Steps()


def make_server(steps: Steps) -> Server:
    server = Server("resumed", version="1", secret=SECRET)

    @server.tool
    async def tell(ctx: Context) -> str:
        """Log what it is given, one by one, and return at `end`."""
        while (name := await steps.turns.get()) != "end":
            if name == "close":
                await ctx.close_stream()
            else:
                await ctx.log("warning", name)
            steps.taken.put_nowait(name)
        steps.taken.put_nowait(name)
        return "the end"

    @server.tool
    async def count(ctx: Context, times: int, size: int = 1) -> str:
        for number in range(times):
            await ctx.log("warning", f"{number} " + "x" * size)
        return "counted"

    @server.resource("resumed://{name}")
    async def any_resource(name: str) -> str:
        return name

    return server


@pytest.fixture
def server(steps: Steps) -> Server:
    return make_server(steps)


def message_of(event: Event | None) -> Any:
    assert event is not None
    return json.loads(event.data or "null")


def said(messages: list[Any]) -> list[str]:
    return [
        message["params"]["data"] if "method" in message else message["result"]["content"][0]["text"]
        for message in messages
    ]


async def priming(answer: Answer) -> Event:
    event = await answer.event()
    assert event is not None
    return event


# The events


async def test_a_stream_begins_with_an_id_and_a_time_to_come_back(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        for answer in (session.call("count", {"times": 1}), session.listen()):
            first = await priming(answer)
            assert first.id
            assert first.data == ""
            assert first.retry is not None
            assert first.retry > 0


async def test_a_slow_call_begins_with_them_at_once(server: Server, serve: Serve, steps: Steps) -> None:
    async with serve(server, stream_after=0) as client:
        session = await client.initialize()
        answer = session.call("tell")
        assert (await priming(answer)).id
        await steps.take("end")
        assert said(await answer.messages()) == ["the end"]


@pytest.mark.parametrize("revision", OLDER)
async def test_older_revisions_have_no_ids(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        listening = await session.listen().head()
        call = await session.call("count", {"times": 2}).whole()
        server.tools.remove("tell")
        changed = await listening.event()
        events = [*call.waiting(), changed]
        assert len(events) == 4
        for event in events:
            assert event is not None
            assert (event.id, event.retry) == (None, None)
            assert event.data


async def test_no_id_is_given_twice_in_a_session(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        ids = []
        for _ in range(3):
            answer = await session.call("count", {"times": 5}).whole()
            ids += [event.id for event in answer.waiting()]
            ids.append((await priming(session.listen())).id)
        assert len(ids) == 3 * 8
        assert None not in ids
        assert len(set(ids)) == len(ids)


# Coming back


async def test_what_was_missed_comes_again_and_nothing_else(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("tell")
        await steps.take("one", "two")
        await priming(call)
        first = await call.event()
        call.disconnect()
        await call.whole()
        await steps.take("three", "four")
        await (await session.call("count", {"times": 3}).whole()).messages()  # another stream's
        assert first is not None
        back = session.listen(after=first.id)
        assert [message_of(await back.event())["params"]["data"] for _ in range(3)] == [
            "two",
            "three",
            "four",
        ]
        await steps.take("five", "end")
        assert said(await back.messages()) == ["five", "the end"]
        assert (await back.whole()).is_over, "the response ends the stream"


async def test_all_comes_again_to_who_has_seen_the_first_event_alone(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("tell")
        await steps.take("one")
        first = await priming(call)
        call.disconnect()
        await steps.take("two", "end")
        for _ in range(2):  # as often as the client likes
            again = session.listen(after=first.id)
            assert said(await again.messages()) == ["one", "two", "the end"]


async def test_events_that_come_again_have_the_ids_that_they_had(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = await session.call("count", {"times": 4}).whole()
        first, *rest = call.waiting()
        again = await session.listen(after=first.id).whole()
        assert again.waiting() == rest


async def test_a_stream_goes_on_where_its_client_is_though_the_old_connection_stands(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        old = session.call("tell")
        await steps.take("one")
        first = await priming(old)
        new = session.listen(after=first.id)
        assert said([await new.message()]) == ["one"]
        await steps.take("two", "end")
        assert said(await new.messages()) == ["two", "the end"]
        assert said(await old.messages()) == ["one"]


async def test_a_stream_of_a_get_is_taken_up_too(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "a", "b", "c")
        stream = session.listen()
        await priming(stream)
        server.resource_updated("resumed://a")
        seen = await stream.event()
        server.resource_updated("resumed://b")
        await stream.event()
        stream.disconnect()
        await stream.whole()
        server.resource_updated("resumed://c")
        assert seen is not None
        back = session.listen(after=seen.id)
        assert [uri_of(await back.message()) for _ in range(2)] == ["b", "c"]
        assert back.waiting() == []


async def test_a_stream_of_another_session_is_not_to_be_had(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        mine, theirs = await client.initialize(), await client.initialize()
        call = await theirs.call("count", {"times": 3}).whole()
        first = call.waiting()[0]
        answer = mine.listen(after=first.id)
        await answer.head()
        if answer.is_stream:
            await priming(answer)
            server.tools.remove("tell")
            assert (await answer.message())["method"] == "notifications/tools/list_changed"
        else:
            assert (answer.status or 0) >= 400
        assert b"counted" not in answer.body


@pytest.mark.parametrize(
    "id_", ["", "nonsense", "-", "-1", "x-999999999999999999", "0123abcdg1-0", "ü", "\x00"]
)
async def test_an_id_that_is_none_of_ours_opens_a_new_stream(id_: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        stream = session.listen(after=id_)
        assert (await priming(stream)).id != id_
        server.tools.remove("tell")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_listener_from_another_process_gets_a_new_stream(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as before:
        session = await before.initialize()
        seen = await priming(session.listen())
    later = make_server(steps)
    async with serve(later) as after:
        stream = session.at(after).listen(after=seen.id)
        assert (await priming(stream)).id != seen.id
        later.tools.remove("tell")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_call_of_another_process_has_to_be_sent_again(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as before:
        session = await before.initialize()
        seen = (await session.call("count", {"times": 2}).whole()).waiting()[0]
    async with serve(make_server(steps)) as after:
        answer = await session.at(after).listen(after=seen.id).whole()
        assert answer.status == 400
        assert "send the request again" in answer.error()["message"]


@pytest.mark.parametrize("revision", OLDER)
async def test_older_revisions_do_not_come_back(revision: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        await session.call("count", {"times": 2}).whole()
        stream = await session.listen(after="anything-0").head()
        server.tools.remove("tell")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


# Polling


async def test_a_tool_may_end_the_connection_of_its_stream(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("tell")
        await steps.take("one", "close")
        first = await priming(call)
        assert first.retry is not None
        assert said(await call.messages()) == ["one"]
        assert (await call.whole()).is_over
        await steps.take("two", "end")
        assert said(await session.listen(after=first.id).messages()) == ["one", "two", "the end"]


async def test_a_tool_may_end_it_before_it_has_said_anything(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("tell")
        await steps.take("close")
        first = await priming(call)
        assert await call.messages() == []
        back = session.listen(after=first.id)
        await back.head()
        await steps.take("close")
        assert await back.event() is None or not back.is_over
        await steps.take("end")
        assert said(await session.listen(after=first.id).messages()) == ["the end"]


@pytest.mark.parametrize("revision", OLDER)
async def test_a_tool_ends_no_stream_that_nobody_could_come_back_to(
    revision: str, server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize(revision)
        call = session.call("tell")
        await steps.take("one", "close", "two", "end")
        assert said(await call.messages()) == ["one", "two", "the end"]


async def test_a_tool_ends_no_answer_of_json_alone(server: Server, serve: Serve, steps: Steps) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("tell", headers={"accept": "application/json"})
        await steps.take("close", "end")
        assert said([await call.response()]) == ["the end"]


async def test_a_stateless_call_ends_no_stream(server: Server, serve: Serve, steps: Steps) -> None:
    async with serve(server) as client:
        call = client.call("tell")
        await steps.take("close", "end")
        assert said([await call.response()]) == ["the end"]


# Streams for what belongs to no call


async def test_each_message_comes_on_one_stream_only(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        uris = [str(number) for number in range(20)]
        await subscribe(session, *uris)
        streams = [session.listen() for _ in range(3)]
        for stream in streams:
            await priming(stream)
        for uri in uris:
            server.resource_updated(f"resumed://{uri}")
        found = await collect(streams, len(uris))
        assert sorted(uri_of(message) for message in found) == sorted(uris)


async def test_another_stream_takes_over_when_one_is_lost(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "a")
        streams = [session.listen() for _ in range(3)]
        for stream in streams:
            await priming(stream)
        while streams:
            server.resource_updated("resumed://a")
            assert len(await collect(streams, 1)) == 1
            lost = streams.pop()
            lost.disconnect()
            await lost.whole()


async def test_what_changes_while_no_stream_is_open_is_told_once_when_there_is_one(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "a", "b")
        for _ in range(3):
            server.resource_updated("resumed://a")
            server.resource_updated("resumed://b")
        server.tools.remove("tell")
        await session.ask("ping").whole()  # the changes have been heard
        stream = session.listen()
        methods = [(await stream.message())["method"].removeprefix("notifications/") for _ in range(3)]
        assert methods == ["resources/updated", "resources/updated", "tools/list_changed"]
        other = session.listen()
        await priming(other)
        assert stream.waiting() == other.waiting() == []


async def test_of_too_many_changes_none_is_lost(server: Server, serve: Serve) -> None:
    """The client is told of what it has subscribed to, where it cannot be told of each resource."""
    async with serve(server) as client:
        session = await client.initialize()
        await subscribe(session, "{name}")
        for number in range(300):
            server.resource_updated(f"resumed://{number}")
        await subscribe(session, "rome")
        server.resource_updated("resumed://rome")
        server.tools.remove("tell")
        await session.ask("ping").whole()  # the changes have been heard
        stream = session.listen()
        found = [await stream.message() for _ in range(259)]
        assert stream.waiting() == []
        updated = [uri_of(message) for message in found if "params" in message]
        assert updated[:256] == [str(number) for number in range(256)]
        assert updated[256:] == ["{name}", "rome"]
        server.resource_updated("resumed://299")
        assert uri_of(await stream.message()) == "299"


async def test_what_changes_does_not_come_on_the_stream_of_a_call(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        stream = session.listen()
        await priming(stream)
        call = session.call("tell")
        await steps.take("one")
        server.tools.remove("count")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        await steps.take("end")
        assert said(await call.messages()) == ["one", "the end"]
        assert stream.waiting() == [], "and what belongs to a call comes on its stream alone"


# What is kept


@pytest.mark.parametrize(("times", "size"), [(1000, 10), (40, 500_000)])
async def test_what_is_kept_is_bounded_and_its_latest_is_there(
    times: int, size: int, server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        call = session.call("count", {"times": times, "size": size})
        first = await priming(call)
        await call.whole()
        again = await session.listen(after=first.id).whole()
        *missed, response = again.waiting()
        assert len(missed) < min(times, 256)
        assert len(again.body) < 5 * 1024 * 1024
        assert said([message_of(response)]) == ["counted"]
        numbers = [int(message_of(event)["params"]["data"].split()[0]) for event in missed]
        assert numbers == list(range(times - len(missed), times)), "no gap but at the beginning"


async def test_a_stream_that_is_not_kept_any_more_is_refused(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        old = await session.call("count", {"times": 1}).whole()
        for _ in range(300):
            await session.call("count", {"times": 1}).whole()
        seen = old.waiting()[0]
        answer = await session.listen(after=seen.id).whole()
        assert answer.status == 400
        assert "send the request again" in answer.error()["message"]


async def test_a_stream_whose_events_are_not_kept_any_more_is_refused(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        old = await session.call("count", {"times": 1}).whole()
        await session.call("count", {"times": 300}).whole()
        first, *_, last = old.waiting()
        for _ in range(2):
            answer = await session.listen(after=first.id).whole()
            assert answer.status == 400
            assert "send the request again" in answer.error()["message"]
        assert (await session.listen(after=last.id).whole()).status == 405, (
            "who has it all has missed nothing"
        )


async def test_streams_that_have_said_all_are_not_kept(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        for _ in range(600):
            await session.call("count", {"times": 1}).whole()
        assert len(client.app._begin().sessions._by_id[session.id]._streams) <= 257


async def test_streams_that_were_left_are_not_kept(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=1) as client:
        session = await client.initialize()
        for _ in range(600):
            stream = session.listen()
            await priming(stream)
            stream.disconnect()
            await stream.whole()
        live = client.app._begin().sessions._by_id[session.id]
        assert len(live._streams) <= 257
        assert live._listening == []


async def test_the_number_of_streams_is_capped(server: Server, serve: Serve) -> None:
    async with serve(server, max_streams=1) as client:
        session = await client.initialize()
        first = await session.listen().head()
        assert (await session.listen().whole()).status == 503
        first.disconnect()
        await first.whole()
        assert (await session.listen().head()).status == 200


async def subscribe(session: Session, *names: str) -> None:
    for name in names:
        await session.ask("resources/subscribe", {"uri": f"resumed://{name}"}).whole()


def uri_of(message: Any) -> str:
    return str(message["params"]["uri"]).removeprefix("resumed://")


async def collect(streams: list[Answer], count: int) -> list[Any]:
    """Return so many messages, from whichever streams they come, and let what is too much come too."""
    found: list[Any] = []
    for _ in range(10_000):
        found += [message_of(event) for stream in streams for event in stream.waiting() if event.data]
        await asyncio.sleep(0)
        if len(found) >= count:
            break
    for _ in range(20):
        await asyncio.sleep(0)
    return found + [message_of(event) for stream in streams for event in stream.waiting() if event.data]
