"""Methods of extensions and refusals of middleware over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Access, HttpOptions, Principal, ProtocolError, Server
from mcpkit.common.errors import BusyError
from mcpkit.middleware import CallNext, Request, Result
from tests.helpers.raw_client import Answer, Client, Serve, initialize
from tests.helpers.servers.full import make_server
from tests.helpers.servers.protected import Lenient
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

ID = "com.example/thing"


@pytest.fixture
def extension_server() -> Server:
    server = Server("s")
    thing = server.extension(ID, {"max": 3})

    @thing.method("thing/get", name_param="id")
    async def get(id: str) -> dict[str, str]:
        if id == "unknown":
            raise ProtocolError(-32602, "There is no such thing")
        if id == "broken":
            raise KeyError(id)
        return {"id": id}

    @thing.method("thing/secret", name_param="id", access=Access(visible=lambda who: who.id == "ada"))
    async def secret(id: str) -> dict[str, str]:
        return {"id": id}

    @server.method("thing/free")
    async def free(count: int = 1) -> dict[str, int]:
        return {"count": count}

    return server


async def ask_extension(
    client: Client, method: str, params: dict[str, Any], name: str | None = None
) -> Answer:
    meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {ID: {}}}}
    answer = client.ask(method, params, headers={"mcp-name": name}, meta=meta)
    answer.judge = Lenient(client)
    return await answer.whole()


@each_row(
    ("method", "params", "name", "status", "code"),
    [
        ("thing/other", {}, None, 404, -32601),
        ("thing/secret", {"id": "a"}, None, 404, -32601),
        ("thing/get", {}, None, 400, -32602),
        ("thing/get", {"id": 7}, None, 400, -32602),
        ("thing/get", {"id": "unknown"}, "unknown", 200, -32602),
        ("thing/get", {"id": "broken"}, "broken", 200, -32603),
        ("thing/get", {"id": "a"}, None, 400, -32020),
        ("thing/get", {"id": "a"}, "=?base64?Yg==?=", 400, -32020),
        ("thing/free", {"count": "many"}, None, 400, -32602),
    ],
)
async def test_extension_errors_have_protocol_statuses(
    method: str,
    params: dict[str, Any],
    name: str | None,
    status: int,
    code: int,
    extension_server: Server,
    serve: Serve,
) -> None:
    async with serve(extension_server) as client:
        answer = await ask_extension(client, method, params, name)
    assert (answer.status, answer.error()["code"]) == (status, code)


async def test_hidden_method_is_not_disclosed_by_headers(extension_server: Server, serve: Serve) -> None:
    async with serve(extension_server) as client:
        hidden = await ask_extension(client, "thing/secret", {"id": "a"}, "b")
        absent = await ask_extension(client, "thing/absent", {"id": "a"}, "b")
    assert (hidden.status, hidden.error()["code"]) == (absent.status, absent.error()["code"])
    async with serve(extension_server, http=HttpOptions(principal=lambda scope: Principal("ada"))) as client:
        seen = await ask_extension(client, "thing/secret", {"id": "a"}, "b")
        assert seen.error()["code"] == -32020
        seen = await ask_extension(client, "thing/secret", {"id": "a"}, "a")
        assert seen.json()["result"]["id"] == "a"


@each_row(
    ("problem", "status", "code", "message"),
    [
        (ProtocolError(-1, "not you"), 200, -1, "not you"),
        (BusyError("full"), 503, -32603, "full"),
        (KeyError("secret"), 200, -32603, "Internal error (ref "),
    ],
)
async def test_middleware_refusal_opens_no_session(
    problem: Exception, status: int, code: int, message: str, serve: Serve
) -> None:
    server = make_server()

    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise problem

    async with serve(server) as client:
        answer = await client.post(initialize()).whole()
        assert (answer.status, answer.error()["code"]) == (status, code)
        assert answer.error()["message"].startswith(message)
        assert "mcp-session-id" not in answer.headers
