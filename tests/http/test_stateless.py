"""Streamable HTTP of 2026-07-28: every POST stands alone (basic/transports/streamable-http, basic/versioning)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from asgi_client import Client, Serve, lifespan
from mcpkit import Context, Header, Image, ProtocolError, ResourceError, Server, ToolError
from wire.pipe import HANDSHAKE, META, stateless_meta

pytestmark = pytest.mark.anyio

REVISION = "2026-07-28"
LATER = 3600.0
"""Seconds that no test lasts."""


class Work:
    """What the tools below tell the test, and wait for."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.released = threading.Event()
        self.failure: BaseException | None = None

    async def wait(self) -> None:
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.released.set()


@pytest.fixture
def server(work: Work) -> Server:
    server = Server("weather", version="1")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def envelope(ctx: Context) -> str:
        return f"{ctx.era} {ctx.revision} {ctx.client.name}"

    @server.tool
    async def report(ctx: Context, times: int = 1) -> str:
        for done in range(times):
            await ctx.progress(done + 1, times)
        return "reported"

    @server.tool
    async def wait() -> str:
        await work.wait()
        return "waited"

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.log("warning", "hello")
        await work.wait()
        await ctx.progress(1)
        return "spoken"

    @server.tool
    async def babble(ctx: Context) -> None:
        try:
            await work.wait()
        finally:
            try:
                await ctx.log("warning", "too late")
            except RuntimeError as error:
                work.failure = error

    @server.tool
    def block() -> str:
        work.released.wait(10)
        return "unblocked"

    @server.tool
    async def region(region: Annotated[str, Header("Region")] = "") -> str:
        return region

    @server.tool(requires="sampling")
    async def sample() -> None: ...

    @server.tool
    async def refuse() -> None:
        raise ToolError("not today")

    @server.tool
    async def crash() -> None:
        raise ValueError("a secret")

    @server.tool
    async def late_refusal(ctx: Context) -> None:
        await ctx.log("warning", "soon")
        raise ProtocolError(7, "late")

    @server.resource("weather://fixed")
    async def fixed() -> str:
        return "fixed"

    @server.resource("weather://broken")
    async def broken() -> str:
        raise ResourceError("no reading")

    @server.resource("weather://crash")
    async def crashing() -> str:
        raise ValueError("a secret")

    @server.prompt
    async def plan(city: str) -> str:
        return f"Plan for {city}"

    @server.prompt(requires="sampling")
    async def asking() -> str:
        return ""

    return server


def text_of(response: dict[str, Any]) -> str:
    return response["result"]["content"][0]["text"]


# Every POST stands alone


