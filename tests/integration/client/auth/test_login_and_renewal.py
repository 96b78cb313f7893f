"""Logins of users and tokens of programs: registration, requests, and tokens that are refreshed and never shown."""

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import Client, Retries
from mcpkit._utils.exceptions import TokenStorageError
from mcpkit.auth import DevAuth
from mcpkit.client import ClientCredentials, MemoryTokens, OAuth
from mcpkit.client.auth.authorizer import ResourceAuthorizer
from mcpkit.client.auth.token_endpoint import SecretAuthentication
from mcpkit.exceptions import AuthorizationError, TransportError
from tests.helpers.authorization_server import RESOURCE_METADATA, Clicks, Granting, TokenSite, clicking, notes
from tests.helpers.oauth_flow import User
from tests.helpers.serving import in_thread_at
from tests.helpers.tables import each_row
from tests.helpers.waiting import until


async def whoami(url: str, auth: Any, times: int = 1, **options: Any) -> str:
    """Log in as a new client, and return what the tool returns of the user."""
    async with Client(url, auth=auth, **options) as client:
        for _ in range(times):
            output = (await client.call_tool("whoami")).text
        return output


async def test_login_once_and_token_is_sent_with_each_request(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), protocol_version=revision) as client:
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
        await client.list_tools(use_cache=False)
    assert [endpoint for endpoint, _ in server.asked] == ["register", "authorize", "token"]
    [token] = server.live
    assert server.authorizations[0] is None
    assert set(server.authorizations[1:]) == {f"Bearer {token}"}
    assert len(server.authorizations) >= 4


async def test_login_requests_follow_specification(server: Granting) -> None:
    server.metadata = {"scopes_supported": ["notes:read", "offline_access"]}
    await whoami(server.url, clicking(client_name="The notebook"))
    [registration] = server.of("register")
    assert registration == {
        "client_name": "The notebook",
        "redirect_uris": ["http://127.0.0.1:3999/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "notes:read offline_access",
    }
    [page], [token] = server.of("authorize"), server.of("token")
    fixed = {"response_type": "code", "code_challenge_method": "S256", "prompt": "consent"}
    assert page.items() >= {**fixed, "scope": "notes:read offline_access", "resource": server.url}.items()
    assert token.items() >= {"grant_type": "authorization_code", "resource": server.url}.items()
    assert not token.keys() & {"scope", "client_secret"}
    assert len(token["code_verifier"]) >= 43


async def test_registration_is_reused_with_its_redirect_uri(server: Granting) -> None:
    storage = MemoryTokens()
    server.may_refresh = False
    browser = Clicks()
    for _ in range(2):
        server.live.clear()
        async with Client(server.url, auth=OAuth(browser=browser, storage=storage)) as client:
            await client.call_tool("whoami")
    assert len(server.of("register")) == 1
    assert len(browser.visits) == 2
    assert browser.registered == [(), ("http://127.0.0.1:3999/callback",)]


async def test_login_with_other_issuer_sends_nothing(server: Granting) -> None:
    client = {"client_id": "notebook", "client_secret": "the secret of it"}
    with pytest.raises(AuthorizationError, match=r"not 'https://id\.example\.com'"):
        await whoami(server.url, clicking(**client, issuer="https://id.example.com"))
    assert server.asked == []


async def test_login_uses_client_metadata_document_where_supported(server: Granting) -> None:
    url = "https://notebook.example.com/client.json"
    await whoami(server.url, clicking(client_metadata_url=url))
    assert len(server.of("register")) == 1
    server.metadata = {"client_id_metadata_document_supported": True}
    await whoami(server.url, clicking(client_metadata_url=url))
    assert len(server.of("register")) == 1
    assert server.of("authorize")[-1]["client_id"] == server.of("token")[-1]["client_id"] == url


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_dev_auth_login_and_step_up(revision: str) -> None:
    ada, auth = User("ada"), DevAuth(users=["ada", "grace"])
    with in_thread_at(lambda origin: notes(auth).asgi(public_url=f"{origin}/mcp")) as origin:
        async with Client(f"{origin}/mcp", auth=ada.auth, protocol_version=revision) as client:
            assert (await client.call_tool("whoami")).text == "ada: notes:read"
            assert (await client.call_tool("add_note", {"text": "milk"})).text == "added milk"
            assert (await client.call_tool("whoami")).text == "ada: notes:read notes:write"
    assert ada.asked == [{"notes:read"}, {"notes:read", "notes:write"}]


@each_row(("options", "problem"), [
    ({"client_id": "a"}, "requires issuer="),
    ({"client_secret": "a"}, "requires client_id="),
    ({"issuer": "http://id.example.com"}, "not encrypted"),
    ({"client_metadata_url": "http://localhost/client.json"}, "must begin with https://"),
    ({"client_metadata_url": "https://example.com"}, "have a path"),
    ({"authentication": SecretAuthentication("another")}, "must equal client_id="),
])  # fmt: skip
def test_oauth_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        clicking(**options)


async def test_token_refused_is_refreshed_once_by_concurrent_calls(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), protocol_version=revision) as client:
        await client.call_tool("whoami")
        server.live.clear()
        results = await asyncio.gather(*(client.call_tool("whoami") for _ in range(20)))
    assert {result.text for result in results} == {"ada: notes:read"}
    assert server.grants == ["authorization_code", "refresh_token"]
    assert server.of("token")[1]["resource"] == server.url
    assert "scope" not in server.of("token")[1]
    assert len(browser.visits) == 1


