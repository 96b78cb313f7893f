"""How the pages of an authorization server look: whose they are."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

MAX_PICTURE = 256 * 1024
"""Bytes of a picture, which is in each page."""

_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"<svg", "image/svg+xml"),
    (b"<?xml", "image/svg+xml"),
)


class Look(NamedTuple):
    """What people know a server by.

    Attributes:
        title: What it is called.
        picture: A picture, as a URL in which all of it is; None where there is none.
    """

    title: str = ""
    picture: str | None = None


def look_of(title: str, picture: Path | str | bytes | None) -> Look:
    """Return the look that an author wants.

    Args:
        title: What the server is called.
        picture: A picture of the formats PNG, JPEG, GIF, WebP or SVG: where it is, or its bytes.

    Raises:
        TypeError: The title is no text.
        ValueError: The title is empty, or the picture is of another format, or too large.
        OSError: The picture cannot be read.
    """
    if not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f"title must be a string, got {title!r}")
    if len(title) > 100 or not title.isprintable() or not title.strip():
        raise ValueError(f"title must have 1 to 100 printable characters, got {title!r}")
    return Look(title, None if picture is None else _url(picture))


def _url(picture: Path | str | bytes) -> str:
    data = picture if isinstance(picture, bytes) else Path(picture).read_bytes()
    if len(data) > MAX_PICTURE:
        raise ValueError(
            f"picture has {len(data):,} bytes, but the maximum is {MAX_PICTURE:,}. Make it smaller; "
            "it is shown 48 pixels high"
        )
    kind = next((each for begin, each in _TYPES if data.startswith(begin)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise ValueError("picture must be a PNG, JPEG, GIF, WebP or SVG")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
