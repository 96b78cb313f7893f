"""Cookies of what a browser has begun and not ended: the newest of them stay."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from .asked import ID_LENGTH, LIFETIME

MOST = 6000
"""Characters of all cookies of one kind: proxies read a header of 8 KiB."""

_LONGEST = 3800
"""Characters of one cookie's value: browsers keep 4096 bytes of a cookie, with its name and attributes."""


class Cookies:
    """Texts that a browser keeps for ten minutes, each under an id (`dated_id`), in as many cookies as it needs.

    No script and no other site reads them. They come along when another site sends the user here.

    Args:
        kind: What their names begin with, such as `mcpkit-login-`.
        most: How many texts a browser keeps.
        is_secure: Whether they are for https alone, and of this host alone.
        path: For which paths they are.
    """

    def __init__(self, kind: str, most: int, *, is_secure: bool, path: str = "/") -> None:
        self._prefix = f"{'__Host-' if is_secure else ''}{kind}"
        self._name = re.compile(rf"{re.escape(self._prefix)}([A-Za-z0-9_-]{{{ID_LENGTH}}})(?:\.[0-9])?")
        self._most = most
        self._is_secure = is_secure
        self._path = path

    def keep(self, id_: str, text: str, request: Request, response: Response) -> None:
        """Give a text to the browser that is being answered, and take the oldest for which there is no room then.

        Args:
            id_: The id of the text.
            text: The text, of at most `MOST` characters.
            request: What the browser has sent.
            response: What it is answered.
        """
        for name in self._abandoned(id_, request, MOST - len(text)):
            self._set(response, name, "")
        for number, start in enumerate(range(0, len(text), _LONGEST)):
            self._set(response, self._cookie(id_, number), text[start : start + _LONGEST])

    def find(self, id_: str, request: Request) -> str:
        """Return the text that a browser has under an id; none is empty."""
        parts = list[str]()
        while part := request.cookies.get(self._cookie(id_, len(parts))):
            parts.append(part)
        return "".join(parts)

    def forget(self, id_: str, request: Request, response: Response) -> None:
        """Take a text from the browser that is being answered."""
        for name in request.cookies:
            if (match := self._name.fullmatch(name)) and match[1] == id_:
                self._set(response, name, "")

    def _abandoned(self, new: str, request: Request, room: int) -> list[str]:
        """Return the cookies that there is no room for beside a new text."""
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
    """Set a cookie that no script reads, or take it back, where it has no value.

    Args:
        response: What the browser is answered.
        name: The name of the cookie.
        value: Its value.
        lifetime: Seconds for which it is kept.
        is_secure: Whether it is for https alone.
        path: For which paths it is.
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
