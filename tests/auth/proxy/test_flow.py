"""The flow through an OAuthProxy, from the registration of a client to the end of the login."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from mcpkit.auth import InvalidTokenError
from tests.helpers.authority_site import said
from tests.helpers.proxied import MCP, ORIGIN, Proxied

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("resource", [MCP, None])
async def test_a_user_logs_in_with_the_provider_and_the_client_gets_tokens_of_this_server(
    resource: str | None,
) -> None:
    here = Proxied()
    flow = here.flow(resource=resource, scope="notes:write")
    answer = said(await flow.back())
    login = await flow.begun()
    assert answer["state"] == login.query["state"]
    assert answer["iss"] == ORIGIN

    response = await flow.redeemed(answer["code"])
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert tokens["scope"] == "notes:write"
    assert not [secret for secret in here.upstream.handed_out if secret in response.text]

    grant = await here.granted(tokens)
    principal = grant.principal
    assert principal.id == "https://id.example.com#sub=ada"
    assert (principal.issuer, principal.subject) == ("https://id.example.com", "ada")
    assert (principal.client_id, principal.scopes) == (login.client_id, {"notes:write"})
    assert principal.claims["login"] == "ada"
    assert not [secret for secret in here.upstream.handed_out if secret in str(dict(principal.claims))]


async def test_each_leg_has_its_own_challenge_and_its_own_state() -> None:
    here = Proxied()
    flow = here.flow()
    await flow.back()
    login, [upstream] = await flow.begun(), here.upstream.queries
    assert upstream["code_challenge"] != login.query["code_challenge"]
    assert upstream["state"] != login.query["state"]
    assert upstream["redirect_uri"] == f"{ORIGIN}/callback"


async def test_nothing_is_forwarded_before_the_user_has_allowed_it() -> None:
    here = Proxied()
    flow = here.flow()
    page = await flow.page()
    assert page.status_code == 200
    assert here.upstream.asked == []
    denied = said(await flow.answered("deny"))
    assert (denied["error"], denied["iss"]) == ("access_denied", ORIGIN)
    assert here.upstream.asked == []


async def test_the_redirect_to_the_provider_tells_nobody_and_is_kept_nowhere() -> None:
    here = Proxied()
    forward = await here.flow().answered()
    assert forward.status_code == 303
    assert forward.headers["location"].startswith("https://id.example.com/authorize?")
    assert forward.headers["referrer-policy"] == "no-referrer"
    assert forward.headers["cache-control"] == "no-store"
    [cookie] = forward.headers.get_list("set-cookie")
    state = dict(parse_qsl(urlsplit(forward.headers["location"]).query))["state"]
    assert cookie.startswith(f"__Host-mcpkit-login-{state}=")
    for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=600"):
        assert attribute in cookie


async def test_the_cookie_is_gone_when_the_user_has_come_back() -> None:
    here = Proxied()
    flow = here.flow()
    response = await flow.back()
    assert response.status_code == 303
    assert not [name for name in flow.browser.cookies if "login" in name]


async def test_a_client_refreshes_its_tokens() -> None:
    here = Proxied()
    flow = here.flow()
    tokens = await flow.tokens()
    refreshed = (await flow.refreshed(tokens)).json()
    assert refreshed["refresh_token"] != tokens["refresh_token"]
    assert (await here.granted(refreshed)).principal.subject == "ada"
    assert "refresh" not in here.upstream.asked


async def test_a_revoked_token_is_worth_nothing_and_the_provider_hears_of_it() -> None:
    here = Proxied()
    flow = here.flow()
    tokens = await flow.tokens()
    assert len(here.upstream.live) == 2
    assert (await flow.revoked(tokens["refresh_token"])).status_code == 200
    with pytest.raises(InvalidTokenError):
        await here.granted(tokens)
    assert here.upstream.live == {}
