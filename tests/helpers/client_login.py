"""A user who logs in at DevAuth with a client of mcpkit, and a keyring in memory."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx2
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

from mcpkit.client import LocalCallbackServer, MemoryTokens, OAuth
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
        return OAuth(browser=LocalCallbackServer(open_browser=self._visit), storage=self.storage)

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


class MemoryKeyring(KeyringBackend):
    """Keeps passwords of at most 2,560 bytes in UTF-16, as the Credential Locker does."""

    priority = 5  # type: ignore[assignment]  # a property of the class there
    viable = False  # type: ignore[assignment]  # as well; so that it is used where it is set alone, and not found

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.problem: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        if self.problem is not None:
            raise self.problem
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        assert len(password.encode("utf-16-le")) <= 2560
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.entries.pop((service, username), None) is None:
            raise PasswordDeleteError("there is none")
