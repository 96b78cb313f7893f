"""A keyring of this process, with the narrow entries of Windows."""

from __future__ import annotations

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class MemoryKeyring(KeyringBackend):
    """Keeps passwords of at most 2,560 bytes in UTF-16, as the Credential Locker does."""

    priority = 5  # type: ignore[assignment]  # a property of the class there
    viable = False  # type: ignore[assignment]  # as well; so that it is used where it is set alone, and not found

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.problem: Exception | None = None

    def get_password(self, service: str, username: str) -> str | None:
        if self.problem is not None:
            raise self.problem
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        assert len(password.encode("utf-16-le")) <= 2560
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.entries.pop((service, username), None) is None:
            raise PasswordDeleteError("there is none")
