"""A mix-up of authorization servers against a real client: the victim connects it to the attacker's server.

The attacker's authorization server has the client registered with ours, and sends the victim's browser on to our page,
where they allow their own client what they believe it needs. All of it goes over sockets of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from mcpkit import AuthorizationError, Client, Loopback, MemoryTokens, OAuth, TransportError
from mcpkit.client.authorization.code_flow import AuthorizationRequest
from tests.helpers.login_site import Site
from tests.helpers.serving import in_thread, in_thread_at
from tests.helpers.two_browsers import Browser, Internet, World, form_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Attacker:
    """The attacker's server and authorization server, of which the latter hands everything on to ours.

    Attributes:
        got: What came to its token endpoint.
    """

    def __init__(self, ours: str) -> None:
        self.got: list[dict[str, str]] = []
        self._ours = ours
        site = Site(issuer={"authorization_response_iss_parameter_supported": None})
        self.app = Starlette(
            routes=[
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Mount("/", site.app()),
            ]
        )

    async def _register(self, request: Request) -> Response:
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as machine:
            answer = await machine.post(f"{self._ours}/register", json=await request.json())
        return JSONResponse(answer.json(), answer.status_code)

    async def _authorize(self, request: Request) -> Response:
        query = {**request.query_params, "resource": f"{self._ours}/mcp"}
        return RedirectResponse(f"{self._ours}/authorize?{urlencode(query)}", 302)

    async def _token(self, request: Request) -> Response:
        self.got.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"error": "server_error"}, 400)


@contextmanager
def played() -> Iterator[tuple[World, str, Attacker, str]]:
    """Serve ours and the attacker's: the world and where it is, the attacker and where they are."""
    worlds: list[World] = []

    def ours(origin: str) -> Any:
        worlds.append(World(origin=origin))
        return worlds[0].app

    with in_thread_at(ours) as origin:
        # One server after the other: threads that parse Python at once break each other (CPython 3.11).
        httpx2.get(f"{origin}/jwks.json", trust_env=False, timeout=30).raise_for_status()
        attacker = Attacker(origin)
        with in_thread(attacker.app) as evil:
            httpx2.get(f"{evil}/.well-known/oauth-authorization-server", trust_env=False, timeout=30)
            yield worlds[0], origin, attacker, evil


async def attack() -> tuple[str | None, list[dict[str, str]], Exception]:
    """Return whose notes the attacker can read in the end, what they got, and what the victim's client says."""
    with played() as (world, origin, attacker, evil):

        async def visit(url: str) -> None:
            async with Browser(Internet(world.hosts, has_sockets=True)) as browser:
                session = world.session("ada")
                browser.cookies.set("__Host-session", session, domain="id.example.net")
                page = await browser.follow(await browser.get(url), until="none")
                sent = await browser.post(
                    f"{origin}/authorize", data=form_of(page), headers={"Origin": origin}
                )
                await browser.follow(sent)

        auth = OAuth(browser=Loopback(open_browser=visit), storage=MemoryTokens())
        with pytest.raises((AuthorizationError, TransportError)) as caught:
            async with Client(f"{evil}/mcp", auth=auth) as client:
                await client.call("anything")
        found = None
        if attacker.got:
            async with httpx2.AsyncClient(trust_env=False, timeout=30) as machine:
                tokens = await machine.post(
                    f"{origin}/token", data={**attacker.got[-1], "resource": f"{origin}/mcp"}
                )
            assert tokens.status_code == 200, tokens.text
            grant = await world.auth.verify(tokens.json()["access_token"], f"{origin}/mcp")
            found = grant.principal.subject
        return found, attacker.got, caught.value


async def test_our_client_gives_a_code_to_nobody_but_whom_it_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    found, got, error = await attack()
    assert (found, got) == (None, [])
    assert "(iss)" in str(error)

    def believed(self: AuthorizationRequest, answer: Mapping[str, str]) -> str:
        return answer["code"]

    monkeypatch.setattr(AuthorizationRequest, "code", believed)
    found, got, _ = await attack()
    assert found == "ada"
    assert got
