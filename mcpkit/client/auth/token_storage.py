"""Tokens and client registrations, and their storages: in memory, in a private file, and in the system keyring."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, Final, TypeVar

from typing_extensions import Self

from ..._utils.exceptions import TokenStorageError
from ..._utils.package import install_command
from ...protocol.jsonrpc import Json, is_array, is_object

VERSION: Final = 1
"""The version of new records. Records of the version before are read, and later ones are left unchanged."""

_MAX_TIME: Final = 1e12
"""The largest time in seconds since the epoch, thirty thousand years away."""
_POLL_INTERVAL: Final = 0.02
"""Seconds between two attempts to get a lock. Other processes and event loops do not notify of its release."""

logger = logging.getLogger("mcpkit.client")
R = TypeVar("R", bound="Tokens | Registration")
T = TypeVar("T")


# Records


@dataclass(frozen=True)
class Tokens:
    """Tokens for one server, issued by one authorization server to one client. Their `repr` contains no token.

    Attributes:
        resource: The resource identifier of the server.
        issuer: The authorization server.
        client_id: The client id.
        access_token: The access token.
        refresh_token: The refresh token; None if there is none.
        token_type: `Bearer` or `DPoP`.
        expires: The expiry of the access token in seconds since the epoch; None if unknown.
        scopes: The granted scopes.
        proof_key: The private key, as a JWK, that the tokens are bound to; None for bearer tokens (RFC 9449).
    """

    resource: str
    issuer: str
    client_id: str
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    token_type: str = "Bearer"
    expires: float | None = None
    scopes: frozenset[str] = frozenset()
    proof_key: Json | None = field(default=None, repr=False)

    def record(self) -> Json:
        """Return the record of the tokens."""
        return {"version": VERSION, **asdict(self), "scopes": sorted(self.scopes)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return the tokens of a record; None if it is not a token record, or of an unknown version."""
        return _read_record(cls, record)


