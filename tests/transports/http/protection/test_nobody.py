"""Who does not say who they are hears of lists and of what is open to anybody, and uses nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcpkit import Context, Provider, Resource, Server, Tool
from mcpkit.testing import connect
from tests.helpers.asgi_answer import Answer
from tests.helpers.asgi_client import Client, Serve
from tests.helpers.protected import Lenient, listening, old_of, session_of
from tests.helpers.verified import bearer

pytestmark = pytest.mark.anyio

NOBODY: dict[str, str] = {}
READER = bearer("ada", ["notes:read"])
OPEN, CLOSED = "news://today", "diary://today"
SCOPED = "notes://1"


class Looked(Provider):
    """Has a tool that is open, and things that are not."""

    kinds = frozenset({"tools", "resources", "prompts"})

    async def find(self, kind: str, key: str, ctx: Context) -> Any:
        if key == "looked://closed":

            def closed() -> str:
                return key

            return Resource(closed, key)
        if key in {"looked_open", "looked_closed"}:

            def say() -> str:
                return key

            return Tool(say, name=key, anonymous=key == "looked_open")
        return None


@pytest.fixture
def server(make: Callable[..., Server]) -> Server:
    server = make(offers=["completions"])
    server.include(Looked())
    jobs = server.extension("com.example/jobs")
    jobs.topic("jobIds", "notifications/jobs")

    @server.tool(anonymous=True)
    async def hello(ctx: Context) -> str:
        """Say hello."""
        await ctx.progress(1, 2)
        return "hello"

    @server.resource(OPEN, anonymous=True)
    def news() -> str:
        """What anybody may read."""
        return "news"

    @server.resource(CLOSED)
    def diary() -> str:
        """What takes a token."""
        return "diary"

    @server.resource("secret://{id}", visible=lambda who: who.subject == "eve")
    def secret(id: str) -> str:
        """What is hidden."""
        return id

    @server.prompt(anonymous=True)
    def greet(whom: str = "") -> str:
        """Greet."""
        return f"Hello {whom}"

    @server.method("example/open", anonymous=True)
    def open_method() -> dict[str, Any]:
        return {}

    @server.method("example/closed")
    def closed_method() -> dict[str, Any]:
        return {}

    return server


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
    "looked up, open": ("tools/call", {"name": "looked_open"}, 200),
    "looked up, closed": ("tools/call", {"name": "looked_closed"}, 401),
    "looked up resource": ("resources/read", {"uri": "looked://closed"}, 401),
    "open completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "whom", "value": ""}},
        200,
    ),
    "scoped completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "send"}, "argument": {"name": "text", "value": ""}},
        401,
    ),
    "tools": ("tools/list", {}, 200),
    "resources": ("resources/list", {}, 200),
    "templates": ("resources/templates/list", {}, 200),
    "prompts": ("prompts/list", {}, 200),
}


@pytest.mark.parametrize("name", USES)
async def test_nobody_uses_what_is_not_open(server: Server, serve: Serve, name: str) -> None:
    method, params, status = USES[name]
    async with serve(server) as client:
        answer = client.ask(method, params)
        answer.judge = Lenient(client)
        assert (await answer.whole()).status == status
        session = await session_of(client, NOBODY)
        asked = session.ask(method, params)
        assert (await asked.whole()).status == status
        assert ("www-authenticate" in asked.headers) == (status == 401)


@pytest.mark.parametrize("name", [name for name, use in USES.items() if "list" not in use[0]])
async def test_where_no_status_can_say_so_it_is_refused_all_the_same(
    server: Server, serve: Serve, name: str
) -> None:
    method, params, status = USES[name]
    async with serve(server) as client:
        old = await old_of(client, NOBODY)
        old.stream.judge = Lenient(client)
        answer = await old.ask(method, params, NOBODY)
        is_refused = "error" in answer or answer["result"].get("isError", False)
        assert is_refused == (status == 401), answer


async def test_a_stream_that_has_begun_opens_nothing(server: Server, serve: Serve) -> None:
    """In a batch, what comes first may begin the answer before the next is looked at."""
    calls = [
        {
            "jsonrpc": "2.0",
            "id": name,
            "method": "tools/call",
            "params": {"name": name, "_meta": {"progressToken": 1}},
        }
        for name in ("hello", "whoami")
    ]
    async with serve(server) as client:
        session = await session_of(client, NOBODY, "2025-03-26")
        *_, answers = await session.post(calls).messages()
        refused = next(each for each in answers if each["id"] == "whoami")
        assert "error" in refused


async def test_over_stdio_and_in_memory_nobody_needs_a_token(server: Server) -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        async with connect(server, revision=revision) as client:
            assert (await client.call("whoami")).text == "None []"
    async with connect(server, revision="2025-11-25") as client:
        await client.request("resources/subscribe", {"uri": CLOSED})
        server.resource_updated(CLOSED)
        assert (await client.notification("notifications/resources/updated"))["uri"] == CLOSED


# Listening


async def listen(client: Client, token: Mapping[str, str], *uris: str, **more: Any) -> Answer:
    """Begin `subscriptions/listen`."""
    wanted = {"resourceSubscriptions": list(uris), "toolsListChanged": True, **more}
    return await client.ask("subscriptions/listen", {"notifications": wanted}, headers=token).head()


def updates(server: Server) -> None:
    """Have everything change, what is open last."""
    for uri in (CLOSED, SCOPED, "secret://1", "nowhere://1", OPEN):
        server.resource_updated(uri)


async def test_nobody_listens_to_what_is_not_open(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await session_of(client, NOBODY)
        for uri in (CLOSED, SCOPED, "notes://{id}"):
            refused = await listen(client, NOBODY, OPEN, uri)
            assert (refused.status, refused.headers["www-authenticate"].split()[0]) == (401, "Bearer")
            asked = await session.ask("resources/subscribe", {"uri": uri}).whole()
            assert (asked.status, "www-authenticate" in asked.headers) == (401, True)
        jobs = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"com.example/jobs": {}}}}
        params = {"notifications": {"jobIds": ["1"]}}
        answer = await client.ask("subscriptions/listen", params, meta=jobs).head()
        assert answer.status == 401
        answer = await client.ask("subscriptions/listen", params, meta=jobs, headers=READER).head()
        assert answer.status == 200


async def test_nobody_hears_of_lists_and_of_what_is_open_alone(server: Server, serve: Serve) -> None:
    # Nobody serves the one, and nobody may see the other: to wait for them tells nothing.
    uris = (OPEN, "nowhere://1", "secret://1")
    async with serve(server) as client:
        stream = await listen(client, NOBODY, *uris)
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        session = await session_of(client, NOBODY)
        for uri in uris:
            assert (await session.ask("resources/subscribe", {"uri": uri}).whole()).status == 200
        heard = await listening(session, NOBODY)
        updates(server)
        assert (await stream.message())["params"]["uri"] == OPEN
        assert (await heard.message())["params"]["uri"] == OPEN
        server.tools.disable("hello")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
        assert (await heard.message())["method"] == "notifications/tools/list_changed"


async def test_who_is_known_hears_of_what_they_may_use(server: Server, serve: Serve) -> None:
    ada = bearer("ada")
    async with serve(server) as client:
        for token, refused in ((ada, SCOPED), (ada, "notes://{id}")):
            answer = await listen(client, token, refused)
            assert answer.status == 403
            assert 'scope="notes:read"' in answer.headers["www-authenticate"]
        stream = await listen(client, READER, CLOSED, "notes://{id}", "secret://1", "nowhere://1", OPEN)
        await stream.message()
        updates(server)
        heard = [(await stream.message())["params"]["uri"] for _ in range(4)]
        assert heard == [CLOSED, SCOPED, "nowhere://1", OPEN]


async def test_who_has_been_granted_less_since_hears_less(server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await session_of(client, READER)
        for uri in (SCOPED, CLOSED):
            assert (
                await session.ask("resources/subscribe", {"uri": uri}, headers=READER).whole()
            ).status == 200
        stream = await listening(session, READER)
        server.resource_updated(SCOPED)
        assert (await stream.message())["params"]["uri"] == SCOPED
        assert (await session.ask("ping", headers=bearer("ada")).whole()).status == 200
        server.resource_updated(SCOPED)
        server.resource_updated(CLOSED)
        assert (await stream.message())["params"]["uri"] == CLOSED


async def test_without_protection_scopes_hold_for_listening_as_well(serve: Serve) -> None:
    server = Server("s")

    @server.resource("notes://1", scopes="read")
    def note() -> str:
        """A note."""
        return ""

    async with connect(server, revision="2025-11-25") as client:
        answer = client.request("resources/subscribe", {"uri": "notes://1"})
        with pytest.raises(Exception, match="more than you have been granted: read"):
            await answer
