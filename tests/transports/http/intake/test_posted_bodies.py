"""Which bodies are read: their media type, their coding, their length, and the time they take."""

from __future__ import annotations

import json

import pytest

from mcpkit import Server
from tests.helpers.asgi_client import Serve
from tests.helpers.stateless_server import call_params, request, standard_headers, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.long]


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
