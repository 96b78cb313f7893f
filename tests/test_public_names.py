"""Short examples of public names that no test of a package shows in a few lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mcpkit import (
    Annotations,
    Context,
    Icon,
    Principal,
    ProtocolError,
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
from mcpkit.client import (
    EnterpriseManaged,
    FileTokens,
    FormChoice,
    FormField,
    FormRequest,
    KeyringTokens,
    LocalCallbackServer,
    OutgoingMessage,
    TokenStorage,
    Transport,
    TransportListener,
    WorkloadIdentity,
)
from mcpkit.doctor import Finding
from mcpkit.elicitation import ListRootsRequest, SamplingRequest, UrlElicitRequest
from mcpkit.exceptions import (
    ElicitationError,
    InputRequired,
    InsufficientScopeError,
    LoginNeededError,
    ProcessEndedError,
    ProviderUnavailableError,
    TokenStorageError,
)
from mcpkit.extensions import BaseTool, CustomMethod, Inclusion
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
from mcpkit.storage import Memory, PubSub, Queue, Storage, Store
from mcpkit.testing import ProgressCallback, ServerRequestHandler, connect
from mcpkit.transports import Channel, Connection, OpenQuestions
from mcpkit.types import Email, Uri
from public_names import TABLE, table

pytestmark = pytest.mark.anyio


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
    server.include(CustomMethod(lambda number: {"doubled": number * 2}, "shop/double"))
    async with connect(server) as client:
        assert (await client.read_resource("shop://orders/7"))[0]["text"] == "order 7"
        assert (await client.request("shop/double", {"number": 4}))["doubled"] == 8


async def test_base_tool_is_listed_and_called(server: Server) -> None:
    class Echo(BaseTool):
        async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": arguments["text"]}]}

    server.include(Echo("echo", input_schema={"type": "object"}))
    async with connect(server) as client:
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


async def test_annotations_and_icons_are_listed(server: Server) -> None:
    hints: ToolAnnotations = {"readOnlyHint": True}
    icon: Icon = {"src": "https://example.com/icon.png"}
    audience: Annotations = {"audience": ["user"], "priority": 0.5}
    server.tool(lambda: "open", name="state", annotations=hints, icons=[icon])
    server.resource("shop://motto", name="motto", annotations=audience)(lambda: "Ever open")
    async with connect(server) as client:
        (tool,), (found,) = await client.list_tools(), await client.list_resources()
    assert (tool["annotations"], tool["icons"], found["annotations"]) == (hints, [icon], audience)


@pytest.mark.parametrize(
    ("hint", "right", "wrong"), [(Email, "a@example.com", "a"), (Uri, "shop://a", "a b")]
)
def test_email_and_uri_are_texts_of_a_format(hint: Any, right: str, wrong: str) -> None:
    assert TypeAdapter(hint).validate_python(right) == right
    with pytest.raises(ValidationError):
        TypeAdapter(hint).validate_python(wrong)


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


async def test_elicit_url_shows_a_page(server: Server) -> None:
    @server.tool
    async def pay(ctx: Context) -> str:
        (answer,) = await ctx.ask(UrlElicitRequest("Pay here", "https://pay.example.com"))
        return answer.action

    async with connect(server, request_handler=lambda method, params: {"action": "decline"}) as client:
        assert (await client.call_tool("pay")).text == "decline"


async def test_input_required_ends_a_round_and_must_pass(server: Server) -> None:
    ends = []

    @server.tool
    async def order(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Which size?", str)).value
        except InputRequired:
            ends.append("round")
            raise

    answer = {"action": "accept", "content": {"value": "L"}}
    async with connect(server, request_handler=lambda method, params: answer) as client:
        assert ((await client.call_tool("order")).text, ends) == ("L", ["round"])


async def test_form_fields_have_choices_and_types() -> None:
    properties = {"size": {"type": "string", "enum": ["S", "L"]}, "count": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["size"]}
    form = FormRequest({"message": "Which?", "requestedSchema": schema}, {"name": "shop"})
    size, count = form.fields
    assert isinstance(count, FormField)
    assert size.choices == (FormChoice("S", "S"), FormChoice("L", "L"))
    assert (count.kind, count.is_required) == ("integer", False)


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


@pytest.mark.parametrize(
    "error",
    [
        ElicitationError("decline"),
        LoginNeededError("github"),
        ProviderUnavailableError("github"),
        ProcessEndedError("signal 9"),
        InsufficientScopeError(["notes:write"], 'Bearer error="insufficient_scope"'),
    ],
)
async def test_tool_that_raises_a_public_error_ends_with_is_error(server: Server, error: Exception) -> None:
    @server.tool
    def order() -> str:
        raise error

    async with connect(server) as client:
        result = await client.call_tool("order")
    assert (result.is_error, result.text) == (True, str(error))


# Storage


async def test_memory_is_a_broker_store_and_queue() -> None:
    memory = Memory()
    broker: PubSub = memory
    store: Store = memory
    queue: Queue = memory
    shared: Storage = memory
    await broker.write("a", {"b": "c"}, ttl=60)
    assert await store.put("a", b"d", version=None, ttl=60) is not None
    assert (await shared.read("a"), await queue.get_job("a")) == ({"b": "c"}, None)


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


@pytest.mark.parametrize(
    ("verifier", "issuer"),
    [
        (lambda: Auth0("example.eu.auth0.com"), "https://example.eu.auth0.com/"),
        (
            lambda: Cognito("eu-west-1_abcdefghi", client_ids=["a"]),
            "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_abcdefghi",
        ),
        (
            lambda: Entra("0" * 8 + "-0000-0000-0000-" + "0" * 12, "1" * 8 + "-0000-0000-0000-" + "0" * 12),
            "https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/v2.0",
        ),
        (lambda: Keycloak("https://id.example.com/realms/a"), "https://id.example.com/realms/a"),
        (lambda: Okta("https://example.okta.com/oauth2/default"), "https://example.okta.com/oauth2/default"),
    ],
)
def test_preset_knows_its_issuer(verifier: Any, issuer: str) -> None:
    assert verifier().issuers == (issuer,)


async def test_token_storage_keeps_records_in_a_file_and_names_an_unreadable_one(tmp_path: Path) -> None:
    storage: TokenStorage = FileTokens(tmp_path / "tokens.json")
    await storage.save("a", {"b": 1})
    assert await storage.load("a") == {"b": 1}
    (tmp_path / "tokens.json").write_text("no json")
    with pytest.raises(TokenStorageError, match=r"tokens\.json"):
        await storage.load("a")


def test_loopback_refuses_a_path_without_slash() -> None:
    with pytest.raises(ValueError, match="path"):
        LocalCallbackServer(path="callback")


def test_keyring_tokens_need_the_keyring_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ImportError, match="keyring"):
        KeyringTokens("my program")


def test_finding_is_printed_with_cure() -> None:
    finding = Finding(
        "no-metadata", "error", ("VS Code",), "It has none.", "Serve it", "https://a.example.com"
    )
    assert "What to change: Serve it." in str(finding)


def test_enterprise_and_workload_grants_refuse_plain_http() -> None:
    with pytest.raises(ValueError, match="https"):
        WorkloadIdentity("reports", "jwt", issuer="http://id.example.com")
    with pytest.raises(ValueError, match="https"):
        EnterpriseManaged(
            "notes",
            issuer="http://a.example.com",
            idp="https://b.example.com",
            idp_client_id="c",
            identity="jwt",
            secret="s",
        )


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
    async def look(call: ToolCall, call_next: CallTool) -> Any:
        channel: Channel = call.channel
        assert isinstance(channel.questions, OpenQuestions)
        assert channel.principal == Principal("ada")
        return await call_next(call)

    async with connect(server, protocol_version="2025-11-25", principal=Principal("ada")) as client:
        assert (await client.call_tool("state")).text == "open"


async def test_transport_of_your_own_carries_messages() -> None:
    class Echo:
        async def open(self, receiver: TransportListener) -> None:
            self.receiver = receiver

        def send(self, message: OutgoingMessage) -> None: ...

        async def close(self) -> None: ...

    transport: Transport = Echo()
    await transport.open(None)  # type: ignore[arg-type]


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
