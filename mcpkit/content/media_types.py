"""Media types of files: from the name, else from the first bytes of images and audio."""

from __future__ import annotations

import re
from functools import cache
from os.path import splitext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mimetypes import MimeTypes

BINARY = "application/octet-stream"
PLAIN_TEXT = "text/plain"
JSON = "application/json"

# What the standard library lacks in some supported Python, or names in a way that hosts do not know.
_BY_SUFFIX = {
    ".flac": "audio/flac",
    ".js": "text/javascript",
    ".jsonl": "application/jsonl",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".rst": "text/x-rst",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}

_BY_COMPRESSION = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

# Where a signature stands, the signature, and its media type.
_MAGIC = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, (b"GIF87a", b"GIF89a"), "image/gif"),
    (8, b"WEBP", "image/webp"),
    # The four bytes after the size are reserved, and zero.
    (6, b"\0\0\0\0", "image/bmp"),
    (8, b"WAVE", "audio/wav"),
    # Without an ID3 tag: eleven set bits, then the version of MPEG and layer III.
    (0, (b"ID3", b"\xff\xe2", b"\xff\xe3", b"\xff\xf2", b"\xff\xf3", b"\xff\xfa", b"\xff\xfb"), "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, (b"ftypM4A ", b"ftypM4B "), "audio/mp4"),
)
# What such a file begins with besides.
_CONTAINERS = {"image/webp": b"RIFF", "audio/wav": b"RIFF", "image/bmp": b"BM"}

_SVG = rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*|<!DOCTYPE[^>]*>\s*|<!--(?:(?!-->).)*-->\s*)*<svg[\s>/]"
# How far into a file its `<svg` is looked for, in bytes.
_SVG_PROLOG = 1024


def from_name(name: str) -> str | None:
    """Return the media type of a file name by its suffix, or None.

    The result is the same on every machine: tables of the operating system are not read.
    """
    # pathlib would cost every server's start, files or not.
    suffix = splitext(name)[1].lower()  # noqa: PTH122
    if not suffix:
        return None
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    kind, compression = _standard().guess_type("name" + suffix)
    return _BY_COMPRESSION.get(compression) if compression else kind


@cache
def _standard() -> MimeTypes:
    # Imported on use: it brings in urllib.parse.
    from mimetypes import MimeTypes

    return MimeTypes()


def from_bytes(data: bytes) -> str | None:
    """Return the media type of an image or a sound by its first bytes, or None."""
    for offset, signature, kind in _MAGIC:
        if data.startswith(signature, offset) and data.startswith(_CONTAINERS.get(kind, b"")):
            return kind
    return "image/svg+xml" if re.match(_SVG, data[:_SVG_PROLOG], re.DOTALL) else None


def as_text(data: bytes, mime_type: str | None) -> str | None:
    """Return bytes as text if they are UTF-8 and their media type allows it, else None."""
    if mime_type in (BINARY, "application/pdf"):
        return None
    family = (mime_type or "").partition("/")[0]
    if family in ("image", "audio", "video", "font") and not (mime_type or "").endswith("+xml"):
        return None
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
