"""Parameters in queries and forms, without duplicates."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from ...protocol import http_headers
from .errors import OAuthError

MAX_SIZE = 32 * 1024
"""Maximum bytes of a query or body. The longest client IDs and states have some KiB."""
_REPEATABLE = frozenset({"resource"})
"""Parameters that may be repeated (RFC 8707, section 2)."""


class Parameters:
    """Parameters of a request. Parameters without a value are ignored (RFC 6749, section 3.1).

    Args:
        pairs: Names and values, in order.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if value:
                self._values.setdefault(name, []).append(value)

    def get(self, name: str) -> str | None:
        """Return the value of a parameter; None if missing.

        Raises:
            OAuthError: The parameter is repeated, so that readers could disagree.
        """
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise OAuthError("invalid_request", f"{name} occurs more than once")
        return values[0]

    def require(self, name: str) -> str:
        """Return the value of a parameter.

        Raises:
            OAuthError: The parameter is missing or repeated.
        """
        value = self.get(name)
        if value is None:
            raise OAuthError("invalid_request", f"{name} is missing")
        return value

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a repeatable parameter."""
        return tuple(self._values.get(name, ()))

    def single(self) -> dict[str, str]:
        """Return the parameters that are not repeated."""
        return {name: values[0] for name, values in self._values.items() if len(values) == 1}

    def check(self) -> None:
        """Check that no parameter is repeated.

        Raises:
            OAuthError: A parameter is repeated.
        """
        for name in self._values:
            if name not in _REPEATABLE:
                self.get(name)


def of_query(request: Request) -> Parameters:
    """Parse the query of a request.

    Raises:
        OAuthError: The query is malformed or too long.
    """
    query = request.scope["query_string"]
    return _parsed(query if isinstance(query, bytes) else bytes(query))


async def of_form(request: Request) -> Parameters:
    """Parse the form of a request.

    Raises:
        OAuthError: The body is not a form, or too long.
    """
    expected = "application/x-www-form-urlencoded"
    if _media_type(request) != expected:
        raise OAuthError("invalid_request", f"the Content-Type must be {expected}")
    return _parsed(await body_of(request))


async def body_of(request: Request, error: str = "invalid_request") -> bytes:
    """Read the body of a request.

    Raises:
        OAuthError: The body is too long or incomplete. The error code is `error`.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > MAX_SIZE:
                raise OAuthError(error, f"the body is longer than {MAX_SIZE} bytes", status=413)
            parts.append(part)
    except ClientDisconnect:
        raise OAuthError(error, "the client disconnected before the body was complete") from None
    return b"".join(parts)


def is_json(request: Request) -> bool:
    """Return True if the media type of the request is JSON."""
    return _media_type(request) == "application/json"


def _media_type(request: Request) -> str | None:
    return http_headers.media_type(request.headers.get("content-type", ""))


def _parsed(data: bytes) -> Parameters:
    if len(data) > MAX_SIZE:
        raise OAuthError("invalid_request", f"the parameters are longer than {MAX_SIZE} bytes")
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:  # also of what is no UTF-8
        raise OAuthError("invalid_request", "the parameters are not valid form data in UTF-8") from None
    return Parameters(pairs)
