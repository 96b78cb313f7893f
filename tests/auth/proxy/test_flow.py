"""Logins through an OAuthProxy in memory: configuration, cookies, allow= functions, failures of provider and store."""

import asyncio
import secrets
from collections.abc import Collection
from contextlib import closing
from typing import Any

import anyio
import httpx2
import pytest

from mcpkit.auth import InvalidTokenError, OAuthProxy, VerifierUnavailableError
from mcpkit.identity.principals_and_scopes import Principal
from mcpkit.storage import Sqlite
from tests.helpers.oauth_flow import (
    PROXY_MCP,
    PROXY_ORIGIN,
    FakeUpstream,
    ProxyFlow,
    ProxyServer,
    redirect_params,
    site,
)
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock


@pytest.mark.parametrize("resource", [PROXY_MCP, None])
async def test_proxy_login_returns_own_tokens(proxy, resource):
    flow = proxy.flow(resource=resource, scope="notes:write")
    params = redirect_params(await flow.back())
    login = await flow.begun()
    assert (params["state"], params["iss"]) == (login.query["state"], PROXY_ORIGIN)

    response = await flow.redeemed(params["code"])
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert tokens["scope"] == "notes:write"

    principal = (await proxy.granted(tokens)).principal
    assert principal.id == "https://id.example.com#sub=ada"
    assert (principal.issuer, principal.subject) == ("https://id.example.com", "ada")
    assert (principal.client_id, principal.scopes) == (login.client_id, {"notes:write"})
    assert principal.claims["login"] == "ada"
    visible = response.text + str(dict(principal.claims))
    assert not [secret for secret in proxy.upstream.handed_out if secret in visible]


async def test_proxy_legs_have_separate_challenge_and_state(proxy, flow):
    await flow.back()
    login, [upstream] = await flow.begun(), proxy.upstream.queries
    assert upstream["code_challenge"] != login.query["code_challenge"]
    assert upstream["state"] != login.query["state"]
    assert upstream["redirect_uri"] == f"{PROXY_ORIGIN}/callback"


def make_proxy(**options: Any) -> OAuthProxy:
    return OAuthProxy(FakeUpstream(Clock()), **options)


@each_row(("origin", "issuer", "problem"), [
    ("http://mcp.example.com", None, "public_url is not encrypted"),
    (PROXY_ORIGIN, "http://mcp.example.com", "the issuer of OAuthProxy is not encrypted"),
    (PROXY_ORIGIN, "https://id.example.com", "on the origin of public_url"),
    (PROXY_ORIGIN, f"{PROXY_ORIGIN}/login?tenant=1", "on the origin of public_url"),
    (PROXY_ORIGIN, f"{PROXY_ORIGIN}/login#x", "fragment"),
    (PROXY_ORIGIN, "mcp.example.com", "not a valid https URL"),
])  # fmt: skip
def test_proxy_url_or_issuer_invalid_raises(origin, issuer, problem):
    with pytest.raises(ValueError, match=problem):
        make_proxy(issuer=issuer).bind(site(origin=origin))


