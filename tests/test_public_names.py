"""Short examples of public names that no test of a package shows in a few lines."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mcpkit import (
    Annotations,
    Context,
    Icon,
    Principal,
    ProtocolError,
    Resource,
    ResourceTemplate,
    Server,
    ToolAnnotations,
    prompt,
    resource,
)
from mcpkit.auth import (
    Auth0,
    Cognito,
    Entra,
    Keycloak,
    Okta,
    ProtectedResource,
    TokenVerifier,
    VerifierContext,
)
from mcpkit.client import KeyringTokens, LocalCallbackServer
from mcpkit.elicitation import ListRootsRequest, SamplingRequest
from mcpkit.extensions import CustomMethod, Inclusion
from mcpkit.middleware import (
    CallTool,
    DetachedCall,
    RateLimit,
    RateLimitError,
    RequestTiming,
    TaskMeter,
    Timing,
    ToolCall,
)
from mcpkit.testing import ProgressCallback, ServerRequestHandler, connect
from mcpkit.transports import Channel, Connection, OpenQuestions
from public_names import TABLE, table


@pytest.fixture
def server() -> Server:
    return Server("shop")


def test_table_of_tests_has_every_public_name() -> None:
    text, missing = table()
    assert missing == [], "show each of them in a test of at most 15 lines"
    assert TABLE.read_text() == text, "make house writes it"


# Definitions


async def test_prompt_free_of_a_server_is_included(server: Server) -> None:
    @prompt
    def greet(name: str) -> str:
        return f"Say hello to {name}"

    server.include(greet)
    async with connect(server) as client:
        assert [each["name"] for each in await client.list_prompts()] == ["greet"]


async def test_resource_free_of_a_server_is_included_until_removed(server: Server) -> None:
    @resource("shop://motto")
    def motto() -> str:
        return "Ever open"

    included: Inclusion = server.include(motto)
    async with connect(server) as client:
        assert (await client.read_resource("shop://motto"))[0]["text"] == "Ever open"
        included.remove()
        assert await client.list_resources() == []


async def test_objects_of_extensions_are_included(server: Server) -> None:
    server.include(ResourceTemplate(lambda id: f"order {id}", "shop://orders/{id}", name="order"))
    server.include(Resource(lambda: "Ever open", "shop://motto", name="motto"))
    server.include(CustomMethod(lambda number: {"doubled": number * 2}, "shop/double"))
    async with connect(server) as client:
        assert (await client.read_resource("shop://orders/7"))[0]["text"] == "order 7"
        assert (await client.read_resource("shop://motto"))[0]["text"] == "Ever open"
        assert (await client.request("shop/double", {"number": 4}))["doubled"] == 8


async def test_annotations_and_icons_are_listed(server: Server) -> None:
    hints: ToolAnnotations = {"readOnlyHint": True}
    icon: Icon = {"src": "https://example.com/icon.png"}
    audience: Annotations = {"audience": ["user"], "priority": 0.5}
    server.tool(lambda: "open", name="state", annotations=hints, icons=[icon])
    server.resource("shop://motto", name="motto", annotations=audience)(lambda: "Ever open")
    async with connect(server) as client:
        (tool,), (found,) = await client.list_tools(), await client.list_resources()
    assert (tool["annotations"], tool["icons"], found["annotations"]) == (hints, [icon], audience)


# Requests to the client


async def test_ask_sends_several_requests_in_one_round(server: Server) -> None:
    @server.tool
    async def plan(ctx: Context) -> str:
        words, roots = await ctx.ask(SamplingRequest("A name?", max_tokens=9), ListRootsRequest())
        return f"{words.content[0]['text']} in {len(roots)} roots"

    sampled = {"role": "assistant", "content": {"type": "text", "text": "Ada"}, "model": "m"}
    handler: ServerRequestHandler = lambda method, params: sampled if "sampling" in method else {"roots": []}  # noqa: E731
    async with connect(server, request_handler=handler) as client:
        assert (await client.call_tool("plan")).text == "Ada in 0 roots"


async def test_progress_callback_receives_progress(server: Server) -> None:
    @server.tool
    async def bake(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return "baked"

    received: list[Any] = []
    callback: ProgressCallback = lambda *progress: received.append(progress)  # noqa: E731
    async with connect(server) as client:
        await client.call_tool("bake", progress=callback)
    assert received == [(1, 2, "half")]


# Errors


# Storage


# Authorization


async def test_token_verifier_learns_its_site() -> None:
    class Verifier(TokenVerifier):
        def bind(self, site: ProtectedResource) -> None:
            self.url = site.public_url

        async def verify(self, token: str, audience: str) -> Any: ...

        async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
            return f"{context.name} at {provider}"

    verifier = Verifier()
    Server("shop", auth=verifier).asgi(public_url="https://shop.example.com/mcp")
    assert verifier.url == "https://shop.example.com/mcp"


TENANT, POOL = "00000000-0000-0000-0000-000000000000", "eu-west-1_abcdefghi"


@pytest.mark.parametrize(("verifier", "issuer"), [
    (lambda: Auth0("example.eu.auth0.com"), "https://example.eu.auth0.com/"),
    (lambda: Cognito(POOL, client_ids=["a"]), f"https://cognito-idp.eu-west-1.amazonaws.com/{POOL}"),
    (lambda: Entra(TENANT, TENANT), f"https://login.microsoftonline.com/{TENANT}/v2.0"),
    (lambda: Keycloak("https://id.example.com/realms/a"), "https://id.example.com/realms/a"),
    (lambda: Okta("https://example.okta.com/oauth2/default"), "https://example.okta.com/oauth2/default"),
])  # fmt: skip
def test_preset_knows_its_issuer(verifier: Any, issuer: str) -> None:
    assert verifier().issuers == (issuer,)


def test_loopback_refuses_a_path_without_slash() -> None:
    with pytest.raises(ValueError, match="path"):
        LocalCallbackServer(path="callback")


def test_keyring_tokens_need_the_keyring_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ImportError, match="keyring"):
        KeyringTokens("my program")


# Middleware and transports


async def test_timing_reports_each_request(server: Server) -> None:
    reports: list[RequestTiming] = []
    server.middleware(Timing(reports.append))
    server.tool(lambda: "open", name="state")
    async with connect(server) as client:
        await client.call_tool("state")
    assert [each.outcome for each in reports if each.request.method == "tools/call"] == ["ok"]


async def test_rate_limit_error_names_the_seconds_to_wait(server: Server) -> None:
    server.middleware(RateLimit(1, burst=1))
    server.tool(lambda: "open", name="state")
    async with connect(server) as client:
        await client.call_tool("state")
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("state")
    assert caught.value.data == RateLimitError(1, 1).data == {"retryAfterSeconds": 1}


async def test_task_meter_receives_runs() -> None:
    class Runs(TaskMeter):
        def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
            assert (tool, outcome, attempt) == ("bake", "completed", 1)

    Runs().run_ended("bake", "completed", 1, 0.5)


async def test_connection_answers_one_line_with_one_line(server: Server) -> None:
    sent: list[bytes] = []
    async with server.running():
        connection = Connection(server, sent.append)
        connection.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        await connection.drain()
        await connection.aclose()
    assert sent == [b'{"jsonrpc":"2.0","id":1,"result":{}}']


async def test_channel_of_a_call_has_principal_and_open_questions(server: Server) -> None:
    server.tool(lambda: "open", name="state")

    @server.middleware("tools/call")
    async def observe(call: ToolCall, call_next: CallTool) -> Any:
        channel: Channel = call.channel
        assert isinstance(channel.questions, OpenQuestions)
        assert channel.principal == Principal("ada")
        return await call_next(call)

    async with connect(server, protocol_version="2025-11-25", principal=Principal("ada")) as client:
        assert (await client.call_tool("state")).text == "open"


async def test_detached_call_continues_after_its_response() -> None:
    server = Server("s")
    detached: list[DetachedCall] = []

    @server.middleware("tools/call")
    async def detach(call: ToolCall, call_next: CallTool) -> dict[str, Any]:
        detached.append(call.detach(call_next, call.channel))
        return {"content": []}

    server.tool(lambda: 3, name="three")
    async with server.running(), connect(server) as client:
        assert (await client.call_tool("three")).content == []
        result: Any = await detached[0].result()
    assert result["content"] == [{"type": "text", "text": "3"}]
