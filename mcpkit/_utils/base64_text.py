"""Base64 in the forms that servers write: wrapped in lines, URL-safe, without padding, or as a data URL."""

from __future__ import annotations

from binascii import a2b_base64
from typing import Final
from urllib.parse import unquote_to_bytes

_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_STANDARD: Final = str.maketrans("-_", "+/")


def decode_base64_text(text: str) -> bytes:
    """Decode base64 in any unambiguous form.

    RFC 4648 allows a decoder to ignore line ends (3.1), to accept missing padding (3.2) and the URL-safe alphabet (5).
    A data URL (RFC 2397) may contain percent-encoded bytes in place of base64.

    Args:
        text: The text as it was received.

    Raises:
        ValueError: It mixes both alphabets, or is not base64.
    """
    packed = text
    if is_data_url(text):
        head, comma, body = text.partition(",")
        if not comma:
            raise ValueError("a data URL needs a comma before its data")
        data = unquote_to_bytes(body)
        if not head.lower().rstrip().endswith(";base64"):
            return data
        packed = data.decode("ascii")
    packed = "".join(packed.split())
    if "-" in packed or "_" in packed:
        if "+" in packed or "/" in packed:
            raise ValueError("base64 uses either + and /, or - and _, not both")
        packed = packed.translate(_TO_STANDARD)
    digits = packed.rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    if len(packed) - len(digits) > 2 or not is_plain_base64(padded):
        raise ValueError("not base64")
    return a2b_base64(padded)


def is_data_url(text: str) -> bool:
    """Return True if a text is a data URL."""
    return text[:5].lower() == "data:"


def is_plain_base64(text: str) -> bool:
    """Return True if a text is base64 in its standard form (RFC 4648, section 4), without decoding it."""
    if len(text) % 4 or not text.isascii():
        return False
    rest = text.encode("ascii").translate(None, _DIGITS)
    return rest in (b"", b"=", b"==") and text.endswith(rest.decode())
