"""Clients of any kind come in: old ones, ones with a document, ones that register themselves, ones with proofs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit.auth import OAuthProxy
from mcpkit.client.authorization.dpop import Proofs
from tests.helpers.authority_site import Login
from tests.helpers.browser import Profile
from tests.helpers.documented import documented
from tests.helpers.serving import in_thread_at
from tests.interop.authorization.proxy.proxied import (
    Proxied,
    at_provider,
    challenge_of,
    directory,
    proxied,
    served,
)
from tests.interop.authorization.python_client import Kept, authorization, connected
from tests.interop.authorization.test_client import Bob
from tests.interop.authorization.test_client import journey as with_ours
from tests.interop.authorization.test_python_client import journey as in_python
from tests.interop.authorization.test_typescript import CLIENT_2
from tests.interop.authorization.test_typescript import journey as in_typescript
from tests.interop.authorization.test_ways_in import called
from tests.interop.authorization.user import DOCUMENT, User

CALLBACK = "http://127.0.0.1:1/callback"


@pytest.fixture
def fetched() -> Iterator[list[str]]:
    """What is asked of an internet with the document of one client alone."""
    with documented({str(DOCUMENT["client_id"]): DOCUMENT}) as asked:
        yield asked


def by_python(proxy: Proxied, page: Profile) -> None:
    user = User(page)
    auth = authorization(proxy.url, Kept(), user.log_in, client_metadata_url=DOCUMENT["client_id"])
    assert anyio.run(in_python, proxy.url, "auto", auth)["added"] == "added"


def by_typescript(proxy: Proxied, page: Profile) -> None:
    user = User(page)
    said = in_typescript(CLIENT_2, proxy.url, ("auto",), user.log_in, document=DOCUMENT["client_id"])
    assert said["seen"]["added"] == "added"


def by_ours(proxy: Proxied, page: Profile) -> None:
    bob = Bob(lambda url, name: page.log_in(url, name))
    auth = bob.auth(client_metadata_url=str(DOCUMENT["client_id"]))
    anyio.run(with_ours, proxy.guarded, auth, None)


@pytest.mark.parametrize("journey", [by_python, by_typescript, by_ours])
def test_a_client_with_a_document_does_not_register(
    proxy: Proxied, page: Profile, fetched: list[str], journey: Callable[[Proxied, Profile], None]
) -> None:
    journey(proxy, page)
    assert fetched == [DOCUMENT["client_id"]], "once, for both logins"
    assert proxy.wire.seen("/register", "POST") == []
    clients = {event.client_id for event in proxy.events if event.name == "login"}
    assert clients == {DOCUMENT["client_id"]}
    proxy.check_legs(logins=2)
    proxy.check_secrets(page)


def test_what_is_shown_of_a_client_with_a_document_names_the_host_of_that(
    proxy: Proxied, page: Profile, fetched: list[str]
) -> None:
    login = Login(str(DOCUMENT["client_id"]), CALLBACK, resource=proxy.url)
    end = page.log_in(f"{origin_of(proxy)}/authorize?{urlencode(login.query)}", "bob", answers=True)
    assert "client.example.com" in end.pages[0]
    assert fetched == [DOCUMENT["client_id"]]


def origin_of(proxy: Proxied) -> str:
    return proxy.url.removesuffix("/mcp")


def test_a_client_of_2025_03_26_finds_all_at_the_origin_and_names_no_resource(
    proxy: Proxied, page: Profile
) -> None:
    """It knows the URL of the server alone: metadata at its origin, or the paths that it takes without any."""
    verifier = "v" * 43
    with httpx2.Client(base_url=origin_of(proxy)) as client:
        assert client.post("/mcp", json={}).status_code == 401
        headers = {"MCP-Protocol-Version": "2025-03-26"}
        found = client.get("/.well-known/oauth-authorization-server", headers=headers).json()
        assert found["issuer"] == origin_of(proxy)
        paths = [found[f"{each}_endpoint"] for each in ("authorization", "token", "registration")]
        assert paths == [f"{origin_of(proxy)}/{each}" for each in ("authorize", "token", "register")]
        metadata = {"client_name": "Old", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        client_id = client.post("/register", json=metadata).json()["client_id"]
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        login = page.log_in(f"{origin_of(proxy)}/authorize?{urlencode(query)}", "bob", answers=True)
        form = {
            "grant_type": "authorization_code",
            "code": login.answer["code"],
            "redirect_uri": CALLBACK,
            "client_id": client_id,
            "code_verifier": verifier,
        }
        token = client.post("/token", data=form).json()["access_token"]
        opening = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-03-26",
                "capabilities": {},
                "clientInfo": {"name": "old", "version": "1"},
            },
        }
        accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
        assert client.post("/mcp", json=opening, headers=accept).status_code == 200
        with client.stream("GET", "/sse", headers=accept) as stream:
            assert stream.status_code == 200
    proxy.check_legs(logins=1)


def test_nobody_is_promised_that_tokens_are_bound_to_a_key(proxy: Proxied, page: Profile) -> None:
    with httpx2.Client(base_url=origin_of(proxy)) as client:
        for document in (
            "oauth-authorization-server",
            "openid-configuration",
            "oauth-protected-resource/mcp",
        ):
            found = client.get(f"/.well-known/{document}").raise_for_status().json()
            assert not [name for name in found if "dpop" in name]
        metadata = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
        login = Login(
            client.post("/register", json=metadata).json()["client_id"], CALLBACK, resource=proxy.url
        )
        end = page.log_in(f"{origin_of(proxy)}/authorize?{urlencode(login.query)}", "bob", answers=True)
        proof = Proofs().proof("POST", f"{origin_of(proxy)}/token")
        answer = client.post("/token", data=login.form(end.answer["code"]), headers={"DPoP": proof})
    assert answer.json()["token_type"] == "Bearer"


@pytest.mark.parametrize("path", ["/login", "/realms/one"])
def test_an_issuer_with_a_path(page: Profile, path: str) -> None:
    with proxied(issuer=path) as proxy:
        kept = Kept()
        user = User(page)
        auth = authorization(proxy.url, kept, user.log_in)
        assert anyio.run(in_python, proxy.url, "auto", auth)["added"] == "added"
        said = in_typescript(CLIENT_2, proxy.url, ("auto",), user.log_in)
        assert said["seen"]["added"] == "added"
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


def test_two_mounted_servers_have_two_issuers_at_one_origin(page: Profile) -> None:
    user = User(page)
    with ExitStack() as stack:

        def make(origin: str) -> Any:
            proxies, apps = [], {}
            for name in ("one", "two"):
                provider = stack.enter_context(at_provider(f"{origin}/{name}/callback"))
                proxies.append(OAuthProxy(directory(provider), issuer=f"{origin}/{name}"))
                apps[name] = served(proxies[-1], [])[0].asgi(public_url=f"{origin}/{name}/mcp")

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
        kept = {"one": Kept(), "two": Kept()}

        async def journey(name: str) -> Any:
            url = f"{origin}/{name}/mcp"
            async with connected(url, authorization(url, kept[name], user.log_in)) as client:
                return await called(client, "profile")

        for name in kept:
            assert anyio.run(journey, name)["said"]["email"] == "bob@example.com"
        assert [login.answer["iss"] for login in user.logins] == [f"{origin}/one", f"{origin}/two"]
        tokens = kept["one"].tokens
        assert tokens is not None
        headers = {"Authorization": f"Bearer {tokens.access_token}"}
        assert httpx2.post(f"{origin}/two/mcp", json={}, headers=headers).status_code == 401


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_tool_that_asks_for_more_in_its_midst(proxy: Proxied, page: Profile, mode: str) -> None:
    user = User(page)

    async def journey() -> list[Any]:
        async with connected(proxy.url, authorization(proxy.url, Kept(), user.log_in), mode=mode) as client:
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
    asked = [parse_qs(urlsplit(f"?{each.query}").query)["scope"] for each in proxy.wire.seen("/authorize")]
    assert len(asked) == 3
    assert "Change the notes of everybody" in user.logins[2].pages[0]
    proxy.check_legs(logins=3)


def test_http_with_sse_is_an_audience_of_its_own(proxy: Proxied, page: Profile) -> None:
    url = f"{origin_of(proxy)}/sse"
    kept = Kept()

    async def journey() -> Any:
        auth = authorization(url, kept, User(page).log_in)
        async with connected(url, auth, mode="legacy") as client:
            return await called(client, "whoami")

    assert anyio.run(journey) == {"subject": "bob", "scopes": ["notes:read"]}
    assert kept.tokens is not None
    headers = {"Authorization": f"Bearer {kept.tokens.access_token}"}
    assert httpx2.post(proxy.url, json={}, headers=headers).status_code == 401


def test_a_token_of_the_provider_opens_nothing_here(proxy: Proxied, page: Profile) -> None:
    anyio.run(with_ours, proxy.guarded, Bob(page.log_in).auth(), None)
    exchanged = proxy.provider.seen("/token")[0].said
    for kind in ("access_token", "id_token"):
        headers = {"Authorization": f"Bearer {exchanged[kind]}"}
        assert httpx2.post(proxy.url, json={}, headers=headers).status_code == 401
    shown = json.dumps([event._asdict() for event in proxy.events])
    assert "bob@example.com" not in shown


def test_a_user_who_does_not_want_to_be_asked_again_is_not_by_the_same_program(
    proxy: Proxied, page: Profile
) -> None:
    metadata = {"client_name": "Editor", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    pages = []
    for name in ("Editor", "Editor", "Another"):
        if name not in pages:
            answer = httpx2.post(f"{origin_of(proxy)}/register", json={**metadata, "client_name": name})
            client_id = answer.json()["client_id"]
        login = Login(client_id, CALLBACK, resource=proxy.url, scope="notes:read")
        end = page.log_in(
            f"{origin_of(proxy)}/authorize?{urlencode(login.query)}", "bob", remembers=True, answers=True
        )
        pages += [name, *end.pages]
        tokens = httpx2.post(f"{origin_of(proxy)}/token", data=login.form(end.answer["code"])).json()
        assert tokens["token_type"] == "Bearer"
    asked = [text for text in pages if "to use ours" in text]
    assert ["Another" in text for text in asked] == [False, True]
    proxy.check_legs(logins=3)


WEB_CLIENTS = [
    ("Claude", "https://claude.ai/api/mcp/auth_callback", {}),
    ("Claude", "https://claude.com/api/mcp/auth_callback", {}),
    ("ChatGPT", "https://chatgpt.com/connector_platform_oauth_redirect", {"scope": ""}),
    ("Visual Studio Code", "https://vscode.dev/redirect", {}),
    ("Cursor", "cursor://anysphere.cursor-mcp/oauth/callback", {}),
]


@pytest.mark.parametrize(("name", "callback", "more"), WEB_CLIENTS)
def test_clients_elsewhere_on_the_web_and_with_schemes_of_their_own(
    proxy: Proxied, page: Profile, name: str, callback: str, more: dict[str, str]
) -> None:
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
