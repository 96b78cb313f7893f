"""Payloads: texts of a kind and a size, which take no time to make."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from functools import cache

KINDS = ("ascii", "quotes", "non-ASCII", "base64")


@cache
def text(kind: str, size: int) -> str:
    """Return a text of so many characters; "base64" is an image's data."""
    if kind == "ascii":
        return ("The quick brown fox jumps over the lazy dog. " * (size // 45 + 1))[:size]
    if kind == "quotes":
        cell = json.dumps({"name": "Ada", "city": "London"}) + "\n"
        return (cell * (size // len(cell) + 1))[:size]
    if kind == "non-ASCII":
        return ("Zwölf Boxkämpfer jagen 東京 über den Deich. " * (size // 40 + 1))[:size]
    return b64encode(image(size)).decode()


@cache
def image(size: int) -> bytes:
    """Return bytes that make so many characters of base64 and begin as a PNG does."""
    return b"\x89PNG\r\n\x1a\n" + random.Random(size).randbytes(size * 3 // 4 - 8)
