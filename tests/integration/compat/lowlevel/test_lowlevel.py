"""Low-level servers on mcpkit and on mcp 1.x: same responses; HTTP, SSE, streams and stdio."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

from mcpkit import Client
from mcpkit.compat import types
from mcpkit.compat.lowlevel.lowlevel_server import Server
from mcpkit.compat.lowlevel.transports import SseServerTransport, StreamableHTTPSessionManager
from mcpkit.compat.shared_models_and_settings import SessionMessage, TransportSecuritySettings
from tests.helpers.serving import in_thread
from tests.integration.compat.mcp1 import Conversation, Message, command_of

LAB = Path(__file__).with_name("lab.py")


def call(name: str, arguments: Any = None, **meta: Any) -> tuple[str, Message]:
    params: Message = {"name": name}
    if arguments is not None:
        params["arguments"] = arguments
    if meta:
        params["_meta"] = meta
    return "tools/call", params


def completing(value: str, **more: Any) -> tuple[str, Message]:
    return "completion/complete", {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "who", "value": value},
        **more,
    }


def request(method: str, **params: Any) -> tuple[str, Message]:
    return method, params


CASES: list[tuple[str, Message | None]] = [
    *((f"{name}/list", None) for name in ("tools", "resources", "prompts")),
    *(("ping", None), ("tools/list", {"cursor": "x"}), ("tools/list", {"cursor": 1}), ("tools/call", None)),
    *(request("resources/list", cursor=cursor) for cursor in ("2", "wrong")),
    ("resources/templates/list", {}),
    *(
        call("greet a person", row)
        for row in ({"name": "Ada"}, {"name": "A"}, {"name": "Ada", "age": "3", "x": 1})
    ),
    *(
        call("greet a person"),
        call("greet a person", [1]),
        call("add", {"a": "1"}),
        call("no such tool", {"a": 1}),
    ),
    *(call("add", {"a": 1, "b": how}) for how in ("dict", "wrong", "none", "both", "result", "?")),
    *(call(name, {}) for name in ("broken", "contents", "nothing", "generated", "context")),
    *(("tools/call", {}), ("tools/call", {"name": 1}), ("resources/read", {})),
    *(call("fails", {"kind": kind}) for kind in ("value", "empty", "key", "mcp", "url")),
    call("context", {}, progressToken="t", own=1),
    call("context", {}, progressToken=3),
    call("notifies", {}, progressToken="p1"),
    *(call("asks", {"kind": kind}) for kind in ("form", "old form", "page", "roots", "ping", "own")),
    *(call("asks", {"kind": kind}) for kind in ("sample", "sample with tools")),
    *(request("resources/read", uri=uri) for uri in ("x:text", "x:bytes", "x:parts", "x:other", "no uri")),
    *(request("prompts/get", name="p", arguments={"who": who}) for who in ("Ada", 1)),
    *(request("prompts/get", name=name) for name in ("p", "other")),
    *(completing("A"), completing("A", context={"arguments": {"a": "b"}}), completing("none")),
    request("completion/complete", ref={"type": "ref/else"}, argument={"name": "who", "value": ""}),
    *(request("logging/setLevel", level=level) for level in ("error", "loud")),
    *(request(f"resources/{name}", uri="file:///a") for name in ("subscribe", "unsubscribe")),
    call("notes", {}),
]


CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
    "experimental": {"x": {"y": 1}},
}
SAMPLE = {
    "role": "assistant",
    "model": "m",
    "content": {"type": "text", "text": "said"},
    "stopReason": "endTurn",
}
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"city": "Rome", "more": [1]}},
    "sampling/createMessage": SAMPLE,
    "roots/list": {"roots": [{"uri": "file:///home", "name": "home"}]},
    "ping": {},
}
SENT_LATER = [
    "notifications/message",
    "notifications/tools/list_changed",
    "roots/list",
    "notifications/message",
]


def test_responses_equal_those_of_mcp_1() -> None:
    with ExitStack() as stack:
        mcp, mcpkit = (
            stack.enter_context(Conversation(command_of(library, LAB), ANSWERS))
            for library in ("mcp", "mcpkit")
        )
        assert mcpkit.initialize(CAPABILITIES) == mcp.initialize(CAPABILITIES)
        deviations = []
        for method, params in CASES:
            expected, actual = (server.request(method, params) for server in (mcp, mcpkit))
            if json.dumps(actual, sort_keys=True) != json.dumps(expected, sort_keys=True):
                deviations.append((method, params, actual, expected))
        assert deviations == []
        for server in (mcp, mcpkit):
            for _ in range(2):
                (answer,) = server.request("tools/call", {"name": "later"})
                assert answer["result"]["content"][0]["text"] == "True"
                later = [server.receive() for _ in SENT_LATER]
                assert [message["method"] for message in later] == SENT_LATER
                assert later[-1]["params"]["data"] == ["file:///home"]
        assert mcpkit.close() == 0


def make_server(name: str = "lab") -> Server:
    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[dict[str, Any]]:
        yield {"of": name}

    server = Server(name, "1", lifespan=lifespan)

    @server.list_tools()
    async def tools() -> list[types.Tool]:
        return [types.Tool(name="look", inputSchema={"type": "object"})]

    @server.call_tool()
    async def call(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        ctx = server.request_context
        text = f"{ctx.request.url.path} {ctx.request.headers['x-own']} {ctx.lifespan_context}"
        return [types.TextContent(type="text", text=text)]

    return server


def site(**options: Any) -> Starlette:
    """Return an app as authors write it: both transports, below mounts."""
    server = make_server()
    manager = StreamableHTTPSessionManager(app=server, **options)
    sse = SseServerTransport("/messages/", options.get("security_settings"))

    async def handle_sse(request: Any) -> Response:
        mine = make_server("fresh") if "fresh" in request.url.query else server
        async with sse.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await mine.run(read, write, mine.create_initialization_options())
        return Response()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    below = [Route("/sse", handle_sse), Mount("/messages/", app=sse.handle_post_message)]
    return Starlette(
        routes=[Mount("/api", routes=below), Mount("/server", app=manager.handle_request)], lifespan=lifespan
    )


HEADERS = {"x-own": "mine"}


async def test_mounted_http_and_sse_apps_serve_clients(caplog: pytest.LogCaptureFixture):
    with in_thread(site()) as url:
        for path, seen, of in (
            ("/server/", "/server/", "lab"),
            ("/api/sse", "/api/messages/", "lab"),
            ("/api/sse?fresh", "/api/messages/", "fresh"),
        ):
            async with Client(f"{url}{path}", headers=HEADERS) as client:
                assert [tool["name"] for tool in await client.list_tools()] == ["look"]
                assert (await client.call_tool("look")).text == f"{seen} mine {{'of': '{of}'}}"
        async with httpx2.AsyncClient(base_url=url) as http:
            gone = await http.post("/api/messages/?session_id=0123456789abcdef", json={})
            assert (gone.status_code, gone.text) == (404, "Could not find session")
    assert "Traceback" not in caplog.text


CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}


BOTH = {"accept": "application/json, text/event-stream", **HEADERS}


async def test_security_settings_check_hosts_and_origins():
    foreign = {"host": "example.com", "origin": "https://example.com"}
    settings = TransportSecuritySettings(
        allowed_hosts=["127.0.0.1:*", "example.com"], allowed_origins=["https://example.com"]
    )
    async with httpx2.AsyncClient(headers=BOTH) as http:
        with in_thread(site()) as url:
            answer = await http.post(f"{url}/server/", json=INITIALIZE, headers=foreign)
            assert answer.status_code == 200, "mcp checks nothing without settings"
            assert "access-control-allow-origin" not in answer.headers
        with in_thread(site(security_settings=settings)) as url:
            for headers, status in (
                (foreign, 200),
                ({"host": "example.org"}, 421),
                ({"origin": "https://example.org"}, 403),
            ):
                answer = await http.post(f"{url}/server/", json=INITIALIZE, headers=headers)
                assert answer.status_code == status, headers
            answer = await http.get(f"{url}/api/sse", headers={"origin": "https://example.org"})
            assert answer.status_code == 403


@pytest.fixture
def streams() -> Iterator[Any]:
    pairs = anyio.create_memory_object_stream[Any](9), anyio.create_memory_object_stream[Any](9)
    yield pairs
    for stream in (*pairs[0], *pairs[1]):
        stream.close()


async def test_run_serves_memory_streams(streams: Any):
    (sender, read), (write, receiver) = streams
    server = make_server()
    running = asyncio.create_task(server.run(read, write, server.create_initialization_options()))

    async def response_to(method: str, **more: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
        await sender.send(SessionMessage(types.JSONRPCMessage.model_validate(message)))
        return (await receiver.receive()).message.root

    begun = await response_to("initialize", params=CLIENT)
    assert begun.result["serverInfo"] == {"name": "lab", "version": "1"}
    assert [tool["name"] for tool in (await response_to("tools/list")).result["tools"]] == ["look"]
    assert (await response_to("prompts/list")).error.code == -32601
    await sender.aclose()
    await running


async def test_run_raises_error_of_lifespan(streams: Any):
    (_, read), (write, _) = streams

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    server = Server("lab", lifespan=lifespan)
    with pytest.raises(LookupError, match="no database"):
        await server.run(read, write, server.create_initialization_options())
