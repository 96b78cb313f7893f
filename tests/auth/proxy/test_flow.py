"""Logins through an OAuthProxy in memory, its configuration, and what it stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from mcpkit import Sqlite
from mcpkit.auth import InvalidTokenError, OAuthProxy, VerifierUnavailableError
from mcpkit.state.memory import Memory
from mcpkit.tasks.record import read, written
from tests.helpers.authority_site import said as redirect_params
from tests.helpers.authority_site import site
from tests.helpers.clock import Clock
from tests.helpers.proxied import MCP, ORIGIN, Proxied
from tests.helpers.stand_in import StandIn

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("resource", [MCP, None])
async def test_proxy_login_returns_own_tokens(resource):
    here = Proxied()
    flow = here.flow(resource=resource, scope="notes:write")
    answer = redirect_params(await flow.back())
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


async def test_proxy_legs_have_separate_challenge_and_state():
    here = Proxied()
    flow = here.flow()
    await flow.back()
    login, [upstream] = await flow.begun(), here.upstream.queries
    assert upstream["code_challenge"] != login.query["code_challenge"]
    assert upstream["state"] != login.query["state"]
    assert upstream["redirect_uri"] == f"{ORIGIN}/callback"


async def test_proxy_asks_provider_only_after_consent():
    here = Proxied()
    flow = here.flow()
    page = await flow.page()
    assert page.status_code == 200
    assert here.upstream.asked == []
    denied = redirect_params(await flow.answered("deny"))
    assert (denied["error"], denied["iss"]) == ("access_denied", ORIGIN)
    assert here.upstream.asked == []


async def test_proxy_redirect_to_provider_headers_and_cookie():
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


def proxy(**options: Any) -> OAuthProxy:
    return OAuthProxy(StandIn(Clock()), **options)


@pytest.mark.parametrize(
    ("origin", "issuer", "problem"),
    [
        ("http://mcp.example.com", None, "public_url is not encrypted"),
        (ORIGIN, "http://mcp.example.com", "the issuer of OAuthProxy is not encrypted"),
        (ORIGIN, "https://id.example.com", "at the origin of public_url"),
        (ORIGIN, f"{ORIGIN}/login?tenant=1", "at the origin of public_url"),
        (ORIGIN, f"{ORIGIN}/login#x", "fragment"),
        (ORIGIN, "mcp.example.com", "no URL"),
    ],
)
def test_proxy_url_or_issuer_invalid_raises(origin, issuer, problem):
    with pytest.raises(ValueError, match=problem):
        proxy(issuer=issuer).enter(site(origin=origin))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"allow": {"ada"}}, "allow= is a function"),
        ({"token_lifetime": 0}, "above 0"),
        ({"token_lifetime": "1h"}, "a number of seconds above 0, got '1h'"),
        ({"title": ""}, "title"),
        ({"picture": b"no picture"}, "picture"),
    ],
)
def test_proxy_options_invalid_raise(options, problem):
    with pytest.raises((TypeError, ValueError), match=problem):
        proxy(**options)


def test_proxy_wrong_provider_type_hides_value():
    wrong: Any = "the client's secret"
    with pytest.raises(TypeError, match="takes an Upstream") as caught:
        OAuthProxy(wrong)
    assert wrong not in str(caught.value)


async def test_proxy_serves_one_site():
    one = proxy()
    with pytest.raises(RuntimeError, match="enter"):
        one.routes()
    one.enter(site(origin=ORIGIN))
    one.enter(site(origin=ORIGIN))
    for other in (site(origin="https://other.example.com"), site(origin=ORIGIN)._replace(name="tasks")):
        with pytest.raises(ValueError, match=f"serves notes at {ORIGIN}/mcp already"):
            one.enter(other)
    moved = site(origin=ORIGIN)._replace(public_url=f"{ORIGIN}/notes/mcp")
    with pytest.raises(ValueError, match=f"would serve notes at {ORIGIN}/notes/mcp"):
        one.enter(moved)


async def test_proxy_issuer_with_path():
    here = Proxied(issuer=f"{ORIGIN}/login")
    flow = here.flow(path="/login")
    answer = redirect_params(await flow.back())
    assert answer["iss"] == f"{ORIGIN}/login"
    assert here.upstream.queries[0]["redirect_uri"] == f"{ORIGIN}/login/callback"
    assert (await flow.redeemed(answer["code"])).status_code == 200


def test_proxy_start_notices(tmp_path, caplog):
    here = proxy()
    here.enter(site(origin=ORIGIN))
    here.enter(site(origin=ORIGIN))
    assert here.notices() == (
        f"notes: users log in with Example, where the callback {ORIGIN}/callback has to be registered",
    )
    assert caplog.text.count("logins end with this process") == 1
    caplog.clear()
    with closing(Sqlite(tmp_path / "notes.db")) as shared:
        proxy().enter(site(origin=ORIGIN, shared=shared))
    assert "logins end" not in caplog.text


@pytest.mark.parametrize(
    ("is_public", "allow", "warned"),
    [(True, None, True), (True, lambda who: True, False), (False, None, False)],
)
def test_proxy_public_provider_without_allow_logs_warning(is_public, allow, warned, caplog):
    upstream = StandIn(Clock())
    upstream.is_public = is_public
    OAuthProxy(upstream, allow=allow).enter(site(origin=ORIGIN))
    assert ("anybody may have an account at Example" in caplog.text) is warned


async def test_proxy_in_worker_returns_provider_token():
    here = Proxied()
    tokens = await here.flow().tokens()
    principal = read(written((await here.granted(tokens)).principal))
    worker = OAuthProxy(here.upstream, clock=here.clock)
    assert await worker.token_for(principal, "example", here.ground) in here.upstream.live


OLD, NEW = "the first secret of the tests", "the second secret of the tests"


@asynccontextmanager
async def at(file: Path, upstream: StandIn | None = None, **kept: Any) -> AsyncIterator[Proxied]:
    with closing(Sqlite(file)) as shared:
        yield Proxied(upstream, kept={"shared": shared, **kept}, token_lifetime=100_000.0)


async def test_proxy_login_survives_restart(tmp_path):
    file = tmp_path / "notes.db"
    async with at(file) as first:
        flow = first.flow()
        tokens = await flow.tokens()
        upstream = first.upstream
    async with at(file, upstream) as second:
        flow.browser = flow.client = second.browser()
        assert await second.token_for(tokens) in upstream.live
        assert (await flow.refreshed(tokens)).status_code == 200


async def test_proxy_store_file_holds_no_plain_secrets(tmp_path):
    async with at(tmp_path / "notes.db") as here:
        flow = here.flow()
        tokens = await flow.tokens()
        await flow.refreshed(tokens)
        stored = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert len(stored) > 1000
    secrets = [*here.upstream.handed_out, tokens["access_token"], tokens["refresh_token"], "#sub=ada"]
    assert not [secret for secret in secrets if secret.encode() in stored]


async def test_proxy_login_survives_secret_rotation(tmp_path):
    file = tmp_path / "notes.db"
    async with at(file, secret=OLD) as first:
        flow = first.flow()
        tokens = await flow.tokens()
        begun = first.flow()
        url = await begun.at_provider()
        cookies, upstream = begun.browser.cookies, first.upstream
    async with at(file, upstream, secret=[NEW, OLD]) as second:
        begun.browser = begun.client = second.browser()
        begun.browser.cookies = cookies
        assert "code=" in (await begun.back(url)).headers["location"]
        assert (await second.granted(tokens)).principal.subject == "ada"
        flow.browser = flow.client = second.browser()
        tokens = (await flow.refreshed(tokens)).json()
    async with at(file, upstream, secret=NEW) as third:
        assert await third.token_for(tokens) in upstream.live
    async with at(file, upstream, secret=OLD) as wrong:
        with pytest.raises((InvalidTokenError, VerifierUnavailableError)):
            await wrong.granted(tokens)


async def test_proxy_of_another_provider_rejects_grant():
    shared = Memory()
    one = Proxied(kept={"shared": shared})
    other = Proxied(StandIn(one.clock, name="other"), kept={"shared": shared})
    flow = one.flow()
    tokens = await flow.tokens()
    flow.browser = flow.client = other.browser()
    assert (await flow.refreshed(tokens)).json()["error"] == "invalid_grant"
    assert other.upstream.asked == []
