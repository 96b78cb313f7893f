"""All rules of `mcpkit check`, those for lockfile changes included, and the function that runs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from ..._utils.option_checks import nearest
from ...lockfile.lockfile_changes import Effect
from ..findings import Finding, sorted_findings
from . import interface_rules, name_rules, schema_rules, source_rules
from .rule import CheckInputs, Problem, Rule, rule


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


_MODULES: Final = (name_rules, schema_rules, interface_rules, source_rules)

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
    # A tuple repeats the schemas of its items, so some findings are duplicates.
    return sorted_findings(
        Finding(rule.code, rule.severity, *each)
        for rule in RULES.values()
        if rule.code not in ignored
        for each in rule.run(inputs)
    )
