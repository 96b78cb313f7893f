"""Base64url without padding, as in OAuth (RFC 7515, section 2)."""

from __future__ import annotations

import base64


def encode(data: bytes) -> str:
    """Encode bytes as base64url."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes | None:
    """Decode base64url; None if the text is not base64url, or not in its canonical form."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if encode(data) == text else None
