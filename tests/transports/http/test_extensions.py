"""Extensions, middleware, request headers and reports over HTTP."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Access, Context, HttpOptions, Principal, ProtocolError, Server
from mcpkit.common.errors import BusyError
from mcpkit.extensions import ExtensionResult
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.storage import Memory
from tests.helpers.official import RESULT_OF, official
from tests.helpers.pipe import HANDSHAKE
from tests.helpers.raw_client import Answer, Client, Judge, Serve, initialize

pytestmark = pytest.mark.anyio

ID = "com.example/thing"


CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


KNOWS = {CAPABILITIES: {"extensions": {ID: {}}}}


class ExtendedJudge(Judge):
    def check(self, message: Any) -> Any:
        result = message.get("result", {})
        is_own = "result" in message and (
            self._methods.get(message.get("id", "")) not in RESULT_OF
            or result.get("resultType", "complete") != "complete"
        )
        if is_own:
            schema = official(self._folder, self.revision)
            assert message.keys() == {"jsonrpc", "id", "result"}
            schema.check("Result", {name: result[name] for name in ("_meta", "resultType") if name in result})
            return message
        if message.get("method", "").startswith("notifications/thing"):
            assert message.keys() <= {"jsonrpc", "method", "params"}
            return message
        return super().check(message)


def ask_extension(
    client: Client, folder: Path, method: str, params: dict[str, Any], **headers: Any
) -> Answer:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        **KNOWS,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta} | params}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    standard = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    return client.post(message, standard | named, judge=ExtendedJudge(folder, "2026-07-28"))


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

    @thing.method("thing/watch", protocol_versions=[*SESSION_VERSIONS, "2026-07-28"])
    async def watch(ctx: Context) -> dict[str, int]:
        await thing.notify(ctx, "notifications/thing/seen", {"count": 1})
        return {"count": 1}

    @thing.method("thing/secret", name_param="id", access=Access(visible=lambda who: who.id == "ada"))
    async def secret(id: str) -> dict[str, str]:
        return {"id": id}

    @server.method("thing/free")
    async def free(count: int = 1) -> dict[str, int]:
        return {"count": count}

    @server.tool
    async def queue(ctx: Context) -> int | ExtensionResult:
        return thing.result(ctx, "ticket", {"place": 7}) if thing.is_supported(ctx) else 1

    return server


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("thing/other", {}, 404, -32601), ("thing/secret", {"id": "a"}, 404, -32601),
        ("thing/get", {}, 400, -32602), ("thing/get", {"id": 7}, 400, -32602),
        ("thing/get", {"id": "unknown"}, 200, -32602), ("thing/get", {"id": "broken"}, 200, -32603),
        ("thing/free", {"count": "many"}, 400, -32602),
    ],
)  # fmt: skip
async def test_extension_errors_have_protocol_statuses(
    extension_server: Server,
    serve: Serve,
    schema_dir: Path,
    method: str,
    params: dict[str, Any],
    status: int,
    code: int,
) -> None:
    name = params.get("id") if method == "thing/get" and params.get("id") != 7 else None
    async with serve(extension_server) as client:
        answer = await ask_extension(client, schema_dir, method, params, mcp_name=name).whole()
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("name", [None, "=?base64?" + b64encode(b"b").decode() + "?="])
async def test_extension_name_header_must_match(
    extension_server: Server, serve: Serve, schema_dir: Path, name: str | None
) -> None:
    async with serve(extension_server) as client:
        answer = await ask_extension(client, schema_dir, "thing/get", {"id": "a"}, mcp_name=name).whole()
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)


async def test_hidden_method_is_not_disclosed_by_headers(
    extension_server: Server, serve: Serve, schema_dir: Path
) -> None:
    async with serve(extension_server) as client:
        hidden = await ask_extension(client, schema_dir, "thing/secret", {"id": "a"}, mcp_name="b").whole()
        absent = await ask_extension(client, schema_dir, "thing/absent", {"id": "a"}, mcp_name="b").whole()
    assert (hidden.status, hidden.json()["error"]["code"]) == (absent.status, absent.json()["error"]["code"])
    async with serve(extension_server, http=HttpOptions(principal=lambda scope: Principal("ada"))) as client:
        seen = await ask_extension(client, schema_dir, "thing/secret", {"id": "a"}, mcp_name="b").whole()
        assert seen.json()["error"]["code"] == -32020
        seen = await ask_extension(client, schema_dir, "thing/secret", {"id": "a"}, mcp_name="a").whole()
        assert seen.json()["result"]["id"] == "a"


SECRET = "a secret of sixteen bytes and more"


def make_wrapped_server(broker: Memory | None = None) -> Server:
    server = Server("wrapped", secret_key=SECRET, storage=broker)

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.info("quietly")
        await ctx.error("loudly")
        return "done"

    @server.resource("wrapped://{name}")
    async def named(name: str) -> str:
        return name

    return server


@pytest.mark.parametrize(
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
    server = make_wrapped_server()

    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise problem

    async with serve(server) as client:
        answer = await client.post(initialize("2025-11-25")).whole()
        error = answer.json()["error"]
        assert (answer.status, error["code"]) == (status, code)
        assert error["message"].startswith(message)
        assert "mcp-session-id" not in answer.headers


SESSION_VERSIONS = [revision for revision in HANDSHAKE if revision != "2024-11-05"]
