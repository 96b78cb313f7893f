"""What the files of hosts hold, and changes to them that leave all else as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from ..._utils.package import install_command
from ...protocol.jsonrpc import Json, is_object
from ..exit_status import CommandError
from .places import File, user_file
from .table import HOSTS, Format, Host

_BOM: Final = "\ufeff"


class _Language(Protocol):
    """What files are written in: each is a module."""

    def read(self, text: str) -> object: ...

    def with_entry(self, text: str, keys: Sequence[str], name: str, entry: Json) -> str: ...

    def without_entry(self, text: str, keys: Sequence[str], name: str) -> str: ...


class Document:
    """The text of a file of a host, as it is to be changed.

    Args:
        file: The file.
        data: What is in it.

    Attributes:
        entries: The entries in it, by name.

    Raises:
        CommandError: It is broken; the message says where.
    """

    def __init__(self, file: File, data: bytes) -> None:
        self._file = file
        self._keys = file.keys
        self._language = _language(file.host.format)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise CommandError(f"{file.path} is not UTF-8: {error}. Save it as UTF-8") from error
        self._mark = _BOM if text.startswith(_BOM) else ""
        self.text = text.removeprefix(_BOM)
        self._content = self._read(self.text)
        self.entries = self._entries(self._content)

    def with_entry(self, name: str, entry: Json) -> bytes:
        """Return what the file is with an entry, in the place of one of that name if there is one."""
        text = self._language.with_entry(self.text, self._keys, name, entry)
        return self._checked(text, {**self.entries, name: entry}, f"add {name}")

    def without_entry(self, name: str) -> bytes:
        """Return what the file is without an entry that it has."""
        text = self._language.without_entry(self.text, self._keys, name)
        rest = {each: entry for each, entry in self.entries.items() if each != name}
        return self._checked(text, rest, f"remove {name}")

    def _checked(self, text: str, entries: Mapping[str, object], goal: str) -> bytes:
        """Return a text that holds what it should, and nothing else than before."""
        try:
            content = self._read(text)
        except CommandError:
            content = {}
        if self._entries(content) != entries or self._others(content) != self._others(self._content):
            instruction = f"{goal[0].upper()}{goal[1:]}"
            raise CommandError(
                f"cannot edit {self._file.path} without changing other parts of it. "
                f"{instruction} by hand (mcpkit install --print shows the entry)"
            )
        return (self._mark + text).encode()

    def _read(self, text: str) -> Json:
        try:
            content = self._language.read(text)
        except ValueError as error:
            raise CommandError(f"{self._file.path} is not valid {self._file.host.format}: {error}") from error
        if not is_object(content):
            raise CommandError(f"{self._file.path} is not a configuration: its top level must be an object")
        return content

    def _entries(self, content: Json) -> Json:
        for key in self._keys:
            inner = content.get(key)
            if key not in content or (inner is None and self._file.host.format == "YAML"):
                return {}
            if not is_object(inner):
                raise CommandError(f"{self._file.path}: {key} must be an object with the servers by name")
            content = inner
        return content

    def _others(self, content: object, keys: Sequence[str] | None = None) -> object:
        """Return what a file holds beside its entries."""
        keys = self._keys if keys is None else keys
        if not keys:
            return None
        here = content if is_object(content) else {}
        rest = {key: value for key, value in here.items() if key != keys[0]}
        return rest, self._others(here.get(keys[0]), keys[1:])


def entries_in(file: File) -> Json:
    """Return the entries of a file, by name; none where there is no file.

    Raises:
        CommandError: It is broken; the message says where.
    """
    return Document(file, file.path.read_bytes()).entries if file.path.is_file() else {}


def host_of_file(path: Path) -> Host | None:
    """Return the host that a file belongs to, by its place or its format; None for JSON in any other place."""
    suffix = path.suffix.casefold()
    if suffix != ".json":
        name = {".toml": "codex", ".yaml": "goose", ".yml": "goose"}.get(suffix)
        return None if name is None else HOSTS[name]
    path = path.absolute()
    for host in HOSTS.values():
        files = [Path(file) for file in (host.project, host.local) if file]
        if path == user_file(host.user) or any(
            path.parts[-len(file.parts) :] == file.parts for file in files
        ):
            return host
    return None


def _language(name: Format) -> _Language:
    try:
        if name == "JSON":
            from . import jsonc_text

            return jsonc_text
        if name == "TOML":
            from . import toml_text

            return toml_text
        from . import yaml_text
    except ModuleNotFoundError as error:
        raise CommandError(
            f"reading {name} needs the package {error.name}. Run: {install_command('cli')}"
        ) from None
    return yaml_text