async def test_a_request_is_answered_with_one_json_object(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.call("echo", {"text": "hi"}).whole()
        assert (answer.status, answer.media_type) == (200, "application/json")
        assert text_of(answer.json()) == "hi"


async def test_a_request_knows_nothing_of_the_one_before(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        named = {META + "clientInfo": {"name": "other", "version": "1"}}
        assert text_of(await client.call("envelope", meta=named).response()) == f"stateless {REVISION} other"
        assert text_of(await client.call("envelope").response()) == f"stateless {REVISION} wire"
        without = stateless_meta()
        del without[META + "clientInfo"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        message["params"] = {"name": "envelope", "_meta": without}
        answer = client.post(message, standard_headers("tools/call", "envelope"))
        assert text_of(await answer.response()) == f"stateless {REVISION} None"


async def test_a_session_id_and_a_last_event_id_are_ignored(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for id_ in ("none-of-ours", (await client.initialize()).id):
            headers = {"mcp-session-id": id_, "last-event-id": "7"}
            answer = await client.call("envelope", headers=headers).whole()
            assert text_of(answer.json()).startswith("stateless")
            assert "mcp-session-id" not in answer.headers


async def test_posts_with_the_same_id_run_side_by_side(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        first, second = client.call("wait", id="same"), client.call("echo", {"text": "2"}, id="same")
        assert text_of(await second.response()) == "2"
        third = client.call("wait", id="same")
        await work.started.wait()
        first.disconnect()
        await work.cancelled.wait()
        work.gate.set()
        assert text_of(await third.response()) == "waited"


async def test_a_slash_at_the_end_is_no_redirect(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}}
        answer = client.post(message, standard_headers("tools/list"), path="/mcp/")
        assert "tools" in (await answer.response())["result"]


# The error table


def standard_headers(method: str, name: str | None = None) -> dict[str, str | bytes | None]:
    return {"mcp-protocol-version": REVISION, "mcp-method": method, "mcp-name": name}


def request(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    params = {"_meta": stateless_meta()} if params is None else params
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{}x", b"nonsense", b"\xff", b"\xef\xbb\xbf{}", b'{"id": NaN}', b'"\\ud800"', b"[1e400]"],
)
async def test_what_is_no_json_is_a_parse_error(body: bytes, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.post(body, standard_headers("tools/list")).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32700)
        assert "id" not in answer.json()


@pytest.mark.parametrize("depth", [1_000, 100_000])
async def test_json_that_is_nested_too_deeply_is_a_parse_error(
    depth: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            answer = client.post(opening * depth + b"1" + closing * depth)
            assert (await answer.whole()).status == 400
            assert answer.error()["code"] == -32700


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        (7, None),
        ("text", None),
        (None, None),
        ({}, None),
        ({"jsonrpc": "2.0"}, None),
        ({"jsonrpc": "2.0", "id": 1}, None),
        ({"id": 1, "method": "tools/list"}, 1),
        ({"jsonrpc": "1.0", "id": 1, "method": "tools/list"}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "id": {}, "method": "tools/list"}, None),
        ({"jsonrpc": "2.0", "method": 7}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}, None),
        ([], None),
        ([request("tools/list")], None),
        ([{"jsonrpc": "2.0", "method": "notifications/initialized"}], None),
    ],
)
async def test_what_is_neither_request_nor_notification_is_invalid(
    message: Any, id_: Any, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.post(message, standard_headers("tools/list")).whole()
        assert answer.status == 400
        assert answer.error()["code"] == -32600
        assert answer.json().get("id") == id_


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "unknown/method",
        "tasks/get",
        "",
        "notifications/initialized",
        "completion/complete",  # a capability that this server does not declare
    ],
)
async def test_a_method_that_is_not_served_is_not_found(method: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.ask(method, id="mine").whole()
        assert answer.status == 404
        assert answer.json()["id"] == "mine"
        assert answer.error()["code"] == -32601


async def test_a_capability_that_is_not_declared_is_not_found(serve: Serve) -> None:
    async with serve(Server("empty")) as client:
        for method in ("tools/list", "prompts/list", "resources/list", "resources/read"):
            answer = await client.ask(method, {"uri": "weather://x"}).whole()
            assert (answer.status, answer.error()["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "none"}),
        ("prompts/get", {"name": "none"}),
        ("prompts/get", {"name": "plan", "arguments": {}}),
    ],
)
async def test_what_is_not_there_is_a_wrong_parameter(
    method: str, params: dict[str, Any], server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.ask(method, params).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32602)


async def test_an_unknown_resource_is_named(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = await client.ask("resources/read", {"uri": "weather://none"}).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32602)
        assert answer.error()["data"] == {"uri": "weather://none"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", []),
        ("tools/list", 7),
        ("tools/list", {"_meta": []}),
        ("tools/list", {}),
        ("tools/list", {"_meta": {}}),
        ("tools/list", {"_meta": {META + "clientCapabilities": {}}}),
        ("tools/list", {"_meta": {META + "protocolVersion": REVISION}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "protocolVersion": 7}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "clientCapabilities": []}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "clientInfo": {"name": "no version"}}}),
        ("tools/list", {"_meta": stateless_meta() | {META + "logLevel": "loud"}}),
        ("tools/list", {"_meta": stateless_meta() | {"progressToken": {}}}),
        ("tools/call", {"_meta": stateless_meta()}),
        ("tools/call", {"_meta": stateless_meta(), "name": 7}),
        ("tools/call", {"_meta": stateless_meta(), "name": "echo", "arguments": []}),
        ("resources/read", {"_meta": stateless_meta()}),
        ("prompts/get", {"_meta": stateless_meta()}),
        ("subscriptions/listen", {"_meta": stateless_meta()}),
        ("subscriptions/listen", {"_meta": stateless_meta(), "notifications": []}),
    ],
)
async def test_malformed_params_are_a_bad_request(
    method: str, params: Any, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        headers = standard_headers(method, "echo")
        answer = await client.post(request(method, params), headers).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32602), answer.body
        assert answer.json()["id"] == 1


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [("echo", {}, "text"), ("refuse", {}, "not today"), ("crash", {}, "Internal error (ref ")],
)
async def test_what_a_tool_or_its_caller_does_wrong_is_a_result(
    name: str, arguments: dict[str, Any], text: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.call(name, arguments).whole()
        assert answer.status == 200
        assert answer.json()["result"]["isError"] is True
        assert text in text_of(answer.json())
        assert "secret" not in text_of(answer.json())


@pytest.mark.parametrize(("uri", "text"), [("broken", "no reading"), ("crash", "Internal error (ref ")])
async def test_what_goes_wrong_elsewhere_is_an_internal_error(
    uri: str, text: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.ask("resources/read", {"uri": f"weather://{uri}"}).whole()
        assert (answer.status, answer.error()["code"]) == (200, -32603)
        assert answer.error()["message"].startswith(text)


async def test_a_capability_that_the_client_lacks_is_named(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for answer in (client.call("sample"), client.ask("prompts/get", {"name": "asking"})):
            await answer.whole()
            assert (answer.status, answer.error()["code"]) == (400, -32021)
            assert answer.error()["data"] == {"requiredCapabilities": {"sampling": {}}}
        meta = {META + "clientCapabilities": {"sampling": {}}}
        assert (await client.call("sample", meta=meta).whole()).status == 200


async def test_too_much_at_once_is_put_off(work: Work, serve: Serve) -> None:
    server = Server("small", max_running=1)

    @server.tool
    async def wait() -> None:
        await work.wait()

    async with serve(server) as client:
        first = client.call("wait")
        await work.started.wait()
        second = await client.call("wait").whole()
        assert second.status == 503
        assert int(second.headers["retry-after"]) >= 1
        assert second.error()["code"] == -32603
        work.gate.set()
        assert "result" in await first.response()


async def test_an_error_on_a_stream_is_its_last_event(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = client.call("late_refusal", meta={META + "logLevel": "info"})
        said, refused = await answer.messages()
        assert answer.status == 200
        assert said["method"] == "notifications/message"
        assert refused["error"] == {"code": 7, "message": "late"}


# Two eras on one URL: the envelope decides, never the method

VERSIONS = [None, "", *HANDSHAKE, REVISION, "2099-01-01", "v999.0.0", f"{REVISION}, {REVISION}"]


@pytest.mark.parametrize("named", [None, *HANDSHAKE, REVISION, "v999.0.0", "", 7])
@pytest.mark.parametrize("header", VERSIONS)
async def test_header_and_meta_decide_the_era(
    header: str | None, named: Any, server: Server, serve: Serve
) -> None:
    meta = {META + "clientCapabilities": {}}
    if named is not None:
        meta[META + "protocolVersion"] = named
    if named is None:
        # -32600 is what the handshake era says of a request without a session.
        expected = -32600 if header in {None, *HANDSHAKE} else -32602 if header == REVISION else -32022
    elif not isinstance(named, str):
        expected = -32602
    elif header != named:
        expected = -32020
    else:
        expected = None if named == REVISION else -32022
    async with serve(server) as client:
        headers = {"mcp-protocol-version": header, "mcp-method": "tools/list"}
        answer = await client.post(request("tools/list", {"_meta": meta}), headers).whole()
        body = answer.json()
        assert body.get("error", {}).get("code") == expected, body
        assert answer.status == (200 if expected is None else 400)
        if expected == -32022:
            requested = header if named is None else named
            assert body["error"]["data"] == {"supported": [REVISION], "requested": requested}
        if expected != -32600:
            assert body["id"] == 1


async def test_a_revision_that_is_not_served_is_told_before_its_headers_are_missed(
    server: Server, serve: Serve
) -> None:
    """What else has to be in the headers is for that revision to say."""
    async with serve(server) as client:
        meta = stateless_meta("v999.0.0")
        answer = client.post(request("tools/list", {"_meta": meta}), {"mcp-protocol-version": "v999.0.0"})
        assert (await answer.whole()).status == 400
        assert answer.error()["code"] == -32022


async def test_initialize_opens_a_session_though_it_wants_this_revision(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize(REVISION)
        assert session.revision == "2025-11-25"
        assert await session.text("envelope") == "handshake 2025-11-25 test"


async def test_both_eras_are_served_side_by_side(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        waiting = client.call("wait", id=1)
        await work.started.wait()
        assert await session.text("envelope") == "handshake 2025-11-25 test"
        assert text_of(await client.call("envelope").response()) == f"stateless {REVISION} wire"
        work.gate.set()
        assert text_of(await waiting.response()) == "waited"


# Notifications


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        {"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"_meta": stateless_meta()}},
        {"jsonrpc": "2.0", "method": "tools/list"},
    ],
)
async def test_a_notification_is_accepted_without_a_body(
    message: dict[str, Any], server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.post(message, {"mcp-protocol-version": REVISION}).whole()
        assert (answer.status, answer.body) == (202, b"")
        assert "content-type" not in answer.headers


async def test_a_posted_cancellation_cancels_nothing(server: Server, serve: Serve, work: Work) -> None:
    async with serve(server) as client:
        waiting = client.call("wait", id=5)
        await work.started.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert (await client.post(cancel, standard_headers("notifications/cancelled")).whole()).status == 202
        work.gate.set()
        assert text_of(await waiting.response()) == "waited"


# One JSON object, or an event stream


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


# Accept and Content-Type


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


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        (None, 415),
        ("", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json-rpc", 415),
        ("multipart/form-data; boundary=application/json", 415),
    ],
)
async def test_a_message_is_json(content_type: str | None, status: int, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = client.call("echo", {"text": "hi"}, headers={"content-type": content_type})
        assert (await answer.whole()).status == status


async def test_a_body_in_a_coding_is_refused(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = client.call("echo", {"text": "hi"}, headers={"content-encoding": "gzip"})
        assert (await answer.whole()).status == 415


# The body


async def test_a_body_may_come_in_parts(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        headers = standard_headers("tools/call", "echo") | {"content-type": "application/json"}
        body = json.dumps(request("tools/call", call_params("echo", text="ü" * 10))).encode()
        answer = client.open("POST", headers=headers, body=None)
        answer.judge.expect(request("tools/call"))
        for at in range(len(body)):
            answer.feed(body[at : at + 1], more=True)
        answer.feed(b"")
        assert text_of((await answer.whole()).json()) == "ü" * 10


def call_params(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "_meta": stateless_meta()}


async def test_a_body_that_says_it_is_too_long_is_not_read(server: Server, serve: Serve) -> None:
    async with serve(server, max_body=1000) as client:
        headers = {"content-type": "application/json", "content-length": "1001"}
        answer = await client.open("POST", headers=headers, body=None).whole()
        assert answer.status == 413
        assert b"max_body" in answer.body


async def test_a_body_that_becomes_too_long_is_not_read_to_its_end(server: Server, serve: Serve) -> None:
    async with serve(server, max_body=1000) as client:
        answer = client.open("POST", headers={"content-type": "application/json"}, body=None)
        answer.feed(b" " * 999, more=True).feed(b"  ", more=True)
        assert (await answer.whole()).status == 413


async def test_a_body_may_be_as_long_as_is_allowed(server: Server, serve: Serve) -> None:
    async with serve(server, max_body=1000) as client:
        body = json.dumps(request("tools/list")).encode().ljust(1000)
        for each, status in ((body, 200), (body + b" ", 413)):
            answer = client.post(each, standard_headers("tools/list"))
            answer.judge.expect(request("tools/list"))
            assert (await answer.whole()).status == status


async def test_a_body_that_does_not_come_is_not_waited_for(server: Server, serve: Serve) -> None:
    async with serve(server, body_timeout=0.01) as client:
        answer = client.open("POST", headers={"content-type": "application/json"}, body=None)
        answer.feed(b'{"jsonrpc":', more=True)
        assert (await answer.whole()).status == 408


async def test_a_client_that_vanishes_in_its_body_leaves_nothing(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        answer = client.open("POST", headers={"content-type": "application/json"}, body=None)
        answer.feed(b'{"jsonrpc":', more=True).disconnect()
        await answer.whole()


# GET and DELETE


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"])
async def test_only_posts_are_of_this_revision(method: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for path in ("/mcp", "/mcp/"):
            answer = await client.open(method, path, headers={"mcp-protocol-version": REVISION}).whole()
            assert answer.status == 405
            assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_revision_that_is_unknown_is_a_bad_request_whatever_the_method(
    method: str, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        answer = await client.open(method, headers={"mcp-protocol-version": "v999.0.0"}).whole()
        assert (answer.status, answer.error()["code"]) == (400, -32022)


# Headers held against the body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"mcp-protocol-version": f"  {REVISION} \t"}, 200),
        ({"mcp-method": " tools/call "}, 200),
        ({"mcp-name": "  region  "}, 200),
        ({"mcp-name": "=?base64?cmVnaW9u?="}, 200),
        ({"mcp-param-region": "=?base64?dXMtd2VzdDE=?="}, 200),
        ({"mcp-param-unknown": "\x00"}, 200),
        ({"mcp-method": None}, 400),
        ({"mcp-method": "TOOLS/CALL"}, 400),
        ({"mcp-method": "tools/list"}, 400),
        ({"mcp-name": None}, 400),
        ({"mcp-name": "echo"}, 400),
        ({"mcp-name": "Region"}, 400),
        ({"mcp-name": "=?base64?cmVnaW9u="}, 400),
        ({"mcp-name": "r\xe9gion".encode("latin-1")}, 400),
        ({"mcp-param-region": None}, 400),
        ({"mcp-param-region": "eu"}, 400),
        ({"mcp-param-region": "us-west1\x01"}, 400),
        ({"mcp-param-region": "=?base64?dXMtd2VzdDE?="}, 400),
    ],
)
async def test_headers_say_what_the_body_says(
    headers: dict[str, Any], status: int, server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        headers = {"mcp-param-region": "us-west1"} | headers
        answer = await client.call("region", {"region": "us-west1"}, headers=headers).whole()
        assert answer.status == status
        if status == 400:
            assert answer.error()["code"] == -32020
            assert answer.json()["id"] == 1
        else:
            assert text_of(answer.json()) == "us-west1"


async def test_a_header_is_not_expected_for_what_is_not_given(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for arguments in ({}, {"region": None}):
            answer = await client.call("region", arguments).whole()
            assert answer.status == 200


async def test_resources_and_prompts_are_named_in_a_header_too(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        for method, params in (
            ("resources/read", {"uri": "weather://fixed"}),
            ("prompts/get", {"name": "plan", "arguments": {"city": "Rome"}}),
        ):
            assert (await client.ask(method, params).whole()).status == 200
            for name in (None, "other"):
                answer = await client.ask(method, params, headers={"mcp-name": name}).whole()
                assert (answer.status, answer.error()["code"]) == (400, -32020)


async def test_a_method_without_a_name_needs_no_header_for_it(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        assert (await client.ask("tools/list").whole()).status == 200
        assert (await client.ask("server/discover", headers={"mcp-name": "anything"}).whole()).status == 200


# Cancellation


@pytest.mark.parametrize("tool", ["wait", "speak"])
@pytest.mark.parametrize("stream_after", [0, LATER])
async def test_closing_the_stream_cancels_the_request(
    tool: str, stream_after: float, server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=stream_after) as client:
        answer = client.call(tool, meta={META + "logLevel": "debug"})
        await work.started.wait()
        if tool == "speak":
            await answer.message()
        answer.disconnect()
        await asyncio.wait_for(work.cancelled.wait(), 10)
        await answer.whole()
        assert b"".join(each.get("body", b"") for each in answer.late) == b""


async def test_nothing_more_is_said_for_a_request_that_is_cancelled(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("babble", meta={META + "logLevel": "debug"}).head()
        await work.started.wait()
        answer.disconnect()
        await answer.whole()
        while work.failure is None:
            await asyncio.sleep(0)
        assert "has ended" in str(work.failure)
        assert answer.late == []


async def test_a_function_that_blocks_does_not_hold_a_request_that_is_cancelled(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("block").head()
        assert server._running_count == 1
        answer.disconnect()
        await answer.whole()
        while server._running_count:
            await asyncio.sleep(0)
        assert not work.released.is_set()


async def test_a_client_that_is_gone_before_it_was_served_leaves_nothing(
    server: Server, serve: Serve
) -> None:
    async with serve(server) as client:
        for name in ("wait", "echo", "report", "block"):
            answer = client.call(name, {"text": "x"} if name == "echo" else None, meta={"progressToken": 1})
            answer.disconnect()
            await answer.whole()


async def test_a_server_that_raises_for_a_client_that_is_gone_is_understood(
    server: Server, serve: Serve, work: Work
) -> None:
    async with serve(server, stream_after=0) as client:
        answer = await client.call("wait").head()
        answer.failure = ConnectionResetError("gone")
        work.gate.set()
        await answer.whole()


# The end of the server


async def test_a_call_that_the_end_of_the_server_cuts_off_is_told_so(
    server: Server, schema_dir: Path, work: Work
) -> None:
    app = server.asgi(grace=0)
    async with lifespan(app):
        answer = Client(app, schema_dir).call("wait")
        await asyncio.wait_for(work.started.wait(), 10)
    await answer.whole()
    assert answer.status == 503
    assert (answer.error()["code"], answer.json()["id"]) == (-32603, 1)
