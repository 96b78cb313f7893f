"""An `OAuthProxy` in this process, before a provider that stands in for a real one."""

from __future__ import annotations

from typing import Any

import httpx2
from starlette.applications import Starlette

from mcpkit.auth import Grant, Ground, OAuthProxy
from tests.helpers.authority_site import site
from tests.helpers.clock import Clock
from tests.helpers.proxy_flow import ProxyFlow, browser_at
from tests.helpers.stand_in import StandIn

ORIGIN = "https://mcp.example.com"
MCP = f"{ORIGIN}/mcp"


class Proxied:
    """An authorization server of which several processes may be: those with the same store, secret and provider.

    Args:
        upstream: The provider; None for a new one.
        clock: The time.
        shared: What processes share.
        secret: The server's.
        scopes: What may be granted; None for those of `authority_site`.
        origin: Where it is.
        options: For `OAuthProxy`.
    """

    def __init__(
        self,
        upstream: StandIn | None = None,
        *,
        clock: Clock | None = None,
        origin: str = ORIGIN,
        kept: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.clock = clock or (Clock() if upstream is None else upstream.clock)
        self.upstream = upstream or StandIn(self.clock)
        self.origin = origin
        self.site = site(origin=origin, **(kept or {}))
        self.proxy = OAuthProxy(self.upstream, clock=self.clock, **options)
        self.proxy.enter(self.site)
        self.app = Starlette(routes=[*self.proxy.routes()])

    @property
    def ground(self) -> Ground:
        """What the server keeps."""
        return Ground(self.site.name, self.site.keys, self.site.shared, self.site.audit)

    def browser(self) -> httpx2.AsyncClient:
        """A browser, with a jar of its own."""
        return browser_at(self.app, self.origin)

    def flow(self, browser: httpx2.AsyncClient | None = None, **more: Any) -> ProxyFlow:
        """A login."""
        return ProxyFlow(browser or self.browser(), more.pop("visit", self.upstream.visit), **more)

    async def granted(self, tokens: dict[str, Any]) -> Grant:
        """What an access token grants."""
        return await self.proxy.verify(tokens["access_token"], f"{self.origin}/mcp")

    async def token_for(self, tokens: dict[str, Any], provider: str = "example") -> str:
        """What `ctx.token_for` returns for whoever comes with an access token."""
        principal = (await self.granted(tokens)).principal
        return await self.proxy.token_for(principal, provider, self.ground)
