"""One JSON object or an event stream: what a stateless request is answered with, and who takes that."""

from __future__ import annotations

import pytest

from mcpkit import Context, Image, Server
from tests.helpers.asgi_client import Serve
from tests.helpers.pipe import META
from tests.helpers.stateless_server import LATER, text_of
from tests.helpers.work import Work

pytestmark = pytest.mark.anyio


async def test_what_a_handler_says_first_makes_a_stream(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        meta = {"progressToken": "p", META + "logLevel": "debug"}
        answer = client.call("speak", meta=meta)
        first = await answer.message()
        assert first["method"] == "notifications/message"
        assert answer.status == 200
        assert answer.headers["x-accel-buffering"] == "no"
        assert "no-cache" in answer.headers["cache-control"]
        assert not answer.is_over, "it is told while the handler runs"
        work.gate.set()
        progress, response = await answer.messages()
        assert progress["params"]["progressToken"] == "p"
        assert text_of(response) == "spoken"
        assert (await answer.whole()).is_over, "the response ends the stream"


async def test_events_have_neither_ids_nor_a_time_to_come_back(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.call("report", {"times": 3}, meta={"progressToken": 1}).whole()
        events = answer.waiting()
        assert len(events) == 4
        assert [(event.type, event.id, event.retry) for event in events] == [("message", None, None)] * 4


async def test_what_nobody_wants_to_hear_makes_no_stream(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.call("report").whole()
        assert answer.media_type == "application/json", "there is no progress token"
        answer = await client.call("late_refusal").whole()
        assert answer.media_type == "application/json", "there is no log level"


async def test_a_call_that_is_slow_becomes_a_stream(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("wait").head()
        assert answer.is_stream
        assert not answer.is_over
        work.gate.set()
        assert [text_of(each) for each in await answer.messages()] == ["waited"]


async def test_a_call_that_is_fast_enough_does_not(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, stream_after=LATER) as client:
        answer = client.call("wait")
        await work.started.wait()
        work.gate.set()
        assert (await answer.whole()).media_type == "application/json"


async def test_silence_on_a_stream_is_filled_with_comments(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server, stream_after=0, keep_alive=0.001) as client:
        answer = await client.call("wait").head()
        for _ in range(3):
            await answer.comment()
        work.gate.set()
        assert [text_of(each) for each in await answer.messages()] == ["waited"]


async def test_lines_of_other_alphabets_do_not_end_an_event(server: Server, serve: Serve) -> None:
    text = "a\u2028b\u2029c\x85d\re\nf\r\ng\x0bh\x1ci\0j😀"
    async with serve(server, stream_after=0) as client:
        answer = client.call("echo", {"text": text}, meta={"progressToken": 1})
        assert text_of(await answer.response()) == text


async def test_a_large_result_is_one_event(serve: Serve) -> None:
    server = Server("large")

    @server.tool
    async def draw(ctx: Context) -> Image:
        await ctx.progress(1)
        return Image(data=bytes(1_000_000), mime_type="image/png")

    async with serve(server) as client:
        _, response = await client.call("draw", meta={"progressToken": 1}).messages()
        assert len(response["result"]["content"][0]["data"]) > 1_000_000


# Accept


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        "application/json, text/event-stream",
        "text/event-stream, application/json;q=0.5",
        "text/event-stream,application/json",
        "Application/JSON, Text/Event-Stream",
        "application/json, text/*",
    ],
)
async def test_who_takes_both_gets_what_fits(accept: str | None, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        headers = {"accept": accept}
        assert not (await client.call("report", headers=headers).whole()).is_stream
        assert (await client.call("report", meta={"progressToken": 1}, headers=headers).whole()).is_stream


@pytest.mark.parametrize("accept", ["application/json", "application/*", "text/html, application/json;q=0.9"])
async def test_who_takes_json_alone_never_gets_a_stream(
    accept: str, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        meta = {"progressToken": 1, META + "logLevel": "debug"}
        answer = client.call("speak", meta=meta, headers={"accept": accept})
        await work.started.wait()
        work.gate.set()
        await answer.whole()
        assert (answer.status, answer.media_type) == (200, "application/json")
        assert text_of(answer.json()) == "spoken"


@pytest.mark.parametrize("accept", ["text/event-stream", "text/html", "image/*"])
async def test_who_does_not_take_json_is_refused(accept: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.call("echo", {"text": "hi"}, headers={"accept": accept}).whole()
        assert answer.status == 406
        assert b"application/json" in answer.body


async def test_listening_takes_a_stream(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = client.ask(
            "subscriptions/listen", {"notifications": {}}, headers={"accept": "application/json"}
        )
        assert (await answer.whole()).status == 400
        assert "text/event-stream" in answer.error()["message"]
