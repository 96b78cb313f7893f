"""Settings of `mcpkit check` in `[tool.mcpkit.check]` of a pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from ..._utils.package import install_command
from ...protocol.jsonrpc import Json, is_array, is_object
from ..server_loader import projects_of
from .host_limits import STRICT_MODES

T = TypeVar("T")

_KEYS: Final = ("strict", "ignore", "hosts", "budget", "tool-budget")


class SettingsError(ValueError):
    """A setting is invalid."""


@dataclass
class Settings:
    """Settings of `mcpkit check`.

    Attributes:
        strict: Whether findings of severity advice fail the command.
        ignore: Codes of findings to omit.
        hosts: Strict modes of model APIs to check.
        budget: Maximum number of tokens of all tools together.
        tool_budget: Maximum number of tokens of one tool.
    """

    strict: bool = False
    ignore: list[str] = field(default_factory=list[str])
    hosts: list[str] = field(default_factory=list[str])
    budget: int = 10_000
    tool_budget: int = 1_000


def load_settings(folder: Path) -> Settings:
    """Return the settings of the project that contains a folder, with defaults for missing ones.

    Raises:
        SettingsError: A setting is invalid.
    """
    project = next(projects_of(folder), None)
    return Settings() if project is None else _parse_settings(project / "pyproject.toml")


def _parse_settings(path: Path) -> Settings:
    table = _table(path)
    for key in table:
        if key not in _KEYS:
            raise SettingsError(
                f"{path}: unknown key {key} in [tool.mcpkit.check]. Use one of {', '.join(_KEYS)}"
            )
    settings = Settings(
        strict=_typed_value(bool, table, "strict", False),
        ignore=_string_list(path, table, "ignore"),
        hosts=_string_list(path, table, "hosts"),
        budget=_typed_value(int, table, "budget", 10_000),
        tool_budget=_typed_value(int, table, "tool-budget", 1_000),
    )
    for host in settings.hosts:
        if host not in STRICT_MODES:
            raise SettingsError(
                f"{path}: hosts in [tool.mcpkit.check] must be {' or '.join(STRICT_MODES)}, got {host!r}"
            )
    return settings


def _table(path: Path) -> Json:
    readers = filter(find_spec, ("tomllib", "tomli", "tomlkit"))  # with Python 3.10, pytest brings the second
    if (reader := next(readers, None)) is None:
        raise SettingsError(
            f"cannot read {path}: Python 3.10 has no TOML parser. Run: {install_command('cli')}"
        )
    toml = import_module(reader)
    try:
        found: object = toml.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    for key in ("tool", "mcpkit", "check"):
        found = found.get(key) if is_object(found) else None
    return found if is_object(found) else {}


def _typed_value(kind: type[T], table: Json, key: str, default: T) -> T:
    value: object = table.get(key, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SettingsError(
            f"{key} in [tool.mcpkit.check] must be of type {kind.__name__}, got {value!r:.60}"
        )
    return value


def _string_list(path: Path, table: Json, key: str) -> list[str]:
    value: object = table.get(key, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise SettingsError(
            f"{path}: {key} in [tool.mcpkit.check] must be a list of strings, got {value!r:.60}"
        )
    return [str(each) for each in value]
