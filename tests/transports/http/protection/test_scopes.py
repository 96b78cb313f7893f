"""Scopes of components, security schemes of tools, and requests without a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcpkit import Access, CacheHint, Context, RegistrationError, Server, ServerOptions, tool
from tests.helpers.raw_client import Answer, Client, Serve
from tests.helpers.servers.protected import Lenient, bearer, listening, session_of

pytestmark = pytest.mark.anyio

DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'


READER, WRITER, ADMIN = ("ada", ["notes:read"]), ("ada", ["notes:write"]), ("ada", ["notes:admin", "mail"])


def challenge_for(scopes: str, needs: str) -> str:
    description = f"this request requires scopes that the access token does not have: {needs}"
    texts = f'error="insufficient_scope", error_description="{description}"'
    return f'Bearer {texts}, {DOCUMENT}, scope="{scopes}"'


REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool": ("tools/call", {"name": "add", "arguments": {}}, "notes:write"),
    "template": ("resources/read", {"uri": "notes://1"}, "notes:read"),
    "prompt": ("prompts/get", {"name": "send", "arguments": {"text": "x"}}, "notes:read mail"),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
        "notes:read mail",
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_missing_scope_is_challenged_before_call(
    make: Callable[..., Server], serve: Serve, done: list[str], name: str
) -> None:
    method, params, needed = REQUESTS[name]
    async with serve(make(options=ServerOptions(capabilities=["completions"]))) as client:
        needs = needed.replace(" ", ", ")
        answer = await client.ask(method, params, headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge_for(needed, needs))
        assert answer.json()["error"]["code"] == -32600
        session = await session_of(client, bearer("ada"))
        answer = await session.ask(method, params, headers=bearer("ada")).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge_for(needed, needs))
        assert done == []
        assert (await client.ask(method, params, headers=bearer(*ADMIN)).whole()).status == 200
        assert (await session.ask(method, params, headers=bearer(*ADMIN)).whole()).status == 200


async def test_require_challenges_for_all_scopes_at_once(client: Client, done: list[str]) -> None:
    for token in (bearer(*WRITER), bearer("ada", ["notes:write", "mail"])):
        answer = await client.call_tool("add", {"pinned": True}, headers=token).whole()
        texts = challenge_for("notes:admin mail", "notes:admin, mail")
        assert (answer.status, answer.headers["www-authenticate"]) == (403, texts)
    assert done == []
    assert (await client.call_tool("add", {"pinned": True}, headers=bearer(*ADMIN)).whole()).status == 200
    assert done == ["added"]


@pytest.mark.parametrize("arguments", [{"progress": True}, {"once": True}])
async def test_require_after_output_is_error_result(
    client: Client, done: list[str], arguments: dict[str, bool]
) -> None:
    session = await session_of(client, bearer(*WRITER))
    for answer in (
        client.call_tool(
            "add", {"pinned": True, **arguments}, headers=bearer(*WRITER), meta={"progressToken": 1}
        ),
        session.call_tool("add", {"pinned": True, **arguments}, headers=bearer(*WRITER)),
    ):
        result = (await answer.response())["result"]
        assert answer.status == 200
        assert result["isError"]
        assert result["_meta"]["mcp/www_authenticate"] == [
            'Bearer error="insufficient_scope", scope="notes:admin mail"'
        ]
        assert "notes:admin" in result["content"][0]["text"]
    assert "added" not in done


def test_unknown_scope_of_component_is_refused(make: Callable[..., Server]) -> None:
    server = make()
    with pytest.raises(RegistrationError, match="did you mean 'notes:write'"):
        server.tool(scopes="notes:writ", name="w")(lambda: "x")

    @tool(name="far", access=Access(optional_scopes=["nothing"]))
    def far() -> str:
        return "x"

    with pytest.raises(RegistrationError, match="tool 'far' needs 'nothing'"):
        server.include(far)
    other = Server("other")
    other.tool(scopes="elsewhere", name="there")(lambda: "x")
    with pytest.raises(RegistrationError, match="tool 'there' needs 'elsewhere'"):
        server.include(other)
    for wrong in ("a b", ["x", 3], 3):
        with pytest.raises(RegistrationError, match="scopes="):
            server.tool(scopes=wrong, name="wrong")(lambda: "x")
    with pytest.raises(RegistrationError, match="which is not defined in the server"):
        server.tool(access=Access(scopes="nope"), name="wrong")(lambda: "x")


LOGIN = {"type": "oauth2", "scopes": ["notes:read"]}


@pytest.fixture
def schemes_server(make: Callable[..., Server]) -> Server:
    server = make()
    server.tool(lambda: "x", name="weather", access=Access(allow_anonymous=True))
    server.tool(lambda: "x", name="mixed", access=Access(allow_anonymous=True, optional_scopes="mail"))
    server.tool(lambda: "x", name="both", scopes=["mail", "notes:admin"], meta={"author": 1})
    server.tool(lambda: "x", name="own", meta={"securitySchemes": []})
    return server


def schemes(tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {tool["name"]: tool.get("_meta", {}).get("securitySchemes") for tool in tools}


SCHEMES = {
    "whoami": [LOGIN], "add": [{"type": "oauth2", "scopes": ["notes:write"]}],
    "weather": [{"type": "noauth"}], "mixed": [{"type": "noauth"}, {"type": "oauth2", "scopes": ["mail"]}],
    "both": [{"type": "oauth2", "scopes": ["mail", "notes:admin"]}], "own": [],
}  # fmt: skip


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_tool_has_security_schemes(schemes_server: Server, serve: Serve, revision: str) -> None:
    async with serve(schemes_server) as client:
        session = await client.initialize(revision)
        tools = (await session.ask("tools/list").response())["result"]["tools"]
        if revision < "2025-06-18":
            assert not any("_meta" in tool for tool in tools)
        else:
            assert schemes(tools) == SCHEMES


ANONYMOUS: dict[str, str] = {}


READER_TOKEN = bearer("ada", ["notes:read"])


OPEN, CLOSED = "news://today", "diary://today"


SCOPED = "notes://1"


@pytest.fixture
def open_server(make: Callable[..., Server]) -> Server:
    open_server = make(options=ServerOptions(capabilities=["completions"]))
    jobs = open_server.extension("com.example/jobs")
    jobs.topic("jobIds", "notifications/jobs")

    @open_server.tool(access=Access(allow_anonymous=True))
    async def hello(ctx: Context) -> str:
        """Say hello."""
        await ctx.report_progress(1, 2)
        return "hello"

    @open_server.resource(OPEN, access=Access(allow_anonymous=True))
    def news() -> str:
        """What anybody may read."""
        return "news"

    @open_server.resource(CLOSED)
    def diary() -> str:
        """What takes a token."""
        return "diary"

    @open_server.resource("secret://{id}", access=Access(visible=lambda who: who.subject == "eve"))
    def secret(id: str) -> str:
        """What is hidden."""
        return id

    @open_server.prompt(access=Access(allow_anonymous=True))
    def greet(whom: str = "") -> str:
        """Greet."""
        return f"Hello {whom}"

    @open_server.method("example/open", access=Access(allow_anonymous=True))
    def open_method() -> dict[str, Any]:
        return {}

    @open_server.method("example/closed")
    def closed_method() -> dict[str, Any]:
        return {}

    return open_server


USES: dict[str, tuple[str, dict[str, Any], int]] = {
    "open tool": ("tools/call", {"name": "hello"}, 200),
    "closed tool": ("tools/call", {"name": "whoami"}, 401),
    "scoped tool": ("tools/call", {"name": "add"}, 401),
    "open resource": ("resources/read", {"uri": OPEN}, 200),
    "closed resource": ("resources/read", {"uri": CLOSED}, 401),
    "scoped template": ("resources/read", {"uri": SCOPED}, 401),
    "open prompt": ("prompts/get", {"name": "greet"}, 200),
    "scoped prompt": ("prompts/get", {"name": "send", "arguments": {"text": "x"}}, 401),
    "open method": ("example/open", {}, 200),
    "closed method": ("example/closed", {}, 401),
    "scoped completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
        401,
    ),
    "tools": ("tools/list", {}, 200),
}


async def test_anonymous_request_needs_anonymous_component(open_server: Server, serve: Serve) -> None:
    async with serve(open_server) as client:
        for name, (method, params, status) in USES.items():
            answer = client.ask(method, params)
            answer.judge = Lenient(client)
            assert (await answer.whole()).status == status, name
            session = await session_of(client, ANONYMOUS)
            pending = session.ask(method, params)
            assert (await pending.whole()).status == status, name
            assert ("www-authenticate" in pending.headers) == (status == 401)


async def listen(client: Client, token: Mapping[str, str], *uris: str, **more: Any) -> Answer:
    expected = {"resourceSubscriptions": list(uris), "toolsListChanged": True, **more}
    return await client.ask("subscriptions/listen", {"notifications": expected}, headers=token).head()


def update_all(open_server: Server) -> None:
    for uri in (CLOSED, SCOPED, "secret://1", "nowhere://1", OPEN):
        open_server.notify_resource_updated(uri)


async def test_anonymous_subscription_needs_anonymous_resource(open_server: Server, serve: Serve) -> None:
    async with serve(open_server) as client:
        session = await session_of(client, ANONYMOUS)
        for uri in (CLOSED, SCOPED, "notes://{id}"):
            refused = await listen(client, ANONYMOUS, OPEN, uri)
            assert (refused.status, refused.headers["www-authenticate"].split()[0]) == (401, "Bearer")
            pending = await session.ask("resources/subscribe", {"uri": uri}).whole()
            assert (pending.status, "www-authenticate" in pending.headers) == (401, True)
        jobs = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"com.example/jobs": {}}}}
        params = {"notifications": {"jobIds": ["1"]}}
        answer = await client.ask("subscriptions/listen", params, meta=jobs).head()
        assert answer.status == 401
        answer = await client.ask("subscriptions/listen", params, meta=jobs, headers=READER_TOKEN).head()
        assert answer.status == 200


async def test_anonymous_listener_gets_lists_and_open_resources(open_server: Server, serve: Serve) -> None:
    # One does not exist and one is hidden: both subscriptions are accepted.
    uris = (OPEN, "nowhere://1", "secret://1")
    async with serve(open_server) as client:
        stream = await listen(client, ANONYMOUS, *uris)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        session = await session_of(client, ANONYMOUS)
        for uri in uris:
            assert (await session.ask("resources/subscribe", {"uri": uri}).whole()).status == 200
        received = await listening(session, ANONYMOUS)
        update_all(open_server)
        assert (await stream.message())["params"]["uri"] == OPEN
        assert (await received.message())["params"]["uri"] == OPEN
        open_server.catalog.tools.disable("hello")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        assert (await received.message())["method"] == "notifications/tools/list_changed"


CACHED_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools": ("tools/list", {}),
    "resource": ("resources/read", {"uri": "news://today"}),
    "included": ("resources/read", {"uri": "news://other/today"}),
}


def add_news(server: Server) -> None:
    server.resource("news://today", name="news", access=Access(allow_anonymous=True), cache=CacheHint(60))(
        lambda: "news"
    )


@pytest.fixture
def news_server(make: Callable[..., Server]) -> Server:
    server = make(options=ServerOptions(cache={"tools/list": CacheHint(60)}))
    add_news(server)
    other = Server("other")
    add_news(other)
    server.include(other, prefix="other")
    return server


async def cache_scope_of(client: Client, name: str, token: dict[str, str]) -> str:
    method, params = CACHED_REQUESTS[name]
    result = (await client.ask(method, params, headers=token).whole()).json()["result"]
    assert result["ttlMs"] == 60_000
    return str(result["cacheScope"])


@pytest.mark.parametrize("name", CACHED_REQUESTS)
async def test_cache_scope_is_public_for_anonymous_request_only(
    news_server: Server, serve: Serve, name: str
) -> None:
    ada, eve, anonymous = bearer("ada"), bearer("eve"), dict[str, str]()
    async with serve(news_server) as client:
        for token, scope in (
            (anonymous, "public"),
            (ada, "private"),
            (eve, "private"),
            (anonymous, "public"),
        ):
            assert await cache_scope_of(client, name, token) == scope
