"""Attacks on an OAuthProxy: two browsers, forged forms, other clients, stolen codes and tokens."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from mcpkit import Principal
from mcpkit._utils.exceptions import LoginNeededError
from mcpkit.auth import InvalidTokenError, VerifierUnavailableError
from tests.helpers.oauth_flow import PROXY_MCP, PROXY_ORIGIN, ProxyFlow, ProxyServer, form_of, redirect_params
from tests.helpers.tables import each_row

EVIL = "https://evil.example/callback"


@pytest.fixture
def attacker(proxy: ProxyServer) -> ProxyFlow:
    """The attacker's client and browser."""
    return proxy.flow(callback=EVIL)


async def visited(proxy: ProxyServer, forward: httpx2.Response, user: str = "ada") -> str:
    """Log a user in at the provider, and return the callback URL of the proxy."""
    proxy.upstream.user = user
    return await proxy.upstream.visit(forward.headers["location"])


async def user_of(proxy: ProxyServer, flow: ProxyFlow, response: httpx2.Response) -> str | None:
    """Return the user of the tokens that the client of a flow gets with a response; None without tokens."""
    if "location" not in response.headers or "code" not in redirect_params(response):
        return None
    tokens = (await flow.redeemed(redirect_params(response)["code"])).json()
    return (await proxy.granted(tokens)).principal.subject if "access_token" in tokens else None


async def test_consent_of_another_browser_gives_no_login(proxy, attacker):
    """The attacker consents, and has the victim open the provider's URL that follows (CVE-2026-27124)."""
    url = await visited(proxy, await attacker.answered())
    assert await user_of(proxy, attacker, await proxy.browser().get(url)) is None
    assert "redeem" not in proxy.upstream.asked
    assert await user_of(proxy, attacker, await attacker.back(url)) == "ada"  # in the same browser


@pytest.mark.parametrize("bound", [{"code_challenge", "nonce"}, set()], ids=["bound code", "unbound code"])
async def test_callback_with_swapped_login_cookie_is_rejected(proxy, flow, attacker, bound):
    """The attacker's login under the name of the victim's, who has allowed the editor."""
    proxy.upstream.bound = bound
    await attacker.answered()
    forward = await flow.answered()
    own, other = (
        next(each for each in browser.cookies.jar if "-login-" in each.name)
        for browser in (flow.browser, attacker.browser)
    )
    own.value = other.value
    assert await user_of(proxy, attacker, await flow.back(await visited(proxy, forward))) is None


@each_row("value", ["AAAA", "A" * 3800, "=", "x.y", "%00"])
async def test_callback_with_invalid_login_cookie_is_rejected(proxy, value):
    flow = proxy.flow()
    url = await flow.at_provider()
    next(each for each in flow.browser.cookies.jar if "-login-" in each.name).value = value
    assert (await flow.back(url)).status_code == 400


async def test_callback_replayed_is_rejected(proxy, attacker):
    """An attacker gets at the victim's cookies and provider URL later, and opens it again."""
    forward = await attacker.answered()
    cookies = httpx2.Cookies(attacker.browser.cookies)
    assert await user_of(proxy, attacker, await attacker.back(await visited(proxy, forward))) == "ada"
    attacker.browser.cookies = cookies
    assert (await attacker.back(await visited(proxy, forward))).status_code == 400


async def test_consent_form_sent_twice_gives_one_code(proxy, flow):
    form = form_of(await flow.page())
    urls = [await visited(proxy, await flow.browser.post("/authorize", data=form)) for _ in range(2)]
    assert await user_of(proxy, flow, await flow.back(urls[0])) == "ada"
    assert (await flow.back(urls[1])).status_code == 400
    assert proxy.upstream.asked.count("redeem") == 1


@pytest.mark.parametrize("bound", ["code_challenge", "nonce", None])
@pytest.mark.parametrize(
    ("owner", "user"), [("ada", "mallory"), ("mallory", "ada")], ids=["stolen", "injected"]
)
async def test_provider_code_of_another_login_is_rejected(proxy, flow, attacker, owner, user, bound):
    """PKCE on the provider's leg and the nonce of an ID token: either of them is enough."""
    proxy.upstream.bound = {bound} - {None}
    code = httpx2.URL(await visited(proxy, await flow.answered(), owner)).params["code"]
    url = httpx2.URL(await visited(proxy, await attacker.answered(), user)).copy_set_param("code", code)
    expected = owner if bound is None else None
    assert await user_of(proxy, attacker, await attacker.back(str(url))) == expected