@each_row(("options", "problem"), [
    ({"allow": {"ada"}}, "allow= must be a function"), ({"token_lifetime": 0}, "above 0"),
    ({"token_lifetime": "1h"}, "a number of seconds above 0, got '1h'"), ({"title": ""}, "title"),
    ({"picture": b"no picture"}, "picture"),
])  # fmt: skip
def test_proxy_options_invalid_raise(options, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        make_proxy(**options)


async def test_proxy_serves_one_site():
    proxy, own = make_proxy(), site(origin=PROXY_ORIGIN)
    with pytest.raises(RuntimeError, match="bind"):
        proxy.routes()
    proxy.bind(own)
    proxy.bind(site(origin=PROXY_ORIGIN))
    for other, problem in (
        (site(origin="https://other.example.com"), f"already serves notes at {PROXY_ORIGIN}/mcp"),
        (own._replace(name="tasks"), f"already serves notes at {PROXY_ORIGIN}/mcp"),
        (own._replace(public_url=f"{PROXY_ORIGIN}/x/mcp"), f"cannot serve notes at {PROXY_ORIGIN}/x/mcp"),
    ):
        with pytest.raises(ValueError, match=problem):
            proxy.bind(other)


async def test_proxy_login_survives_secret_rotation(tmp_path):
    old, new = "the first secret of the tests", "the second secret of the tests"

    def move(flow: ProxyFlow, proxy: ProxyServer) -> None:
        cookies = flow.browser.cookies
        flow.browser = flow.client = proxy.browser()
        flow.browser.cookies = cookies

    with closing(Sqlite(tmp_path / "notes.db")) as shared:
        upstream = FakeUpstream(Clock())

        def restarted(secret: Any) -> ProxyServer:
            return ProxyServer(
                upstream, site_options={"shared": shared, "secret": secret}, token_lifetime=100_000.0
            )

        first = restarted(old)
        flow, begun = first.flow(), first.flow()
        tokens, url = await flow.tokens(), await begun.at_provider()

        second = restarted([new, old])
        move(begun, second)
        assert "code=" in (await begun.back(url)).headers["location"]
        assert (await second.granted(tokens)).principal.subject == "ada"
        move(flow, second)
        tokens = (await flow.refreshed(tokens)).json()

        assert await restarted(new).token_for(tokens) in upstream.live
        with pytest.raises((InvalidTokenError, VerifierUnavailableError)):
            await restarted(old).granted(tokens)


def login_cookies(browser: httpx2.AsyncClient) -> list[str]:
    return [name for name in browser.cookies if name.startswith("__Host-mcpkit-login-")]


async def test_unfinished_logins_store_nothing(proxy):
    for _ in range(20):
        assert (await proxy.flow().answered()).status_code == 303
    assert len(proxy.site.storage) == 0


async def test_callback_after_ten_minutes_is_rejected(proxy, flow):
    url = await flow.at_provider()
    proxy.clock.now += 600
    assert (await flow.back(url)).status_code == 400


async def test_long_request_uses_two_cookies(proxy):
    state = secrets.token_urlsafe(2500)
    flow = proxy.flow(state=state)
    url = await flow.at_provider()
    assert len(login_cookies(flow.browser)) == 2
    assert all(len(flow.browser.cookies[name]) <= 3800 for name in login_cookies(flow.browser))
    params = redirect_params(await flow.back(url))
    assert params["state"] == state
    assert "code" in params
    assert login_cookies(flow.browser) == []


async def test_request_too_long_for_cookies_is_rejected(proxy):
    flow = proxy.flow(state=secrets.token_urlsafe(6000))
    assert redirect_params(await flow.answered())["error"] == "invalid_request"
    assert login_cookies(flow.browser) == []


def check_location(response: httpx2.Response, callback: str) -> dict[str, str]:
    location = response.headers["location"]
    assert location.startswith(callback)
    assert location.isascii()
    assert location.isprintable()
    assert len(location) < 2000
    params = redirect_params(response)
    assert params["iss"] == PROXY_ORIGIN
    assert location.count("code=") + location.count("error=") == 1
    return params


@each_row(("error", "client_error"), [
    ("access_denied", "access_denied"),
    ("temporarily_unavailable", "temporarily_unavailable"),
    *((error, "server_error") for error in (
        "invalid_scope", "unauthorized_client", "<script>", "server_error\r\nSet-Cookie: a=b", "x" * 5000,
        "access_denied&code=attackers", "\u202e\x00", "é",
    )),
])  # fmt: skip
async def test_provider_error_is_mapped_for_client(proxy, error, client_error):
    flow = proxy.flow(visit=lambda url: proxy.upstream.refuse(url, error))
    response = await flow.back()
    params = check_location(response, flow.callback)
    assert params["error"] == client_error
    assert params["state"] == (await flow.begun()).query["state"]
    assert "<" not in params["error_description"]
    assert login_cookies(flow.browser) == []


@each_row("state", [
    "x\r\nSet-Cookie: stolen=1", "x\nLocation: https://evil.example", "x\x00y",
    "<script>alert(1)</script>", "'\"><img src=x>", "x&code=attackers&iss=https://evil.example",
    "x#code=attackers", "%0d%0aSet-Cookie:%20stolen=1", "\u2028\u202e\U0001f600", "é",
])  # fmt: skip
async def test_hostile_state_is_returned_unchanged(proxy, state):
    flow = proxy.flow(state=state, callback="http://127.0.0.1:3000/callback?a=1")
    for response in (await flow.back(), await flow.answered("deny")):
        assert check_location(response, f"{flow.callback}&")["state"] == state
        assert "stolen" not in str(response.headers.get_list("set-cookie"))


async def test_provider_down_at_authorize(proxy, flow, caplog):
    proxy.upstream.down.add("authorization_url")
    params = redirect_params(await flow.answered())
    assert (params["error"], params["iss"]) == ("temporarily_unavailable", PROXY_ORIGIN)
    assert "does not answer" in caplog.text


async def fail(*_: object, **__: object) -> None:
    raise ConnectionError


async def test_store_down_at_callback_can_be_retried(proxy, flow, monkeypatch):
    url = await flow.at_provider()
    with monkeypatch.context() as patch:
        patch.setattr(proxy.site.storage, "put", fail)
        assert (await flow.back(url)).status_code == 503
        assert "redeem" not in proxy.upstream.asked
    assert "code" in redirect_params(await flow.back(url))


async def test_store_down_after_redeem_revokes_tokens(proxy, flow, monkeypatch):
    proxy.upstream.during = lambda name: (
        monkeypatch.setattr(proxy.site.storage, "put", fail) if name == "redeem" else None
    )
    assert redirect_params(await flow.back())["error"] == "temporarily_unavailable"
    assert proxy.upstream.asked[-1] == "revoke"
    assert proxy.upstream.live == {}


async def allow_ada(principal: Principal) -> bool:
    return principal.claims["login"] == "ada"


@each_row(("allow", "scope"), [
    (lambda principal: principal.claims["login"] == "ada", "notes:write"),
    (allow_ada, "notes:write"),
    (lambda principal: {"notes:read", "notes:write"}, "notes:write"),
    (lambda principal: ["notes:read"], "notes:read"),
])  # fmt: skip
async def test_allow_true_or_scopes_grants(allow, scope):
    tokens = await ProxyServer(allow=allow).flow(scope="notes:write").tokens()
    assert tokens["scope"] == scope


@each_row(("allow", "error"), [
    (lambda principal: principal.claims["login"] == "grace", "access_denied"),
    (lambda principal: (), "access_denied"),
    *((allow, "server_error") for allow in (
        lambda principal: None, lambda principal: 1, lambda principal: principal.claims,
        lambda principal: principal.claims["nothing"], lambda principal: ["no scope"],
    )),
])  # fmt: skip
async def test_allow_false_or_invalid_result_denies(allow, error, caplog):
    caplog.clear()
    proxy = ProxyServer(allow=allow)
    params = redirect_params(await proxy.flow().back())
    assert (params["error"], params["iss"]) == (error, PROXY_ORIGIN)
    assert proxy.upstream.live == {}
    assert ("allow= raised an exception" in caplog.text) is (error == "server_error")
    assert not [secret for secret in proxy.upstream.handed_out if secret in caplog.text]


async def test_allow_unknown_scope_is_logged_and_not_granted(caplog):
    tokens = await ProxyServer(allow=lambda principal: ["notes:read", "other:scope"]).flow().tokens()
    assert tokens["scope"] == "notes:read"
    assert "allow= returns" in caplog.text
    assert "other:scope" in caplog.text


async def test_allow_timeout_denies(monkeypatch, caplog):
    async def allow(principal: Principal) -> bool:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr("mcpkit.auth.proxy.proxy_endpoints._ALLOW_TIMEOUT", 0.05)
    proxy = ProxyServer(allow=allow)
    with anyio.fail_after(20):
        assert redirect_params(await proxy.flow().back())["error"] == "server_error"
    assert proxy.upstream.live == {}
    assert "allow= did not return within 0.05 s" in caplog.text


async def test_allow_is_called_at_each_refresh():
    result: bool | Collection[str] | None = True
    proxy = ProxyServer(allow=lambda principal: result)
    flow = proxy.flow(scope="notes:write")
    tokens = await flow.tokens()
    for result, scope in ((["notes:read"], "notes:read"), (True, "notes:write")):
        tokens = (await flow.refreshed(tokens)).json()
        assert tokens["scope"] == scope
    result = None
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    for result in ([], False):
        response = await flow.refreshed(tokens)
        assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")
        assert proxy.upstream.live == {}
        with pytest.raises(InvalidTokenError):
            await proxy.granted(tokens)
        result = True
        flow = proxy.flow(scope="notes:write")
        tokens = await flow.tokens()


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_cancelled_callback_completes_login(is_allowed):
    started, go_on = asyncio.Event(), asyncio.Event()

    async def allow(principal: Principal) -> bool:
        started.set()
        await go_on.wait()
        return is_allowed

    proxy = ProxyServer(allow=allow)
    events: list[str] = []
    ended = asyncio.Event()

    def record(event: Any) -> None:
        if event.name in {"login", "refusal"}:
            events.append(event.name)
            ended.set()

    proxy.site.audit(record)
    flow = proxy.flow()
    callback = asyncio.ensure_future(flow.back(await flow.at_provider()))
    with anyio.fail_after(60):
        await started.wait()
        assert len(proxy.upstream.live) == 2
        callback.cancel()
        with pytest.raises(asyncio.CancelledError):
            await callback
        go_on.set()
        await ended.wait()
    assert events == ["login" if is_allowed else "refusal"]
    assert bool(proxy.upstream.live) is is_allowed
