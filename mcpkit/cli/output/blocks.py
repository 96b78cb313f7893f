"""Content of servers as it is shown: texts as they are, the rest as files that are made of it, and as links."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...protocol.jsonrpc import is_object
from .files import decoded, name_of, saved
from .written import remark, write, write_json


def show(block: Mapping[str, object], *, folder: Path, name: str) -> None:
    """Show one block of content.

    Args:
        block: The block.
        folder: Where pictures, sounds and other bytes are saved.
        name: What their files are called.

    Raises:
        CommandError: Its bytes are no base64.
        OSError: They cannot be saved.
    """
    kind, resource = block.get("type"), block.get("resource")
    if kind == "text":
        write(str(block.get("text", "")))
    elif kind in ("image", "audio"):
        save_encoded(block.get("data"), block.get("mimeType"), folder=folder, name=name)
    elif kind == "resource" and is_object(resource):
        uri = str(resource.get("uri", ""))
        if "blob" in resource:
            save_encoded(resource["blob"], resource.get("mimeType"), folder=folder, name=name_of(uri))
        else:
            write(str(resource.get("text", "")))
    elif kind == "resource_link":
        about = [str(block[key]) for key in ("title", "name", "mimeType") if block.get(key)]
        write(f"{block.get('uri')}  {', '.join(dict.fromkeys(about))}".rstrip())
    else:
        write_json(block)


def save_encoded(data: object, mime_type: object, *, folder: Path, name: str) -> None:
    """Save bytes that have come as base64; raises what `save` does, and CommandError where it is none."""
    save(decoded(data, f"content of type {mime_type} from the server"), mime_type, folder=folder, name=name)


def save(content: bytes, mime_type: object, *, folder: Path, name: str) -> None:
    """Save bytes under a name that is free, and say where.

    Raises:
        OSError: They cannot be saved.
    """
    path = saved(content, folder, name, mime_type)
    remark(f"saved {path} ({mime_type or 'bytes'}, {len(content):,} bytes)")