async def test_token_expiring_is_refreshed_before_request(server: Granting) -> None:
    server.lifetime = 1e-3  # seconds: it ends before the next request begins
    async with Client(server.url, auth=clicking()) as client:
        await client.list_tools()
        server.lifetime = 3600
        server.authorizations.clear()
        await client.call_tool("whoami")
        await client.call_tool("whoami")
    assert "refresh_token" in server.grants
    newest = list(server.live)[-1]
    assert set(server.authorizations) == {f"Bearer {newest}"}


async def test_refresh_token_rejected_starts_login(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call_tool("whoami")
        server.live.clear()
        server.answers["token"] = [JSONResponse({"error": "invalid_grant"}, 401)]
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(browser.visits) == 2


async def test_issuer_changed_needs_new_registration(server: Granting) -> None:
    async with Client(server.url, auth=clicking()) as client:
        await client.call_tool("whoami")
        server.live.clear()
        described = {"resource": server.url, "authorization_servers": [f"{server.origin}/other"]}
        server.answers[RESOURCE_METADATA] = [JSONResponse(described)]
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "authorization_code"]
    first, second = server.of("authorize")
    assert len(server.of("register")) == 2
    assert first["client_id"] != second["client_id"]


@pytest.mark.slow
async def test_secrets_are_in_no_output(server, caplog, capsys, tmp_path) -> None:
    caplog.set_level(logging.DEBUG)
    auth = clicking(client_id="notebook", client_secret="very secret secret", issuer=server.origin)
    errors: list[BaseException] = []
    record = tmp_path / "talk.jsonl"
    options: Any = {"trace": True, "record": record, "retries": Retries(attempts=1)}
    async with Client(server.url, auth=auth, **options) as client:
        await client.call_tool("whoami")
        await client.call_tool("add_note", {"text": "a"})
        server.live.clear()
        await client.call_tool("whoami")
        refused = {"error": "invalid_grant", "error_description": "{}"}
        for answer in (JSONResponse(refused, 400), Response("broken", 500)):
            server.live.clear()
            server.answers["token"] = [answer, Response("broken", 500)]
            with pytest.raises(TransportError) as failed:
                await client.call_tool("whoami")
            errors.append(failed.value)
        displayed = [repr(auth), repr(client), repr(auth.authorizer(server.url).tokens)]
    # The browser of the test logs the URLs to which it is redirected.
    logged = [each.getMessage() for each in caplog.records]
    reported = "".join(line for line in logged if "authorize" not in line and "/callback" not in line)
    reported += "".join(capsys.readouterr()) + record.read_text() + "".join(displayed)
    for error in errors:
        each: BaseException | None = error
        while each is not None:
            reported += f"{each} {each!r}"
            each = each.__cause__ or each.__context__
    names = ("code", "code_verifier", "refresh_token", "client_secret")
    secrets = {form[name] for form in server.of("token") for name in names if name in form}
    secrets |= {str(each).removeprefix("Bearer ") for each in server.authorizations if each}
    secrets.add("very secret secret")
    assert len(secrets) > 6
    assert [secret for secret in secrets if secret in reported] == []


