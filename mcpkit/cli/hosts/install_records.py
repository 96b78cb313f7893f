"""Records of installed servers, backups of the files before, and replacement of files in one step."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from ...protocol.jsonrpc import Json, is_object
from ..exit_status import CommandError
from .host_table import ConfigFile


@dataclass(frozen=True)
class InstallRecord:
    """An entry that mcpkit has written.

    Attributes:
        entry: Hash of the entry.
        after: Hash of the file with the entry.
        backup: Path of the copy of the file before; None if there was no file.
        folders: Folders that were created for the file, the innermost first.
    """

    entry: str
    after: str
    backup: str | None
    folders: tuple[str, ...]


class InstallRecords:
    """The entries that mcpkit has written on this machine, as hashes, since they may have secrets."""

    def __init__(self, platform: str = sys.platform) -> None:
        if platform == "win32":
            folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif platform == "darwin":
            folder = Path.home() / "Library" / "Application Support"
        else:
            state = Path(os.environ.get("XDG_STATE_HOME", ""))
            folder = state if state.is_absolute() else Path.home() / ".local" / "state"
        self._path = folder / "mcpkit" / "installed.json"

    def find(self, file: ConfigFile, name: str) -> InstallRecord | None:
        """Return the record of an entry; None if mcpkit has not written it."""
        record = self._read().get(_key(file, name))
        if record is None:
            return None
        return InstallRecord(record["entry"], record["after"], record["backup"], tuple(record["folders"]))

    def created_paths(self) -> set[Path]:
        """Return the files and folders that mcpkit has created, and that nothing else has written to since."""
        records = [(Path(json.loads(key)[0]), record) for key, record in self._read().items()]
        created = {Path(folder) for _, record in records for folder in record["folders"]}
        for path in {path for path, record in records if record["backup"] is None}:
            content = read_bytes(path)
            hashes = {record["after"] for each, record in records if each == path}
            if content is not None and hash_of(content) in hashes:
                created.add(path)
        return created

    def add(self, file: ConfigFile, name: str, record: InstallRecord) -> None:
        """Add the record of an entry."""
        self._write({**self._read(), _key(file, name): asdict(record)})

    def remove(self, file: ConfigFile, name: str) -> None:
        """Remove the record of an entry, if there is one."""
        records = self._read()
        if records.pop(_key(file, name), None) is not None:
            self._write(records)

    def _read(self) -> Json:
        content = read_bytes(self._path)
        try:
            records: object = json.loads(content or b"{}")
        except ValueError:
            records = None
        if not is_object(records):
            raise CommandError(
                f"{self._path}, where mcpkit records installed servers, is not valid JSON. Delete it"
            )
        return records

    def _write(self, records: Json) -> None:
        replace_file(self._path, read_bytes(self._path), (json.dumps(records, indent=2) + "\n").encode())


def _key(file: ConfigFile, name: str) -> str:
    return json.dumps([str(file.path.resolve()), *file.keys, name])


def hash_of(content: bytes) -> str:
    """Return the hash of the content of a file."""
    return sha256(content).hexdigest()


def hash_of_entry(entry: object) -> str:
    """Return the hash of an entry; the order of its keys does not count."""
    return hash_of(json.dumps(entry, sort_keys=True, default=str).encode())


# Files


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def replace_file(path: Path, before: bytes | None, after: bytes, *, is_shared: bool = False) -> None:
    """Replace a file in one step; it keeps its mode, and links are followed.

    Args:
        path: The file.
        before: The content that was read; None if the file did not exist.
        after: The new content.
        is_shared: Whether other users may read a new file.

    Raises:
        CommandError: Another process has changed the file since it was read.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        if before is not None:
            shutil.copymode(path, temporary)
        elif is_shared:
            temporary.chmod(0o644)
        if read_bytes(path) != before:
            raise CommandError(
                f"another process changed {path} in the meantime, so it was not written. Run the command again"
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def back_up(path: Path, content: bytes) -> Path:
    """Copy a file to FILE.bak, or to FILE.bak2 and so on if another content is there; return the path of the copy."""
    path = path.resolve()
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        existing = read_bytes(backup)
        if existing is None:
            shutil.copy2(path, backup)
        if existing in (None, content):
            return backup
        number += 1
