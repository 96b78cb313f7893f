"""Token storage in the system keyring, by the package `keyring`, which is imported on first use."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol, TypeVar

from ..._utils.exceptions import TokenStorageError
from ..._utils.package import install_command
from ...protocol.jsonrpc import Json, is_object
from .locked import locked_meanwhile
from .storage import MemoryTokens, TokenStorage


class _Keyring(Protocol):
    """The functions of a keyring in use. The package `keyring` has no types for them."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


T = TypeVar("T")

_MOST: Final = 1_000
"""The most characters of one entry. An entry on Windows holds 2,560 bytes, and a character takes two to four."""
_MOST_PIECES: Final = 1_000


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
        folder = _folder_of_locks()
        async with locked_meanwhile(folder / sha256(f"{self._service} {name}".encode()).hexdigest()[:32]):
            yield

    async def _in_thread(self, function: Callable[..., T], *arguments: str) -> T:
        def run() -> T:
            with _said_in_words():
                return function(*arguments)

        return await asyncio.to_thread(run)  # which may ask the user to unlock it

    def _load(self, name: str) -> Json | None:
        head = self._entry(name)
        pieces = list(_pieces(name, head))
        if not pieces:
            return head
        texts = [self._backend.get_password(self._service, piece) for piece in pieces]
        return None if None in texts else _object("".join(map(str, texts)))

    def _save(self, name: str, text: str) -> None:
        before = list(_pieces(name, self._entry(name)))
        if len(text) > _MOST:
            # Under names of their own, and named by the entry when all are there: nobody reads half of a record.
            head: Json = {"pieces": -(-len(text) // _MOST), "of": token_hex(8)}
            for place, piece in enumerate(_pieces(name, head)):
                self._backend.set_password(self._service, piece, text[place * _MOST : (place + 1) * _MOST])
            text = json.dumps(head)
        self._backend.set_password(self._service, name, text)
        self._delete(before)

    def _remove(self, name: str) -> None:
        head = self._entry(name)
        if head is not None:
            self._delete([name, *_pieces(name, head)])

    def _entry(self, name: str) -> Json | None:
        return _object(self._backend.get_password(self._service, name))

    def _delete(self, names: list[str]) -> None:
        from keyring.errors import PasswordDeleteError

        for name in names:
            try:
                self._backend.delete_password(self._service, name)
            except PasswordDeleteError:
                continue  # another process has


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
        found = keyring.get_keyring()
        if isinstance(found, ChainerBackend):  # of several, of which the first keeps what is new
            found = next(iter(found.backends), found)
        is_real = found.priority >= 1
    except RuntimeError:  # of one that was configured, and cannot be used
        is_real = False
    return KeyringTokens() if is_real else MemoryTokens()


def _pieces(name: str, head: Json | None) -> Iterator[str]:
    """Yield the names of the further entries of a record; none if one entry holds it."""
    if head is None:
        return
    count, of = head.get("pieces"), head.get("of")
    if type(count) is int and 0 < count <= _MOST_PIECES and type(of) is str:
        for place in range(count):
            yield f"{name} {of} {place}"


def _object(text: str | None) -> Json | None:
    try:
        value: object = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


@contextmanager
def _said_in_words() -> Generator[None]:
    """Raise errors of a keyring as `TokenStorageError` with instructions."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # of backends for any system, which raise errors of their own
        raise TokenStorageError(
            f"the system keyring failed ({type(error).__name__}). Unlock it, or choose another storage,"
            " such as storage=MemoryTokens()"
        ) from None  # what a backend says may hold what it was to keep


def _folder_of_locks() -> Path:
    """Return a private folder of the user for lock files.

    Raises:
        TokenStorageError: Other users can access the folder.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime if runtime and Path(runtime).is_dir() else tempfile.gettempdir())
    if sys.platform == "win32":  # where the latter is the user's own
        folder /= "mcpkit-locks"
        folder.mkdir(exist_ok=True)
    else:
        folder /= f"mcpkit-locks-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise TokenStorageError(f"other users can access {folder}. Remove it")
    return folder
