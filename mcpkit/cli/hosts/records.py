"""What has been installed: which entries are ours, and what their files were before."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from ...protocol.jsonrpc import Json, is_array, is_object
from ..configurations.places import File
from ..exit_status import CommandError
from . import files

_NAME: Final = "installed.json"


@dataclass(frozen=True)
class Record:
    """An entry that has been installed.

    Attributes:
        entry: The hash of the entry.
        after: The hash of its file, as it was left.
        backup: Where the file is kept as it was before; None where there was none.
        folders: Folders that were made for it, the innermost first.
    """

    entry: str
    after: str
    backup: str | None
    folders: tuple[str, ...]


class Records:
    """The entries that have been installed on this machine. No secret is among it: of contents there are hashes."""

    def __init__(self) -> None:
        self.path = _folder() / _NAME

    def find(self, file: File, name: str) -> Record | None:
        """Return what is known of an entry; None where it was not installed from here."""
        known = self._read().get(_key(file, name))
        if not is_object(known):
            return None
        backup, folders = known.get("backup"), known.get("folders")
        return Record(
            str(known.get("entry")),
            str(known.get("after")),
            backup if isinstance(backup, str) else None,
            tuple(map(str, folders)) if is_array(folders) else (),
        )

    def made(self) -> set[Path]:
        """Return the files and folders that installing has made and that nothing else has written to since."""
        found = set[Path]()
        known: dict[Path, list[Json]] = {}
        for key, record in self._read().items():
            if is_object(record):
                folders: object = record.get("folders")
                found.update(Path(str(each)) for each in (folders if is_array(folders) else ()))
                known.setdefault(Path(str(json.loads(key)[0])), []).append(record)
        for path, records in known.items():
            content = files.content_of(path)
            left = {record.get("after") for record in records}
            was_new = any(record.get("backup") is None for record in records)
            if content is not None and was_new and hash_of(content) in left:
                found.add(path)
        return found

    def add(self, file: File, name: str, record: Record) -> None:
        """Note that an entry has been installed."""
        self._write({**self._read(), _key(file, name): asdict(record)})

    def forget(self, file: File, name: str) -> None:
        """Note that an entry is not there any more."""
        known = self._read()
        if known.pop(_key(file, name), None) is not None:
            self._write(known)

    def _read(self) -> Json:
        content = files.content_of(self.path)
        try:
            known: object = json.loads(content or b"{}")
        except ValueError:
            known = None
        if not is_object(known):
            raise CommandError(
                f"{self.path}, where mcpkit records installed servers, is not valid JSON. Delete it"
            )
        return known

    def _write(self, known: Json) -> None:
        text = json.dumps(known, indent=2) + "\n"
        files.replace(self.path, files.content_of(self.path), text.encode())


def hash_of(content: bytes) -> str:
    """Return a hash of the content of a file."""
    return sha256(content).hexdigest()


def hash_of_entry(entry: object) -> str:
    """Return a hash of an entry, whatever the order of its keys."""
    return hash_of(json.dumps(entry, sort_keys=True, default=str).encode())


def _key(file: File, name: str) -> str:
    return json.dumps([str(file.path.resolve()), *file.keys, name])


def _folder(platform: str = sys.platform) -> Path:
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "mcpkit"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "mcpkit"
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".local" / "state") / "mcpkit"
