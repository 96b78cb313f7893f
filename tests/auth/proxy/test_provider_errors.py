"""Errors of the provider, allow= functions and cancelled requests at an OAuthProxy."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import pytest

from mcpkit.auth import InvalidTokenError
from mcpkit.auth.upstream.tokens import UpstreamTokens
from mcpkit.state.principal import Principal
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import PROXY_ORIGIN, FakeUpstream, ProxyServer, redirect_params

pytestmark = pytest.mark.anyio


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


@pytest.mark.parametrize(
    ("error", "client_error"),
    [
        ("access_denied", "access_denied"),
        ("temporarily_unavailable", "temporarily_unavailable"),
        ("invalid_scope", "server_error"),
        ("unauthorized_client", "server_error"),
        ("<script>", "server_error"),
    ],
)
async def test_provider_error_is_mapped_for_client(proxy, error, client_error):
    flow = proxy.flow(visit=lambda url: proxy.upstream.refuse(url, error))
    response = await flow.back()
    answer = redirect_params(response)
    assert (answer["error"], answer["iss"]) == (client_error, PROXY_ORIGIN)
    assert answer["state"] == (await flow.begun()).query["state"]
    assert response.headers["location"].startswith(flow.callback)
    assert not [name for name in flow.browser.cookies if "login" in name]


async def test_provider_code_of_another_login_is_rejected(proxy):
    mine, theirs = proxy.flow(), proxy.flow()
    stolen = query_of(await theirs.at_provider())["code"]
    url = await mine.at_provider()
    injected = url.replace(query_of(url)["code"], stolen)
    assert redirect_params(await mine.back(injected))["error"] == "server_error"
    assert proxy.upstream.live == {}


async def test_provider_down_at_authorize(proxy, caplog):
    proxy.upstream.down.add("authorization_url")
    answer = redirect_params(await proxy.flow().answered())
    assert (answer["error"], answer["iss"]) == ("temporarily_unavailable", PROXY_ORIGIN)
    assert "does not answer" in caplog.text


async def test_store_down_at_callback_can_be_retried(proxy, flow, monkeypatch):
    url = await flow.at_provider()
    with monkeypatch.context() as away:
        away.setattr(proxy.site.storage, "put", failing)
        response = await flow.back(url)
        assert response.status_code == 503
        assert "redeem" not in proxy.upstream.asked
    assert "code" in redirect_params(await flow.back(url))


async def failing(*_: object, **__: object) -> None:
    raise ConnectionError


async def allow_async(principal: Principal) -> bool:
    return principal.claims["login"] == "ada"


@pytest.mark.parametrize(
    "allow",
    [
        lambda principal: principal.claims["login"] == "ada",
        allow_async,
        lambda principal: {"notes:read", "notes:write"},
    ],
)
async def test_allow_true_or_scopes_grants(allow):
    proxy = ProxyServer(allow=allow)
    tokens = await proxy.flow(scope="notes:write").tokens()
    assert tokens["scope"] == "notes:write"


@pytest.mark.parametrize(
    "allow", [lambda principal: principal.claims["login"] == "grace", lambda principal: ()]
)
async def test_allow_false_or_empty_denies(allow):
    proxy = ProxyServer(allow=allow)
    answer = redirect_params(await proxy.flow().back())
    assert (answer["error"], answer["iss"]) == ("access_denied", PROXY_ORIGIN)
    assert proxy.upstream.live == {}


@pytest.mark.parametrize(
    "allow",
    [
        lambda principal: None,
        lambda principal: 1,
        lambda principal: principal.claims,
        lambda principal: principal.claims["nothing"],
        lambda principal: ["no scope"],
    ],
)
async def test_allow_invalid_result_or_error_denies(allow, caplog):
    proxy = ProxyServer(allow=allow)
    assert redirect_params(await proxy.flow().back())["error"] == "server_error"
    assert proxy.upstream.live == {}
    assert "allow= raised an exception" in caplog.text
    assert not [secret for secret in proxy.upstream.handed_out if secret in caplog.text]


async def test_allow_timeout_denies(monkeypatch, caplog):
    async def allow(principal: Principal) -> bool:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr("mcpkit.auth.proxy.admission._TIMEOUT", 0.05)
    proxy = ProxyServer(allow=allow)
    with anyio.fail_after(20):
        assert redirect_params(await proxy.flow().back())["error"] == "server_error"
    assert proxy.upstream.live == {}
    assert "allow= did not return within 0.05 s" in caplog.text


async def test_allow_narrows_scopes():
    proxy = ProxyServer(allow=lambda principal: ["notes:read"])
    tokens = await proxy.flow(scope="notes:admin").tokens()
    assert tokens["scope"] == "notes:read"


async def test_allow_is_called_at_each_refresh():
    may: list[bool | Collection[str]] = [True]
    proxy = ProxyServer(allow=lambda principal: may[0])
    flow = proxy.flow(scope="notes:write")
    tokens = await flow.tokens()
    may[0] = ["notes:read"]
    fewer = (await flow.refreshed(tokens)).json()
    assert fewer["scope"] == "notes:read"
    may[0] = True
    again = (await flow.refreshed(fewer)).json()
    assert again["scope"] == "notes:write"
    may[0] = False
    response = await flow.refreshed(again)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")
    assert proxy.upstream.live == {}
    with pytest.raises(InvalidTokenError):
        await proxy.granted(again)


async def test_allow_error_at_refresh_is_503(caplog):
    answers: list[Any] = [True, None, True]
    proxy = ProxyServer(allow=lambda principal: answers.pop(0))
    flow = proxy.flow()
    tokens = await flow.tokens()
    response = await flow.refreshed(tokens)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["retry-after"] == "5"
    assert (await flow.refreshed(tokens)).status_code == 200


@pytest.mark.parametrize("may", [True, False])
async def test_cancelled_callback_completes_login(*, may):
    is_asked, go_on = asyncio.Event(), asyncio.Event()

    async def allow(who: Principal) -> bool:
        is_asked.set()
        await go_on.wait()
        return may

    proxy = ProxyServer(allow=allow)
    logins = list[str]()
    proxy.site.audit(lambda event: logins.append(event.name) if event.name in {"login", "refusal"} else None)
    flow = proxy.flow()
    coming = asyncio.ensure_future(flow.back(await flow.at_provider()))
    with anyio.fail_after(60):
        await is_asked.wait()
        assert len(proxy.upstream.live) == 2
        coming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await coming
        go_on.set()
        while not logins:
            await anyio.sleep(0.01)
    assert logins == ["login" if may else "refusal"]
    assert bool(proxy.upstream.live) is may


class Slow(FakeUpstream):
    def __init__(self) -> None:
        super().__init__(Clock())
        self.is_asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def revoke(self, tokens: UpstreamTokens) -> None:
        self.is_asked.set()
        await self.go_on.wait()
        await super().revoke(tokens)


async def test_store_down_after_redeem_revokes_tokens(proxy, monkeypatch):
    proxy.upstream.during = lambda name: (
        monkeypatch.setattr(proxy.site.storage, "put", failing) if name == "redeem" else None
    )
    assert redirect_params(await proxy.flow().back())["error"] == "temporarily_unavailable"
    assert proxy.upstream.asked[-1] == "revoke"
    assert proxy.upstream.live == {}
