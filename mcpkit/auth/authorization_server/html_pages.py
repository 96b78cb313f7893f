"""Pages for users: plain HTML without scripts, which other sites cannot frame; branding, and cookies of logins."""

from __future__ import annotations

import base64
import re
import secrets
import time
from functools import partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response

LOGIN_LIFETIME = 600.0
"""Seconds in which the user must answer a page, or return from a provider."""
MAX_LOGO = 256 * 1024
"""Maximum bytes of a logo, which each page embeds."""
MAX_COOKIES = 6000
"""Maximum characters of all cookies of one kind, because proxies limit headers to 8 KiB."""

_MAX_COOKIE = 3800
"""Maximum characters of a cookie value. Browsers allow 4096 bytes for a cookie with its name and attributes."""
_STYLE = files("mcpkit.auth.authorization_server").joinpath("pages.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
_LOGO_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif",
    b"<svg": "image/svg+xml", b"<?xml": "image/svg+xml",
}  # fmt: skip


class Branding(NamedTuple):
    """Title and logo of a server.

    Attributes:
        title: Title of the server.
        logo: Logo as a data URL; None for no logo.
    """

    title: str = ""
    logo: str | None = None


_PLAIN = Branding()


def check_branding(title: str, logo: Path | str | bytes | None) -> Branding:
    """Return the checked title and logo.

    Args:
        title: Title of the server.
        logo: Image as a path or as bytes: PNG, JPEG, GIF, WebP or SVG.

    Raises:
        TypeError: The title is not a string.
        ValueError: The title is empty, or the logo has another format or is too large.
        OSError: The logo cannot be read.
    """
    if not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f"title must be a string, got {title!r}")
    if len(title) > 100 or not title.isprintable() or not title.strip():
        raise ValueError(f"title must have 1 to 100 printable characters, got {title!r}")
    if logo is None:
        return Branding(title)
    data = logo if isinstance(logo, bytes) else Path(logo).read_bytes()
    if len(data) > MAX_LOGO:
        raise ValueError(
            f"logo has {len(data):,} bytes, but the maximum is {MAX_LOGO:,}. Make it smaller; "
            "it is shown 48 pixels high"
        )
    media_type = next((kind for prefix, kind in _LOGO_TYPES.items() if data.startswith(prefix)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        media_type = "image/webp"
    if media_type is None:
        raise ValueError("logo must be a PNG, JPEG, GIF, WebP or SVG")
    return Branding(title, f"data:{media_type};base64,{base64.b64encode(data).decode()}")


# Pages


def page(title: str, body: str, status: int = 200, *, branding: Branding = _PLAIN) -> HTMLResponse:
    """Return a page.

    Args:
        title: Title, as text.
        body: Body below the title, as HTML.
        status: The HTTP status.
        branding: Title and logo of the server.
    """
    # OAuthProxy checks its branding before a server imports Starlette.
    from starlette.responses import HTMLResponse

    from .oauth_requests import NO_STORE

    icon = image = header = image_policy = ""
    if branding.logo is not None:
        url = escape(branding.logo)
        icon, image = f'<link rel="icon" href="{url}">', f'<img src="{url}" alt="">'
        image_policy = " img-src data:;"
    if branding.title:
        header = f"<header>{image}<p>{escape(branding.title)}</p></header>"
    return HTMLResponse(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{icon}<style>{_STYLE}</style></head>"
        f"<body>{header}<main><h1>{escape(title)}</h1>{body}</main></body></html>",
        status,
        headers={
            **NO_STORE,
            # No form-action: browsers apply it to the redirect that answers the form, and to all that follow it.
            "Content-Security-Policy": (
                f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}';{image_policy} base-uri 'none'; "
                "frame-ancestors 'none'"
            ),
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            # Forms send their origin, and the URL is hidden from other sites.
            "Referrer-Policy": "same-origin",
        },
    )


def error_page(
    description: str, status: int = 400, *, back: tuple[str, str] | None = None, branding: Branding = _PLAIN
) -> HTMLResponse:
    """Return a page with an error.

    Args:
        description: The reason, as text.
        status: The HTTP status.
        back: URL of a link to continue, and its host.
        branding: Title and logo of the server.
    """
    link = ""
    if back is not None:
        url, host = map(escape, back)
        link = f'<p>If you trust it, return to <a href="{url}" rel="noreferrer">{host}</a>, which began this login.</p>'
    text = description[:1].upper() + description[1:]
    return page("The login failed", f"<p>{escape(text)}.</p>{link}", status, branding=branding)


# Cookies


def new_login_id() -> str:
    """Return an unguessable ID of 35 letters. IDs sort by time of creation.

    Cookies are named by these IDs, because not every client sends the oldest cookie first.
    """
    return f"{time.time_ns() // 1_000:013x}{secrets.token_urlsafe(16)}"


class LoginCookies:
    """Texts in cookies of a browser for ten minutes, each under an ID (`new_login_id`).

    Long texts are split over several cookies. The newest texts are kept. Scripts and other sites cannot read them. The
    browser sends them when another site navigates the user here.

    Args:
        kind: Prefix of the cookie names, such as `mcpkit-login-`.
        max_count: Maximum number of texts in a browser.
        is_secure: Restrict the cookies to https and to this host.
        path: Path of the cookies.
    """

    def __init__(self, kind: str, max_count: int, *, is_secure: bool, path: str = "/") -> None:
        self._prefix = f"{'__Host-' if is_secure else ''}{kind}"
        self._name = re.compile(rf"{re.escape(self._prefix)}([A-Za-z0-9_-]{{35}})(?:\.[0-9])?")
        self._max_count = max_count
        self._set = partial(set_cookie, lifetime=LOGIN_LIFETIME, is_secure=is_secure, path=path)

    def set(self, id_: str, text: str, request: Request, response: Response) -> None:
        """Set a text in the response, and delete the oldest texts that have no room beside it.

        Args:
            id_: ID of the text.
            text: The text, of at most `MAX_COOKIES` characters.
            request: The request of the browser.
            response: The response to it.
        """
        names: dict[str, list[str]] = {}
        for name in request.cookies:
            if (match := self._name.fullmatch(name)) and match[1] != id_:
                names.setdefault(match[1], []).append(name)
        room = MAX_COOKIES - len(text)
        for count, other in enumerate(sorted(names, reverse=True), start=2):
            room -= sum(len(request.cookies[name]) for name in names[other])
            if room < 0 or count > self._max_count:
                for name in names[other]:
                    self._set(response, name, "")
        for number, start in enumerate(range(0, len(text), _MAX_COOKIE)):
            self._set(response, self._cookie(id_, number), text[start : start + _MAX_COOKIE])

    def get(self, id_: str, request: Request) -> str:
        """Return the text of an ID; an empty string if there is none."""
        parts: list[str] = []
        while part := request.cookies.get(self._cookie(id_, len(parts))):
            parts.append(part)
        return "".join(parts)

    def delete(self, id_: str, request: Request, response: Response) -> None:
        """Delete a text in the response."""
        for name in request.cookies:
            if (match := self._name.fullmatch(name)) and match[1] == id_:
                self._set(response, name, "")

    def _cookie(self, id_: str, number: int) -> str:
        return f"{self._prefix}{id_}.{number}" if number else f"{self._prefix}{id_}"


def set_cookie(
    response: Response, name: str, value: str, lifetime: float, *, is_secure: bool, path: str = "/"
) -> None:
    """Set a cookie that scripts cannot read, or delete it if the value is empty.

    Args:
        response: The response to the browser.
        name: Name of the cookie.
        value: Its value.
        lifetime: Lifetime in seconds.
        is_secure: Restrict the cookie to https.
        path: Path of the cookie.
    """
    response.set_cookie(
        name,
        value,
        max_age=int(lifetime) if value else 0,
        path=path,
        secure=is_secure,
        httponly=True,
        # Not `strict`: the cookie must be sent when a provider redirects the user here, and when a site opens many
        # pages, so that the oldest can be deleted.
        samesite="lax",
    )