@dataclass(frozen=True)
class Registration:
    """The registration of a client at an authorization server. Its `repr` contains no secret.

    Attributes:
        issuer: The authorization server.
        client_id: The client id, valid at this authorization server only.
        secret: The client secret; None if there is none.
        method: The `token_endpoint_auth_method`, such as `none` or `client_secret_basic`.
        redirect_uris: The redirect URIs.
        expires: The expiry of the secret in seconds since the epoch; None for never.
    """

    issuer: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: str = "none"
    redirect_uris: tuple[str, ...] = ()
    expires: float | None = None

    def record(self) -> Json:
        """Return the record of the registration."""
        return {"version": VERSION, **asdict(self), "redirect_uris": list(self.redirect_uris)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return the registration of a record; None if it is not one, or of an unknown version."""
        return _read_record(cls, record)


def _is_text(value: object) -> bool:
    return type(value) is str and bool(value)


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("resource", "issuer", "client_id", "access_token", "token_type", "method"), _is_text),
    **dict.fromkeys(("refresh_token", "secret"), lambda value: value is None or _is_text(value)),
    **dict.fromkeys(
        ("scopes", "redirect_uris"),
        lambda value: is_array(value) and all(type(each) is str for each in value),
    ),
    "expires": lambda value: (
        value is None
        or (isinstance(value, int | float) and type(value) is not bool and abs(value) < _MAX_TIME)
    ),
    "proof_key": lambda value: value is None or is_object(value),
}
"""The checks of the members of records."""


def _read_record(kind: type[R], record: object) -> R | None:
    """Return the tokens or the registration of a record; None if its version is unknown or a member is not valid."""
    version = record.get("version") if is_object(record) else None
    if not is_object(record) or type(version) is not int or not VERSION - 1 <= version <= VERSION:
        return None
    members: Json = {each.name: record.get(each.name) for each in fields(kind)}
    if not all(_CHECKS[name](value) for name, value in members.items()):
        return None
    for name, collection in (("scopes", frozenset), ("redirect_uris", tuple)):
        if name in members:
            members[name] = collection(members[name])
    return kind(**members)


# Storages


class TokenStorage(ABC):
    """Base class of storages of tokens and client registrations.

    Subclasses store records by name: they implement `load`, `save`, `remove` and `lock`.
    """

    @abstractmethod
    async def load(self, name: str) -> Json | None:
        """Return a record.

        Args:
            name: The name of the record.

        Returns:
            The record; None if there is none.

        Raises:
            TokenStorageError: The record cannot be read.
        """

    @abstractmethod
    async def save(self, name: str, record: Json) -> None:
        """Store a record atomically, in place of an earlier one of that name.

        Args:
            name: The name of the record. It contains the URL of a server and no secret.
            record: The record as JSON values. It contains secrets.

        Raises:
            TokenStorageError: The record cannot be stored.
        """

    @abstractmethod
    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.

        Raises:
            TokenStorageError: The record cannot be removed.
        """

    @abstractmethod
    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        """Return a context manager that locks a record for one process and task at a time.

        The holder of the lock refreshes tokens, after checking whether another process has already done so.

        Args:
            name: The name of the record.
        """

    async def get_tokens(self, resource: str, client: str = "") -> Tokens | None:
        """Return the tokens for a server.

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Returns:
            The tokens; None if there are none, or their record cannot be read.

        Raises:
            TokenStorageError: The storage cannot be read.
        """
        found = Tokens.read(await self.load(_tokens_name(resource, client)))
        return found if found is not None and found.resource == resource else None

    async def set_tokens(self, tokens: Tokens, client: str = "") -> None:
        """Store tokens in place of those for the same server.

        Args:
            tokens: The tokens.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Raises:
            TokenStorageError: The tokens cannot be stored.
        """
        await self._replace(_tokens_name(tokens.resource, client), tokens.record())

    async def delete_tokens(self, resource: str, client: str = "") -> None:
        """Delete the tokens for a server.

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.

        Raises:
            TokenStorageError: The tokens cannot be deleted.
        """
        await self._replace(_tokens_name(resource, client), None)

    async def get_registration(self, issuer: str, client: str = "") -> Registration | None:
        """Return the client registration at an authorization server.

        Args:
            issuer: The authorization server.
            client: The key that separates clients with registrations of their own, such as a redirect URI.

        Returns:
            The registration; None if there is none, or its record cannot be read.

        Raises:
            TokenStorageError: The storage cannot be read.
        """
        found = Registration.read(await self.load(_registration_name(issuer, client)))
        return found if found is not None and found.issuer == issuer else None

    async def set_registration(self, registration: Registration, client: str = "") -> None:
        """Store a registration in place of the one at the same authorization server.

        Args:
            registration: The registration.
            client: The key that separates clients with registrations of their own.

        Raises:
            TokenStorageError: The registration cannot be stored.
        """
        await self._replace(_registration_name(registration.issuer, client), registration.record())

    async def delete_registration(self, issuer: str, client: str = "") -> None:
        """Delete the registration at an authorization server.

        Args:
            issuer: The authorization server.
            client: The key that separates clients with registrations of their own.

        Raises:
            TokenStorageError: The registration cannot be deleted.
        """
        await self._replace(_registration_name(issuer, client), None)

    def refresh_lock(self, resource: str, client: str = "") -> AbstractAsyncContextManager[None]:
        """Return a context manager under which one process and task at a time refreshes the tokens for a server.

            async with storage.refresh_lock(resource):
                tokens = await storage.get_tokens(resource)  # another process may have refreshed them

        Args:
            resource: The resource identifier of the server.
            client: The key that separates clients with tokens of their own, such as a `client_id`.
        """
        return self.lock(_tokens_name(resource, client))

    async def _replace(self, name: str, record: Json | None) -> None:
        """Store or remove a record, unless a later version of mcpkit wrote it."""
        stored = await self.load(name)
        version = None if stored is None else stored.get("version")
        if type(version) is int and version > VERSION:
            logger.warning(
                "a later version of mcpkit has stored %r. This version leaves it unchanged and keeps its own value in"
                " memory. Update mcpkit to use it",
                name,
            )
        elif record is None:
            await self.remove(name)
        else:
            await self.save(name, record)


def _tokens_name(resource: str, client: str) -> str:
    return f"tokens {resource} {client}".rstrip()


def _registration_name(issuer: str, client: str) -> str:
    return f"registration {issuer} {client}".rstrip()


class MemoryTokens(TokenStorage):
    """Stores tokens in the memory of this process."""

    def __init__(self) -> None:
        self._records: dict[str, Json] = {}
        self._locks: dict[str, Lock] = {}

    async def load(self, name: str) -> Json | None:
        """Return a record; None if there is none.

        Args:
            name: The name of the record.
        """
        return self._records.get(name)

    async def save(self, name: str, record: Json) -> None:
        """Store a record.

        Args:
            name: The name of the record.
            record: The record.
        """
        self._records[name] = record

    async def remove(self, name: str) -> None:
        """Remove a record. A missing record is ignored.

        Args:
            name: The name of the record.
        """
        self._records.pop(name, None)

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Lock a record for all event loops of this process.

        Args:
            name: The name of the record.
        """
        lock = self._locks.setdefault(name, Lock())
        while not lock.acquire(blocking=False):  # noqa: ASYNC110  # no asyncio event spans several event loops
            await asyncio.sleep(_POLL_INTERVAL)
        try:
            yield
        finally:
            lock.release()


# In a file

_FILE_VERSION: Final = 1
_MAX_SIZE: Final = 16 * 1024 * 1024
"""The most bytes to read, enough for thousands of tokens."""
_OTHER_USERS: Final = stat.S_IRWXG | stat.S_IRWXO


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


# In the keyring


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
        self._backend: Any = keyring.get_keyring()  # its methods have no types

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
