"""Logins of the user at servers, in `logins.json`; tokens and client secrets are stored elsewhere."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ..auth.urls import MetadataError, canonical
from ..client.auth.file_tokens import locked
from ..protocol.jsonrpc import Json, is_array, is_object
from .exit_status import CommandError

_VERSION: Final = 1


@dataclass(frozen=True)
class Login:
    """Options of a login at a server.

    Attributes:
        url: The canonical URL of the server.
        client_id: The `client_id` of a client that was registered by hand; None for one that registers itself.
        issuer: The only issuer of tokens; None for the one in the metadata of the server.
        client_metadata_url: The URL of the client ID metadata document, or None.
        scopes: The scopes to request; None for those in the metadata of the server.
        has_secret: Whether the client has a secret, which is stored with the tokens.
        has_key: Whether tokens are bound to a key (DPoP).
    """

    url: str
    client_id: str | None = None
    issuer: str | None = None
    client_metadata_url: str | None = None
    scopes: tuple[str, ...] | None = None
    has_secret: bool = False
    has_key: bool = False


def user_folder() -> Path:
    """Return the folder of the user's logins and tokens."""
    home = os.environ.get("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "mcpkit"


def load_logins() -> dict[str, Login]:
    """Return the logins by URL; none if there is no file.

    Raises:
        CommandError: The file is invalid.
    """
    path = user_folder() / "logins.json"
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        content: object = json.loads(text)
        records = content["logins"] if is_object(content) and content.get("version") == _VERSION else None
        if not is_object(records):
            raise ValueError
        return {url: _login(url, record) for url, record in records.items()}
    except (ValueError, TypeError, KeyError):
        raise CommandError(
            f"{path} is invalid or was written by another version of mcpkit. Delete it, and log in again"
        ) from None


def find_login(url: str, *, creates: bool = False) -> Login | None:
    """Return the login at a server; None if there is none, or if no token may be sent to the URL.

    Args:
        url: The URL of the server.
        creates: Whether to return a new login if there is none.
    """
    try:
        server = canonical(url)
    except MetadataError:
        return None
    return load_logins().get(server, Login(server) if creates else None)


def save_login(login: Login) -> None:
    """Save a login; it replaces the one at the same server."""
    _change(lambda logins: logins.update({login.url: login}))


def delete_login(url: str) -> None:
    """Delete the login at a server, if there is one."""
    _change(lambda logins: logins.pop(url, None))


def _change(change: Callable[[dict[str, Login]], object]) -> None:
    folder = user_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder / ".logins.lock"):
        logins = load_logins()
        change(logins)
        records = {url: {**asdict(login), "url": None} for url, login in sorted(logins.items())}
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".logins.")  # mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, "logins": records}, file, indent=2)
        Path(name).replace(folder / "logins.json")


def _login(url: str, record: object) -> Login:
    if not is_object(record):
        raise TypeError
    scopes = record.get("scopes")
    return Login(
        url,
        _string(record, "client_id"),
        _string(record, "issuer"),
        _string(record, "client_metadata_url"),
        tuple(map(str, scopes)) if is_array(scopes) else None,
        record.get("has_secret") is True,
        record.get("has_key") is True,
    )


def _string(record: Json, name: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value
