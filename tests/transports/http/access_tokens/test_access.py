"""Scopes of components, requests without a token, and owners of sessions, questions and request states."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcpkit import Access, CacheHint, Context, HttpOptions, RegistrationError, Server, ServerOptions, tool
from mcpkit.auth import AuditEvent
from mcpkit.storage import Memory
from tests.helpers.engines import make_engine
from tests.helpers.raw_client import DECLARED, Answer, Client, Serve, accept, text_of
from tests.helpers.servers.protected import Lenient, bearer, listening, session_of, status_of
from tests.helpers.tables import each_row

ADA, REFRESHED, WIDER = bearer("ada"), bearer("ada/2"), bearer("ada/3", ["notes:write"])
OTHER_CLIENT, EVE = bearer("ada~other"), bearer("eve")
ANONYMOUS: dict[str, str] = {}


@pytest.fixture
def make_open(make: Callable[..., Server]) -> Callable[..., Server]:
    """Factory of servers with a tool that needs no token, and one that asks a question."""

    def make_server(**options: Any) -> Server:
        server = make(**options)
        server.tool(lambda: "open", name="open", access=Access(allow_anonymous=True))

        @server.tool
        async def name(ctx: Context) -> str:
            return (await ctx.elicit("Who?", str)).value

        return server

    return make_server


async def test_session_belongs_to_principal_and_client(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await session_of(client, ADA)
        for token in (ADA, REFRESHED, WIDER):
            assert await status_of(session, token) == 200
        for token in (EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
            ended = client.open("DELETE", headers=session.headers(token))
            assert (await ended.whole()).status == 404
        assert await status_of(session, ADA) == 200
        called = await session.call_tool("add", headers=WIDER).whole()
        assert text_of(called.json()) == "added"


async def test_question_is_answered_by_its_principal(make_open: Callable[..., Server], serve: Serve) -> None:
    async with serve(make_open()) as client:
        session = await session_of(client, ADA, capabilities={"elicitation": {"form": {}}})
        call = session.call_tool("name", headers=ADA)
        answer = {"jsonrpc": "2.0", "id": (await call.message())["id"], "result": accept("Eve")}
        for token in (EVE, OTHER_CLIENT):
            assert (await session.post(answer, token).whole()).status == 404
            own = await session_of(client, token, capabilities={"elicitation": {"form": {}}})
            assert (await own.post(answer, token).whole()).status == 400
        assert (await session.post(answer | {"result": accept("Ada")}, REFRESHED).whole()).status == 202
        assert text_of(await call.response()) == "Ada"


async def test_request_state_belongs_to_principal_and_client(make_open, serve) -> None:
    async with serve(make_open()) as client:

        async def call(token: dict[str, str], **more: Any) -> Any:
            params = {"name": "name", "arguments": {}, **more}
            return (await client.ask("tools/call", params, headers=token, meta=DECLARED).whole()).json()

        state = (await call(ADA))["result"]["requestState"]
        answers = {"inputResponses": {"#1": accept("Ada")}, "requestState": state}
        for token in (EVE, OTHER_CLIENT):
            assert "it belongs to another request" in (await call(token, **answers))["error"]["message"]
        for token in (REFRESHED, WIDER):
            assert text_of(await call(token, **answers)) == "Ada"


async def test_anonymous_session_is_adopted_by_first_token(make_open, serve) -> None:
    server = make_open()
    events: list[AuditEvent] = []
    server.on_audit(events.append)
    async with serve(server) as client:
        session = await session_of(client, ANONYMOUS)
        assert await status_of(session, ANONYMOUS) == 200
        assert await status_of(session, bearer("bad")) == 401
        assert await status_of(session, ADA) == 200
        for token in (ANONYMOUS, EVE, OTHER_CLIENT):
            assert await status_of(session, token) == 404
            assert (await session.listen(headers=token).whole()).status == 404
        called = await session.call_tool("whoami", headers=bearer("ada/2", ["mail"])).whole()
        assert text_of(called.json()) == "ada ['mail']"
    adopted = [event.principal for event in events if event.name == "adoption"]
    assert adopted == ["https://id.example.com#sub=ada"]


async def test_concurrent_adoption_has_one_owner(make_open: Callable[..., Server], serve: Serve) -> None:
    names, memory = ["ada", "eve", "bob", "joe"], Memory()
    async with serve(make_open(storage=memory)) as here, serve(make_open(storage=memory)) as there:
        session = await session_of(here, ANONYMOUS)
        places = [session, session.at(there)]
        found = await asyncio.gather(*(status_of(each, bearer(name)) for name in names for each in places))
        statuses = [{*pair} for pair in zip(found[::2], found[1::2], strict=True)]
        assert sorted(map(sorted, statuses)) == [[200], [404], [404], [404]]
        assert {await status_of(place, ANONYMOUS) for place in places} == {404}


async def test_adoption_ends_streams_in_other_process_and_lasts(make_open, serve, tmp_path) -> None:
    servers = [make_open(storage=make_engine("sqlite", tmp_path)) for _ in range(3)]
    async with serve(servers[0]) as here, serve(servers[1]) as there:
        session = await session_of(here, ANONYMOUS)
        streams = [await listening(session, ANONYMOUS), await listening(session.at(there), ANONYMOUS)]
        assert await status_of(session, ADA) == 200
        for stream in streams:
            assert await stream.messages() == []
        assert await status_of(session.at(there), ADA) == 200
    async with serve(servers[2]) as later:
        for token, status in ((EVE, 404), (ANONYMOUS, 404), (bearer("ada/2", ["mail"]), 200)):
            assert await status_of(session.at(later), token) == status


DOCUMENT = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
WRITER, ADMIN = bearer("ada", ["notes:write"]), bearer("ada", ["notes:admin", "mail"])
OPEN, CLOSED, SCOPED, HIDDEN = "news://today", "diary://today", "notes://1", "secret://1"

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "open tool": ("tools/call", {"name": "hello"}),
    "closed tool": ("tools/call", {"name": "whoami"}),
    "scoped tool": ("tools/call", {"name": "add"}),
    "open resource": ("resources/read", {"uri": OPEN}),
    "closed resource": ("resources/read", {"uri": CLOSED}),
    "scoped template": ("resources/read", {"uri": SCOPED}),
    "open prompt": ("prompts/get", {"name": "greet"}),
    "scoped prompt": ("prompts/get", {"name": "send", "arguments": {"text": "x"}}),
    "open method": ("example/open", {}),
    "closed method": ("example/closed", {}),
    "scoped completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
    ),
    "tools": ("tools/list", {}),
    "included resource": ("resources/read", {"uri": "news://other/today"}),
}


def empty() -> dict[str, Any]:
    return {}


@pytest.fixture
def open_server(make: Callable[..., Server]) -> Server:
    options = ServerOptions(capabilities=["completions"], cache={"tools/list": CacheHint(60)})
    server, other = make(options=options), Server("other")
    anonymous = Access(allow_anonymous=True)
    for each in (server, other):
        each.resource(OPEN, name="news", access=anonymous, cache=CacheHint(60))(lambda: "news")
    server.include(other, prefix="other")
    server.extension("com.example/jobs").topic("jobIds", "notifications/jobs")
    server.tool(lambda: "hello", name="hello", access=anonymous)
    server.resource(CLOSED, name="diary")(lambda: "diary")
    server.prompt(name="greet", access=anonymous)(lambda: "Hello")
    server.method("example/open", access=anonymous)(empty)
    server.method("example/closed")(empty)

    @server.resource("secret://{id}", access=Access(visible=lambda who: who.subject == "eve"))
    def secret(id: str) -> str:
        return id

    return server


async def ask_both(client: Client, request: str, token: dict[str, str]) -> list[Answer]:
    """Send a request without and with a session."""
    session = await session_of(client, token)
    answers = [each.ask(*REQUESTS[request], headers=token) for each in (client, session)]
    for answer in answers:
        answer.judge = Lenient(client)
        await answer.whole()
    return answers


def challenge_for(scopes: str) -> str:
    needs = scopes.replace(" ", ", ")
    description = f"this request requires scopes that the access token does not have: {needs}"
    texts = f'error="insufficient_scope", error_description="{description}"'
    return f'Bearer {texts}, {DOCUMENT}, scope="{scopes}"'


@each_row(("request_", "scopes"), [
    ("scoped tool", "notes:write"),
    ("scoped template", "notes:read"),
    ("scoped prompt", "notes:read mail"),
    ("scoped completion", "notes:read mail"),
])  # fmt: skip
async def test_missing_scope_is_challenged_before_call(request_, scopes, make, serve, done) -> None:
    done.clear()
    async with serve(make(options=ServerOptions(capabilities=["completions"]))) as client:
        for answer in await ask_both(client, request_, bearer("ada")):
            assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge_for(scopes))
            assert answer.json()["error"]["code"] == -32600
        assert done == []
        assert [answer.status for answer in await ask_both(client, request_, ADMIN)] == [200, 200]


async def test_require_challenges_for_all_scopes_at_once(client: Client, done: list[str]) -> None:
    for token in (WRITER, bearer("ada", ["notes:write", "mail"])):
        answer = await client.call_tool("add", {"pinned": True}, headers=token).whole()
        assert (answer.status, answer.headers["www-authenticate"]) == (403, challenge_for("notes:admin mail"))
    assert done == []
    assert (await client.call_tool("add", {"pinned": True}, headers=ADMIN).whole()).status == 200
    assert done == ["added"]


async def test_require_challenges_after_sse_delay(server: Server, serve: Serve) -> None:
    arguments = {"pinned": True, "late": True}
    async with serve(server, http=HttpOptions(sse_after=0.01)) as client:
        session = await session_of(client, WRITER)
        for call in (client.call_tool, session.call_tool):
            answer = await call("add", arguments, headers=WRITER).whole()
            assert (answer.status, answer.headers["www-authenticate"]) == (
                403,
                challenge_for("notes:admin mail"),
            )


async def test_require_after_output_is_error_result(client: Client, done: list[str]) -> None:
    session = await session_of(client, WRITER)
    for output in ("progress", "once"):
        arguments = {"pinned": True, output: True}
        for answer in (
            client.call_tool("add", arguments, headers=WRITER, meta={"progressToken": 1}),
            session.call_tool("add", arguments, headers=WRITER),
        ):
            result = (await answer.response())["result"]
            assert (answer.status, result["isError"]) == (200, True)
            challenge = 'Bearer error="insufficient_scope", scope="notes:admin mail"'
            assert result["_meta"]["mcp/www_authenticate"] == [challenge]
            assert "notes:admin" in result["content"][0]["text"]
    assert "added" not in done


def test_unknown_scope_of_component_is_refused(server: Server) -> None:
    @tool(name="far", access=Access(optional_scopes=["nothing"]))
    def far() -> str:
        return "x"

    other = Server("other")
    other.tool(scopes="elsewhere", name="there")(lambda: "x")
    for included, problem in ((far, "tool 'far' needs 'nothing'"), (other, "tool 'there' needs 'elsewhere'")):
        with pytest.raises(RegistrationError, match=problem):
            server.include(included)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"scopes": "notes:writ"}, "did you mean 'notes:write'"),
        ({"access": Access(scopes="nope")}, "which is not defined in the server"),
        *(({"scopes": wrong}, "scopes=") for wrong in ("a b", ["x", 3], 3)),
    ]
    for options, problem in cases:
        with pytest.raises(RegistrationError, match=problem):
            server.tool(name="wrong", **options)(lambda: "x")


async def test_tool_has_security_schemes(server: Server, serve: Serve) -> None:
    server.tool(lambda: "x", name="weather", access=Access(allow_anonymous=True))
    server.tool(lambda: "x", name="mixed", access=Access(allow_anonymous=True, optional_scopes="mail"))
    server.tool(lambda: "x", name="both", scopes=["mail", "notes:admin"], meta={"author": 1})
    server.tool(lambda: "x", name="own", meta={"securitySchemes": []})
    async with serve(server) as client:
        found = []
        for revision in ("2025-03-26", "2025-06-18"):
            session = await client.initialize(revision)
            found.append((await session.ask("tools/list").response())["result"]["tools"])
    assert not any("_meta" in tool for tool in found[0])
    assert {tool["name"]: tool["_meta"]["securitySchemes"] for tool in found[1]} == {
        "whoami": [{"type": "oauth2", "scopes": ["notes:read"]}],
        "add": [{"type": "oauth2", "scopes": ["notes:write"]}],
        "weather": [{"type": "noauth"}],
        "mixed": [{"type": "noauth"}, {"type": "oauth2", "scopes": ["mail"]}],
        "both": [{"type": "oauth2", "scopes": ["mail", "notes:admin"]}],
        "own": [],
    }


async def test_anonymous_request_needs_anonymous_component(open_server: Server, serve: Serve) -> None:
    async with serve(open_server) as client:
        for name in REQUESTS:
            status = 401 if name.startswith(("closed", "scoped")) else 200
            for answer in await ask_both(client, name, ANONYMOUS):
                assert answer.status == status, name
                assert ("www-authenticate" in answer.headers) == (status == 401), name


async def listen(client: Client, token: Mapping[str, str], *uris: str) -> Answer:
    wanted = {"resourceSubscriptions": list(uris), "toolsListChanged": True}
    return await client.ask("subscriptions/listen", {"notifications": wanted}, headers=token).head()


async def test_anonymous_subscription_needs_anonymous_resource(open_server: Server, serve: Serve) -> None:
    async with serve(open_server) as client:
        session = await session_of(client, ANONYMOUS)
        for uri in (CLOSED, SCOPED, "notes://{id}"):
            refused = await listen(client, ANONYMOUS, OPEN, uri)
            assert (refused.status, refused.headers["www-authenticate"].split()[0]) == (401, "Bearer")
            pending = await session.ask("resources/subscribe", {"uri": uri}).whole()
            assert (pending.status, "www-authenticate" in pending.headers) == (401, True)
        meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"com.example/jobs": {}}}}
        for token, status in ((ANONYMOUS, 401), (bearer("ada", ["notes:read"]), 200)):
            params = {"notifications": {"jobIds": ["1"]}}
            answer = await client.ask("subscriptions/listen", params, meta=meta, headers=token).head()
            assert answer.status == status


async def test_anonymous_listener_gets_lists_and_open_resources(open_server: Server, serve: Serve) -> None:
    uris = (OPEN, "nowhere://1", HIDDEN)  # what is hidden or does not exist can be subscribed to
    async with serve(open_server) as client:
        stream = await listen(client, ANONYMOUS, *uris)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        session = await session_of(client, ANONYMOUS)
        for uri in uris:
            assert (await session.ask("resources/subscribe", {"uri": uri}).whole()).status == 200
        streams = [stream, await listening(session, ANONYMOUS)]
        for uri in (CLOSED, SCOPED, HIDDEN, "nowhere://1", OPEN):
            open_server.notify_resource_updated(uri)
        assert [(await each.message())["params"]["uri"] for each in streams] == [OPEN, OPEN]
        open_server.catalog.tools.disable("hello")
        for each in streams:
            assert (await each.message())["method"] == "notifications/tools/list_changed"


@each_row("request_", ["tools", "open resource", "included resource"])
async def test_cache_scope_is_public_for_anonymous_request_only(request_, open_server, serve) -> None:
    async with serve(open_server) as client:
        for token, scope in (
            (ANONYMOUS, "public"), (bearer("ada"), "private"), (bearer("eve"), "private"), (ANONYMOUS, "public"),
        ):  # fmt: skip
            answer = await client.ask(*REQUESTS[request_], headers=token).whole()
            result = answer.json()["result"]
            assert (result["ttlMs"], result["cacheScope"]) == (60_000, scope)
