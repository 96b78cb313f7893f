"""Files that are made of what servers send: under clear names, and never over what is there."""

from __future__ import annotations

import mimetypes
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from ...client.link.contents import decode_base64_text
from ..statuses import CommandError, Status

_SUFFIXES: Final = {"image/jpeg": ".jpg", "audio/wav": ".wav", "audio/mpeg": ".mp3", "text/plain": ".txt"}
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
)
"""Names that Windows has for devices."""
_LONGEST: Final = 80


def decoded(data: object, what: str) -> bytes:
    """Return the bytes of base64, in any of its forms.

    Raises:
        CommandError: It is no base64.
    """
    try:
        return decode_base64_text(data if isinstance(data, str) else "-")
    except ValueError:
        raise CommandError(f"{what} is not valid base64. Correct the server", Status.TOOL_ERROR) from None


def saved(content: bytes, folder: Path, name: str, mime_type: object) -> Path:
    """Write a file, and return its path.

    Args:
        content: What is in it.
        folder: Where; it is made where there is none.
        name: What it is called; a number follows where there is such a file.
        mime_type: What it is, for the end of its name.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem, suffix = _parts(name, mime_type)
    for number in count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{suffix}"
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def name_of(uri: str) -> str:
    """Return what a file is called that is made of a resource."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "resource"
    return unquote(PurePosixPath(parts.path).name) or parts.netloc or "resource"


def _parts(name: str, mime_type: object) -> tuple[str, str]:
    safe = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:_LONGEST].strip(".")
    kind = mime_type.partition(";")[0].strip() if isinstance(mime_type, str) else ""
    suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ""
    stem, dot, own = safe.rpartition(".")
    if dot and stem and own.isalnum() and len(own) <= 5:
        safe, suffix = stem, f".{own}"
    if safe.casefold() in _RESERVED:
        safe = f"_{safe}"
    return safe or "content", suffix or ".bin"
