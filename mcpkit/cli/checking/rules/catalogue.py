"""All rules, and what they find together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ...._utils.option_checks import nearest
from ..finding import SEVERITIES, Finding, Looked, Rule
from . import blocking, budget, contract, contradictions, descriptions, names, resources, schemas, strict

_MODULES: Final = (
    names,
    descriptions,
    schemas,
    strict,
    contradictions,
    resources,
    budget,
    blocking,
    contract,
)

RULES: Final[dict[str, Rule]] = {
    value.code: value for module in _MODULES for value in vars(module).values() if isinstance(value, Rule)
}
"""The rules by their codes."""


def findings(looked: Looked, *, ignored: Collection[str] = (), rules: Sequence[Rule] = ()) -> list[Finding]:
    """Return what the rules find, the worst first.

    Args:
        looked: What they look at.
        ignored: Codes that are of no interest.
        rules: The rules; by default all.

    Raises:
        ValueError: There is no rule of a code that is ignored.
    """
    for code in ignored:
        if code not in RULES:
            close = nearest(code, RULES)
            raise ValueError(f"no such rule: {code}" + (f"; did you mean {close}?" if close else ""))
    found = [
        Finding(rule.code, rule.severity, *each)
        for rule in rules or RULES.values()
        if rule.code not in ignored
        for each in rule.look(looked)
    ]
    # A tuple repeats the schemas of its items, and would have some things found twice.
    return sorted(dict.fromkeys(found), key=lambda finding: SEVERITIES.index(finding.severity))
