"""Extensions over HTTP: statuses, the header `Mcp-Name`, and result types, in both eras."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, ExtensionResult, Principal, ProtocolError, Server
from tests.helpers.asgi_answer import Answer, Judge
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.official import RESULT_OF, official

pytestmark = pytest.mark.anyio

ID = "com.example/thing"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
KNOWS = {CAPABILITIES: {"extensions": {ID: {}}}}
HANDSHAKE = ["2025-03-26", "2025-06-18", "2025-11-25"]


class ExtendedJudge(Judge):
    """Holds to the schema what is the core protocol's; the rest must be a result or a notification."""

    def check(self, message: Any) -> Any:
        """Raise for a message that is not as it must be; return it else."""
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


def ask(client: Client, folder: Path, method: str, params: dict[str, Any], **headers: Any) -> Answer:
    """Begin a stateless request of a client that knows the extension."""
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
def extended() -> Server:
    server = Server("s")
    thing = server.extension(ID, {"max": 3})

    @thing.method("thing/get", named_by="id")
    async def get(id: str) -> dict[str, str]:
        if id == "unknown":
            raise ProtocolError(-32602, "There is no such thing")
        if id == "broken":
            raise KeyError(id)
        return {"id": id}

    @thing.method("thing/watch", revisions=[*HANDSHAKE, "2026-07-28"])
    async def watch(ctx: Context) -> dict[str, int]:
        await ctx.notify("notifications/thing/seen", {"count": 1})
        return {"count": 1}

    @thing.method("thing/secret", named_by="id", visible=lambda who: who.id == "ada")
    async def secret(id: str) -> dict[str, str]:
        return {"id": id}

    @server.method("thing/free")
    async def free(count: int = 1) -> dict[str, int]:
        return {"count": count}

    @server.tool
    async def queue(ctx: Context) -> int | ExtensionResult:
        return thing.result(ctx, "ticket", {"place": 7}) if thing.is_supported(ctx) else 1

    return server


async def test_it_is_advertised(extended: Server, serve: Serve) -> None:
    async with serve(extended) as client:
        result = (await client.ask("server/discover").response())["result"]
        session = await client.initialize()
    assert result["capabilities"]["extensions"] == {ID: {"max": 3}}
    assert "extensions" not in session.result["capabilities"]


async def test_a_method_of_it_is_served(extended: Server, serve: Serve, schema_dir: Path) -> None:
    async with serve(extended) as client:
        answer = await ask(client, schema_dir, "thing/get", {"id": "a"}, mcp_name="a").whole()
        assert answer.status == 200
        result = answer.json()["result"]
        assert (result["resultType"], result["id"]) == ("complete", "a")


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("thing/other", {}, 404, -32601),
        ("thing/secret", {"id": "a"}, 404, -32601),
        ("thing/get", {}, 400, -32602),
        ("thing/get", {"id": 7}, 400, -32602),
        ("thing/get", {"id": "unknown"}, 200, -32602),
        ("thing/get", {"id": "broken"}, 200, -32603),
        ("thing/free", {"count": "many"}, 400, -32602),
    ],
)
async def test_errors_have_the_statuses_of_the_protocol(
    extended: Server,
    serve: Serve,
    schema_dir: Path,
    method: str,
    params: dict[str, Any],
    status: int,
    code: int,
) -> None:
    name = params.get("id") if method == "thing/get" and params.get("id") != 7 else None
    async with serve(extended) as client:
        answer = await ask(client, schema_dir, method, params, mcp_name=name).whole()
    assert (answer.status, answer.json()["error"]["code"]) == (status, code)


async def test_a_client_that_has_not_declared_it_is_told_so(extended: Server, serve: Serve) -> None:
    async with serve(extended) as client:
        answer = await client.ask("thing/watch").whole()
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (400, -32021)
    assert error["data"] == {"requiredCapabilities": {"extensions": {ID: {}}}}


@pytest.mark.parametrize("name", [None, "b", "A", "=?base64?" + b64encode(b"b").decode() + "?="])
async def test_a_name_in_the_headers_must_be_that_of_the_params(
    extended: Server, serve: Serve, schema_dir: Path, name: str | None
) -> None:
    async with serve(extended) as client:
        answer = await ask(client, schema_dir, "thing/get", {"id": "a"}, mcp_name=name).whole()
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)


