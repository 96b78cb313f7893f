"""Media types of files: from the name, else from the first bytes of images and audio."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mimetypes import MimeTypes

BINARY = "application/octet-stream"
PLAIN_TEXT = "text/plain"
JSON = "application/json"

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
"""What the standard library lacks in some supported Python, or names in a way that hosts do not know."""

_BY_COMPRESSION = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

_MAGIC = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), "image/bmp"),
    (
        re.compile(
            rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*|<!DOCTYPE[^>]*>\s*|<!--.*?-->\s*)*<svg[\s>]", re.DOTALL
        ),
        "image/svg+xml",
    ),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    # An MPEG frame of layer III without an ID3 tag begins with eleven set bits, the version and the layer.
    (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "audio/mpeg"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"....ftypM4[AB] ", re.DOTALL), "audio/mp4"),
)
_MAGIC_LENGTH = 1024


def from_name(name: str) -> str | None:
    """Return the media type that the suffix of a file's name stands for, or None.

    The same on every machine: the tables of the operating system are not asked.
    """
    suffix = PurePath(name).suffix.lower()
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
    """Return the media type of an image or a sound by its first bytes, or None for anything else."""
    head = data[:_MAGIC_LENGTH]
    return next((kind for pattern, kind in _MAGIC if pattern.match(head)), None)


def as_text(data: bytes, mime_type: str | None) -> str | None:
    """Return `data` as text where it is UTF-8 and its media type allows it, else None."""
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
