"""The page of a login: opened in a browser where there is one, otherwise said; and never anything but a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcpkit.client.authorization.browser import check_page, is_headless, open_browser

pytestmark = pytest.mark.anyio

PAGE = "https://id.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback&state=x"
DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


@pytest.fixture(autouse=True)
def nothing_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


async def test_without_a_display_the_page_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    await open_browser(PAGE)
    out, said = capsys.readouterr()
    assert out == ""
    assert PAGE in said
    assert "ssh" not in said


async def test_over_ssh_it_is_said_how_the_answer_comes_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22")
    await open_browser(PAGE)
    assert "ssh -L 4711:127.0.0.1:4711" in capsys.readouterr().err


@pytest.mark.slow
async def test_a_browser_that_is_named_gets_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = tmp_path / "visited"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {note}\n')
    browser.chmod(0o700)
    # A process of its own, as the module that knows the browsers looks for them once.
    program = (
        "import asyncio\nfrom mcpkit.client.authorization.browser import open_browser\n"
        f"asyncio.run(open_browser({PAGE!r}))"
    )
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert note.read_text() == PAGE


@pytest.mark.parametrize(
    ("environment", "headless"),
    [
        ({}, True),
        ({"DISPLAY": ":0"}, False),
        ({"WAYLAND_DISPLAY": "wayland-0"}, False),
        ({"SSH_CONNECTION": "a"}, True),
        ({"SSH_CONNECTION": "a", "DISPLAY": "localhost:10.0"}, False),
        ({"BROWSER": "w3m"}, False),
    ],
)
def test_where_nobody_would_see_a_browser(
    environment: dict[str, str], headless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_headless() == headless


def test_on_a_mac_there_is_a_display_unless_over_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not is_headless()
    monkeypatch.setenv("SSH_CONNECTION", "a")
    assert is_headless()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "-new-window https://id.example",
        "https://id.example/a b",
        'https://id.example/"&calc"',
        "https://id.example/$(id)",
        "https://id.example/\n",
        "https://id.example/`id`",
        "https:///",
        "",
    ],
)
def test_what_is_no_page_is_given_to_no_browser(url: str) -> None:
    with pytest.raises(ValueError, match="no URL that a browser may be given"):
        check_page(url)


def test_pages_are_pages() -> None:
    for url in (PAGE, "http://127.0.0.1:8000/authorize?a=1&b=%20", "http://[::1]:8000/"):
        check_page(url)
