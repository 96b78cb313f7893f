"""Token storage in a private file, and the lock of a file between processes."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from ..._utils.exceptions import TokenStorageError
from ...protocol.jsonrpc import Json, is_object
from .token_storage import TokenStorage

_FILE_VERSION: Final = 1
_MAX_SIZE: Final = 16 * 1024 * 1024
"""The most bytes to read, enough for thousands of tokens."""
_OTHER_USERS: Final = stat.S_IRWXG | stat.S_IRWXO
_POLL_INTERVAL: Final = 0.02
"""Seconds between two attempts to get a lock: there is no non-blocking notification of its release."""


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
        await asyncio.to_thread(self._replace_record, name, record)

    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.

        Raises:
            TokenStorageError: Other users can read the file, or it cannot be written.
        """
        await asyncio.to_thread(self._replace_record, name, None)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Lock a record for this process and others that use the file.

        Args:
            name: The name of the record.
        """
        await asyncio.to_thread(self._prepare_folder)
        async with async_locked(self._lock_file(sha256(name.encode()).hexdigest()[:16])):
            yield

    def _lock_file(self, what: str) -> Path:
        return self._path.with_name(f".{self._path.name}.{what}.lock")

    def _prepare_folder(self) -> None:
        """Create the folder if it is missing, and check its permissions.

        Raises:
            TokenStorageError: Other users can read it, or it cannot be created.
        """
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except OSError as error:
            raise TokenStorageError(
                f"cannot create the folder {folder} for tokens: {error.strerror or error}"
            ) from error
        _check_private(status, folder, "Run chmod 700 on it, or choose a file in a private folder")

    def _read(self) -> Json:
        """Return the records by name.

        Raises:
            TokenStorageError: Other users can read the file, or it is not a token file.
        """
        self._prepare_folder()
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(self._path, flags)
        except FileNotFoundError:
            return {}
        except OSError as error:
            reason = "it is a symbolic link" if self._path.is_symlink() else error.strerror or error
            raise TokenStorageError(f"{self._path} cannot be read: {reason}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise TokenStorageError(f"{self._path} is not a regular file")
            _check_private(status, self._path, "Run chmod 600 on it")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                text = file.read(_MAX_SIZE + 1)
        finally:
            os.close(descriptor)
        try:
            content: object = json.loads(text) if len(text) <= _MAX_SIZE else None
        except (ValueError, RecursionError):
            content = None  # the message of the decoder may quote a token
        if not is_object(content) or type(content.get("version")) is not int:
            raise TokenStorageError(
                f"{self._path} is not a token file of mcpkit. Choose another file, or remove it"
            )
        if content["version"] > _FILE_VERSION:
            raise TokenStorageError(
                f"{self._path} was written by a later version of mcpkit. Choose another file, or upgrade mcpkit"
            )
        records = content.get("records")
        return records if is_object(records) else {}

    def _replace_record(self, name: str, record: Json | None) -> None:
        """Store a record, or remove it if it is None, and replace the whole file."""
        self._prepare_folder()
        try:
            with locked(self._lock_file("write")):
                records = self._read()
                if record is None and name not in records:
                    return
                records[name] = record
                kept = {key: value for key, value in records.items() if value is not None}
                self._write(json.dumps({"version": _FILE_VERSION, "records": kept}).encode())
        except TokenStorageError:
            raise
        except OSError as error:
            raise TokenStorageError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def _write(self, text: bytes) -> None:
        """Replace the whole file atomically."""
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            Path(name).replace(self._path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


def _check_private(status: os.stat_result, path: Path, cure: str) -> None:
    """Check that only the user can access a file or folder.

    Raises:
        TokenStorageError: Another user owns it, or can access it.
    """
    if sys.platform != "win32":
        if status.st_uid != os.geteuid():
            raise TokenStorageError(f"{path} belongs to another user, who could read the tokens. {cure}")
        if status.st_mode & _OTHER_USERS:
            mode = stat.S_IMODE(status.st_mode)
            raise TokenStorageError(f"other users can access {path} (mode {mode:04o}). {cure}")


# Lock between processes, by a locked file that exists only while the lock is held


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock for a short time, in a thread that may block.

    Args:
        path: The file to lock, in an existing folder.
    """
    while (descriptor := _acquire(path)) is None:
        time.sleep(_POLL_INTERVAL)
    try:
        yield
    finally:
        _release(path, descriptor)


@asynccontextmanager
async def async_locked(path: Path) -> AsyncGenerator[None]:
    """Hold a lock without blocking the event loop.

    Args:
        path: The file to lock, in an existing folder.
    """
    while (descriptor := _acquire(path)) is None:  # noqa: ASYNC110  # there is no notification of the release
        await asyncio.sleep(_POLL_INTERVAL)
    try:
        yield
    finally:
        _release(path, descriptor)


def _acquire(path: Path) -> int | None:
    """Return the descriptor of the locked file; None while another process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except PermissionError:
        if sys.platform == "win32":  # which refuses a file that is being removed
            return None
        raise
    is_acquired = False
    try:
        if _lock_descriptor(descriptor):
            with suppress(FileNotFoundError):  # the last holder may have removed or replaced the file
                is_acquired = os.path.samestat(path.stat(), os.fstat(descriptor))
    finally:
        if not is_acquired:
            os.close(descriptor)
    return descriptor if is_acquired else None


def _release(path: Path, descriptor: int) -> None:
    if sys.platform == "win32":
        os.close(descriptor)  # unlocks; the file can be removed only while no other process has it open
        with suppress(OSError):
            path.unlink()
    else:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)


def _lock_descriptor(descriptor: int) -> bool:
    """Lock an open file, and return False if another process has locked it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if sys.platform == "win32":
            return False
        raise
    return True
