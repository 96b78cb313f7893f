"""Token storage in a private file."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from ..._utils.exceptions import TokenStorageError
from ...protocol.jsonrpc import Json, is_object
from .locked import locked, locked_meanwhile
from .storage import TokenStorage

_VERSION: Final = 1
_MOST: Final = 16 * 1024 * 1024
"""The most bytes to read, enough for thousands of tokens."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class FileTokens(TokenStorage):
    """Stores tokens in plain text in a file that only its owner can read (mode 0600).

    Several processes may share the file. Each change replaces the whole file, and one process refreshes a token at a
    time. On Windows the access list of the folder applies, which is not checked.

    Args:
        path: The file, in a folder that only its owner can read (mode 0700). Both are created if they are missing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).expanduser().absolute()

    def __repr__(self) -> str:
        return f"FileTokens({str(self._path)!r})"

    async def load(self, name: str) -> Json | None:
        """Return a record.

        Args:
            name: The name of the record.

        Returns:
            The record; None if there is none.

        Raises:
            TokenStorageError: Other users can read the file, or it is not a token file.
        """
        record = (await asyncio.to_thread(self._read)).get(name)
        return record if is_object(record) else None

    async def save(self, name: str, record: Json) -> None:
        """Store a record.

        Args:
            name: The name of the record.
            record: The record.

        Raises:
            TokenStorageError: Other users could read the file, or it cannot be written.
        """

        def change(records: Json) -> bool:
            records[name] = record
            return True

        await asyncio.to_thread(self._change, change)

    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.

        Raises:
            TokenStorageError: Other users can read the file, or it cannot be written.
        """
        await asyncio.to_thread(self._change, lambda records: records.pop(name, None) is not None)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Lock a record for this process and others that use the file.

        Args:
            name: The name of the record.
        """
        await asyncio.to_thread(self._prepare)
        async with locked_meanwhile(self._beside(sha256(name.encode()).hexdigest()[:16])):
            yield

    def _beside(self, what: str) -> Path:
        return self._path.with_name(f".{self._path.name}.{what}.lock")

    def _prepare(self) -> None:
        """Create the folder if it is missing, and check its permissions.

        Raises:
            TokenStorageError: Other users can read it, or it cannot be created.
        """
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check(folder.stat(), folder, "Run chmod 700 on it, or choose a file in a private folder")
        except TokenStorageError:
            raise
        except OSError as error:
            raise TokenStorageError(
                f"cannot create the folder {folder} for tokens: {error.strerror or error}"
            ) from error

    @staticmethod
    def _check(status: os.stat_result, path: Path, cure: str) -> None:
        if sys.platform != "win32":
            if status.st_uid != os.geteuid():
                raise TokenStorageError(f"{path} belongs to another user, who could read the tokens. {cure}")
            if status.st_mode & _OTHERS:
                mode = stat.S_IMODE(status.st_mode)
                raise TokenStorageError(f"other users can access {path} (mode {mode:04o}). {cure}")

    def _read(self) -> Json:
        """Return the records by name.

        Raises:
            TokenStorageError: Other users can read the file, or it is not a token file.
        """
        self._prepare()
        try:
            found = os.open(
                self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            )
        except FileNotFoundError:
            return {}
        except OSError as error:
            reason = "it is a symbolic link" if self._path.is_symlink() else error.strerror or error
            raise TokenStorageError(f"{self._path} cannot be read: {reason}") from error
        try:
            status = os.fstat(found)
            if not stat.S_ISREG(status.st_mode):
                raise TokenStorageError(f"{self._path} is not a regular file")
            self._check(status, self._path, "Run chmod 600 on it")
            with os.fdopen(found, "rb", closefd=False) as file:
                text = file.read(_MOST + 1)
        finally:
            os.close(found)
        return self._records(text)

    def _records(self, text: bytes) -> Json:
        try:
            whole: object = json.loads(text) if len(text) <= _MOST else None
        except (ValueError, RecursionError):
            whole = None  # what the decoder says may quote a token
        if not is_object(whole) or type(whole.get("version")) is not int:
            raise TokenStorageError(
                f"{self._path} is not a token file of mcpkit. Choose another file, or remove it"
            )
        if whole["version"] > _VERSION:
            raise TokenStorageError(
                f"{self._path} was written by a later version of mcpkit. Choose another file, or upgrade mcpkit"
            )
        records = whole.get("records")
        return records if is_object(records) else {}

    def _change(self, change: Callable[[Json], bool]) -> None:
        self._prepare()
        try:
            with locked(self._beside("write")):
                records = self._read()
                if change(records):
                    self._write(json.dumps({"version": _VERSION, "records": records}).encode())
        except TokenStorageError:
            raise
        except OSError as error:
            raise TokenStorageError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def _write(self, text: bytes) -> None:
        """Replace the whole file atomically."""
        made, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")  # mode 0600
        try:
            with os.fdopen(made, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(made)
            Path(name).replace(self._path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
