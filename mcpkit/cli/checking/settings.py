"""What a project says of checking, in `[tool.mcpkit.check]` of its pyproject.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from ..._utils.package import install_command
from ...protocol.jsonrpc import Json, is_array, is_object
from ..targets.folders import projects_of
from .hosts import STRICT

T = TypeVar("T")

_KEYS: Final = ("strict", "ignore", "hosts", "budget", "tool-budget")


class SettingsError(ValueError):
    """A setting is none; the message says what to write."""


@dataclass
class Settings:
    """How servers are checked.

    Attributes:
        strict: Whether advice counts as much as errors.
        ignore: Codes that are of no interest.
        hosts: Hosts' strict modes in which tools have to work.
        budget: How many tokens all tools together may cost a model.
        tool_budget: How many one tool may cost.
    """

    strict: bool = False
    ignore: list[str] = field(default_factory=list[str])
    hosts: list[str] = field(default_factory=list[str])
    budget: int = 10_000
    tool_budget: int = 1_000


def settings(folder: Path) -> Settings:
    """Return the settings of the project that a folder is in; those by default where it says nothing.

    Raises:
        SettingsError: A setting is none.
    """
    project = next(projects_of(folder), None)
    return Settings() if project is None else _settings(project / "pyproject.toml")


def _settings(path: Path) -> Settings:
    said = _table(path)
    for key in said:
        if key not in _KEYS:
            raise SettingsError(
                f"{path}: unknown key {key} in [tool.mcpkit.check]. Use one of {', '.join(_KEYS)}"
            )
    found = Settings(
        strict=_is(bool, said, "strict", False),
        ignore=_texts(path, said, "ignore"),
        hosts=_texts(path, said, "hosts"),
        budget=_is(int, said, "budget", 10_000),
        tool_budget=_is(int, said, "tool-budget", 1_000),
    )
    for host in found.hosts:
        if host not in STRICT:
            raise SettingsError(
                f"{path}: hosts in [tool.mcpkit.check] must be {' or '.join(STRICT)}, got {host!r}"
            )
    return found


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


def _is(kind: type[T], said: Json, key: str, otherwise: T) -> T:
    value: object = said.get(key, otherwise)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SettingsError(
            f"{key} in [tool.mcpkit.check] must be of type {kind.__name__}, got {value!r:.60}"
        )
    return value


def _texts(path: Path, said: Json, key: str) -> list[str]:
    value: object = said.get(key, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise SettingsError(
            f"{path}: {key} in [tool.mcpkit.check] must be a list of strings, got {value!r:.60}"
        )
    return [str(each) for each in value]
