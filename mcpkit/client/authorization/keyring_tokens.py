"""Tokens in the keyring of the system, by the package `keyring`, which is imported when it is asked for."""

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

from ...common.installation import install_command
from ...protocol.jsonrpc import is_object
from ...protocol.types import Json
from .locked import locked_meanwhile
from .storage import MemoryTokens, TokenStorage, TokenStorageError


class _Keyring(Protocol):
    """What is used of a keyring; the package has no types for it."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


T = TypeVar("T")

_MOST: Final = 1_000
"""Characters of one entry: that of Windows holds 2,560 bytes, of two to four for each."""
_MOST_PIECES: Final = 1_000


class KeyringTokens(TokenStorage):
    """Keeps tokens in the keyring of the system: the Keychain, the Credential Locker, the Secret Service.

    What is too long for one entry is kept in several. One process at a time renews a token, on one machine.

    Args:
        service: What the entries are for, as the keyring shows it. Programs with another one do not see them.

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
        """Return the record of a name.

        Raises:
            TokenStorageError: The keyring is locked, or cannot be reached.
        """
        return await self._in_thread(self._load, name)

    async def save(self, name: str, record: Json) -> None:
        """Keep a record.

        Raises:
            TokenStorageError: The keyring is locked, or cannot be reached.
        """
        await self._in_thread(self._save, name, json.dumps(record))

    async def remove(self, name: str) -> None:
        """Keep the record of a name no longer.

        Raises:
            TokenStorageError: The keyring is locked, or cannot be reached.
        """
        await self._in_thread(self._remove, name)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Keep all others of this user and machine from a record."""
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
    """Return the keyring of the system, where the package `keyring` is installed and finds one; else memory.

    A plain file that somebody has made the keyring is none, and neither is the one that keeps nothing.
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
    """Yield the names of the entries that hold a record; none where the entry itself does."""
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
    """Raise what goes wrong in a keyring with what to do about it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # of backends for any system, which raise errors of their own
        raise TokenStorageError(
            f"the system keyring failed ({type(error).__name__}). Unlock it, or choose another storage,"
            " such as storage=MemoryTokens()"
        ) from None  # what a backend says may hold what it was to keep


def _folder_of_locks() -> Path:
    """Return a folder that is this user's alone.

    Raises:
        TokenStorageError: Somebody else has one in its place.
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
