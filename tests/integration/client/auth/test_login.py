"""Logins of users and tokens of programs: registration, requests, and tokens that are refreshed and never shown."""

import asyncio
import logging
from base64 import b64encode
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import Client, Retries
from mcpkit.auth import DevAuth
from mcpkit.client import ClientCredentials, MemoryTokens, OAuth
from mcpkit.client.auth.token_endpoint import SecretAuthentication
from mcpkit.exceptions import AuthorizationError, TransportError
from tests.helpers.authorization_server import RESOURCE_METADATA, Clicks, Granting, TokenSite, clicking, notes
from tests.helpers.oauth_flow import User
from tests.helpers.serving import in_thread_at
from tests.helpers.tables import each_row


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
