"""Roots of the client (client/roots)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Root:
    """A root of the client: a folder or another location that the server should stay within (client/roots).

    Attributes:
        uri: URI of the root; only `file://` so far.
        name: Display name, or None.
    """

    __slots__ = ("name", "uri")

    def __init__(self, uri: str, name: str | None = None) -> None:
        self.uri = uri
        self.name = name

    @property
    def path(self) -> Path | None:
        """Path of the root on this machine, which may not exist; None if the URI is not a local file.

        That is: another scheme, another machine, a URI with a query, or a malformed URI.
        """
        from pathlib import Path  # which would cost every server's start

        text = file_path(self.uri, is_windows=os.name == "nt")
        return None if text is None else Path(text)

    def __repr__(self) -> str:
        """Show URI and name."""
        return f"Root({self.uri!r}, {self.name!r})"


def file_path(uri: str, *, is_windows: bool) -> str | None:
    """Return the absolute path of a `file:` URI (RFC 8089); None for other URIs.

    Args:
        uri: The URI.
        is_windows: Whether paths begin with a drive letter or the name of a machine.
    """
    from urllib.parse import unquote_to_bytes

    scheme, separator, rest = uri.partition(":")
    if not separator or scheme.lower() != "file" or "?" in rest or "#" in rest:
        return None
    host = ""
    if rest.startswith("//"):
        host, separator, rest = rest[2:].partition("/")
        rest = separator + rest
    if not rest.startswith("/") or not (host in {"", "localhost"} or is_windows):
        return None
    path = os.fsdecode(unquote_to_bytes(rest))
    if "\0" in path:
        return None
    return _windows_path(host, path) if is_windows else path


def _windows_path(host: str, path: str) -> str | None:
    """Return the path of a `file:` URI on Windows, with a drive letter or the name of a machine."""
    if host not in {"", "localhost"}:
        return f"//{host}{path}"
    if path.startswith("//"):
        return path
    has_drive = path[1:2].isascii() and path[1:2].isalpha() and path[2:3] == ":"
    return f"{path[1:3]}/{path[4:]}" if has_drive and path[3:4] in {"", "/"} else None