def check_page(page: httpx2.Response) -> None:
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "<script" not in page.text


async def test_pages_have_security_headers(flow):
    query = (await flow.begun()).query
    for params in (query, None, {**query, "redirect_uri": EVIL}):
        check_page(await flow.browser.get("/authorize", params=params))
    check_page(await flow.browser.post("/authorize", data={"request": "x"}))


@each_row("query", [
    *({}, {"state": "x"}, {"code": "x"}, {"error": "access_denied", "state": "x"}),
    {"error": "<script>alert(1)</script>", "error_description": "<script>", "state": "<script>"},
    *({"code": "x", "state": state} for state in (
        "x", "x" * 30_000, "../../x\r\nSet-Cookie: a=b", "\u202e",
    )),
])  # fmt: skip
async def test_callback_without_login_is_page_without_redirect(proxy, query):
    page = await proxy.browser().get("/callback", params=query)
    assert 400 <= page.status_code < 500
    assert {"location", "set-cookie"}.isdisjoint(page.headers)
    check_page(page)
    assert not proxy.upstream.asked


async def test_link_without_consent_gives_nothing(proxy, flow):
    """The provider knows the user, and would not ask."""
    query = (await flow.begun()).query
    shown = await flow.browser.get("/authorize", params=query, headers={"Sec-Fetch-Site": "cross-site"})
    assert shown.status_code == 200
    denied = redirect_params(await flow.answered("deny"))
    assert (denied["error"], denied["iss"]) == ("access_denied", PROXY_ORIGIN)
    assert not proxy.upstream.asked


@each_row("headers", [
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example.com", "Sec-Fetch-Site": "same-site"},
    {"Origin": "https://mcp.example.com.evil.example"}, {"Origin": "https://mcp.example.com:8443"}, {},
])  # fmt: skip
async def test_consent_form_from_another_site_is_rejected(proxy, attacker, headers):
    """CSRF: the attacker fetches the page for themselves, and has the victim's browser send its form."""
    form, victim = form_of(await attacker.page()), proxy.flow()
    await victim.page()  # so that the victim's browser has a cookie of a page, too
    response = await victim.browser.post("/authorize", data=form, headers=headers)
    assert response.status_code == 403
    assert "location" not in response.headers


@pytest.mark.parametrize("place", ["query", "form"])
async def test_consent_is_bound_to_shown_client(proxy, flow, attacker, place):
    """The form of a good client, and the parameters of another one beside it."""
    form, bad = form_of(await flow.page()), (await attacker.begun()).query
    url = f"/authorize?{urlencode(bad)}" if place == "query" else "/authorize"
    forward = await flow.browser.post(url, data=form if place == "query" else {**form, **bad})
    if "location" in forward.headers:
        response = await flow.back(await visited(proxy, forward))
        assert response.headers["location"].startswith(flow.callback)
        assert await user_of(proxy, attacker, response) is None


async def test_cookies_have_host_prefix(proxy, flow):
    """Browsers take no cookie of such a name from a sibling host (RFC 6265bis, section 4.1.3.2)."""
    navigation = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    login = await flow.begun()
    page = await flow.browser.get("/authorize", params=login.query, headers=navigation)
    forward = await flow.browser.post("/authorize", data=form_of(page) | {"remember": "yes"})
    responses = (page, forward, await flow.back(await visited(proxy, forward)))
    for response in responses:
        cookies = response.headers.get_list("set-cookie")
        assert cookies
        for cookie in cookies:
            attributes = {each.strip().lower() for each in cookie.split(";")[1:]}
            assert cookie.startswith("__Host-mcpkit-")
            assert {"secure", "httponly", "path=/"} <= attributes
            assert not any(each.startswith("domain") for each in attributes)
            assert {"samesite=lax", "samesite=strict"} & attributes
    [remembered] = [each for each in cookies if "remembered" in each]
    assert "Max-Age=2592000" in remembered
    for text in ("ada", "notes", "127.0.0.1", login.client_id):
        assert text not in remembered.partition(";")[0]


