"""An OAuthProxy with a real provider: documents, paths, scopes, provider calls."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Client, OAuth
from mcpkit.auth import OAuthProxy
from mcpkit.state.principal import user
from tests.helpers.browser import Profile
from tests.helpers.oauth_flow import Login, client_documents
from tests.helpers.serving import in_thread_at
from tests.integration.auth.clients import (
    CLIENT_2,
    DOCUMENT,
    ClientUser,
    TokenStorage,
    User,
    authorization,
    connected,
    python_journey,
    typescript_journey,
)
from tests.integration.auth.servers import (
    ProxyServer,
    make_proxy_server,
    serve_provider,
    serve_proxy,
    upstream_of,
)


@pytest.fixture
def fetched_urls() -> Iterator[list[str]]:
    with client_documents({str(DOCUMENT["client_id"]): DOCUMENT}) as requested:
        yield requested


def by_python(proxy: ProxyServer, page: Profile) -> None:
    user = User(page)
    auth = authorization(proxy.url, TokenStorage(), user.log_in, client_metadata_url=DOCUMENT["client_id"])
    assert anyio.run(python_journey, proxy.url, "auto", auth)["added"] == "added"


def by_typescript(proxy: ProxyServer, page: Profile) -> None:
    user = User(page)
    result = typescript_journey(CLIENT_2, proxy.url, ("auto",), user.log_in, document=DOCUMENT["client_id"])
    assert result["seen"]["added"] == "added"


def by_ours(proxy: ProxyServer, page: Profile) -> None:
    bob = ClientUser(lambda url, name: page.log_in(url, name))
    auth = bob.auth(client_metadata_url=str(DOCUMENT["client_id"]))
    anyio.run(client_journey, proxy.url, auth)


@pytest.mark.parametrize("journey", [by_python, by_typescript, by_ours])
def test_client_with_document_does_not_register(proxy, page, fetched_urls, journey):
    journey(proxy, page)
    assert fetched_urls == [DOCUMENT["client_id"]], "once, for both logins"
    assert proxy.wire.seen("/register", "POST") == []
    clients = {event.client_id for event in proxy.events if event.name == "login"}
    assert clients == {DOCUMENT["client_id"]}
    proxy.check_legs(logins=2)
    proxy.check_secrets(page)


def origin_of(proxy: ProxyServer) -> str:
    return proxy.url.removesuffix("/mcp")


@pytest.mark.parametrize("path", ["/realms/one"])
def test_issuer_with_path(page, path):
    with serve_proxy(issuer=path) as proxy:
        stored = TokenStorage()
        user = User(page)
        auth = authorization(proxy.url, stored, user.log_in)
        assert anyio.run(python_journey, proxy.url, "auto", auth)["added"] == "added"
        result = typescript_journey(CLIENT_2, proxy.url, ("auto",), user.log_in)
        assert result["seen"]["added"] == "added"
        issuers = {login.answer["iss"] for login in user.logins}
        assert issuers == {f"{origin_of(proxy)}{path}"}
        where = f"{origin_of(proxy)}/.well-known"
        documents = [
            f"{where}/oauth-authorization-server{path}",
            f"{where}/openid-configuration{path}",
            f"{origin_of(proxy)}{path}/.well-known/openid-configuration",
        ]
        assert {httpx2.get(each).raise_for_status().json()["issuer"] for each in documents} == issuers
        proxy.check_legs(logins=4, issuer=path)


def test_two_mounted_servers_with_two_issuers(page):
    user = User(page)
    with ExitStack() as stack:

        def make(origin: str) -> Any:
            proxies, apps = [], {}
            for name in ("one", "two"):
                provider = stack.enter_context(serve_provider(f"{origin}/{name}/callback"))
                proxies.append(OAuthProxy(upstream_of(provider), issuer=f"{origin}/{name}"))
                apps[name] = make_proxy_server(proxies[-1], [])[0].asgi(public_url=f"{origin}/{name}/mcp")

            @asynccontextmanager
            async def lifespan(_: Starlette) -> AsyncIterator[None]:
                yield
                for (
                    proxy
                ) in proxies:  # of apps in a mount nobody says that the loop ends, but the end of the process
                    await proxy.aclose()

            routes = [route for app in apps.values() for route in app.well_known()]
            mounts = [Mount(f"/{name}", app) for name, app in apps.items()]
            return Starlette(routes=[*routes, *mounts], lifespan=lifespan)

        origin = stack.enter_context(in_thread_at(make))
        stored = {"one": TokenStorage(), "two": TokenStorage()}

        async def journey(name: str) -> Any:
            url = f"{origin}/{name}/mcp"
            async with connected(url, authorization(url, stored[name], user.log_in)) as client:
                return await called(client, "profile")

        for name in stored:
            assert anyio.run(journey, name)["result"]["email"] == "bob@example.com"
        assert [login.answer["iss"] for login in user.logins] == [f"{origin}/one", f"{origin}/two"]
        tokens = stored["one"].tokens
        assert tokens is not None
        headers = {"Authorization": f"Bearer {tokens.access_token}"}
        assert httpx2.post(f"{origin}/two/mcp", json={}, headers=headers).status_code == 401


@pytest.mark.parametrize("mode", ["auto"])
def test_tool_requires_more_scopes_during_call(proxy, page, mode):
    user = User(page)

    async def journey() -> list[Any]:
        async with connected(
            proxy.url, authorization(proxy.url, TokenStorage(), user.log_in), mode=mode
        ) as client:
            # One at a time: this client logs in for more once in a call.
            return [
                await called(client, "add_note", text="a"),
                await called(client, "pin_note", text="b"),
                await called(client, "whoami"),
            ]

    everything = {"subject": "bob", "scopes": ["notes:admin", "notes:read", "notes:write"]}
    assert anyio.run(journey) == ["added", "pinned", everything]
    assert [each for each in proxy.guarded.challenges if each[0] == 403] == [
        (403, "tools/call add_note", True),
        (403, "tools/call pin_note", True),
    ]
    requested = [
        parse_qs(urlsplit(f"?{each.query}").query)["scope"] for each in proxy.wire.seen("/authorize")
    ]
    assert len(requested) == 3
    assert "Change the notes of everybody" in user.logins[2].pages[0]
    proxy.check_legs(logins=3)


def test_sse_endpoint_is_separate_audience(proxy, page):
    url = f"{origin_of(proxy)}/sse"
    stored = TokenStorage()

    async def journey() -> Any:
        auth = authorization(url, stored, User(page).log_in)
        async with connected(url, auth, mode="legacy") as client:
            return await called(client, "whoami")

    assert anyio.run(journey) == {"subject": "bob", "scopes": ["notes:read"]}
    assert stored.tokens is not None
    headers = {"Authorization": f"Bearer {stored.tokens.access_token}"}
    assert httpx2.post(proxy.url, json={}, headers=headers).status_code == 401


def test_provider_token_is_rejected(proxy, page):
    anyio.run(client_journey, proxy.url, ClientUser(page.log_in).auth())
    exchanged = proxy.provider.seen("/token")[0].said
    for kind in ("access_token", "id_token"):
        headers = {"Authorization": f"Bearer {exchanged[kind]}"}
        assert httpx2.post(proxy.url, json={}, headers=headers).status_code == 401
    shown = json.dumps([event._asdict() for event in proxy.events])
    assert "bob@example.com" not in shown


WEB_CLIENTS = [
    ("Claude", "https://claude.ai/api/mcp/auth_callback", {}),
    ("ChatGPT", "https://chatgpt.com/connector_platform_oauth_redirect", {"scope": ""}),
    ("Cursor", "cursor://anysphere.cursor-mcp/oauth/callback", {}),
]


@pytest.mark.parametrize(("name", "callback", "more"), WEB_CLIENTS)
def test_web_and_private_scheme_clients_log_in(proxy, page, name, callback, more):
    parts = urlsplit(callback)
    where = parts.hostname if parts.scheme == "https" else parts.scheme
    assert where is not None
    metadata = {
        "client_name": name,
        "redirect_uris": [callback],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
    with httpx2.Client(base_url=origin_of(proxy)) as client:
        answer = client.post("/register", json=metadata)
        assert answer.status_code == 201, answer.text
        login = Login(answer.json()["client_id"], callback, resource=proxy.url, **more)
        end = page.log_in(f"{origin_of(proxy)}/authorize?{urlencode(login.query)}", "bob", answers=True)
        assert name in end.pages[0]
        assert where in end.pages[0]
        assert ("this device" in end.pages[0]) == (where == "cursor")
        assert end.answer["state"] == login.query["state"]
        tokens = client.post("/token", data=login.form(end.answer["code"])).raise_for_status().json()
    assert tokens["refresh_token"]
    proxy.check_legs(logins=1)


async def called(client: Any, tool: str, **arguments: str) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    text = result.content[0].text
    return json.loads(text) if text.startswith("{") else text


PATIENCE = 60.0


PROFILE = {
    "said": {"sub": "bob", "email": "bob@example.com"},
    "known": "bob@example.com",
}


async def call_as(
    proxy: ProxyServer, client_user: ClientUser, revision: str | None = None, tool: str = "profile"
) -> Any:
    async with Client(proxy.url, auth=client_user.auth(), revision=revision) as client:
        return (await client.call(tool)).structured


@pytest.mark.anyio
async def test_tool_uses_refreshed_provider_token(page):
    with serve_proxy(provided={"token_seconds": 10}) as proxy:
        client_user = ClientUser(page.log_in)
        deadline = time.monotonic() + PATIENCE
        while len(exchanges := proxy.provider.seen("/token")) < 3 and time.monotonic() < deadline:
            assert await call_as(proxy, client_user) == PROFILE
        assert len(client_user.logins) == 1
        kinds = [each.params["grant_type"] for each in exchanges]
        assert kinds == ["authorization_code", "refresh_token", "refresh_token"]
        used = [each.params["refresh_token"] for each in exchanges[1:]]
        assert used == [each.said["refresh_token"] for each in exchanges[:-1]], "each once, the newest always"
        proxy.check_secrets(page)


@pytest.mark.anyio
async def test_revoked_user_logs_in_again(proxy, page):
    client_user = ClientUser(page.log_in)
    assert (await call_as(proxy, client_user, tool="whoami"))["subject"] == "bob"
    async with httpx2.AsyncClient() as http:
        path = f"{proxy.url.removesuffix('/mcp')}/send-away"
        sent = await http.post(path, params={"who": user(proxy.provider.issuer, "bob").id})
    assert sent.status_code == 204, sent.text
    [first] = proxy.provider.seen("/token")
    revoked = {each.params["token"] for each in proxy.provider.seen("/token/revocation")}
    assert first.said["refresh_token"] in revoked
    assert (await call_as(proxy, client_user)) == PROFILE
    assert len(client_user.logins) == 2


async def client_journey(url: str, auth: OAuth) -> None:
    async with Client(url, auth=auth) as client:
        assert (await client.call("whoami")).structured == {"subject": "bob", "scopes": ["notes:read"]}
        assert (await client.call("add_note", {"text": "a"})).text == "added"
