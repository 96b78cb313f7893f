"""`mcpkit read`: reads a resource."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...protocol.objects import ResourceContents
from ..console import write, write_json, write_stderr
from ..content_output import decode_base64, file_name_of_uri, save_content
from ..exit_status import CommandError
from .server import Asked, converses


@click.command("read", epilog="Example: mcpkit read server.py config://settings")
@converses
@click.argument("uri")
@click.option("--out", metavar="PATH", help="Save the content in this folder or as this file.")
async def command(asked: Asked, uri: str, out: str | None) -> None:
    """Read a resource and write its content to standard output.

    Binary content is not written to a terminal. Redirect it, or use --out to save it.
    """
    async with asked.client() as client:
        contents = await client.read_resource(uri)
    if asked.is_json:
        write_json({"contents": contents})
    else:
        _show(contents, uri, out)


def _show(contents: list[ResourceContents], uri: str, out: str | None) -> None:
    is_folder = out is not None and (Path(out).is_dir() or out.endswith(("/", "\\")) or len(contents) > 1)
    for each in contents:
        if out is None:
            _write(each, uri)
        elif is_folder:
            name = file_name_of_uri(str(each.get("uri", uri)))
            save_content(_bytes(each, uri), each.get("mimeType"), folder=Path(out), name=name)
        else:
            _save_as(_bytes(each, uri), Path(out))


def _write(contents: ResourceContents, uri: str) -> None:
    if "blob" not in contents:
        write(str(contents.get("text", "")))
        return
    content = _bytes(contents, uri)
    if sys.stdout.isatty():
        kind = contents.get("mimeType") or "bytes"
        raise CommandError(
            f"{uri} is binary ({kind}, {len(content):,} bytes). Save it with --out, or redirect the output"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _bytes(contents: ResourceContents, uri: str) -> bytes:
    if "blob" in contents:
        return decode_base64(contents["blob"], f"the blob of {uri}")
    return str(contents.get("text", "")).encode()


def _save_as(content: bytes, path: Path) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise CommandError(f"{path} exists already. Choose another name for --out") from None
    write_stderr(f"saved {path} ({len(content):,} bytes)")
