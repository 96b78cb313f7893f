"""A real browser (Debian's Chromium), and a stand-in for the browser that programs open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.helpers.node import NodeProcess

NAMES = ("chromium", "chromium-browser", "google-chrome")


LOG_IN, ALLOW, DENY = "[name=log-in]", "[name=allow]", "[name=deny]"


OUR_ALLOW, OUR_DENY = "button[name=answer][value=allow]", "button[name=answer][value=deny]"


class Login(NamedTuple):
    url: str
    answer: dict[str, str]
    pages: list[str]


class Browser:
    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._names = count(1)
        self.version: str = node.greeting

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        profile = Profile(self._node, str(next(self._names)))
        try:
            yield profile
        finally:
            profile.close()


class Profile:
    def __init__(self, node: NodeProcess, name: str) -> None:
        self._node = node
        self._name = name

    def open(self, url: str) -> int | None:
        status: int | None = self._ask("open", url)
        return status

    def fill(self, selector: str, text: str) -> None:
        self._ask("fill", {"selector": selector, "text": text})

    def click(self, selector: str) -> None:
        self._ask("click", selector)

    def follow(self, selector: str) -> None:
        self._ask("follow", selector)

    def press(self, key: str) -> None:
        self._ask("press", key)

    def follow_by_key(self, key: str) -> None:
        self._ask("enter", key)

    def show(self, width: int, *, height: int = 800, dark: bool = False) -> None:
        self._ask("show", {"width": width, "height": height, "scheme": "dark" if dark else "light"})

    def audit(self) -> tuple[list[str], list[str]]:
        found: dict[str, list[str]] = self._ask("audit")
        return found["findings"], found["passed"]

    def first(self, *selectors: str) -> str:
        selector: str = self._ask("first", selectors)
        return selector

    def text(self, selector: str = "body") -> str:
        text: str = self._ask("text", selector)
        return text

    def evaluate(self, expression: str) -> Any:
        return self._ask("evaluate", expression)

    def history(self) -> list[dict[str, Any]]:
        history: list[dict[str, Any]] = self._ask("seen")
        return history

    def network(self) -> list[dict[str, Any]]:
        log: list[dict[str, Any]] = self._ask("network")
        return log

    def screenshot(self, path: Path) -> None:
        self._ask("screenshot", str(path))

    def log_in(self, url: str, user: str = "ada", *, answers: bool = False) -> Login:
        """Log in and consent; with `answers`, answer in place of the client at the redirect URI."""
        callback = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        if answers:
            self._ask("answer", callback)
        self.open(url)
        pages: list[str] = []
        while not (end := self.history()[-1]["url"]).startswith(callback):
            page = self.first(OUR_ALLOW, LOG_IN, ALLOW, "body")
            pages.append(self.text())
            assert page != "body", f"neither a login nor a consent: {pages}"
            assert len(pages) < 5, f"the login was refused: {pages}"
            if page == LOG_IN:
                self.fill("[name=login]", user)
                self.fill("[name=password]", f"{user}'s")
            self.follow(page)
        return Login(end, dict(parse_qsl(urlsplit(end).query)), pages)

    def close(self) -> None:
        self._ask("close")

    def _ask(self, order: str, details: object = None) -> Any:
        return self._node.ask(order, details, profile=self._name)


@contextmanager
def browsing() -> Iterator[Browser]:
    found = os.environ.get("MCPKIT_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    node = NodeProcess(Path(__file__).with_suffix(".mjs"), "playwright-core", found)
    try:
        yield Browser(node)
    finally:
        node.close()


class Launched:
    def __init__(self, folder: Path) -> None:
        pipe = folder / "urls"
        os.mkfifo(pipe)
        self._urls = os.open(
            pipe, os.O_RDWR
        )  # for writing as well, so that it has no end while nobody writes
        for name in ("browser", "xdg-open"):
            command = folder / name
            command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" > {pipe}\n')
            command.chmod(0o755)
        self.environment = {"BROWSER": str(folder / "browser")}
        self._folder = folder
        self._rest = b""

    def path(self, before: str) -> str:
        return os.pathsep.join([str(self._folder), before])

    def next(self) -> str | None:
        while b"\n" not in self._rest:
            self._rest += os.read(self._urls, 65536)
        url, _, self._rest = self._rest.partition(b"\n")
        return url.decode() or None

    def end(self) -> None:
        os.write(self._urls, b"\n")

    def close(self) -> None:
        os.close(self._urls)
