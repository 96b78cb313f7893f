"""A server in front of a provider, and a client of it with a user at a browser: all in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from mcpkit import Finding, Scope, Server, check_authorization
from mcpkit.auth import InvalidTokenError, TokenVerifier, Upstream
from tests.helpers.authority_site import CALLBACK, Forms, Login, said
from tests.helpers.clock import Clock
from tests.helpers.provider_sites import CLIENT_ID, CLIENT_SECRET, Entra, GitHub, Google, Provider, here
from tests.helpers.raw_client import lifespan
from tests.helpers.recorded_providers import TENANT

ORIGIN = "https://mcp.example.com"
MCP = f"{ORIGIN}/mcp"
KINDS: list[type[Provider]] = [GitHub, Google, Entra]
SCOPES = {"notes:read": Scope("Read notes", default=True)}


def upstream_of(site: Provider, clock: Clock) -> Upstream:
    """Return a provider, as its page in the documentation has it."""
    net = here(dict.fromkeys(site.origins, site))
    if isinstance(site, GitHub):
        return Upstream.github(CLIENT_ID, CLIENT_SECRET, http_client=net, clock=clock)
    if isinstance(site, Google):
        return Upstream.google(CLIENT_ID, CLIENT_SECRET, http_client=net, clock=clock)
    return Upstream.entra(TENANT, CLIENT_ID, CLIENT_SECRET, http_client=net, clock=clock)


class NoToken(TokenVerifier):
    """Knows no token of an issuer."""

    def __init__(self, issuer: str) -> None:
        self.issuers = (issuer,)

    async def verify(self, token: str, audience: str) -> Any:
        raise InvalidTokenError("nobody has issued it")


async def found_directly(kind: type[Provider]) -> list[Finding]:
    """Return what is found at a server that names a provider as its authorization server."""
    site = kind(lambda: 0.0)
    app = Server("notes", auth=NoToken(site.metadata["issuer"]), scopes=SCOPES).asgi(public_url=MCP)
    async with before(site, app=app) as journey:
        return await check_authorization(MCP, http_client=journey.net)


class Journey:
    """A client that registers itself, and whose user logs in.

    Args:
        net: Asks the server and the provider.
        site: The provider.

    Attributes:
        seen: All that the client has been answered, and the addresses that it was called back at.
        login: The client's login.
    """

    def __init__(self, net: httpx2.AsyncClient, site: Provider) -> None:
        self.net = net
        self.site = site
        self.seen: list[str] = []
        self.login = Login("")

    async def registered(self) -> None:
        """Register, and begin a login."""
        metadata = {
            "client_name": "An editor",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        answer = self._kept(await self.net.post(f"{ORIGIN}/register", json=metadata))
        assert answer.status_code == 201, answer.text
        self.login = Login(answer.json()["client_id"], resource=MCP)

    async def consented(self) -> httpx2.Response:
        """Open the page, allow it, and return the way to the provider."""
        page = await self.net.get(f"{ORIGIN}/authorize", params=self.login.query)
        assert page.status_code == 200, page.text
        [form] = Forms(page.text).forms
        return await self.net.post(f"{ORIGIN}/authorize", data={**form, "answer": "allow"})

    async def come_back(self) -> dict[str, str]:
        """Log in at the provider, and return what the client is called back with."""
        onward = await self.consented()
        assert onward.status_code == 303, onward.text
        back = await self.net.get(onward.headers["location"])
        assert back.status_code == 302, back.text
        ended = await self.net.get(back.headers["location"])
        self.seen.append(ended.headers["location"])
        assert ended.headers["location"].startswith(CALLBACK)
        return said(ended)

    async def tokens(self) -> dict[str, Any]:
        """Go all the way, and return the client's tokens."""
        await self.registered()
        answer = await self.come_back()
        assert (answer["iss"], answer["state"]) == (ORIGIN, self.login.query["state"])
        granted = await self.posted("/token", self.login.form(answer["code"]))
        assert granted.status_code == 200, granted.text
        found: dict[str, Any] = granted.json()
        return found

    async def refreshed(self, tokens: dict[str, Any]) -> httpx2.Response:
        """Ask for new tokens."""
        form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
        return await self.posted("/token", {**form, "client_id": self.login.client_id})

    async def posted(self, path: str, form: dict[str, Any]) -> httpx2.Response:
        """Post a form."""
        return self._kept(await self.net.post(f"{ORIGIN}{path}", data=form))

    async def called(self, tokens: dict[str, Any], tool: str) -> httpx2.Response:
        """Call a tool."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": tool, "arguments": {}, "_meta": meta}
        headers = {
            "Authorization": f"Bearer {tokens['access_token']}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self._kept(await self.net.post(MCP, json=message, headers=headers))

    async def text(self, tokens: dict[str, Any], tool: str) -> str:
        """Call a tool, and return its text."""
        answer = await self.called(tokens, tool)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["result"]["content"][0]["text"]
        return text

    def _kept(self, answer: httpx2.Response) -> httpx2.Response:
        self.seen.append(answer.text + str(answer.headers))
        return answer


@asynccontextmanager
async def before(site: Provider, server: Server | None = None, app: Any = None) -> AsyncIterator[Journey]:
    """Serve a server whose users log in with a provider, and give a client of it."""
    if app is None:
        assert server is not None
        app = server.asgi(public_url=MCP)
    async with (
        lifespan(app),
        here({ORIGIN: app, **dict.fromkeys(site.origins, site)}) as net,
    ):
        yield Journey(net, site)
