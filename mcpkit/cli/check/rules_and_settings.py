"""All rules of `mcpkit check`, those for lockfile changes included, and the settings of a project that select them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from ..._utils.option_checks import nearest
from ..._utils.package import install_command
from ...lockfile.schema_changes import Effect
from ...protocol.jsonrpc import Json, is_array, is_object
from ..findings import SEVERITIES, Finding
from ..server_loader import projects_of
from . import name_and_interface_rules, schema_rules, source_rules
from .rule_form_and_host_limits import STRICT_MODES, CheckInputs, Problem, Rule, rule

T = TypeVar("T")


@rule("contract-broken", "error")
def breaking_change(inputs: CheckInputs) -> Iterator[Problem]:
    """A change against `mcp.lock.json` breaks clients that keep to it."""
    return _changes_with(
        inputs, Effect.BREAKING, "revert the change, or accept it with --update and announce it to users"
    )


@rule("contract-untold", "warning")
def possibly_breaking_change(inputs: CheckInputs) -> Iterator[Problem]:
    """A change against `mcp.lock.json` may break clients."""
    return _changes_with(inputs, Effect.UNKNOWN, "check the change, and accept it with --update")


@rule("contract-changed", "advice")
def compatible_change(inputs: CheckInputs) -> Iterator[Problem]:
    """A change against `mcp.lock.json` breaks no client."""
    return _changes_with(inputs, Effect.COMPATIBLE, "accept it with --update")


def _changes_with(inputs: CheckInputs, effect: Effect, cure: str) -> Iterator[Problem]:
    return (Problem(change.where, change.what, cure) for change in inputs.changes if change.effect is effect)


_MODULES: Final = (name_and_interface_rules, schema_rules, source_rules)

RULES: Final[dict[str, Rule]] = {
    each.code: each
    for each in (
        *(value for module in _MODULES for value in vars(module).values() if isinstance(value, Rule)),
        *(breaking_change, possibly_breaking_change, compatible_change),
    )
}
"""The rules by their codes."""


def findings(inputs: CheckInputs, *, ignored: Collection[str] = ()) -> list[Finding]:
    """Run all rules, and return their findings, the most severe first.

    Args:
        inputs: The server data.
        ignored: Codes of findings to omit.

    Raises:
        ValueError: An ignored code is unknown.
    """
    for code in ignored:
        if code not in RULES:
            close = nearest(code, RULES)
            raise ValueError(f"no such rule: {code}" + (f"; did you mean {close}?" if close else ""))
    found = [
        Finding(rule.code, rule.severity, *each)
        for rule in RULES.values()
        if rule.code not in ignored
        for each in rule.run(inputs)
    ]
    # A tuple repeats the schemas of its items, so some findings are duplicates.
    return sorted(dict.fromkeys(found), key=lambda each: SEVERITIES.index(each.severity))


# Settings in `[tool.mcpkit.check]` of a pyproject.toml

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
    if project is None:
        return Settings()
    path = project / "pyproject.toml"
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
