"""A user logs in: what is asked of whom, and what goes along with requests from then on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from mcpkit import AuthorizationError, Client, MemoryTokens, OAuth, SyncClient
from mcpkit.client.authorization.client_authentication import PublicClient
from tests.helpers.granting import RESOURCE, WELL_KNOWN, Clicks, Granting, clicking

pytestmark = pytest.mark.anyio
REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_user_logs_in_once_and_every_request_carries_the_token(
    server: Granting, revision: str
) -> None:
    browser = Clicks()
    async with Client(server.url, auth=clicking(browser), revision=revision) as client:
        assert (await client.call("whoami")).text == "ada: notes:read"
        await client.list_tools(fresh=True)
    assert [endpoint for endpoint, _ in server.asked] == ["register", "authorize", "token"]
    [token] = server.live
    assert server.authorizations[0] is None
    assert set(server.authorizations[1:]) == {f"Bearer {token}"}
    assert len(server.authorizations) >= 4


async def test_what_is_asked_for_is_what_the_specification_wants(server: Granting) -> None:
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
async def test_calls_at_the_same_time_share_one_login(server: Granting) -> None:
    browser = Clicks()
    auth = clicking(browser)
    async with Client(server.url, auth=auth) as one, Client(server.url, auth=auth) as two:
        results = await asyncio.gather(*(client.call("whoami") for client in (one, two) for _ in range(10)))
    assert {result.text for result in results} == {"ada: notes:read"}
    assert len(browser.visits) == 1


async def test_clients_of_other_objects_find_the_tokens_that_are_kept(server: Granting) -> None:
    storage = MemoryTokens()
    first, second = Clicks(), Clicks()
    for browser in (first, second):
        async with Client(server.url, auth=OAuth(browser=browser, storage=storage)) as client:
            await client.call("whoami")
    assert (len(first.visits), len(second.visits)) == (1, 0)


async def test_a_registration_is_kept_and_its_redirect_uri_wanted_again(server: Granting) -> None:
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


async def test_a_client_that_is_answered_elsewhere_registers_anew(server: Granting) -> None:
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


async def test_a_client_that_has_been_forgotten_registers_anew_once(server: Granting) -> None:
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


async def test_a_user_is_not_left_at_a_page_that_knows_the_client_no_more(server: Granting) -> None:
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


async def test_a_client_by_hand_says_its_secret_and_registers_nowhere(server: Granting) -> None:
    server.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    auth = clicking(client_id="notebook", client_secret="the secret of it", issuer=server.origin)
    async with Client(server.url, auth=auth) as client:
        await client.call("whoami")
    assert server.of("register") == []
    assert server.of("authorize")[0]["client_id"] == "notebook"
    assert server.of("token")[0]["client_secret"] == "the secret of it"


async def test_a_client_by_hand_says_nothing_to_another_authorization_server(server: Granting) -> None:
    auth = clicking(client_id="notebook", client_secret="the secret of it", issuer="https://id.example.com")
    with pytest.raises(AuthorizationError, match=r"and not of 'https://id\.example\.com'"):
        await client_that_lists(server, auth)
    assert server.asked == []


async def test_a_document_is_the_id_where_that_is_understood_and_else_the_client_registers(
    server: Granting,
) -> None:
    url = "https://notebook.example.com/client.json"
    async with Client(server.url, auth=clicking(client_metadata_url=url)) as client:
        await client.call("whoami")
    assert len(server.of("register")) == 1
    server.metadata = {"client_id_metadata_document_supported": True}
    async with Client(server.url, auth=clicking(client_metadata_url=url)) as client:
        await client.call("whoami")
    assert len(server.of("register")) == 1
    assert server.of("authorize")[-1]["client_id"] == server.of("token")[-1]["client_id"] == url


async def test_a_server_that_registers_nobody_is_said_to_want_it_by_hand(server: Granting) -> None:
    server.metadata = {"registration_endpoint": None}
    with pytest.raises(
        AuthorizationError, match="register one there by hand, and give what it says"
    ) as refused:
        await client_that_lists(server, clicking())
    assert refused.value.status == 401
    assert "Bearer" in refused.value.challenge


async def test_what_a_registration_is_refused_for_is_said_with_the_redirect_uri(server: Granting) -> None:
    server.answers["register"] = [
        JSONResponse({"error": "invalid_redirect_uri", "error_description": "https only"}, 400)
    ]
    with pytest.raises(AuthorizationError, match=r"callback: 'invalid_redirect_uri .https only.'"):
        await client_that_lists(server, clicking())


async def test_who_says_no_is_told_that_they_have(server: Granting) -> None:
    server.back = lambda back: {"error": "access_denied", "state": back["state"], "iss": back["iss"]}
    with pytest.raises(AuthorizationError, match="refuses: 'access_denied'"):
        await client_that_lists(server, clicking())
    assert server.of("token") == []


async def test_a_server_of_2025_03_26_is_its_own_authorization_server(server: Granting) -> None:
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


async def test_without_any_metadata_the_endpoints_are_those_that_are_presumed(server: Granting) -> None:
    gone = [Response(status_code=404)]
    server.answers = {
        RESOURCE: gone,
        RESOURCE.removesuffix("/mcp"): gone,
        "/mcp": [Response(status_code=401)],
    }
    server.answers[WELL_KNOWN] = gone
    with pytest.raises(AuthorizationError, match=r"HTTP 404, and no client_id: .*registered by hand"):
        await client_that_lists(server, clicking())


def test_code_without_an_event_loop_logs_in_too(server: Granting) -> None:
    with SyncClient(server.url, auth=clicking()) as client:
        assert client.call("whoami").text == "ada: notes:read"


async def test_one_server_of_a_configuration_may_want_a_login(server: Granting) -> None:
    configuration = {"mcpServers": {"notes": {"url": server.url, "auth": "oauth"}}}
    with pytest.MonkeyPatch.context() as patch:
        browser = Clicks()
        patch.setattr("mcpkit.client.authorization.loopback.Loopback", lambda: browser)
        patch.setattr("mcpkit.client.authorization.authorization.default_storage", MemoryTokens)
        async with Client(configuration) as client:
            assert (await client.call("whoami")).text == "ada: notes:read"
    assert len(browser.visits) == 1


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"client_id": "a"}, "name it with issuer="),
        ({"client_secret": "a"}, "needs nothing else"),
        ({"issuer": "http://id.example.com"}, "not encrypted"),
        ({"client_metadata_url": "http://localhost/client.json"}, "begins with https://"),
        ({"client_metadata_url": "https://example.com"}, "has a path"),
        ({"authentication": PublicClient("another")}, "is that of the client which client_id="),
    ],
)
def test_what_does_not_fit_together_is_refused_at_once(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        clicking(**options)


@pytest.mark.parametrize("auth", ["a-token", OAuth])
def test_what_is_no_authorization_is_refused_without_showing_it(auth: Any) -> None:
    with pytest.raises(
        TypeError, match=r"OAuth\(\) or ClientCredentials.*, or a user and a password"
    ) as refused:
        Client("http://127.0.0.1:1/mcp", auth=auth)
    assert "a-token" not in str(refused.value)


def test_scopes_are_no_text() -> None:
    with pytest.raises(TypeError, match=r"write \['a', 'b'\]"):
        clicking(scopes="a b")


async def test_no_token_goes_to_a_server_that_is_not_encrypted() -> None:
    with pytest.raises(ValueError, match="the URL of a server that wants tokens is not encrypted"):
        async with Client("http://192.0.2.1/mcp", auth=clicking()):
            pass


async def client_that_lists(server: Granting, auth: OAuth) -> None:
    async with Client(server.url, auth=auth) as client:
        await client.list_tools()


async def test_without_a_login_it_is_said_how_there_may_be_one(server: Granting) -> None:
    with pytest.raises(AuthorizationError, match='and auth="oauth" by having a user log in'):
        async with Client(server.url):
            pass