async def test_a_name_may_be_encoded(extended: Server, serve: Serve, schema_dir: Path) -> None:
    encoded = "=?base64?" + b64encode("ä".encode()).decode() + "?="
    async with serve(extended) as client:
        answer = await ask(client, schema_dir, "thing/get", {"id": "ä"}, mcp_name=encoded).whole()
    assert answer.json()["result"]["id"] == "ä"


async def test_headers_tell_nothing_of_a_method_that_one_may_not_see(
    extended: Server, serve: Serve, schema_dir: Path
) -> None:
    async with serve(extended) as client:
        hidden = await ask(client, schema_dir, "thing/secret", {"id": "a"}, mcp_name="b").whole()
        absent = await ask(client, schema_dir, "thing/absent", {"id": "a"}, mcp_name="b").whole()
    assert (hidden.status, hidden.json()["error"]["code"]) == (absent.status, absent.json()["error"]["code"])
    async with serve(extended, principal=lambda scope: Principal("ada")) as client:
        seen = await ask(client, schema_dir, "thing/secret", {"id": "a"}, mcp_name="b").whole()
        assert seen.json()["error"]["code"] == -32020
        seen = await ask(client, schema_dir, "thing/secret", {"id": "a"}, mcp_name="a").whole()
        assert seen.json()["result"]["id"] == "a"


async def test_a_notification_of_its_own_makes_the_answer_a_stream(
    extended: Server, serve: Serve, schema_dir: Path
) -> None:
    async with serve(extended) as client:
        answer = ask(client, schema_dir, "thing/watch", {})
        told = await answer.message()
        assert told == {"jsonrpc": "2.0", "method": "notifications/thing/seen", "params": {"count": 1}}
        assert (await answer.message())["result"]["count"] == 1
        alone = ask(client, schema_dir, "thing/watch", {}, accept="application/json")
        assert (await alone.whole()).json()["result"]["count"] == 1


async def test_a_result_of_its_own_type_is_for_those_who_know_it(
    extended: Server, serve: Serve, schema_dir: Path
) -> None:
    async with serve(extended) as client:
        known = await ask(
            client, schema_dir, "tools/call", {"name": "queue", "arguments": {}}, mcp_name="queue"
        ).whole()
        assert known.json()["result"] == {
            "resultType": "ticket",
            "place": 7,
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}},
        }
        plain = (await client.call("queue").response())["result"]
        assert (plain["resultType"], plain["structuredContent"]) == ("complete", 1)


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_sessions(extended: Server, serve: Serve, schema_dir: Path, revision: str) -> None:
    async with serve(extended) as client:
        session = await client.initialize(revision, capabilities={"extensions": {ID: {}}})
        session.judge = ExtendedJudge(schema_dir, revision)
        assert (await session.ask("thing/free", {"count": 2}).response())["result"] == {"count": 2}
        unknown = await session.ask("thing/get", {"id": "a"}).whole()
        assert (unknown.status, unknown.json()["error"]["code"]) == (200, -32601)
        malformed = await session.ask("thing/free", {"count": "many"}).whole()
        assert (malformed.status, malformed.json()["error"]["code"]) == (200, -32602)
        watched = session.ask("thing/watch")
        assert (await watched.message())["method"] == "notifications/thing/seen"
        assert (await watched.message())["result"] == {"count": 1}
        assert await session.text("queue") == "1"


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_without_sessions_nobody_has_declared_anything(
    extended: Server, serve: Serve, schema_dir: Path, revision: str
) -> None:
    async with serve(extended, stateless=True) as client:
        guest = await client.initialize(revision, capabilities={"extensions": {ID: {}}})
        guest.judge = ExtendedJudge(schema_dir, revision)
        assert (await guest.ask("thing/free").response())["result"] == {"count": 1}
        refused = await guest.ask("thing/watch").whole()
        assert (refused.status, refused.json()["error"]["code"]) == (200, -32602)
        assert ID in refused.json()["error"]["message"]
        assert await guest.text("queue") == "1"
