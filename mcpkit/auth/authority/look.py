"""Title and logo of the pages of an authorization server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

MAX_LOGO = 256 * 1024
"""Maximum bytes of a logo, which each page embeds."""

_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"<svg", "image/svg+xml"),
    (b"<?xml", "image/svg+xml"),
)


class Look(NamedTuple):
    """Title and logo of a server.

    Attributes:
        title: Title of the server.
        logo: Logo as a data URL; None for no logo.
    """

    title: str = ""
    logo: str | None = None


def look_of(title: str, logo: Path | str | bytes | None) -> Look:
    """Return the checked title and logo.

    Args:
        title: Title of the server.
        logo: Image as a path or as bytes: PNG, JPEG, GIF, WebP or SVG.

    Raises:
        TypeError: The title is not a string.
        ValueError: The title is empty, or the logo has another format or is too large.
        OSError: The logo cannot be read.
    """
    if not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f"title must be a string, got {title!r}")
    if len(title) > 100 or not title.isprintable() or not title.strip():
        raise ValueError(f"title must have 1 to 100 printable characters, got {title!r}")
    return Look(title, None if logo is None else _url(logo))


def _url(logo: Path | str | bytes) -> str:
    data = logo if isinstance(logo, bytes) else Path(logo).read_bytes()
    if len(data) > MAX_LOGO:
        raise ValueError(
            f"logo has {len(data):,} bytes, but the maximum is {MAX_LOGO:,}. Make it smaller; "
            "it is shown 48 pixels high"
        )
    kind = next((each for begin, each in _TYPES if data.startswith(begin)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise ValueError("logo must be a PNG, JPEG, GIF, WebP or SVG")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
