"""Event streams that clients come back to ("Resumability and Redelivery", "Multiple Connections", SEP-1699)."""

from __future__ import annotations

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.resumed import (
    OLDER,
    Steps,
    make_server,
    message_of,
    priming,
    said,
    subscribe,
    tells_what_changes,
    uri_of,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(steps: Steps) -> Server:
    return make_server(steps)


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
            await tells_what_changes(answer, server)
        else:
            assert (answer.status or 0) >= 400
        assert b"counted" not in answer.body


@pytest.mark.parametrize("id_", ["", "nonsense", "-", "-1", "x-999999999999999999", "ü", "\x00"])
async def test_an_id_that_is_none_of_ours_opens_a_new_stream(id_: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        stream = session.listen(after=id_)
        assert (await priming(stream)).id != id_
        await tells_what_changes(stream, server)


async def test_a_listener_from_another_process_gets_a_new_stream_and_is_told_of_what_it_may_have_missed(
    server: Server, serve: Serve, steps: Steps
) -> None:
    async with serve(server) as before:
        session = await before.initialize()
        seen = await priming(session.listen())
    later = make_server(steps)
    async with serve(later) as after:
        stream = session.at(after).listen(after=seen.id)
        assert (await priming(stream)).id != seen.id
        told = {(await stream.message())["method"] for _ in ("tools", "resources")}
        assert told == {"notifications/tools/list_changed", "notifications/resources/list_changed"}
        await tells_what_changes(stream, later)


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
