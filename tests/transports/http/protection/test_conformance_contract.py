"""The contract of the conformance suite's coming scenario on scope challenges (its issue #480), over real HTTP.

Two opaque tokens are given, one with little and one with all. With the first, each operation is 403 with one challenge
that names all of its scopes; with the second it is done. Who has neither is served as ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest

from mcpkit import Context, Server
from mcpkit.auth import Grant, InvalidTokenError, TokenVerifier
from mcpkit.state.principal import user
from tests.helpers.asgi_client import STATELESS, stateless_meta
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.slow

ISSUER = "https://id.example.com"
LOW, FULL = "mcp-conformance-scope-low", "mcp-conformance-scope-full"
BASE = "mcp:conformance:"


class Operation(NamedTuple):
    """What is asked for, what it needs, and what of the result says that it was done."""

    method: str
    params: dict[str, Any]
    scopes: tuple[str, str]
    done: Callable[[dict[str, Any]], bool]


OPERATIONS = {
    "tool": Operation(
        "tools/call",
        {"name": "test_simple_text"},
        (f"{BASE}tools:call", f"{BASE}tools:test_simple_text"),
        lambda result: result["content"][0]["type"] == "text",
    ),
    "static resource": Operation(
        "resources/read",
        {"uri": "test://static-text"},
        (f"{BASE}resources:read", f"{BASE}resources:static"),
        lambda result: result["contents"][0]["uri"] == "test://static-text",
    ),
    "template": Operation(
        "resources/read",
        {"uri": "test://template/123/data"},
        (f"{BASE}resources:read", f"{BASE}resources:template:123"),
        lambda result: "123" in result["contents"][0]["text"],
    ),
    "prompt": Operation(
        "prompts/get",
        {"name": "test_simple_prompt"},
        (f"{BASE}prompts:get", f"{BASE}prompts:test_simple_prompt"),
        lambda result: result["messages"][0]["role"] == "user",
    ),
}
TOKENS = {
    LOW: {f"{BASE}baseline"},
    FULL: {f"{BASE}baseline", *(scope for each in OPERATIONS.values() for scope in each.scopes)},
}


class Fixed(TokenVerifier):
    """Knows the two tokens."""

    issuers = (ISSUER,)

    async def verify(self, token: str, audience: str) -> Grant:
        """Return what one of them grants."""
        if token not in TOKENS:
            raise InvalidTokenError("neither of the two tokens")
        return Grant(user(ISSUER, "ada", TOKENS[token]))


def declared() -> Server:
    """A server whose components say what they need."""
    server = Server("everything", secret="a secret of some length", auth=Fixed())

    @server.tool(scopes=OPERATIONS["tool"].scopes)
    def test_simple_text() -> str:
        """Say a sentence."""
        return "A sentence."

    @server.resource("test://static-text", scopes=OPERATIONS["static resource"].scopes)
    def static_text() -> str:
        """Hold a text."""
        return "A text."

    @server.resource("test://template/{id}/data")
    def data(id: str, ctx: Context) -> str:
        """Hold the data of one id, for whoever may read that one."""
        ctx.require(f"{BASE}resources:read", f"{BASE}resources:template:{id}")
        return f"The data of {id}."

    @server.prompt(scopes=OPERATIONS["prompt"].scopes)
    def test_simple_prompt() -> str:
        """Ask a question."""
        return "What is asked?"

    return server


def anonymous() -> Server:
    """A server that serves whoever says nothing, and asks more of whoever has said who they are."""
    server = Server("everything", secret="a secret of some length", auth=Fixed())

    def need(ctx: Context, name: str) -> None:
        if ctx.principal.id is not None:
            ctx.require(*OPERATIONS[name].scopes)

    @server.tool(anonymous=True)
    def test_simple_text(ctx: Context) -> str:
        """Say a sentence."""
        need(ctx, "tool")
        return "A sentence."

    @server.resource("test://static-text", anonymous=True)
    def static_text(ctx: Context) -> str:
        """Hold a text."""
        need(ctx, "static resource")
        return "A text."

    @server.resource("test://template/{id}/data", anonymous=True)
    def data(id: str, ctx: Context) -> str:
        """Hold the data of one id."""
        need(ctx, "template")
        return f"The data of {id}."

    @server.prompt(anonymous=True)
    def test_simple_prompt(ctx: Context) -> str:
        """Ask a question."""
        need(ctx, "prompt")
        return "What is asked?"

    return server


class Wire:
    """Whoever talks to the server, in one era.

    Args:
        url: The endpoint.
        is_stateless: Whether there is no session.
    """

    def __init__(self, url: str, is_stateless: bool) -> None:
        self.url = url
        self.is_stateless = is_stateless

    def ask(self, operation: Operation, token: str | None) -> httpx2.Response:
        """Send one operation, in a session of its own where there are sessions."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        headers["Accept"] = "application/json, text/event-stream"
        params = operation.params
        if self.is_stateless:
            headers |= {
                "MCP-Protocol-Version": STATELESS[-1],
                "Mcp-Method": operation.method,
                "Mcp-Name": params.get("name") or params["uri"],
            }
            params = {**params, "_meta": stateless_meta()}
        else:
            opening = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }
            opened = self.post("initialize", opening, headers)
            headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        return self.post(operation.method, params, headers)

    def post(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx2.post(self.url, json=message, headers=headers)


@pytest.fixture(params=["handshake", "stateless"])
def era(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "stateless")


@pytest.fixture(params=[declared, anonymous], ids=["declared", "anonymous"])
def wire(request: pytest.FixtureRequest, era: bool) -> Iterator[Wire]:
    with in_thread_at(lambda origin: request.param().asgi(public_url=f"{origin}/mcp")) as origin:
        yield Wire(f"{origin}/mcp", era)


@pytest.mark.parametrize("name", OPERATIONS)
def test_little_is_challenged_once_for_all_and_all_is_served(wire: Wire, name: str) -> None:
    operation = OPERATIONS[name]
    refused = wire.ask(operation, LOW)
    assert refused.status_code == 403
    scheme, _, rest = refused.headers["www-authenticate"].partition(" ")
    said = dict(re.findall(r'(\w+)="([^"]*)"', rest))
    assert (scheme, said["error"]) == ("Bearer", "insufficient_scope")
    assert set(operation.scopes) <= set(said["scope"].split())

    document = httpx2.get(said["resource_metadata"]).json()
    assert urlsplit(said["resource_metadata"]).netloc == urlsplit(wire.url).netloc
    assert (document["resource"], document["authorization_servers"]) == (wire.url, [ISSUER])

    served = wire.ask(operation, FULL)
    assert served.status_code == 200
    assert operation.done(served.json()["result"])


@pytest.mark.parametrize("name", OPERATIONS)
def test_who_says_nothing_is_served_as_ever(era: bool, name: str) -> None:
    with in_thread_at(lambda origin: anonymous().asgi(public_url=f"{origin}/mcp")) as origin:
        wire = Wire(f"{origin}/mcp", era)
        served = wire.ask(OPERATIONS[name], None)
        assert served.status_code == 200
        assert OPERATIONS[name].done(served.json()["result"])
        assert wire.post("ping", {}, {"Authorization": "Bearer another"}).status_code == 401
