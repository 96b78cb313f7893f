"""Content of results: text and links are written to standard output, other content is saved in files."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from ..client.call_results import decode_base64_text
from ..protocol.jsonrpc import is_object
from .console import write, write_json, write_stderr
from .exit_status import CommandError, Status

_SUFFIXES: Final = {"image/jpeg": ".jpg", "audio/wav": ".wav", "audio/mpeg": ".mp3", "text/plain": ".txt"}
_RESERVED_NAMES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
)
"""Names of devices on Windows."""
_MAX_NAME: Final = 80


def write_content(block: Mapping[str, object], *, folder: Path, name: str) -> None:
    """Write a content block to standard output, or save it in a file.

    Args:
        block: The content block.
        folder: The folder for images, audio and other binary content.
        name: The name of the file, without suffix.

    Raises:
        CommandError: The content is not valid base64.
        OSError: The file cannot be written.
    """
    kind, resource = block.get("type"), block.get("resource")
    data, mime_type = block.get("data"), block.get("mimeType")
    if kind == "text":
        write(str(block.get("text", "")))
        return
    if kind == "resource_link":
        about = [str(block[key]) for key in ("title", "name", "mimeType") if block.get(key)]
        write(f"{block.get('uri')}  {', '.join(dict.fromkeys(about))}".rstrip())
        return
    if kind == "resource" and is_object(resource):
        if "blob" not in resource:
            write(str(resource.get("text", "")))
            return
        data, mime_type = resource["blob"], resource.get("mimeType")
        name = file_name_of_uri(str(resource.get("uri", "")))
    elif kind not in ("image", "audio"):
        write_json(block)
        return
    content = decode_base64(data, f"content of type {mime_type} from the server")
    save_content(content, mime_type, folder=folder, name=name)


def decode_base64(data: object, subject: str) -> bytes:
    """Decode base64 of a server, with either alphabet and with or without padding.

    Args:
        data: The text.
        subject: The subject of the error message.

    Raises:
        CommandError: The text is not valid base64.
    """
    try:
        return decode_base64_text(data if isinstance(data, str) else "-")
    except ValueError:
        raise CommandError(f"{subject} is not valid base64. Correct the server", Status.TOOL_ERROR) from None


def save_content(content: bytes, mime_type: object, *, folder: Path, name: str) -> None:
    """Save content in a new file, and write its path to standard error.

    Raises:
        OSError: The file cannot be written.
    """
    path = create_file(content, folder, name, mime_type)
    write_stderr(f"saved {path} ({mime_type or 'bytes'}, {len(content):,} bytes)")


def create_file(content: bytes, folder: Path, name: str, mime_type: object) -> Path:
    """Create a file that does not exist yet, and return its path.

    Args:
        content: The content of the file.
        folder: The folder; it is created if it does not exist.
        name: The name; characters that are not safe are replaced, and a number is added if the file exists.
        mime_type: The media type, for the suffix.

    Raises:
        OSError: The file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem, suffix = _stem_and_suffix(name, mime_type)
    for number in count(1):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{suffix}"
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def file_name_of_uri(uri: str) -> str:
    """Return the file name for the content of a resource."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "resource"
    return unquote(PurePosixPath(parts.path).name) or parts.netloc or "resource"


def _stem_and_suffix(name: str, mime_type: object) -> tuple[str, str]:
    stem = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:_MAX_NAME].strip(".")
    media_type = mime_type.partition(";")[0].strip() if isinstance(mime_type, str) else ""
    suffix = _SUFFIXES.get(media_type) or mimetypes.guess_extension(media_type) or ""
    before, dot, own_suffix = stem.rpartition(".")
    if dot and before and own_suffix.isalnum() and len(own_suffix) <= 5:
        stem, suffix = before, f".{own_suffix}"
    if stem.casefold() in _RESERVED_NAMES:
        stem = f"_{stem}"
    return stem or "content", suffix or ".bin"
