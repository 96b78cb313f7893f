"""A token of a platform or an identity provider, which may change: a string, a file or a function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path

from .errors import AuthorizationFailedError

PresentedToken = str | Path | Callable[[], str | Awaitable[str]]
"""A token; the path of a file that holds it, read each time; or a function that returns it, which may be `async`."""


class Presented:
    """Reads a token when it is needed.

    Args:
        name: The name of the argument, for messages.
        given: The token, the path of its file, or a function.

    Raises:
        TypeError: It is none of these.
        ValueError: It is empty.
    """

    def __init__(self, name: str, given: PresentedToken) -> None:
        if not isinstance(given, (str, Path)) and not callable(given):
            raise TypeError(
                f"{name} must be a token, the pathlib.Path of a file with it, or a function that returns it, not"
                f" {type(given).__name__}"
            )
        if given == "":
            raise ValueError(
                f"{name} is empty. Pass a token, the pathlib.Path of a file with it, or a function that returns it"
            )
        self._name = name
        self._given = given

    async def value(self) -> str:
        """Return the current token.

        Raises:
            AuthorizationFailedError: There is no token.
        """
        token = await self._now()
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise AuthorizationFailedError(
                f"{self._name} did not yield a token. It must be a single line of printable ASCII",
                may_pass=True,
            )
        return token

    async def _now(self) -> object:
        if isinstance(self._given, str):
            return self._given
        if isinstance(self._given, Path):
            try:
                return (await asyncio.to_thread(self._given.read_text, "utf-8")).strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                raise AuthorizationFailedError(
                    f"{self._name} cannot be read from {self._given}: {reason}", may_pass=True
                ) from None
        returned = self._given()
        return await returned if inspect.isawaitable(returned) else returned
