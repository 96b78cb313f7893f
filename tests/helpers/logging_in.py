"""Clients of mcpkit that log in at DevAuth, whose page a scripted user clicks on."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx2

from mcpkit import Loopback, MemoryTokens, OAuth
from tests.helpers.oauth_flow import PageForms


class User:
    """Somebody in front of a browser.

    Args:
        name: Whom they click on; None for the button that refuses.

    Attributes:
        asked: The scopes of each page that they were shown.
        storage: What their client keeps.
    """

    def __init__(self, name: str | None = "ada") -> None:
        self.name = name
        self.asked: list[set[str]] = []
        self.storage = MemoryTokens()

    @property
    def auth(self) -> OAuth:
        """What logs them in, for `Client(auth=...)`."""
        return OAuth(browser=Loopback(open_browser=self._visit), storage=self.storage)

    async def _visit(self, url: str) -> None:
        self.asked.append(set(parse_qs(urlsplit(url).query).get("scope", [""])[0].split()))
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(url)
            assert page.status_code == 200, page.text
            forms = PageForms(page.text).forms
            [form] = [
                form
                for form in forms
                if (form.get("answer") == "deny" if self.name is None else form.get("user") == self.name)
            ]
            answer = await browser.post(url, data=form)
            assert answer.status_code == 303, answer.text
            await browser.get(answer.headers["location"])
