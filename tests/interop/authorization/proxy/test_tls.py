"""A proxy behind nginx with TLS, alone at its origin or below a prefix: its cookies are those of this host alone."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcpkit.auth import OAuthProxy
from tests.helpers.browser import LOG_IN, OUR_ALLOW, Profile
from tests.helpers.nginx import Proxy, free_ports, proxying
from tests.helpers.passing import Wire
from tests.helpers.serving import in_thread
from tests.interop.authorization.guarded import Exchange, Guarded, Recorded
from tests.interop.authorization.proxy.proxied import Proxied, at_provider, directory, served
from tests.interop.authorization.proxy.test_clients import seen
from tests.interop.authorization.python_client import TIME_OUT, Kept, authorization
from tests.interop.authorization.test_proxies import WHOLE, prefixed_locations
from tests.interop.authorization.test_typescript import CLIENT_2
from tests.interop.authorization.test_typescript import journey as in_typescript
from tests.interop.authorization.user import User

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "oauth-proxy.md"


def of_the_proxy(app: str, issuer: str) -> str:
    """Return what the page on the proxy has passed on uncut, for one that is elsewhere."""
    block = PAGE.read_text().split('```nginx title="An OAuth proxy below /notes/"\n')[1].split("```")[0]
    assert (block.count("http://127.0.0.1:8000"), block.count("/notes")) == (2, 2)
    return block.replace("http://127.0.0.1:8000", app).replace("/notes", issuer)


def whole(app: str, issuer: str) -> str:
    """Return what passes everything on."""
    return WHOLE.format(app=app)


def prefixed(app: str, issuer: str) -> str:
    """Return what cuts a prefix off."""
    return prefixed_locations(app) + of_the_proxy(app, issuer)


WAYS = [("", "", whole), ("", "/login", whole), ("/notes", "", prefixed), ("/notes", "/notes", prefixed)]


@contextmanager
def behind_nginx(
    folder: Path, prefix: str = "", issuer: str = "", locations: Callable[[str, str], str] = whole
) -> Iterator[tuple[Proxied, Proxy]]:
    """Run a server behind nginx, which takes a prefix away."""
    ports = free_ports()
    exchanges: list[Exchange] = []
    notes: list[str] = []
    with at_provider(f"{ports.url}{issuer}/callback") as provider:
        server, events = served(OAuthProxy(directory(provider), issuer=f"{ports.url}{issuer}"), notes)
        url = f"{ports.url}{prefix}/mcp"
        wire = Wire(Recorded(server.asgi(public_url=url), exchanges))
        with (
            in_thread(wire, root_path=prefix, forwarded_allow_ips="127.0.0.1") as app,
            proxying(ports, folder, locations(app, issuer)) as nginx,
        ):
            yield Proxied(Guarded(url, exchanges, notes), server, provider, wire, events), nginx


@pytest.mark.parametrize(("prefix", "issuer", "locations"), WAYS)
def test_clients_find_their_way_in(
    page: Profile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefix: str,
    issuer: str,
    locations: Callable[[str, str], str],
) -> None:
    user = User(page)
    with behind_nginx(tmp_path, prefix, issuer, locations) as (proxy, nginx):

        async def whoami() -> Any:
            auth = authorization(proxy.url, Kept(), user.log_in)
            trusting = ssl.create_default_context(cafile=str(nginx.authority))
            with anyio.fail_after(TIME_OUT):
                async with (
                    httpx2.AsyncClient(auth=auth, verify=trusting, timeout=30) as http,
                    Client(streamable_http_client(proxy.url, http_client=http), cache=None) as client,
                ):
                    return (await client.call_tool("whoami")).structured_content

        assert anyio.run(whoami) == {"subject": "bob", "scopes": ["notes:read"]}
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(nginx.authority))
        said = in_typescript(CLIENT_2, proxy.url, ("auto",), user.log_in)
        assert said["seen"] == seen("2026-07-28")
        assert {login.answer["iss"] for login in user.logins} == {f"{nginx.url}{issuer}"}
        proxy.check_legs(logins=3, issuer=issuer)
        check_cookies(page)


def test_the_cookie_of_a_login_is_there_until_the_callback(page: Profile, tmp_path: Path) -> None:
    user = User(page)

    def log_in(request: str) -> Any:
        page.open(request)
        asked = ours(page)
        page.follow(OUR_ALLOW)
        page.first(LOG_IN)
        under_way = ours(page)
        login = user.log_in(request)
        # The provider, another site, sends it back.
        [begun] = under_way - asked
        assert begun.startswith("__Host-mcpkit-login-")
        assert {each for each in ours(page) if "login" in each} == {begun}, "the one that was given up"
        return login

    with behind_nginx(tmp_path) as (proxy, nginx):

        async def journey() -> None:
            auth = authorization(proxy.url, Kept(), log_in)
            trusting = ssl.create_default_context(cafile=str(nginx.authority))
            async with (
                httpx2.AsyncClient(auth=auth, verify=trusting, timeout=30) as http,
                Client(streamable_http_client(proxy.url, http_client=http), cache=None) as client,
            ):
                await client.call_tool("whoami")

        anyio.run(journey)


def ours(page: Profile) -> set[str]:
    """The names of the cookies of a server, all of which are its host's alone."""
    found = [each for each in page.cookies() if "mcpkit" in each["name"]]
    for each in found:
        assert each["name"].startswith("__Host-")
        assert (each["domain"], each["path"], each["sameSite"]) == ("localhost", "/", "Lax")
        assert each["secure"]
        assert each["httpOnly"]
    return {each["name"] for each in found}


def check_cookies(page: Profile) -> None:
    """Check that all cookies that a browser was given by TLS are this host's alone, and that it has taken them."""
    given = [each for each in page.network() if "blockedCookies" in each]
    cookies = [
        line
        for each in given
        for name, value in each["headers"].items()
        if name.lower() == "set-cookie"
        for line in value.split("\n")
        if "mcpkit" in line
    ]
    assert cookies
    for cookie in cookies:
        name, _, rest = cookie.partition("=")
        attributes = {each.strip().partition("=")[0].lower() for each in rest.split(";")[1:]}
        assert name.startswith("__Host-")
        assert {"secure", "httponly", "path", "samesite"} <= attributes
        assert "domain" not in attributes
    assert [each for each in given if each["blockedCookies"]] == []
