"""Opens a page in the user's browser, or prints its URL if there is no browser."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Final
from urllib.parse import parse_qs, urlsplit

_URL: Final = re.compile(r"https?://[A-Za-z0-9\[][#&+,./0-9:;=?@A-Z\[\]_a-z~%-]*")
"""URLs without characters that browsers or shells may interpret."""


async def open_browser(url: str) -> None:
    """Open a page in the user's browser, or print its URL to standard error if no browser can be seen.

    Args:
        url: The URL of the page.

    Raises:
        ValueError: It is not the URL of a web page.
    """
    check_page(url)
    if is_headless() or not await asyncio.to_thread(_open, url):
        sys.stderr.write(f"{in_words(url)}\n")
        sys.stderr.flush()


def check_page(url: str) -> None:
    """Check that a URL is that of a web page: servers choose it, and it is passed to local programs.

    Raises:
        ValueError: It is not.
    """
    if _URL.fullmatch(url) is None:
        raise ValueError(
            "the URL of the login page must begin with https:// and contain only printable ASCII"
        )


def is_headless() -> bool:
    """Return whether the user cannot see a browser: over SSH, or without a display."""
    if os.environ.get("BROWSER"):
        return False
    always_has_display = sys.platform in {"win32", "darwin"} and "SSH_CONNECTION" not in os.environ
    return not (always_has_display or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def in_words(url: str) -> str:
    """Return the text with the URL to visit, and instructions for another machine."""
    said = f"To log in, open this page:\n\n    {url}\n"
    [redirect_uri, *_] = parse_qs(urlsplit(url).query).get("redirect_uri", [""])
    port = urlsplit(redirect_uri).port if redirect_uri.startswith("http:") else None
    if port is not None and "SSH_CONNECTION" in os.environ:
        said += (
            f"\nIf the browser runs on another machine, first connect with ssh -L {port}:127.0.0.1:{port}\n"
        )
    return said


def _open(url: str) -> bool:
    import webbrowser

    try:
        controller = webbrowser.get()
        is_in_terminal = isinstance(controller, webbrowser.GenericBrowser) and not isinstance(
            controller, webbrowser.BackgroundBrowser
        )
        if is_in_terminal and not os.environ.get("BROWSER"):
            return False  # where it would take the place of this program
        return controller.open(url)
    except (webbrowser.Error, OSError):
        return False