SECRET = "s3cr3t+of/the client"


async def test_client_credentials_secret_in_header_and_token_reused(revision: str) -> None:
    site = TokenSite()
    with site.running() as url:
        auth = ClientCredentials("re:ports", SECRET, issuer=site.origin)
        assert await whoami(url, auth, 3, protocol_version=revision) == "reports"
    [request] = site.requests
    assert request.form == {"grant_type": "client_credentials", "resource": url, "scope": "notes:read"}
    credentials = b64encode(b"re%3Aports:s3cr3t%2Bof%2Fthe%20client").decode()
    assert request.headers["authorization"] == f"Basic {credentials}"


async def test_client_credentials_refusal_has_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    site = TokenSite()
    refusal = {"error": "invalid_client", "error_description": f"not {SECRET} but another"}
    site.answer = lambda request: JSONResponse(refusal, 401)
    caplog.set_level(logging.DEBUG)
    with site.running() as url:
        auth = ClientCredentials("reports", SECRET, issuer=site.origin)
        with pytest.raises(AuthorizationError, match="invalid_client") as raised:
            await whoami(url, auth, protocol_version="2025-11-25")
    assert len(site.requests) == 1
    assert SECRET not in f"{caplog.text} {auth!r} {vars(auth)!r} {raised.value}"
    assert raised.value.status == 401


# Tokens that end, are refused or do not suffice: the client obtains others once, and sends secrets nowhere else


async def test_two_clients_of_one_storage_use_a_refresh_token_once(server: Granting) -> None:
    storage, browser = MemoryTokens(), Clicks()
    one, two = (OAuth(browser=browser, storage=storage) for _ in range(2))
    async with Client(server.url, auth=one) as first, Client(server.url, auth=two) as second:
        await first.call_tool("whoami")
        await second.call_tool("whoami")
        server.live.clear()
        await asyncio.gather(*(client.call_tool("whoami") for client in (first, second) for _ in range(5)))
    assert server.grants == ["authorization_code", "refresh_token"]
    assert len(browser.visits) == 1


async def test_authorization_server_down_does_not_ask_the_user(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), retries=Retries(attempts=1)) as client:
        await client.call_tool("whoami")
        server.live.clear()
        server.answers["token"] = [Response("busy", 503)]
        with pytest.raises(TransportError, match="HTTP 503") as failed:
            await client.call_tool("whoami")
        assert not isinstance(failed.value, AuthorizationError)
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert len(browser.visits) == 1


