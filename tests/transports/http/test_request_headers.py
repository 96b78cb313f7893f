"""What handlers see of the headers of the HTTP request that they serve."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from mcpkit import Complete, Context, Depends, FromHeader, Server
from tests.helpers.asgi_answer import Judge
from tests.helpers.asgi_client import Serve, initialize
from tests.helpers.pipe import stateless_meta
from tests.helpers.stateless_server import text_of

pytestmark = pytest.mark.anyio

TENANT = {"x-tenant": "acme"}


async def tenant_of(ctx: Context, tenant: Annotated[str | None, FromHeader("X-Tenant")]) -> str:
    return f"{tenant} {ctx.headers.get('X-TENANT')}"


def tenants(value: str, tenant: Annotated[str | None, FromHeader("X-Tenant")]) -> list[str]:
    return [tenant or "nobody"]


@pytest.fixture
def server() -> Server:
    server = Server("headers")

    @server.tool
    async def in_the_loop(tenant: Annotated[str, Depends(tenant_of)]) -> str:
        return tenant

    @server.tool
    def in_a_thread(tenant: Annotated[str, Depends(tenant_of)]) -> str:
        return tenant

    @server.tool
    async def names(ctx: Context) -> dict[str, Any]:
        headers = ctx.headers
        return {
            "has": "X-Tenant" in headers,
            "lacks": "X-Other" not in headers and "Ü" not in headers,
            "same": sorted(headers) == sorted(name for name, _ in headers.items()),
            "count": len(headers) == len(list(headers)),
            "shown": repr(headers),
        }

    @server.prompt
    def ask(tenant: Annotated[str, Complete(tenants)]) -> str:
        return tenant

    return server


@pytest.mark.parametrize("name", ["in_the_loop", "in_a_thread"])
async def test_a_stateless_request_has_its_own(name: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        assert text_of((await client.call(name, headers=TENANT).whole()).json()) == "acme acme"
        assert text_of((await client.call(name).whole()).json()) == "None None"


async def test_each_post_of_a_session_has_its_own(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        told = await session.call("in_the_loop", headers=TENANT).whole()
        assert text_of(told.json()) == "acme acme"
        told = await session.call("in_the_loop", headers={"x-tenant": "other"}).whole()
        assert text_of(told.json()) == "other other"


async def test_a_client_without_a_session_has_its_own(server: Server, serve: Serve) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "in_the_loop"}}
    async with serve(server, stateless=True) as client:
        judge = Judge(client.folder, "2025-11-25")
        headers = TENANT | {"mcp-protocol-version": "2025-11-25"}
        told = await client.post(message, headers, judge=judge).whole()
        assert text_of(told.json()) == "acme acme"


async def test_a_stream_of_2024_has_those_that_it_was_opened_with(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        stream = client.open("GET", "/sse", headers={"accept": "text/event-stream"} | TENANT)
        stream.judge.revision = "2024-11-05"
        endpoint = await stream.event()
        assert endpoint is not None
        for message in (
            initialize("2024-11-05"),
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "in_the_loop"}},
        ):
            stream.judge.expect(message)
            posted = client.post(message, {"x-tenant": "other"}, path=endpoint.data or "", judge=stream.judge)
            assert (await posted.whole()).status == 202
            answer = await stream.message()
        assert text_of(answer) == "acme acme"


async def test_completion_has_them_too(server: Server, serve: Serve) -> None:
    params = {
        "ref": {"type": "ref/prompt", "name": "ask"},
        "argument": {"name": "tenant", "value": ""},
        "_meta": stateless_meta(),
    }
    async with serve(server) as client:
        answer = await client.ask("completion/complete", params, headers=TENANT).whole()
    assert answer.json()["result"]["completion"]["values"] == ["acme"]


async def test_names_have_no_case_and_values_are_not_shown(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        told = (await client.call("names", headers=TENANT).whole()).json()["result"]["structuredContent"]
    shown = told.pop("shown")
    assert told == dict.fromkeys(["has", "lacks", "same", "count"], True)
    assert "x-tenant" in shown
    assert "acme" not in shown


async def test_a_header_is_latin_1_and_of_several_all_values_are_there(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        told = await client.call("in_the_loop", headers={"x-tenant": "Zürich".encode("latin-1")}).whole()
    assert text_of(told.json()) == "Zürich Zürich"
