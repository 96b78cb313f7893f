"""Base64url without padding, as OAuth has it (RFC 7515, section 2)."""

from __future__ import annotations

import base64


def encode(data: bytes) -> str:
    """Return the text for some bytes."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes | None:
    """Return what a text stands for; None where it is none, or not the one text for that."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if encode(data) == text else None
