"""Logins of users: registration, authorization request, tokens, over each transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import AuthorizationError, Client, MemoryTokens, OAuth
from mcpkit.auth import DevAuth
from mcpkit.client.authorization.client_authentication import PublicClient
from mcpkit.client.transports.http.sse import SseTransport
from tests.helpers.granting import RESOURCE, Clicks, Granting, clicking, notes
from tests.helpers.logging_in import User
from tests.helpers.oauth_flow import PageForms
from tests.helpers.serving import in_thread_at

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_login_once_and_token_is_sent_with_each_request(server: Granting, revision: str) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision=revision) as client:
        assert (await client.call("whoami")).text == "ada: notes:read"
        await client.list_tools(fresh=True)
    assert [endpoint for endpoint, _ in server.asked] == ["register", "authorize", "token"]
    [token] = server.live
    assert server.authorizations[0] is None
    assert set(server.authorizations[1:]) == {f"Bearer {token}"}
    assert len(server.authorizations) >= 4


async def test_login_requests_follow_specification(server: Granting) -> None:
    server.metadata = {"scopes_supported": ["notes:read", "offline_access"]}
    async with Client(server.url, auth=clicking(client_name="The notebook")):
        pass
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
    assert page["response_type"] == "code"
    assert page["resource"] == token["resource"] == server.url
    assert page["scope"] == "notes:read offline_access"
    assert page["prompt"] == "consent"
    assert page["code_challenge_method"] == "S256"
    assert (token["grant_type"], "scope" in token, "client_secret" in token) == (
        "authorization_code",
        False,
        False,
    )
    assert len(token["code_verifier"]) >= 43


@pytest.mark.slow
async def test_login_is_shared_by_concurrent_calls(server: Granting) -> None:
    browser = Clicks()
    auth = clicking(browser)
    async with Client(server.url, auth=auth) as one, Client(server.url, auth=auth) as two:
        results = await asyncio.gather(*(client.call("whoami") for client in (one, two) for _ in range(10)))
    assert {result.text for result in results} == {"ada: notes:read"}
    assert len(browser.visits) == 1


async def test_registration_is_reused_with_its_redirect_uri(server: Granting) -> None:
    storage = MemoryTokens()
    server.may_refresh = False
    browser = Clicks()
    for _ in range(2):
        server.live.clear()
        async with Client(server.url, auth=OAuth(browser=browser, storage=storage)) as client:
            await client.call("whoami")
    assert len(server.of("register")) == 1
    assert len(browser.visits) == 2
    assert browser.registered == [(), ("http://127.0.0.1:3999/callback",)]


async def test_registration_is_renewed_for_other_redirect_uri(server: Granting) -> None:
    storage = MemoryTokens()
    server.may_refresh = False
    for port in (3999, 4999):
        server.live.clear()
        browser = Clicks(f"http://127.0.0.1:{port}/callback")
        async with Client(server.url, auth=OAuth(browser=browser, storage=storage)) as client:
            await client.call("whoami")
    assert [each["redirect_uris"] for each in server.of("register")] == [
        ["http://127.0.0.1:3999/callback"],
        ["http://127.0.0.1:4999/callback"],
    ]


async def test_registration_rejected_is_renewed_once(server: Granting) -> None:
    storage = MemoryTokens()
    server.may_refresh = False
    server.answers["token"] = [JSONResponse({"error": "invalid_client"}, 401)]
    async with Client(server.url, auth=clicking(storage=storage)) as client:
        await client.call("whoami")
    assert len(server.of("register")) == 2
    server.live.clear()
    server.answers["token"] = [JSONResponse({"error": "invalid_client"}, 401) for _ in range(2)]
    with pytest.raises(AuthorizationError, match="invalid_client"):
        await client_that_lists(server, clicking(storage=storage))
    assert len(server.of("register")) == 3


async def test_registration_unknown_at_login_page_is_renewed(server: Granting) -> None:
    storage = MemoryTokens()
    server.may_refresh = False
    browser = Clicks()
    for _ in range(2):
        async with Client(server.url, auth=OAuth(browser=browser, storage=storage)) as client:
            await client.call("whoami")
        server.live.clear()
        server.forgotten = {page["client_id"] for page in server.of("authorize")}
    assert len(server.of("register")) == 2
    assert [page["client_id"] for page in browser.visits] == [
        page["client_id"] for page in server.of("authorize")
    ]


async def test_login_with_registered_client_uses_its_secret(server: Granting) -> None:
    server.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    auth = clicking(client_id="notebook", client_secret="the secret of it", issuer=server.origin)
    async with Client(server.url, auth=auth) as client:
        await client.call("whoami")
    assert server.of("register") == []
    assert server.of("authorize")[0]["client_id"] == "notebook"
    assert server.of("token")[0]["client_secret"] == "the secret of it"


async def test_login_with_other_issuer_sends_nothing(server: Granting) -> None:
    auth = clicking(client_id="notebook", client_secret="the secret of it", issuer="https://id.example.com")
    with pytest.raises(AuthorizationError, match=r"and not of 'https://id\.example\.com'"):
        await client_that_lists(server, auth)
    assert server.asked == []


async def test_login_uses_client_metadata_document_where_supported(server: Granting) -> None:
    url = "https://notebook.example.com/client.json"
    async with Client(server.url, auth=clicking(client_metadata_url=url)) as client:
        await client.call("whoami")
    assert len(server.of("register")) == 1
    server.metadata = {"client_id_metadata_document_supported": True}
    async with Client(server.url, auth=clicking(client_metadata_url=url)) as client:
        await client.call("whoami")
    assert len(server.of("register")) == 1
    assert server.of("authorize")[-1]["client_id"] == server.of("token")[-1]["client_id"] == url


async def test_login_without_registration_endpoint_is_error(server: Granting) -> None:
    server.metadata = {"registration_endpoint": None}
    with pytest.raises(
        AuthorizationError, match="register one there by hand, and give what it says"
    ) as refused:
        await client_that_lists(server, clicking())
    assert refused.value.status == 401
    assert "Bearer" in refused.value.challenge


async def test_login_denied_is_error(server: Granting) -> None:
    server.back = lambda back: {"error": "access_denied", "state": back["state"], "iss": back["iss"]}
    with pytest.raises(AuthorizationError, match="refuses: 'access_denied'"):
        await client_that_lists(server, clicking())
    assert server.of("token") == []


async def test_login_without_resource_metadata_uses_server_as_issuer(server: Granting) -> None:
    gone = [Response(status_code=404)]
    server.answers = {
        RESOURCE: gone,
        RESOURCE.removesuffix("/mcp"): gone,
        "/mcp": [Response(status_code=401)],
    }
    browser = Clicks()
    task = asyncio.ensure_future(client_that_lists(server, clicking(browser)))
    with pytest.raises(AuthorizationError, match="does not accept the token that has just been issued"):
        await task
    assert [endpoint for endpoint, _ in server.asked] == ["register", "authorize", "token"]
    assert server.of("authorize")[0]["resource"] == server.url
    assert "scope" not in server.of("authorize")[0]


@pytest.mark.parametrize(("options", "wrong"), [
    ({"client_id": "a"}, "name it with issuer="),
    ({"client_secret": "a"}, "needs nothing else"),
    ({"issuer": "http://id.example.com"}, "not encrypted"),
    ({"client_metadata_url": "http://localhost/client.json"}, "begins with https://"),
    ({"client_metadata_url": "https://example.com"}, "has a path"),
    ({"authentication": PublicClient("another")}, "is that of the client which client_id="),
])  # fmt: skip
def test_oauth_invalid_options_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        clicking(**options)


async def test_oauth_plain_http_is_refused() -> None:
    with pytest.raises(ValueError, match="the URL of a server that wants tokens is not encrypted"):
        async with Client("http://192.0.2.1/mcp", auth=clicking()):
            pass


async def client_that_lists(server: Granting, auth: OAuth) -> None:
    async with Client(server.url, auth=auth) as client:
        await client.list_tools()


def served() -> Any:
    return in_thread_at(
        lambda origin: notes(DevAuth(users=["ada", "grace"])).asgi(public_url=f"{origin}/mcp")
    )


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_dev_auth_login_and_step_up(revision: str) -> None:
    ada = User("ada")
    with served() as origin:
        async with Client(f"{origin}/mcp", auth=ada.auth, revision=revision) as client:
            assert (await client.call("whoami")).text == "ada: notes:read"
            assert (await client.call("add_note", {"text": "milk"})).text == "added milk"
            assert (await client.call("whoami")).text == "ada: notes:read notes:write"
    assert ada.asked == [{"notes:read"}, {"notes:read", "notes:write"}]


async def test_dev_auth_sse_is_a_resource_of_its_own() -> None:
    ada = User("ada")
    with served() as origin:
        async with Client(SseTransport(f"{origin}/sse", auth=ada.auth), revision="2024-11-05") as client:
            assert (await client.call("whoami")).text == "ada: notes:read"
            result = await client.call("add_note", {"text": "milk"})
            assert (result.is_error, "notes:write" in result.text) == (
                True,
                True,
            )  # the stream cannot be a 403
    assert ada.asked == [{"notes:read"}]


async def test_dev_auth_users_have_separate_tokens() -> None:
    ada, grace = User("ada"), User("grace")
    with served() as origin:
        async with (
            Client(f"{origin}/mcp", auth=ada.auth) as first,
            Client(f"{origin}/mcp", auth=grace.auth) as second,
        ):
            results = await asyncio.gather(
                *(each.call("whoami") for each in (first, second) for _ in range(5))
            )
    assert [result.text for result in results] == ["ada: notes:read"] * 5 + ["grace: notes:read"] * 5


class InApp:
    """A browser that asks an app in this process."""

    redirect_uri = "http://127.0.0.1:3999/callback"

    def __init__(self, app: Any) -> None:
        self._app = app

    @asynccontextmanager
    async def landing(self, registered: Sequence[str] = ()) -> AsyncIterator[InApp]:
        yield self

    async def visit(self, url: str, state: str) -> Mapping[str, str]:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self._app)) as browser:
            page = await browser.get(url)
            [form] = [form for form in PageForms(page.text).forms if form.get("user") == "ada"]
            answer = await browser.post(url, data=form)
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


@pytest.mark.parametrize("revision", ["2026-07-28"])
async def test_dev_auth_in_process_app(revision: str) -> None:
    app = notes(DevAuth(users=["ada"])).asgi(public_url="http://127.0.0.1:8000/mcp")
    auth = OAuth(browser=InApp(app), storage=MemoryTokens())
    async with Client(app, auth=auth, revision=revision) as client:
        assert (await client.call("whoami")).text == "ada: notes:read"
        assert (await client.call("add_note", {"text": "milk"})).text == "added milk"
