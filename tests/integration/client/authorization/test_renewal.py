"""Tokens that expire, are refused or grant too little: refreshed, replaced or extended once, and never shown."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpkit import AuthorizationError, Client, Context, MemoryTokens, OAuth, Server, TransportError
from mcpkit import Scope as Granted
from mcpkit.auth import DevAuth
from tests.helpers.granting import RESOURCE, Clicks, Granting, clicking
from tests.helpers.logging_in import User
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_token_refused_is_refreshed(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision=revision) as client:
        await client.call("whoami")
        server.live.clear()
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token"]
    assert server.of("token")[1]["resource"] == server.url
    assert "scope" not in server.of("token")[1]
    assert len(browser.visits) == 1


async def test_refresh_token_is_used_once_by_concurrent_calls(server: Granting) -> None:
    async with Client(server.url, auth=clicking()) as client:
        await client.call("whoami")
        server.live.clear()
        results = await asyncio.gather(*(client.call("whoami") for _ in range(20)))
    assert {result.text for result in results} == {"ada: notes:read"}
    assert server.grants == ["authorization_code", "refresh_token"]


async def test_refresh_token_is_used_once_by_clients_sharing_storage(server: Granting) -> None:
    storage = MemoryTokens()
    browser = Clicks()
    one, two = (OAuth(browser=browser, storage=storage) for _ in range(2))
    async with Client(server.url, auth=one) as first, Client(server.url, auth=two) as second:
        await first.call("whoami")
        await second.call("whoami")
        server.live.clear()
        await asyncio.gather(*(client.call("whoami") for client in (first, second) for _ in range(5)))
    assert server.grants == ["authorization_code", "refresh_token"]
    assert len(browser.visits) == 1


async def test_token_expiring_is_refreshed_before_request(server: Granting) -> None:
    server.lifetime = 1e-3  # seconds: it ends before the next request begins
    async with Client(server.url, auth=clicking()) as client:
        await client.list_tools()
        server.lifetime = 3600
        server.authorizations.clear()
        await client.call("whoami")
        await client.call("whoami")
    assert "refresh_token" in server.grants
    newest = list(server.live)[-1]
    assert set(server.authorizations) == {f"Bearer {newest}"}


async def test_refresh_token_rejected_starts_login(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call("whoami")
        server.live.clear()
        server.answers["token"] = [JSONResponse({"error": "invalid_grant"}, 401)]
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(browser.visits) == 2


async def test_refresh_with_server_down_is_temporary_error(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), tries=1) as client:
        await client.call("whoami")
        server.live.clear()
        server.answers["token"] = [Response("busy", 503)]
        with pytest.raises(TransportError, match="HTTP 503") as failed:
            await client.call("whoami")
        assert not isinstance(failed.value, AuthorizationError)
        assert failed.value.may_pass
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert len(browser.visits) == 1


async def test_token_refused_twice_is_error(server: Granting) -> None:
    server.takes_all = False
    with pytest.raises(
        AuthorizationError, match="does not accept the token that has just been issued"
    ) as refused:
        async with Client(server.url, auth=clicking()):
            pass
    assert len(server.authorizations) == 2
    assert refused.value.status == 401


async def test_issuer_changed_needs_new_registration(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call("whoami")
        server.live.clear()
        described = {"resource": server.url, "authorization_servers": [f"{server.origin}/other"]}
        server.answers[RESOURCE] = [JSONResponse(described)]
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "authorization_code"]
    first, second = server.of("authorize")
    assert len(server.of("register")) == 2
    assert first["client_id"] != second["client_id"]


async def test_refresh_token_is_not_sent_to_other_issuer(server: Granting) -> None:
    server.metadata = {"client_id_metadata_document_supported": True}
    auth = clicking(client_metadata_url="https://notebook.example.com/client.json")
    async with Client(server.url, auth=auth) as client:
        await client.call("whoami")
        server.live.clear()
        described = {"resource": server.url, "authorization_servers": [f"{server.origin}/other"]}
        server.answers[RESOURCE] = [JSONResponse(described)]
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "authorization_code"]


@pytest.mark.parametrize("revision", REVISIONS[:1])
async def test_step_up_requests_missing_scope(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision=revision) as client:
        await client.call("whoami")
        assert (await client.call("add_note", {"text": "milk"})).text == "added milk"
        assert (await client.call("whoami")).text == "ada: notes:read notes:write"
    assert [page["scope"] for page in browser.visits] == ["notes:read", "notes:read notes:write"]


async def test_step_up_of_concurrent_calls_joins_scopes(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call("whoami")
        results = await asyncio.gather(
            *(client.call("add_note", {"text": "a"}) for _ in range(5)),
            *(client.call("clear") for _ in range(5)),
        )
    assert {result.text for result in results} == {"added a", "cleared"}
    assert 2 <= len(browser.visits) <= 3
    assert set(browser.visits[-1]["scope"].split()) >= {"notes:read", "notes:admin"}


async def test_step_up_not_granted_is_tried_twice(server: Granting) -> None:
    server.granted = {"notes:read"}
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        for _ in range(5):
            with pytest.raises(AuthorizationError, match="wants 'notes:write' to be granted") as refused:
                await client.call("add_note", {"text": "a"})
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert refused.value.status == 403
    assert len(browser.visits) == 3  # the login, and twice for more


async def test_cached_results_are_dropped_with_token(server: Granting) -> None:
    async with Client(server.url, auth=clicking(), revision="2026-07-28") as client:
        tools = await client.list_tools()
        server.authorizations.clear()
        assert await client.list_tools() == tools
        kept = len(server.authorizations)
        await client.call("add_note", {"text": "a"})  # steps up
        before = len(server.authorizations)
        await client.list_tools()
        assert len(server.authorizations) > before
    assert kept == 0, "the list was to be kept, or this shows nothing"


async def test_login_cancelled_ends_browser(server: Granting) -> None:
    shown, ended = asyncio.Event(), asyncio.Event()

    class Never(Clicks):
        async def visit(self, url: str, state: str) -> dict[str, str]:
            shown.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return {}

    async def log_in() -> None:
        async with Client(server.url, auth=clicking(Never())):
            pass

    task = asyncio.ensure_future(log_in())
    await shown.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 10)


async def test_login_joined_continues_after_first_caller_left(server: Granting) -> None:
    shown, may = asyncio.Event(), asyncio.Event()

    class Held(Clicks):
        async def visit(self, url: str, state: str) -> Mapping[str, str]:
            shown.set()
            await may.wait()
            return await super().visit(url, state)

    browser = Held()
    auth = clicking(browser)
    may.set()
    async with Client(server.url, auth=auth) as client:
        may.clear()
        shown.clear()
        first = asyncio.ensure_future(client.call("add_note", {"text": "first"}))
        await shown.wait()
        second = asyncio.ensure_future(client.call("add_note", {"text": "second"}))
        while client_waits(auth, server) < 2:
            await asyncio.sleep(0)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        may.set()
        assert (await second).text == "added second"
    assert len(browser.visits) == 2


def client_waits(auth: OAuth, server: Granting) -> int:
    return auth.authorizer(server.url)._waiting


@pytest.mark.slow
async def test_secrets_are_in_no_output(
    server: Granting, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    auth = clicking(client_id="notebook", client_secret="very secret secret", issuer=server.origin)
    errors: list[BaseException] = []
    record = tmp_path / "talk.jsonl"
    async with Client(server.url, auth=auth, trace=True, record=record, tries=1) as client:
        await client.call("whoami")
        await client.call("add_note", {"text": "a"})
        server.live.clear()
        await client.call("whoami")
        refused = {"error": "invalid_grant", "error_description": "{}"}
        for answer in (JSONResponse(refused, 400), Response("broken", 500)):
            server.live.clear()
            server.answers["token"] = [answer, Response("broken", 500)]
            with pytest.raises(TransportError) as failed:
                await client.call("whoami")
            errors.append(failed.value)
        shown = [repr(auth), repr(client), repr(auth.authorizer(server.url).tokens)]
    # What it has sent itself: the browser of the test logs where it was sent back to.
    ours = [each.getMessage() for each in caplog.records if "authorize" not in each.getMessage()]
    told = "".join(line for line in ours if "/callback" not in line)
    told += "".join(capsys.readouterr()) + record.read_text() + "".join(shown)
    for error in errors:
        each: BaseException | None = error
        while each is not None:
            told += f"{each} {each!r}"
            each = each.__cause__ or each.__context__
    secrets = {
        value
        for form in server.of("token")
        for name, value in form.items()
        if name in {"code", "code_verifier", "refresh_token", "client_secret"}
    }
    secrets |= {str(each).removeprefix("Bearer ") for each in server.authorizations if each}
    secrets.add("very secret secret")
    assert len(secrets) > 6
    assert [secret for secret in secrets if secret in told] == []


async def test_token_error_repeating_secret_is_masked(server: Granting) -> None:
    class Repeated(Response):
        """Says what it was asked for."""

        async def __call__(self, scope: object, receive: object, send: object) -> None:
            said = f"{server.of('token')[-1]['code_verifier']} was used before"
            answer = JSONResponse({"error": "invalid_grant", "error_description": said}, 400)
            await answer(scope, receive, send)  # type: ignore[arg-type]

    server.answers["token"] = [Repeated()]
    with pytest.raises(AuthorizationError, match=r"'invalid_grant \(\.\.\. was used before\)'"):
        async with Client(server.url, auth=clicking()):
            pass


async def test_session_end_does_not_start_login(server: Granting) -> None:
    server.may_refresh = False
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision="2025-11-25") as client:
        await client.call("whoami")
        server.live.clear()
        server.authorizations.clear()
    assert len(server.authorizations) == 1  # which was to end the session
    assert len(browser.visits) == 1


@pytest.mark.parametrize("status", [401, 500])
async def test_server_error_repeating_token_is_masked(server: Granting, status: int) -> None:
    async def repeat(scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode()
        headers = {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{token} is bad"'}
        await Response(f"what is {token}?", status, headers)(scope, receive, send)

    async with Client(server.url, auth=clicking(), tries=1) as client:
        await client.call("whoami")
        server.answers["/mcp"] = [repeat]
        with pytest.raises(TransportError) as failed:
            await client.call("whoami")
    tokens = {str(each).removeprefix("Bearer ") for each in server.authorizations if each}
    told = f"{failed.value} {getattr(failed.value, 'challenge', '')} {failed.value.__cause__}"
    assert "..." in told
    assert [token for token in tokens if token in told] == []


ERAS = ["2025-11-25", "2026-07-28"]
READ, WRITE, ADMIN = "notes:read", "notes:write", "notes:admin"


@dataclass
class Notes:
    """A protected server, and what has happened there.

    Attributes:
        url: Where it is.
        challenged: How often the endpoint has answered 403.
        done: What its tools have done.
        seconds: How long the tool `erase` takes before it asks for more.
    """

    url: str = ""
    challenged: Counter[int] = field(default_factory=Counter)
    done: list[str] = field(default_factory=list)
    seconds: float = 0.0


def server_of(notes: Notes) -> Server:
    server = Server(
        "notes",
        secret="a secret of some length",
        auth=DevAuth(users=["ada"]),
        scopes={
            READ: Granted("Read notes", default=True),
            WRITE: Granted("Change notes", implies=[READ]),
            ADMIN: Granted("Everything", implies=[WRITE]),
        },
    )

    @server.tool(scopes=READ)
    async def read() -> str:
        """Read."""
        return "read"

    @server.tool(scopes=WRITE)
    async def write() -> str:
        """Write."""
        notes.done.append("written")
        return "written"

    @server.tool(scopes=WRITE, may_need=ADMIN)
    async def erase(ctx: Context, mode: str = "before") -> str:
        """Erase."""
        await asyncio.sleep(notes.seconds)
        if mode == "told":
            await ctx.progress(1, 2)
        if mode == "once":
            await ctx.once("erase", lambda: notes.done.append("once"))
        ctx.require(ADMIN)
        notes.done.append("erased")
        return "erased"

    return server


@contextmanager
def serving(notes: Notes) -> Iterator[Notes]:
    """Serve it, and count what the endpoint answers."""

    def counting(origin: str) -> ASGIApp:
        notes.url = f"{origin}/mcp"
        app = server_of(notes).asgi(public_url=notes.url)

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            async def note(message: Any) -> None:
                if message["type"] == "http.response.start" and scope["path"] == "/mcp":
                    notes.challenged[message["status"]] += 1
                await send(message)

            await app(scope, receive, note if scope["type"] == "http" else send)

        return counted

    with in_thread_at(counting):
        yield notes


@pytest.fixture
def notes() -> Iterator[Notes]:
    with serving(Notes()) as served:
        yield served


@pytest.mark.parametrize("revision", ERAS[1:])
async def test_step_up_per_tool_happens_once(notes: Notes, revision: str) -> None:
    ada = User()
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        assert (await client.call("read")).text == "read"
        assert ada.asked == [{READ}]
        assert (await client.call("write")).text == "written"
        assert ada.asked[1:] == [{READ, WRITE}]
        assert (await client.call("erase")).text == "erased"
        assert ada.asked[2:] == [{READ, WRITE, ADMIN}]
        for name in ("read", "write", "erase"):
            assert not (await client.call(name)).is_error
    assert len(ada.asked) == 3
    assert notes.challenged[403] == 2
    assert notes.done == ["written", "erased", "written", "erased"]


@pytest.mark.parametrize(("revision", "mode"), [("2025-11-25", "told"), ("2026-07-28", "once")])
async def test_step_up_after_side_effect_returns_challenge_in_result(
    notes: Notes, revision: str, mode: str
) -> None:
    ada = User()
    told: list[object] = []
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        await client.call("write")
        notes.done.clear()
        before, challenged = len(ada.asked), notes.challenged[403]
        result = await client.call("erase", {"mode": mode}, progress=lambda *news: told.append(news))
        assert result.is_error
        assert ADMIN in result.text
        assert f'scope="{ADMIN}"' in result.meta["mcp/www_authenticate"][0]
    assert (len(ada.asked), notes.challenged[403]) == (before, challenged)
    assert notes.done == (["once"] if mode == "once" else [])


@pytest.mark.parametrize("revision", ERAS[:1])
async def test_step_up_refused_by_user_is_error(notes: Notes, revision: str) -> None:
    ada = User()
    async with Client(notes.url, auth=ada.auth, revision=revision) as client:
        await client.call("read")
        ada.name = None
        with pytest.raises(AuthorizationError, match="the user has said no"):
            await client.call("write")
        assert len(ada.asked) == 2
        ada.name = "ada"
        assert (await client.call("read")).text == "read"
    assert notes.done == []
