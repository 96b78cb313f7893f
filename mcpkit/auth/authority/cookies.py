"""Cookies for started logins and consents. The newest ones are kept."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from .asked import ID_LENGTH, LIFETIME

MOST = 6000
"""Maximum characters of all cookies of one kind, because proxies limit headers to 8 KiB."""

_LONGEST = 3800
"""Maximum characters of a cookie value. Browsers allow 4096 bytes for a cookie with its name and attributes."""


class Cookies:
    """Texts in cookies of a browser for ten minutes, each under an ID (`dated_id`), split over several cookies if long.

    Scripts and other sites cannot read them. The browser sends them when another site navigates the user here.

    Args:
        kind: Prefix of the cookie names, such as `mcpkit-login-`.
        most: Maximum number of texts in a browser.
        is_secure: Restrict the cookies to https and to this host.
        path: Path of the cookies.
    """

    def __init__(self, kind: str, most: int, *, is_secure: bool, path: str = "/") -> None:
        self._prefix = f"{'__Host-' if is_secure else ''}{kind}"
        self._name = re.compile(rf"{re.escape(self._prefix)}([A-Za-z0-9_-]{{{ID_LENGTH}}})(?:\.[0-9])?")
        self._most = most
        self._is_secure = is_secure
        self._path = path

    def keep(self, id_: str, text: str, request: Request, response: Response) -> None:
        """Set a text in the response, and delete the oldest texts that have no room beside it.

        Args:
            id_: ID of the text.
            text: The text, of at most `MOST` characters.
            request: The request of the browser.
            response: The response to it.
        """
        for name in self._abandoned(id_, request, MOST - len(text)):
            self._set(response, name, "")
        for number, start in enumerate(range(0, len(text), _LONGEST)):
            self._set(response, self._cookie(id_, number), text[start : start + _LONGEST])

    def find(self, id_: str, request: Request) -> str:
        """Return the text of an ID; an empty string if there is none."""
        parts = list[str]()
        while part := request.cookies.get(self._cookie(id_, len(parts))):
            parts.append(part)
        return "".join(parts)

    def forget(self, id_: str, request: Request, response: Response) -> None:
        """Delete a text in the response."""
        for name in request.cookies:
            if (match := self._name.fullmatch(name)) and match[1] == id_:
                self._set(response, name, "")

    def _abandoned(self, new: str, request: Request, room: int) -> list[str]:
        """Return the names of cookies without room beside a new text."""
        sizes, names = dict[str, int](), dict[str, list[str]]()
        for name, value in request.cookies.items():
            if (match := self._name.fullmatch(name)) and match[1] != new:
                sizes[match[1]] = sizes.get(match[1], 0) + len(value)
                names.setdefault(match[1], []).append(name)
        abandoned = list[str]()
        for count, id_ in enumerate(sorted(names, reverse=True), start=2):
            room -= sizes[id_]
            if room < 0 or count > self._most:
                abandoned += names[id_]
        return abandoned

    def _set(self, response: Response, name: str, value: str) -> None:
        set_cookie(response, name, value, LIFETIME, is_secure=self._is_secure, path=self._path)

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
        samesite="lax",  # it comes along when another site sends the user here, be it their provider, or one that
        # opens page after page, of which only a few are to stay
    )
