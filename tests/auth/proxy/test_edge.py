"""The endpoints of an authorization server behind the guard of the app that serves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import httpx2
import pytest
from starlette.routing import Route

from mcpkit import Server
from mcpkit.auth import DevUser, Grant, Site, TokenVerifier
from mcpkit.auth.authority.client_documents import ClientDocuments
from mcpkit.auth.authority.dev_auth import made
from mcpkit.auth.authority.look import Look
from mcpkit.auth.proxy.edge import at_the_edge
from mcpkit.auth.proxy.limits import Limits
from tests.helpers.authority_site import Login
from tests.helpers.serving import in_thread_at

FOREIGN = {"Origin": "https://client.example"}


class Public(TokenVerifier):
    """An authorization server that the internet sees, but for its users, which are those of development."""

    def enter(self, site: Site) -> None:
        issuer = site.public_url.removesuffix("/mcp")
        self.issuers = (issuer,)
        self.authority = made(issuer, site, {"ada": DevUser("ada")}, (), 600.0, ClientDocuments())
        self._limits = Limits(site.shared, site.name, site.audit, Look())

    async def verify(self, token: str, audience: str) -> Grant:
        return await self.authority.verify(token, audience)

    def routes(self) -> Sequence[Route]:
        return at_the_edge(self.authority.routes(), self._limits)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    server = Server("notes", auth=Public())
    with in_thread_at(lambda url: server.asgi(public_url=f"{url}/mcp")) as url:
        yield url


def test_a_client_that_is_a_page_registers_and_reads_the_metadata(origin: str) -> None:
    with httpx2.Client(base_url=origin, headers=FOREIGN, trust_env=False) as client:
        asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        answers = [
            client.get("/.well-known/oauth-authorization-server"),
            client.options("/token", headers=asked),
            client.post("/register", json={"redirect_uris": ["https://client.example/cb"]}),
            client.post("/token/"),
        ]
    assert [answer.status_code for answer in answers] == [200, 204, 201, 400]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == "*"


def test_pages_of_other_sites_are_refused_everywhere_else(origin: str) -> None:
    with httpx2.Client(base_url=origin, headers=FOREIGN, trust_env=False) as client:
        login = Login("x")
        for answer in (
            client.get("/authorize", params=login.query),
            client.post("/authorize", data={}),
            client.post("/mcp", json={}),
        ):
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers


def test_a_host_that_is_none_of_the_servers_is_refused_everywhere(origin: str) -> None:
    with httpx2.Client(base_url=origin, trust_env=False) as client:
        for path in ("/.well-known/oauth-authorization-server", "/authorize"):
            assert client.get(path, headers={"Host": "rebound.example"}).status_code == 421


def test_pages_of_this_machine_are_answered_as_before(origin: str) -> None:
    with httpx2.Client(
        base_url=origin, headers={"Origin": "http://localhost:6274"}, trust_env=False
    ) as client:
        answer = client.get("/.well-known/oauth-authorization-server")
    assert answer.headers.get_list("access-control-allow-origin") == ["http://localhost:6274"]
