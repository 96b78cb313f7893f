"""Logins through an OAuthProxy in memory: configuration, cookies, allow= functions, failures of provider and store."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import httpx2
import pytest

from mcpkit._utils.exceptions import LoginNeededError, ProviderUnavailableError
from mcpkit.auth import InvalidTokenError, OAuthProxy, VerifierUnavailableError
from mcpkit.auth.authorization_server.grants import CODE_LIFETIME, GRACE
from mcpkit.auth.proxy import upstream_logins
from mcpkit.auth.proxy.upstream_logins import LEASE
from mcpkit.identity.principals_and_scopes import Principal
from mcpkit.storage import Sqlite
from mcpkit.storage.memory import Memory
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
from tests.helpers.waiting import Clock, until


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


# Provider tokens of an OAuthProxy: refreshed once when due, and revoked with the login


ADA = "https://id.example.com#sub=ada"


@pytest.fixture
def proxy() -> ProxyServer:
    """A proxy with tokens that outlive those of the provider."""
    clock = Clock()
    return ProxyServer(clock=clock, site_options={"shared": Memory(clock)}, token_lifetime=100_000.0)


@pytest.fixture
def revocations(proxy: ProxyServer) -> list[str | None]:
    """The principals of revocations in the audit log."""
    principals: list[str | None] = []
    proxy.site.audit(lambda event: principals.append(event.principal) if event.name == "revocation" else None)
    return principals


async def error_of(request: Awaitable[httpx2.Response]) -> tuple[int, str]:
    response = await request
    return response.status_code, response.json()["error"]


INVALID_GRANT = (400, "invalid_grant")


@asynccontextmanager
async def during_refresh(proxy: ProxyServer) -> AsyncIterator[None]:
    """Hold refreshes at the provider: run the block when one has begun, and let it go on afterwards."""
    proxy.upstream.open.clear()
    with anyio.fail_after(20):
        await until(lambda: "refresh" in proxy.upstream.asked)
        yield
        proxy.upstream.open.set()


async def test_provider_token_is_refreshed_in_last_minute(proxy, tokens):
    first = await proxy.token_for(tokens)
    proxy.clock.now += 3541
    second = await proxy.token_for(tokens)
    assert second != first
    assert second in proxy.upstream.live
    assert await proxy.token_for(tokens) == second
    assert proxy.upstream.asked.count("refresh") == 1


async def test_concurrent_requests_refresh_once(proxy, tokens):
    proxy.clock.now += 3600
    other = ProxyServer(proxy.upstream, site_options={"shared": proxy.site.storage})
    waiting = [asyncio.ensure_future(each.token_for(tokens)) for each in [proxy, other] * 10]
    async with during_refresh(proxy):
        await asyncio.wait(waiting, timeout=0.1)  # so that each of them has found the refresh
    assert len(set(await asyncio.gather(*waiting))) == 1
    assert proxy.upstream.asked.count("refresh") == 1


async def test_refresh_lease_of_dead_process_expires(proxy, tokens):
    proxy.clock.now += 3600
    grant = (await proxy.granted(tokens)).principal.claims["grant"]
    assert await proxy.site.storage.claim(f"notes/refreshing/{grant}/0", LEASE)  # and the process has ended
    waiting = asyncio.ensure_future(proxy.token_for(tokens))
    await asyncio.wait([waiting], timeout=0.3)
    assert proxy.upstream.asked.count("refresh") == 0
    proxy.clock.now += LEASE
    with anyio.fail_after(20):
        assert await waiting in proxy.upstream.live


async def test_aclose_waits_for_refresh(proxy, tokens):
    proxy.clock.now += 3600
    waiting = [asyncio.ensure_future(proxy.token_for(tokens))]
    async with during_refresh(proxy):
        waiting.append(asyncio.ensure_future(proxy.auth.aclose()))
        await asyncio.wait(waiting, timeout=0.1)
        assert not any(task.done() for task in waiting)
    token, _ = await asyncio.gather(*waiting)
    assert token in proxy.upstream.live
    assert await proxy.token_for(tokens) == token
    assert proxy.upstream.asked.count("refresh") == 1


async def test_grant_revoked_during_refresh_leaves_no_tokens(proxy, flow, tokens):
    proxy.clock.now += 3600
    waiting = asyncio.ensure_future(proxy.token_for(tokens))
    async with during_refresh(proxy):
        await flow.revoked(tokens["refresh_token"])
    with pytest.raises(LoginNeededError):
        await waiting
    assert proxy.upstream.live == {}


async def test_provider_down_at_refresh_is_503(proxy, flow, tokens):
    proxy.clock.now += 3600
    proxy.upstream.down.update({"refresh", "identify"})
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    with pytest.raises(ProviderUnavailableError, match="Try again later"):
        await proxy.token_for(tokens)
    proxy.upstream.down.clear()
    assert (await flow.refreshed(tokens)).status_code == 200


async def test_login_ended_at_provider_raises_login_needed(proxy, flow, tokens):
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 3600
    proxy.upstream.live.clear()
    for _ in range(2):
        with pytest.raises(LoginNeededError, match=r"has ended. Log in again"):
            await proxy.auth.token_for(principal, "example", proxy.context)
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT


async def test_provider_without_refresh_token_ends_at_expiry(proxy, flow):
    proxy.upstream.is_refreshing = False
    tokens = await flow.tokens()
    proxy.clock.now += 3599
    assert await proxy.token_for(tokens) in proxy.upstream.live
    principal = (await proxy.granted(tokens)).principal
    proxy.clock.now += 1
    with pytest.raises(LoginNeededError, match="has ended"):
        await proxy.auth.token_for(principal, "example", proxy.context)
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT


async def test_provider_token_of_another_user_ends_login(proxy, flow, tokens):
    proxy.upstream.live = dict.fromkeys(proxy.upstream.live, "eve")
    proxy.clock.now += 600
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT
    assert proxy.upstream.live == {}


async def test_revoked_provider_token_is_replaced(proxy, flow, tokens):
    del proxy.upstream.live[await proxy.token_for(tokens)]
    proxy.clock.now += 600
    refreshed = (await flow.refreshed(tokens)).json()
    assert await proxy.token_for(refreshed) in proxy.upstream.live


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoke_ends_login_at_provider(proxy, flow, revocations, kind):
    tokens = await flow.tokens()
    for _ in range(2):  # the second time nothing is left to revoke
        assert (await flow.revoked(tokens[kind])).status_code == 200
        assert proxy.upstream.live == {}
        assert revocations == [ADA]
    assert proxy.upstream.asked.count("revoke") == 1


async def test_revoke_with_provider_down_ends_login(proxy, flow, tokens):
    proxy.upstream.down.add("revoke")
    assert (await flow.revoked(tokens["refresh_token"])).status_code == 200
    with pytest.raises(InvalidTokenError):
        await proxy.granted(tokens)


async def test_refresh_reuse_ends_login_at_provider(proxy, flow, revocations):
    tokens = await flow.tokens()
    again = (await flow.refreshed(tokens)).json()
    proxy.clock.now += GRACE
    assert (await flow.refreshed(tokens)).json()["refresh_token"] == again["refresh_token"]
    proxy.clock.now += 1
    assert await error_of(flow.refreshed(tokens)) == INVALID_GRANT
    assert proxy.upstream.live == {}
    assert revocations == [ADA]
    assert await error_of(flow.refreshed(again)) == INVALID_GRANT


async def test_revoke_principal_ends_all_logins(proxy):
    for _ in range(3):
        await proxy.flow().tokens()
    pending = proxy.flow()
    code = await pending.code()
    proxy.upstream.user = "grace"
    grace = proxy.flow()
    tokens = await grace.tokens()
    await proxy.auth.revoke(Principal(ADA), proxy.context)
    assert set(proxy.upstream.live.values()) == {"grace"}
    assert await error_of(pending.redeemed(code)) == INVALID_GRANT
    assert (await grace.refreshed(tokens)).status_code == 200


async def test_code_never_redeemed_is_revoked(proxy, monkeypatch):
    monkeypatch.setattr(upstream_logins, "ABANDONED", 0.2)
    await proxy.flow().tokens()
    code = await proxy.flow().code()
    assert len(proxy.upstream.live) == 4
    proxy.clock.now += CODE_LIFETIME
    await until(lambda: len(proxy.upstream.live) == 2)
    assert await error_of(proxy.flow().redeemed(code)) == INVALID_GRANT
