"""Token storage in the system keyring, by the package `keyring`, which is imported on first use."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol, TypeVar

from ..._utils.exceptions import TokenStorageError
from ..._utils.package import install_command
from ...protocol.jsonrpc import Json, is_object
from .file_tokens import async_locked
from .token_storage import MemoryTokens, TokenStorage


class _Keyring(Protocol):
    """The functions of a keyring in use. The package `keyring` has no types for them."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


T = TypeVar("T")

_MAX_ENTRY: Final = 1_000
"""The most characters of one entry. An entry on Windows holds 2,560 bytes, and a character takes two to four."""
_MAX_PARTS: Final = 1_000


class KeyringTokens(TokenStorage):
    """Stores tokens in the system keyring: Keychain, Credential Locker or Secret Service.

    A record that is too long for one entry takes several. One process on a machine refreshes a token at a time.

    Args:
        service: The service name of the entries, which the keyring shows. Programs with another name do not see them.

    Raises:
        ImportError: The package `keyring` is not installed.
    """

    def __init__(self, service: str = "mcpkit") -> None:
        try:
            import keyring
        except ImportError as error:
            raise ImportError(
                f"KeyringTokens requires the package keyring. Run: {install_command('keyring')}",
                name=error.name,
            ) from error
        self._service = service
        self._backend: _Keyring = keyring.get_keyring()  # pyright: ignore[reportAttributeAccessIssue]  # set_password is wrapped

    def __repr__(self) -> str:
        return f"KeyringTokens({self._service!r})"

    async def load(self, name: str) -> Json | None:
        """Return a record.

        Args:
            name: The name of the record.

        Returns:
            The record; None if there is none.

        Raises:
            TokenStorageError: The keyring is locked, or cannot be reached.
        """
        return await self._in_thread(self._load, name)

    async def save(self, name: str, record: Json) -> None:
        """Store a record.

        Args:
            name: The name of the record.
            record: The record.

        Raises:
            TokenStorageError: The keyring is locked, or cannot be reached.
        """
        await self._in_thread(self._save, name, json.dumps(record))

    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.

        Raises:
            TokenStorageError: The keyring is locked, or cannot be reached.
        """
        await self._in_thread(self._remove, name)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Lock a record for all processes of this user on this machine.

        Args:
            name: The name of the record.
        """
        folder = _lock_folder()
        async with async_locked(folder / sha256(f"{self._service} {name}".encode()).hexdigest()[:32]):
            yield

    async def _in_thread(self, function: Callable[..., T], *arguments: str) -> T:
        """Call a function in a thread, because the keyring may ask the user to unlock it."""
        try:
            return await asyncio.to_thread(function, *arguments)
        except Exception as error:  # noqa: BLE001  # the backends for each system raise errors of their own
            # Without its cause, because the message of a backend may contain the record.
            raise TokenStorageError(
                f"the system keyring failed ({type(error).__name__}). Unlock it, or choose another storage,"
                " such as storage=MemoryTokens()"
            ) from None

    def _load(self, name: str) -> Json | None:
        head = self._entry(name)
        parts = _part_names(name, head)
        if not parts:
            return head
        texts = [self._backend.get_password(self._service, part) for part in parts]
        return None if None in texts else _parse("".join(map(str, texts)))

    def _save(self, name: str, text: str) -> None:
        old_parts = _part_names(name, self._entry(name))
        if len(text) > _MAX_ENTRY:
            # The parts have new names, and the entry names them once all are stored, so no process reads half a record.
            head: Json = {"pieces": -(-len(text) // _MAX_ENTRY), "of": token_hex(8)}
            for number, part in enumerate(_part_names(name, head)):
                start = number * _MAX_ENTRY
                self._backend.set_password(self._service, part, text[start : start + _MAX_ENTRY])
            text = json.dumps(head)
        self._backend.set_password(self._service, name, text)
        self._delete(old_parts)

    def _remove(self, name: str) -> None:
        head = self._entry(name)
        if head is not None:
            self._delete([name, *_part_names(name, head)])

    def _entry(self, name: str) -> Json | None:
        return _parse(self._backend.get_password(self._service, name))

    def _delete(self, names: list[str]) -> None:
        from keyring.errors import PasswordDeleteError

        for name in names:
            try:
                self._backend.delete_password(self._service, name)
            except PasswordDeleteError:
                continue  # another process has deleted it


def _part_names(name: str, head: Json | None) -> list[str]:
    """Return the names of the further entries of a record; empty if one entry holds it."""
    count, of = (None, None) if head is None else (head.get("pieces"), head.get("of"))
    if type(count) is not int or not 0 < count <= _MAX_PARTS or type(of) is not str:
        return []
    return [f"{name} {of} {number}" for number in range(count)]


def _parse(text: str | None) -> Json | None:
    try:
        value: object = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _lock_folder() -> Path:
    """Return a private folder of the user for lock files.

    Raises:
        TokenStorageError: Other users can access the folder.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime if runtime and Path(runtime).is_dir() else tempfile.gettempdir())
    if sys.platform == "win32":  # where the folder for temporary files belongs to the user
        folder /= "mcpkit-locks"
        folder.mkdir(exist_ok=True)
    else:
        folder /= f"mcpkit-locks-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise TokenStorageError(f"other users can access {folder}. Remove it")
    return folder


def default_storage() -> TokenStorage:
    """Return the system keyring if the package `keyring` is installed and finds one, and memory otherwise.

    A keyring in a plain file and the null keyring are not used.
    """
    try:
        import keyring
        from keyring.backends.chainer import ChainerBackend
    except ImportError:
        return MemoryTokens()
    try:
        backend = keyring.get_keyring()
        if isinstance(backend, ChainerBackend):  # new entries are stored in the first of its backends
            backend = next(iter(backend.backends), backend)
        is_usable = backend.priority >= 1
    except RuntimeError:  # the configured backend cannot be used
        is_usable = False
    return KeyringTokens() if is_usable else MemoryTokens()
