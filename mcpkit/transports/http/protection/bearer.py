"""The access token of a request, and the header that asks for one (RFC 6750; basic/authorization)."""

from __future__ import annotations

from collections.abc import Mapping

from ....protocol import header_fields

MOST = 16 * 1024
"""Bytes of an Authorization header that is read."""


class MalformedAuthorizationError(ValueError):
    """The Authorization header names the scheme Bearer, but is not of its form (400)."""


def bearer_token(header: bytes) -> str | None:
    """Return the access token in an Authorization header; None where it is of another scheme.

    Raises:
        MalformedAuthorizationError: It is of that scheme, and not of its form.
    """
    try:
        token = header_fields.token68(header.decode("latin-1"), "bearer")
    except ValueError:
        raise MalformedAuthorizationError from None
    if token is not None and len(header) > MOST:
        raise MalformedAuthorizationError
    return token


def challenge(parameters: Mapping[str, str | None]) -> str:
    """Return the value of a `WWW-Authenticate` header, without the parameters that are None.

    Args:
        parameters: By name; what is no visible ASCII, or a quote or backslash, is left out.
    """
    said = ", ".join(f'{name}="{_sayable(value)}"' for name, value in parameters.items() if value is not None)
    return f"Bearer {said}" if said else "Bearer"


def _sayable(text: str) -> str:
    return "".join(character for character in text if " " <= character <= "~" and character not in '"\\')
