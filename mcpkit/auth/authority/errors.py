"""OAuth errors and their responses."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse

from ..texts import sayable

NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Headers of responses that must not be cached (RFC 6749, section 5.1)."""


class OAuthError(Exception):
    """OAuth error response (RFC 6749, sections 4.1.2.1 and 5.2).

    Args:
        error: The error code.
        description: The reason, for the developer of the client. Forbidden characters become question marks.
        status: HTTP status of a response to a client.
        headers: Additional headers of that response.
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
        """Return the response to a client."""
        return JSONResponse(
            {"error": self.error, "error_description": self.description},
            self.status,
            headers={**NOT_KEPT, **self.headers},
        )
