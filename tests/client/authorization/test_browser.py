"""The login page in a browser, and requests to the redirect URI."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.authorization.browser import check_page, is_headless, open_browser
from mcpkit.client.authorization.redirect_request import Expected, RefusedError, redirected
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio

PAGE = "https://id.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback&state=x"
DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION")


@pytest.fixture(autouse=True)
def nothing_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


async def test_open_browser_without_display_prints_page(capsys: pytest.CaptureFixture[str]) -> None:
    await open_browser(PAGE)
    out, output = capsys.readouterr()
    assert out == ""
    assert PAGE in output
    assert "ssh" not in output


@pytest.mark.parametrize(("environment", "headless"), [
    ({}, True),
    ({"DISPLAY": ":0"}, False),
    ({"WAYLAND_DISPLAY": "wayland-0"}, False),
    ({"SSH_CONNECTION": "a"}, True),
    ({"SSH_CONNECTION": "a", "DISPLAY": "localhost:10.0"}, False),
    ({"BROWSER": "w3m"}, False),
])  # fmt: skip
def test_is_headless_by_environment(
    environment: dict[str, str], headless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_headless() == headless


@each_row("url", [
    "file:///etc/passwd", "javascript:alert(1)", "-new-window https://id.example", "https://id.example/a b",
    'https://id.example/"&calc"', "https://id.example/$(id)", "https://id.example/\n", "https://id.example/`id`",
    "https:///", "",
])  # fmt: skip
def test_check_page_refuses_other_urls(url: str) -> None:
    with pytest.raises(ValueError, match="the URL of the login page must begin with https://"):
        check_page(url)


STATE = "0123456789abcdef"
EXPECTED = Expected("127.0.0.1:8000", "/callback", STATE)
RIGHT = f"GET /callback?code=c&state={STATE} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n".encode()


def taken(head: bytes) -> bool:
    """Whether it is taken; what is not must be refused, and in no other way."""
    try:
        redirected(head, EXPECTED)
    except RefusedError as refused:
        return refused.status.split()[0] not in {"400", "404", "405", "421"} or not refused.message.isascii()
    return True


@given(st.integers(0, len(RIGHT) - 5), st.binary(min_size=1, max_size=4))
def test_redirect_mutated_is_refused_or_has_state(place: int, part: bytes) -> None:
    head = RIGHT[:place] + part + RIGHT[place + len(part) :]
    if taken(head):
        assert f"state={STATE}".encode() in head
        assert head.startswith(b"GET /callback?")
