"""What the tests of content and of objects that show themselves have in common."""

from __future__ import annotations

import base64
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def shows(**methods: Any) -> Any:
    """Make an object with the representations that are given, as IPython knows them."""
    return type(
        "Shows", (), {f"_repr_{name}_": lambda self, value=value: value for name, value in methods.items()}
    )()
