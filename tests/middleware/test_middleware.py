"""What passes through a server's own functions on its way to a handler, alike in every revision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import ProtocolError, RegistrationError, Server
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect
from tests.helpers.servers.middleware import REVISIONS, Recorder, make_server
from tests.helpers.waiting import Work, over

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return make_server()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_request_passes_with_its_result(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, protocol_version=revision) as client:
        answers = [
            ("tools/list", await client.request("tools/list")),
            (
                "tools/call",
                await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
            ),
            ("resources/list", await client.request("resources/list")),
            ("resources/read", await client.request("resources/read", {"uri": "wrapped://known"})),
            (
                "prompts/get",
                await client.request("prompts/get", {"name": "greet", "arguments": {"name": "A"}}),
            ),
        ]
    assert recorder.seen[0][0] in {"initialize", "server/discover"}
    assert recorder.seen[1:] == answers


async def test_requests_that_are_refused_pass_too(server: Server) -> None:
    recorder = server.middleware(Recorder())
    async with connect(server, protocol_version="2025-11-25") as client:
        for method, params in [("no/such", {}), ("tools/call", {"name": "none"}), ("tools/call", {})]:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
        with pytest.raises(ProtocolError):
            await client.read_resource("wrapped://lost")
    assert recorder.seen[1:] == [
        ("no/such", "ProtocolError"),
        ("tools/call", "ProtocolError"),
        ("tools/call", "MalformedError"),
        ("resources/read", "ResourceNotFoundError"),
    ]


async def test_the_first_that_is_registered_is_outermost(server: Server) -> None:
    order: list[str] = []

    def make(name: str) -> Any:
        async def middleware(request: Request, call_next: CallNext) -> Result:
            order.append(f"{name} in")
            result = await call_next(request)
            order.append(f"{name} out")
            return result

        return middleware

    server.middleware(make("first"))
    server.middleware("tools/call")(make("second"))
    server.middleware(make("third"))
    async with connect(server) as client:
        order.clear()
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.list_prompts()
    assert order[:6] == ["first in", "second in", "third in", "third out", "second out", "first out"]
    assert order[6:] == ["first in", "third in", "third out", "first out"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_questions_pass(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())

    async with connect(
        server,
        protocol_version=revision,
        request_handler=lambda *_: {"action": "accept", "content": {"value": "Rome"}},
    ) as client:
        result = await client.call_tool("ask")
    assert result.text == "mcpkit-testing said Rome"
    ends = [what if isinstance(what, str) else "result" for _, what in recorder.seen[1:]]
    assert ends == (["InputRequired", "result"] if revision == REVISIONS[-1] else ["result"])


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_cancellation_reaches_middleware_and_handler(server: Server, revision: str) -> None:
    work = Work()
    server.tool(work.wait)
    recorder = server.middleware(Recorder())
    async with connect(server, protocol_version=revision) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await client.list_prompts()
    assert work.cancelled.is_set()
    assert ("tools/call", "CancelledError") in recorder.seen


async def test_middleware_of_an_included_server_does_not_run(server: Server) -> None:
    inner = server.middleware(Recorder())
    outer_server = Server("outer")
    outer_server.include(server)
    outer = outer_server.middleware(Recorder())
    async with connect(outer_server) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert inner.seen == []
    assert [method for method, _ in outer.seen] == ["server/discover", "tools/call"]


def plain(request: Request, call_next: CallNext) -> None: ...


async def without_call_next(request: Request) -> Result: ...  # type: ignore[empty-body]  # never called


@pytest.mark.parametrize("hook", [plain, without_call_next, 7])
def test_middleware_wrong_function_is_refused(server: Server, hook: Any) -> None:
    with pytest.raises(
        RegistrationError, match="a middleware must be an async function of a request and call_next"
    ):
        server.middleware(hook)


@pytest.mark.parametrize("method", ["ping", "subscriptions/listen", "tools"])
def test_a_method_that_cannot_be_wrapped_is_refused(server: Server, method: str) -> None:
    with pytest.raises(
        RegistrationError, match=f"unknown method '{method}' for a middleware. Supported are .*initialize"
    ):
        server.middleware(method)
