"""The access token of a request, and the header that asks for one (RFC 6750; basic/authorization)."""

from __future__ import annotations

from collections.abc import Mapping

from ....protocol import http_headers

MOST = 16 * 1024
"""Maximum bytes of an Authorization header."""


class MalformedAuthorizationError(ValueError):
    """The Authorization header has the scheme Bearer, but is malformed (400)."""


def bearer_token(header: bytes) -> str | None:
    """Return the access token in an Authorization header; None for another scheme.

    Raises:
        MalformedAuthorizationError: The header has the scheme Bearer, but is malformed.
    """
    try:
        token = http_headers.token68(header.decode("latin-1"), "bearer")
    except ValueError:
        raise MalformedAuthorizationError from None
    if token is not None and len(header) > MOST:
        raise MalformedAuthorizationError
    return token


def challenge(parameters: Mapping[str, str | None]) -> str:
    """Return the value of a `WWW-Authenticate` header, without the parameters that are None.

    Args:
        parameters: Values by name. Characters outside visible ASCII, quotes and backslashes are removed.
    """
    said = ", ".join(f'{name}="{_sayable(value)}"' for name, value in parameters.items() if value is not None)
    return f"Bearer {said}" if said else "Bearer"


def _sayable(text: str) -> str:
    return "".join(character for character in text if " " <= character <= "~" and character not in '"\\')