async def test_token_of_another_server_is_rejected(proxy, tokens):
    """Two servers with one secret and one store: a token is for the server whose page was shown."""
    kept = {"shared": proxy.site.storage}
    other = ProxyServer(proxy.upstream, site_options=kept, origin="https://other.example.com")
    for auth, audience in (
        (proxy.auth, f"{PROXY_ORIGIN}/other"),
        (other.auth, "https://other.example.com/mcp"),
        (other.auth, PROXY_MCP),
    ):
        with pytest.raises(InvalidTokenError):
            await auth.verify(tokens["access_token"], audience)


async def test_proxy_of_another_provider_rejects_grant(proxy, flow, tokens):
    other = ProxyServer(
        type(proxy.upstream)(proxy.clock, name="other"), site_options={"shared": proxy.site.storage}
    )
    flow.browser = flow.client = other.browser()
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert other.upstream.asked == []


async def test_provider_token_is_rejected(proxy, flow, tokens):
    """Token passthrough: a token that the provider issued, to whatever client, is not accepted here."""
    assert proxy.upstream.live
    for token in proxy.upstream.live:
        with pytest.raises(InvalidTokenError):
            await proxy.granted({"access_token": token})
        assert (await flow.refreshed({"refresh_token": token})).status_code == 400


PROTOCOL_CLAIMS = {
    "scope": "notes:read notes:write notes:admin", "scp": ["notes:write"], "client_id": "another",
    "azp": "another", "grant": "of somebody else", "iss": "https://evil.example",
    "aud": ["https://other.example"], "exp": 9_999_999_999, "nbf": 1, "iat": 1, "jti": "x",
    "act": {"sub": "root"},
}  # fmt: skip


async def test_provider_claims_do_not_override_protocol_claims(proxy, flow):
    """Claims that users choose at the provider grant nothing."""
    proxy.upstream.claims = {**PROTOCOL_CLAIMS, "team": "red"}
    principal = (await proxy.granted(await flow.tokens())).principal
    assert principal.scopes == {"notes:read"}
    assert (principal.subject, principal.issuer) == ("ada", proxy.upstream.issuer)
    assert principal.client_id == (await flow.begun()).client_id
    assert principal.claims["team"] == "red"
    for name in ("scope", "client_id", "grant", "iss", "aud", "exp", "jti"):
        assert principal.claims.get(name) != PROTOCOL_CLAIMS[name]


@pytest.fixture
async def principals(proxy, attacker, tokens) -> tuple[Principal, Principal, Any]:
    """The principals of ada and mallory, and the tokens of mallory."""
    proxy.upstream.user = "mallory"
    others = await attacker.tokens()
    return (await proxy.granted(tokens)).principal, (await proxy.granted(others)).principal, others


async def test_token_for_forged_grant_is_rejected(proxy, principals):
    """`ctx.upstream_token` is the caller's own token, whatever the caller's claims are."""
    ada, mallory, _ = principals
    for principal, user in ((ada, "ada"), (mallory, "mallory")):
        token = await proxy.auth.token_for(principal, "example", proxy.context)
        assert proxy.upstream.live[token] == user
    forged = replace(mallory, claims={**mallory.claims, "grant": ada.claims["grant"]})
    with pytest.raises(LoginNeededError):
        await proxy.auth.token_for(forged, "example", proxy.context)


async def test_grant_record_moved_is_rejected(proxy, principals):
    """An attacker who can write to the store puts the victim's record in the place of their own."""
    ada, mallory, tokens = principals
    records = {key: stored async for key, stored in proxy.site.storage.items("")}
    source, target = (
        next(key for key in records if str(principal.claims["grant"]) in key) for principal in (ada, mallory)
    )
    version = records[target].version
    await proxy.site.storage.put(target, records[source].value, version=version, ttl=600)
    with pytest.raises(VerifierUnavailableError):
        await proxy.granted(tokens)
