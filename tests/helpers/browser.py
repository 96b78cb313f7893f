"""A real browser, Debian's Chromium, that a test drives: it opens pages, logs in, consents and follows redirects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.helpers.node_process import NodeProcess

NAMES = ("chromium", "chromium-browser", "google-chrome")
LOG_IN, ALLOW, DENY = "[name=log-in]", "[name=allow]", "[name=deny]"
OUR_ALLOW, OUR_DENY = "button[name=answer][value=allow]", "button[name=answer][value=deny]"
REMEMBER = "[name=remember]"
"""The buttons and the box of the page on which a server of ours asks before it sends a user on to the provider."""


class Login(NamedTuple):
    """How a login has ended.

    Attributes:
        url: Where the client was told of it.
        answer: What it was told: `code`, `state` and `iss`, or `error`.
        pages: What the pages on the way said.
    """

    url: str
    answer: dict[str, str]
    pages: list[str]


class Browser:
    """The browser; threads may use profiles of it at the same time.

    Attributes:
        version: Its version.
    """

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._names = count(1)
        self.version: str = node.greeting

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        """Open a page that shares no cookie with any other, until the end of the block."""
        profile = Profile(self._node, str(next(self._names)))
        try:
            yield profile
        finally:
            profile.close()


class Profile:
    """A page with cookies of its own. Things on it are named by CSS selectors, or as `text=Allow`; whatever has to be
    there first is waited for."""

    def __init__(self, node: NodeProcess, name: str) -> None:
        self._node = node
        self._name = name

    def open(self, url: str) -> int | None:
        """Go to a page, wait until it is there, and return its status."""
        status: int | None = self._ask("open", url)
        return status

    def fill(self, selector: str, text: str) -> None:
        """Write into a field."""
        self._ask("fill", {"selector": selector, "text": text})

    def click(self, selector: str) -> None:
        """Click on something that stays on the page."""
        self._ask("click", selector)

    def follow(self, selector: str) -> None:
        """Click on something that leads to another page, and wait until that is there."""
        self._ask("follow", selector)

    def press(self, key: str) -> None:
        """Press a key, as `Tab`, by which the page stays."""
        self._ask("press", key)

    def enter(self, key: str = "Enter") -> None:
        """Press a key that leads to another page, and wait until that is there."""
        self._ask("enter", key)

    def show(self, width: int, *, height: int = 800, dark: bool = False) -> None:
        """Have a window of a size in pixels of CSS, and a scheme of colours."""
        self._ask("show", {"width": width, "height": height, "scheme": "dark" if dark else "light"})

    def audit(self) -> tuple[list[str], list[str]]:
        """What keeps people from using the page, as axe-core finds it, or is unsure; and the rules that are kept."""
        found: dict[str, list[str]] = self._ask("audit")
        return found["findings"], found["passed"]

    def first(self, *selectors: str) -> str:
        """Wait until one of several things is to be seen, and say which."""
        selector: str = self._ask("first", selectors)
        return selector

    def text(self, selector: str = "body") -> str:
        """What something says."""
        text: str = self._ask("text", selector)
        return text

    def evaluate(self, expression: str) -> Any:
        """Run JavaScript in the page, and return what comes of it; a promise is waited for."""
        return self._ask("evaluate", expression)

    def url(self) -> str:
        """Where it is."""
        url: str = self._ask("url")
        return url

    def seen(self) -> list[dict[str, Any]]:
        """Where it has been sent so far, redirects among it: `{"method": ..., "url": ..., "status": ...}` each."""
        seen: list[dict[str, Any]] = self._ask("seen")
        return seen

    def network(self) -> list[dict[str, Any]]:
        """Its network log so far, as Chromium's developer tools have it: heads with their cookies, and bodies."""
        log: list[dict[str, Any]] = self._ask("network")
        return log

    def cookies(self) -> list[dict[str, Any]]:
        """Its cookies, of all sites: `name`, `domain`, `path`, `secure`, `httpOnly` and `sameSite` of each."""
        cookies: list[dict[str, Any]] = self._ask("cookies")
        return cookies

    def screenshot(self, path: Path) -> None:
        """Draw the page into a PNG file, to look at."""
        self._ask("screenshot", str(path))

    def log_in(
        self,
        url: str,
        user: str = "ada",
        *,
        consents: bool = True,
        refuses: Collection[str] = (),
        remembers: bool = False,
        answers: bool = False,
    ) -> Login:
        """Take a client's authorization request to the provider of `identity_provider.py`, as a user.

        On the way there may be a page of ours that asks before: an `OAuthProxy` has it.

        Args:
            url: The request, `http://127.0.0.1:.../auth?...`.
            user: Who logs in, unless this profile has before.
            consents: Whether the user allows it, or denies.
            refuses: The scopes that the user does not allow.
            remembers: Whether the user does not want to be asked again on our page.
            answers: Answer the redirect here, for a client that listens nowhere.
        """
        callback = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        if answers:
            self._ask("answer", callback)
        self.open(url)
        return self.consent(callback, user, consents=consents, refuses=refuses, remembers=remembers)

    def consent(
        self,
        callback: str,
        user: str = "ada",
        *,
        consents: bool = True,
        refuses: Collection[str] = (),
        remembers: bool = False,
    ) -> Login:
        """Go through the pages of that provider, from where this page is, as `log_in` does.

        Args:
            callback: How the address begins to which the provider sends the user in the end.
            user: Who logs in, unless this profile has before.
            consents: Whether the user allows it, or denies.
            refuses: The scopes that the user does not allow.
            remembers: Whether the user does not want to be asked again on our page.
        """
        pages: list[str] = []
        has_logged_in = False
        while not (end := self.seen()[-1]["url"]).startswith(callback):
            page = self.first(OUR_ALLOW, LOG_IN, ALLOW, "body")
            pages.append(self.text())
            assert page != "body", f"neither a login nor a consent: {pages}"
            if page == LOG_IN:
                assert not has_logged_in, f"the login was refused: {pages}"
                has_logged_in = True
                self.fill("[name=login]", user)
                self.fill("[name=password]", f"{user}'s")
                self.follow(LOG_IN)
            elif page == OUR_ALLOW:
                if remembers:
                    self.click(REMEMBER)
                self.follow(OUR_ALLOW if consents else OUR_DENY)
            else:
                for scope in refuses:
                    self._ask("uncheck", f'[name=scope][value="{scope}"]')
                self.follow(ALLOW if consents else DENY)
        return Login(end, dict(parse_qsl(urlsplit(end).query)), pages)

    def close(self) -> None:
        """Forget it."""
        self._ask("close")

    def _ask(self, order: str, details: object = None) -> Any:
        return self._node.ask(order, details, profile=self._name)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start the browser, and end it. `MCPKIT_TEST_BROWSER` names another than the first that is found."""
    found = os.environ.get("MCPKIT_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    node = NodeProcess(Path(__file__).with_suffix(".mjs"), "playwright-core", found)
    try:
        yield Browser(node)
    finally:
        node.close()
