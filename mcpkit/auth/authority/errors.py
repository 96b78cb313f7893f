"""Errors as OAuth has them, and how they are answered."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse

from ..texts import sayable

NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Headers of what must not be found in a cache (RFC 6749, section 5.1)."""


class OAuthError(Exception):
    """A request is refused (RFC 6749, sections 4.1.2.1 and 5.2).

    Args:
        error: The code.
        description: Why, for the client's developer. What must not stand there becomes a question mark.
        status: The HTTP status where a client is answered and no user.
        headers: More of that answer.
    """

    def __init__(
        self, error: str, description: str, *, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        self.description = sayable(description)
        super().__init__(f"{error}: {self.description}")
        self.error = error
        self.status = status
        self.headers = headers or {}

    def answer(self) -> JSONResponse:
        """Return what the client is answered."""
        return JSONResponse(
            {"error": self.error, "error_description": self.description},
            self.status,
            headers={**NOT_KEPT, **self.headers},
        )