async def test_new_token_that_is_refused_is_not_replaced_again(server: Granting) -> None:
    refused = Response(status_code=401, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
    server.answers["/mcp"] = [refused]
    with pytest.raises(AuthorizationError, match="just issued") as failed:
        async with Client(server.url, auth=clicking()):
            pass
    assert len(server.authorizations) == 2
    assert failed.value.status == 401


async def test_refresh_token_is_sent_to_no_other_authorization_server(server: Granting) -> None:
    server.metadata = {"client_id_metadata_document_supported": True}
    auth = clicking(client_metadata_url="https://notebook.example.com/client.json")
    async with Client(server.url, auth=auth) as client:
        await client.call_tool("whoami")
        server.live.clear()
        described = {"resource": server.url, "authorization_servers": [f"{server.origin}/other"]}
        server.answers[RESOURCE_METADATA] = [JSONResponse(described)]
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert server.grants == ["authorization_code", "authorization_code"]


async def test_concurrent_step_ups_end_with_all_scopes(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call_tool("whoami")
        results = await asyncio.gather(
            *(client.call_tool("add_note", {"text": "a"}) for _ in range(5)),
            *(client.call_tool("clear") for _ in range(5)),
        )
    assert {result.text for result in results} == {"added a", "cleared"}
    assert 2 <= len(browser.visits) <= 3
    assert set(browser.visits[-1]["scope"].split()) >= {"notes:read", "notes:admin"}


async def test_scope_not_granted_is_requested_twice_only(server: Granting) -> None:
    server.granted = {"notes:read"}
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        for _ in range(5):
            with pytest.raises(AuthorizationError, match="'notes:write'") as refused:
                await client.call_tool("add_note", {"text": "a"})
        assert (await client.call_tool("whoami")).text == "ada: notes:read"
    assert refused.value.status == 403
    assert len(browser.visits) == 3  # the login, and twice for more


async def test_challenged_scopes_are_added_to_chosen_ones(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser, scopes=["notes:write"])) as client:
        await client.call_tool("add_note", {"text": "a"})
        await client.call_tool("clear")
    assert [page["scope"] for page in browser.visits] == [
        "notes:write notes:read",
        "notes:write notes:read notes:admin",
    ]


async def test_cached_list_is_not_used_under_another_token(server: Granting) -> None:
    async with Client(server.url, auth=clicking(), protocol_version="2026-07-28") as client:
        tools = await client.list_tools()
        server.authorizations.clear()
        assert await client.list_tools() == tools
        assert server.authorizations == [], "the list should be cached, or this test shows nothing"
        await client.call_tool("add_note", {"text": "a"})  # steps up
        before = len(server.authorizations)
        await client.list_tools()
        assert len(server.authorizations) > before


class WaitingBrowser(Clicks):
    """A browser with a user who answers when `may` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.shown, self.may, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        self.shown.set()
        try:
            await self.may.wait()
            return await super().authorize(url, state)
        finally:
            self.ended.set()


async def test_cancelled_login_ends(server: Granting) -> None:
    browser = WaitingBrowser()

    async def log_in() -> None:
        async with Client(server.url, auth=clicking(browser)):
            pass

    task = asyncio.ensure_future(log_in())
    await asyncio.wait_for(browser.shown.wait(), 10)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.wait_for(browser.ended.wait(), 10)


async def test_second_caller_gets_tokens_after_first_caller_left(server, monkeypatch) -> None:
    joined: list[ResourceAuthorizer] = []

    def renew(self: ResourceAuthorizer, *args: Any) -> Coroutine[Any, Any, None]:
        joined.append(self)
        return original(self, *args)

    original = ResourceAuthorizer.renew
    monkeypatch.setattr(ResourceAuthorizer, "renew", renew)
    browser = WaitingBrowser()
    browser.may.set()
    async with Client(server.url, auth=clicking(browser)) as client:
        browser.may.clear()
        browser.shown.clear()
        first = asyncio.ensure_future(client.call_tool("add_note", {"text": "first"}))
        await asyncio.wait_for(browser.shown.wait(), 10)
        joined.clear()
        second = asyncio.ensure_future(client.call_tool("add_note", {"text": "second"}))
        await until(lambda: joined)  # it is challenged, and joins the login in the same turn of the loop
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        browser.may.set()
        assert (await second).text == "added second"
    assert len(browser.visits) == 2


class Repeats(Response):
    """Repeats a secret of the newest request for a token, as an error and as its description."""

    def __init__(self, server: Granting, secret: str) -> None:
        super().__init__()
        self._server, self._secret = server, secret

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        value = self._server.of("token")[-1][self._secret]
        content = {"error": f"{value}\nforged", "error_description": f"{value} was used before"}
        await JSONResponse(content, 400)(scope, receive, send)


async def test_secret_repeated_by_token_endpoint_is_in_no_error_and_no_log(server, caplog) -> None:
    caplog.set_level(logging.DEBUG, "mcpkit")
    server.answers["token"] = [Repeats(server, "code_verifier")]
    with pytest.raises(AuthorizationError, match=r"\.\.\. was used before") as refused:
        async with Client(server.url, auth=clicking()):
            pass
    async with Client(server.url, auth=clicking()) as client:
        await client.call_tool("whoami")
        server.live.clear()
        server.answers["token"] = [Repeats(server, "refresh_token")]
        await client.call_tool("whoami")
    secrets = [
        form[name]
        for form in server.of("token")
        for name in ("code_verifier", "refresh_token")
        if name in form
    ]
    assert len(secrets) >= 3
    assert "could not be refreshed" in caplog.text
    assert "\nforged" not in caplog.text
    assert [each for each in secrets if each in f"{caplog.text} {refused.value}"] == []


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_token_repeated_by_server_is_in_no_error(server: Granting, status: int) -> None:
    async def repeat(scope: Any, receive: Any, send: Any) -> None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode()
        headers = {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{token} is bad"'}
        await Response(f"what is {token}?", status, headers)(scope, receive, send)

    async with Client(server.url, auth=clicking(), retries=Retries(attempts=1)) as client:
        await client.call_tool("whoami")
        server.answers["/mcp"] = [repeat]
        with pytest.raises(TransportError) as failed:
            await client.call_tool("whoami")
    tokens = {str(each).removeprefix("Bearer ") for each in server.authorizations if each}
    text = f"{failed.value} {getattr(failed.value, 'challenge', '')} {failed.value.__cause__}"
    assert "..." in text
    assert [token for token in tokens if token in text] == []


async def test_storage_open_to_others_stops_login(server: Granting) -> None:
    class OpenStorage(MemoryTokens):
        @asynccontextmanager
        async def lock(self, name: str) -> AsyncGenerator[None]:
            raise TokenStorageError("/tmp/locks is open to other users: remove it")
            yield

    with pytest.raises(AuthorizationError, match="is open to other users: remove it"):
        async with Client(server.url, auth=clicking(storage=OpenStorage())):
            pass
    assert server.of("authorize") == []


async def test_closing_session_uses_newest_token_and_asks_no_user(server: Granting) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), protocol_version="2025-11-25") as client:
        await client.call_tool("add_note", {"text": "a"})
        newest = list(server.live)[-1]
        server.authorizations.clear()
    assert server.authorizations == [f"Bearer {newest}"]
    server.may_refresh = False
    async with Client(server.url, auth=clicking(browser), protocol_version="2025-11-25") as client:
        await client.call_tool("whoami")
        visits = len(browser.visits)
        server.live.clear()
    assert len(browser.visits) == visits


async def test_challenge_without_metadata_url_uses_metadata_found_before(server: Granting) -> None:
    described = {"resource": server.url, "authorization_servers": [server.origin]}
    gone = [Response(status_code=404)]
    first = f'Bearer resource_metadata="{server.origin}/described", scope="notes:read"'
    more = 'Bearer error="insufficient_scope", scope="notes:write"'
    server.answers = {
        "/described": [JSONResponse(described)],
        RESOURCE_METADATA: gone,
        RESOURCE_METADATA.removesuffix("/mcp"): gone,
        "/mcp": [Response(status_code=401, headers={"WWW-Authenticate": first}), None],
    }
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser)) as client:
        await client.call_tool("whoami")
        server.answers["/mcp"] = [Response(status_code=403, headers={"WWW-Authenticate": more}), None]
        assert (await client.call_tool("add_note", {"text": "a"})).text == "added a"
    assert [page["scope"] for page in browser.visits] == ["notes:read", "notes:read notes:write"]
