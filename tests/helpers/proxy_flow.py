"""Logins through an `OAuthProxy`, step by step: two cookie jars are two browsers, and no browser runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from tests.helpers.authority_site import Forms, Login, code_of, said

Visit = Callable[[str], Awaitable[str]]
"""Logs in at the provider: from where the browser is sent there to where it is sent back."""


def browser_at(app: Any, origin: str) -> httpx2.AsyncClient:
    """A browser, or a client, of an ASGI app in this process: with cookies of its own, following no redirect."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=origin)


class ProxyFlow:
    """One login, from the client's registration to its tokens. Each step may be done by hand instead.

    Args:
        browser: The user's browser, whose base URL is the origin of the server.
        visit: Logs in at the provider.
        client: What the client asks by; the browser, if nothing else is said.
        path: The path of the issuer.
        callback: Where the client wants its users back.
        query: Changes to what it asks; None leaves a parameter out.
    """

    def __init__(
        self,
        browser: httpx2.AsyncClient,
        visit: Visit,
        client: httpx2.AsyncClient | None = None,
        *,
        path: str = "",
        callback: str = "http://127.0.0.1:3000/callback",
        **query: Any,
    ) -> None:
        self.browser = browser
        self.client = client or browser
        self.visit = visit
        self.path = path
        self.callback = callback
        self.query = {"resource": f"{str(browser.base_url).rstrip('/')}/mcp", **query}
        self.login: Login | None = None

    async def begun(self) -> Login:
        """Register the client, where that has not been done."""
        if self.login is None:
            metadata = {
                "client_name": "A client",
                "redirect_uris": [self.callback],
                "token_endpoint_auth_method": "none",
                "grant_types": ["authorization_code", "refresh_token"],
            }
            response = await self.client.post(f"{self.path}/register", json=metadata)
            assert response.status_code == 201, response.text
            self.login = Login(response.json()["client_id"], self.callback, **self.query)
        return self.login

    async def page(self) -> httpx2.Response:
        """Open the page on which the user is asked."""
        return await self.browser.get(f"{self.path}/authorize", params=(await self.begun()).query)

    async def answered(self, answer: str = "allow") -> httpx2.Response:
        """Click on a button of the page, and return what comes of it: to the provider, where it allows."""
        page = await self.page()
        if page.status_code == 303:  # nobody was asked
            return page
        assert page.status_code == 200, page.text
        form = form_of(page, answer)
        return await self.browser.post(f"{self.path}/authorize", data=form)

    async def at_provider(self) -> str:
        """Allow it, log in at the provider, and return the URL to which that sends the browser back."""
        forward = await self.answered()
        assert forward.status_code == 303, forward.text
        return await self.visit(forward.headers["location"])

    async def back(self, url: str | None = None) -> httpx2.Response:
        """Come back from the provider, and return what comes of it: to the client, with a code."""
        return await self.browser.get(url or await self.at_provider())

    async def code(self) -> str:
        """Do all of that, and return the code that the client gets."""
        response = await self.back()
        assert "code" in said(response), response.headers["location"]
        return code_of(response)

    async def redeemed(self, code: str | None = None, **more: Any) -> httpx2.Response:
        """What the client is answered that redeems a code."""
        code = code or await self.code()
        return await self.post("/token", (await self.begun()).form(code, **more))

    async def tokens(self, **more: Any) -> dict[str, Any]:
        """The client's tokens."""
        response = await self.redeemed(**more)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def refreshed(self, tokens: Mapping[str, Any], **more: Any) -> httpx2.Response:
        """What the client is answered that uses a refresh token."""
        form = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": (await self.begun()).client_id,
            **more,
        }
        return await self.post("/token", form)

    async def revoked(self, token: str) -> httpx2.Response:
        """What the client is answered that revokes a token (RFC 7009)."""
        return await self.post("/revoke", {"token": token, "client_id": (await self.begun()).client_id})

    async def post(self, path: str, form: Mapping[str, Any]) -> httpx2.Response:
        """What is answered to a form of the client's."""
        return await self.client.post(f"{self.path}{path}", data=form)


def form_of(page: httpx2.Response, answer: str = "allow") -> dict[str, str]:
    """What a browser sends when a button of the page is clicked on."""
    [form] = [form for form in Forms(page.text).forms if "answer" in form]
    return {**form, "answer": answer}
