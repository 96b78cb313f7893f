"""The servers at which somebody has logged in, by URL: how, and as which client. No secret is among it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ...auth.urls import MetadataError, canonical
from ...client.auth.file_tokens import locked
from ...protocol.jsonrpc import Json, is_array, is_object
from ..exit_status import CommandError

_VERSION: Final = 1


@dataclass(frozen=True)
class Login:
    """How somebody has logged in at a server.

    Attributes:
        url: The server, in canonical form.
        client_id: The id of a client that was registered by hand; None for one that registers itself.
        issuer: The authorization server that alone may issue tokens; None for the one that the server names.
        client_metadata_url: The URL of the client's metadata document; None where it has none.
        scopes: The scopes that are asked for; None for those that the server names.
        has_secret: Whether the client has a secret, which is kept with the tokens.
        has_key: Whether tokens are bound to a key (DPoP).
    """

    url: str
    client_id: str | None = None
    issuer: str | None = None
    client_metadata_url: str | None = None
    scopes: tuple[str, ...] | None = None
    has_secret: bool = False
    has_key: bool = False


def folder() -> Path:
    """Return the folder that holds what the command line keeps for its user."""
    home = os.environ.get("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "mcpkit"


def known() -> dict[str, Login]:
    """Return the logins by URL; none where there is no file.

    Raises:
        CommandError: The file is broken.
    """
    path = folder() / "logins.json"
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        whole: object = json.loads(text)
        records = whole["logins"] if is_object(whole) and whole.get("version") == _VERSION else None
        if not is_object(records):
            raise ValueError
        return {url: _read(url, record) for url, record in records.items()}
    except (ValueError, TypeError, KeyError):
        raise CommandError(
            f"{path} is invalid or was written by another version of mcpkit. Delete it, and log in again"
        ) from None


def login_at(url: str, *, may_be_new: bool = False) -> Login | None:
    """Return the login at a server; None where there is none, or no token may be sent there.

    Args:
        url: The server.
        may_be_new: Whether there is to be one where there is none yet.
    """
    try:
        server = canonical(url)
    except MetadataError:
        return None
    return known().get(server, Login(server) if may_be_new else None)


def note(login: Login) -> None:
    """Take note of a login, in the place of the one at the same server."""
    _change(lambda logins: logins.update({login.url: login}))


def forget(url: str) -> None:
    """Forget the login at a server; where there is none it does nothing."""
    _change(lambda logins: logins.pop(url, None))


def _change(change: Callable[[dict[str, Login]], object]) -> None:
    """Change the file, all at once."""
    place = folder()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(place / ".logins.lock"):
        logins = known()
        change(logins)
        records = {url: {**asdict(login), "url": None} for url, login in sorted(logins.items())}
        made, name = tempfile.mkstemp(dir=place, prefix=".logins.")  # mode 0600
        with os.fdopen(made, "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, "logins": records}, file, indent=2)
        Path(name).replace(place / "logins.json")


def _read(url: str, record: object) -> Login:
    if not is_object(record):
        raise TypeError
    scopes = record.get("scopes")
    return Login(
        url,
        _text(record, "client_id"),
        _text(record, "issuer"),
        _text(record, "client_metadata_url"),
        tuple(map(str, scopes)) if is_array(scopes) else None,
        record.get("has_secret") is True,
        record.get("has_key") is True,
    )


def _text(record: Json, name: str) -> str | None:
    text = record.get(name)
    if text is not None and not isinstance(text, str):
        raise TypeError
    return text
