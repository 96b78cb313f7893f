"""Tokens that end, are refused, or do not grant enough: others are got, once, and calls go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import AuthorizationError, Client, MemoryTokens, OAuth, TransportError
from mcpkit.client.authorization.storage import TokenStorageError
from tests.helpers.granting import RESOURCE, Clicks, Granting, clicking
from tests.helpers.waiting import LoopClock

pytestmark = pytest.mark.anyio
REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_token_that_is_refused_is_refreshed_and_the_call_goes_on(
    server: Granting, revision: str
) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision=revision) as client:
        await client.call("whoami")
        server.live.clear()
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token"]
    assert server.of("token")[1]["resource"] == server.url
    assert "scope" not in server.of("token")[1]
    assert len(browser.visits) == 1


async def test_a_refresh_token_is_used_once_by_all_who_wait(server: Granting) -> None:
    async with Client(server.url, auth=clicking()) as client:
        await client.call("whoami")
        server.live.clear()
        results = await asyncio.gather(*(client.call("whoami") for _ in range(20)))
    assert {result.text for result in results} == {"ada: notes:read"}
    assert server.grants == ["authorization_code", "refresh_token"]


async def test_two_objects_that_share_a_storage_use_a_refresh_token_once(server: Granting) -> None:
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


async def test_a_token_that_ends_soon_is_refreshed_before_it_is_sent(server: Granting) -> None:
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


async def test_a_refresh_token_that_is_no_good_any_more_has_the_user_asked_again(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call("whoami")
        server.live.clear()
        server.answers["token"] = [JSONResponse({"error": "invalid_grant"}, 401)]
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(browser.visits) == 2


async def test_an_authorization_server_that_is_away_says_nothing_about_the_user(server: Granting) -> None:
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


async def test_a_server_that_takes_no_token_at_all_is_asked_twice_and_no_more(server: Granting) -> None:
    server.takes_all = False
    with pytest.raises(
        AuthorizationError, match="does not accept the token that has just been issued"
    ) as refused:
        async with Client(server.url, auth=clicking()):
            pass
    assert len(server.authorizations) == 2
    assert refused.value.status == 401


async def test_another_authorization_server_gets_a_registration_of_its_own(server: Granting) -> None:
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


async def test_a_refresh_token_goes_to_no_other_authorization_server(server: Granting) -> None:
    server.metadata = {"client_id_metadata_document_supported": True}
    auth = clicking(client_metadata_url="https://notebook.example.com/client.json")
    async with Client(server.url, auth=auth) as client:
        await client.call("whoami")
        server.live.clear()
        described = {"resource": server.url, "authorization_servers": [f"{server.origin}/other"]}
        server.answers[RESOURCE] = [JSONResponse(described)]
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "authorization_code"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_more_is_asked_for_where_a_call_needs_more(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision=revision) as client:
        await client.call("whoami")
        assert (await client.call("add_note", {"text": "milk"})).text == "added milk"
        assert (await client.call("whoami")).text == "ada: notes:read notes:write"
    assert [page["scope"] for page in browser.visits] == ["notes:read", "notes:read notes:write"]


async def test_calls_that_need_different_things_end_with_all_of_them(server: Granting) -> None:
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


async def test_what_the_user_does_not_grant_is_asked_for_no_more_than_twice(server: Granting) -> None:
    server.granted = {"notes:read"}
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        for _ in range(5):
            with pytest.raises(AuthorizationError, match="wants 'notes:write' to be granted") as refused:
                await client.call("add_note", {"text": "a"})
        assert (await client.call("whoami")).text == "ada: notes:read"
    assert refused.value.status == 403
    assert len(browser.visits) == 3  # the login, and twice for more


async def test_scopes_of_ones_choice_are_asked_for_and_what_is_challenged_is_added(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser, scopes=["notes:write"])) as client:
        await client.call("add_note", {"text": "a"})
        await client.call("clear")
    assert [page["scope"] for page in browser.visits] == [
        "notes:write notes:read",
        "notes:write notes:read notes:admin",
    ]


async def test_nothing_that_was_kept_is_shown_under_another_token(server: Granting) -> None:
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


async def test_a_login_may_take_longer_than_a_server_that_does_not_answer(server: Granting) -> None:
    clock = LoopClock()

    class Slow(Clicks):
        async def visit(self, url: str, state: str) -> Mapping[str, str]:
            for _ in range(3):
                clock.ahead += 100
                await asyncio.sleep(0.01)
            return await super().visit(url, state)

    async with Client(server.url, auth=clicking(Slow()), connect_timeout=60, timeout=60) as client:
        assert (await client.call("whoami")).text == "ada: notes:read"
        assert (await client.call("add_note", {"text": "a"})).text == "added a"
    assert clock.ahead == 600


async def test_a_login_that_nobody_waits_for_any_more_ends(server: Granting) -> None:
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


async def test_whoever_joins_a_login_gets_its_tokens_though_the_first_one_leaves(server: Granting) -> None:
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
async def test_no_secret_stands_in_what_people_read(
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


async def test_what_an_endpoint_repeats_of_a_secret_is_left_out(server: Granting) -> None:
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


async def test_a_code_of_an_error_that_repeats_a_secret_stands_in_no_log(
    server: Granting, caplog: pytest.LogCaptureFixture
) -> None:
    class Repeated(Response):
        """Says what it was asked for in the place of a code."""

        async def __call__(self, scope: object, receive: object, send: object) -> None:
            answer = JSONResponse({"error": f"{server.of('token')[-1]['refresh_token']}\nforged"}, 400)
            await answer(scope, receive, send)  # type: ignore[arg-type]

    caplog.set_level(logging.DEBUG, "mcpkit")
    async with Client(server.url, auth=clicking()) as client:
        await client.call("whoami")
        server.live.clear()
        server.answers["token"] = [Repeated()]
        await client.call("whoami")
    [refreshed] = [form for form in server.of("token") if form["grant_type"] == "refresh_token"]
    assert "could not be refreshed" in caplog.text
    assert refreshed["refresh_token"] not in caplog.text
    assert "\nforged" not in caplog.text


async def test_tokens_that_nobody_can_be_kept_from_are_not_renewed(server: Granting) -> None:
    class Open(MemoryTokens):
        """Is where others can be, too."""

        @asynccontextmanager
        async def exclusively(self, name: str) -> AsyncGenerator[None]:
            raise TokenStorageError("/tmp/locks is open to other users: remove it")
            yield

    with pytest.raises(AuthorizationError, match="is open to other users: remove it"):
        async with Client(server.url, auth=clicking(storage=Open())):
            pass
    assert server.of("authorize") == []


async def test_a_session_is_ended_under_the_newest_token(server: Granting) -> None:
    async with Client(server.url, auth=clicking(), revision="2025-11-25") as client:
        await client.call("add_note", {"text": "a"})
        newest = list(server.live)[-1]
        server.authorizations.clear()
    assert server.authorizations == [f"Bearer {newest}"]  # which ended the session


async def test_nobody_is_asked_to_log_in_for_what_nobody_waits_for(server: Granting) -> None:
    server.may_refresh = False
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision="2025-11-25") as client:
        await client.call("whoami")
        server.live.clear()
        server.authorizations.clear()
    assert len(server.authorizations) == 1  # which was to end the session
    assert len(browser.visits) == 1


async def test_metadata_that_was_found_is_found_again_where_a_challenge_does_not_say_where(
    server: Granting,
) -> None:
    described = {"resource": server.url, "authorization_servers": [server.origin]}
    gone = [Response(status_code=404)]
    first = f'Bearer resource_metadata="{server.origin}/described", scope="notes:read"'
    more = 'Bearer error="insufficient_scope", scope="notes:write"'
    server.answers = {
        "/described": [JSONResponse(described)],
        RESOURCE: gone,
        RESOURCE.removesuffix("/mcp"): gone,
        "/mcp": [Response(status_code=401, headers={"WWW-Authenticate": first}), None],
    }
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call("whoami")
        server.answers["/mcp"] = [Response(status_code=403, headers={"WWW-Authenticate": more}), None]
        assert (await client.call("add_note", {"text": "a"})).text == "added a"
    assert [page["scope"] for page in browser.visits] == ["notes:read", "notes:read notes:write"]


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_token_that_a_server_repeats_stands_in_no_error(server: Granting, status: int) -> None:
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


async def test_a_token_that_a_tool_repeats_stands_in_no_trace_and_no_recording(
    server: Granting, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record = tmp_path / "talk.jsonl"
    auth = clicking()
    for _ in range(2):  # the second client finds the token of the first one
        async with Client(server.url, auth=auth, trace=True, record=record) as client:
            said = (await client.call("repeat")).text
            server.live.clear()
            again = (await client.call("repeat")).text
        told = "".join(capsys.readouterr()) + record.read_text()
        tokens = {text.removesuffix(" was sent") for text in (said, again)}
        assert len(tokens) == 2
        assert told.count("*** was sent") >= 4
        assert [token for token in tokens if token in told] == []
