"""Values that hosts and models send in a neighbouring type: JSON in a string, a whole number for a text.

`"[1, 2]"` is read as a list, `"5"` as a number where one is expected, and `5` as `"5"` where only text is. A value is
read so only where it did not fit as it was, and where there is exactly one such reading. Booleans and fractions never
become text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._utils.exceptions import ProtocolError
from ..content.blocks import Steps
from ..protocol.jsonrpc import decode
from ..protocol.mirrored import MirroredParameter
from ..protocol.types import Json
from .errors import Fault
from .formats import identity

_ROUNDS = 3
"""How deep strings may lie in strings."""
_MOST_WAYS = 16
"""How many readings of one value are compared; a value with more is not read."""

Changes = dict[Steps, Any]
"""New values by their places."""
Faults = Callable[[Json], list[Fault]]
"""Finds what is wrong with arguments."""


def repaired(
    arguments: Json, faults: Faults, mirrored: Iterable[MirroredParameter]
) -> tuple[Json, list[Fault]]:
    """Return arguments in which values that do not fit are read as values of another type that do.

    Args:
        arguments: Arguments that do not fit.
        faults: Finds what is wrong with arguments.
        mirrored: The arguments that clients repeat in headers. A string that holds such an argument stays one: no
            header could have been compared with what is in it.

    Returns:
        A copy in which something has changed, or the very same arguments, and what is wrong with them. The copy
            may not fit either: then what is wrong with it lies deeper than what was wrong before.
    """
    fixed = {each.path[:length] for each in mirrored for length in range(1, len(each.path))}
    return _repaired(arguments, faults(arguments), faults, fixed, _ROUNDS)


def _repaired(
    arguments: Json, found: list[Fault], faults: Faults, fixed: set[Any], rounds: int
) -> tuple[Json, list[Fault]]:
    for left in range(rounds - 1, -1, -1):
        changes: Changes = {}
        for fault in found:
            ways = _ways(fault, fixed, {})
            if len(ways) > 1:
                ways = _fitting(fault, ways, arguments, faults, fixed, left)
            if len(ways) == 1:
                changes |= ways[0]
        if not changes:
            break
        changed = _with(arguments, changes)
        wrong = faults(changed)
        still_wrong = _wrong(wrong, {})
        fitting = {steps: value for steps, value in changes.items() if steps not in still_wrong}
        if not fitting:
            break
        if len(fitting) < len(changes):
            changed = _with(arguments, fitting)
            wrong = faults(changed)
        arguments, found = changed, wrong
    return arguments, found


def _ways(fault: Fault, fixed: set[Any], known: dict[int, list[Changes]]) -> list[Changes]:
    """Return the changes that may mend a fault: one for a string or number, for a union one for each branch or more.

    Args:
        fault: The fault.
        fixed: Places of values that stay.
        known: The results so far by identity, as faults in unions within unions are shared.
    """
    if fault.text is not None:
        return [{fault.steps: fault.text}]
    if isinstance(fault.value, str):
        decoded = _decoded(fault.value)
        return [] if fault.steps in fixed or isinstance(decoded, str) else [{fault.steps: decoded}]
    if id(fault) not in known:
        ways: list[Changes] = []
        for branch in fault.within:
            combined: list[Changes] = [{}]
            for each in branch:
                inner = _ways(each, fixed, known)
                combined = [before | more for before in combined for more in inner][: _MOST_WAYS + 1]
            ways += (way for way in combined if way not in ways)
        known[id(fault)] = ways[: _MOST_WAYS + 1]
    return known[id(fault)]


def _fitting(
    fault: Fault, ways: list[Changes], arguments: Json, faults: Faults, fixed: set[Any], rounds: int
) -> list[Changes]:
    """Return the changes that mend a fault wholly, and no more than that, as far as they lead to different values."""
    if len(ways) > _MOST_WAYS:
        return []
    steps = fault.steps

    def below(candidate: Json) -> list[Fault]:
        return [each for each in faults(candidate) if each.steps[: len(steps)] == steps]

    results: dict[Any, Changes] = {}
    mending: list[Changes] = []
    for way in sorted(ways, key=len):
        if any(less.items() <= way.items() for less in mending):
            continue
        changed = _with(arguments, way)
        mended, wrong = _repaired(changed, below(changed), below, fixed, rounds)
        if not wrong:
            mending.append(way)
            value = _at(mended, steps)
            results.setdefault(identity(value), {steps: value})
    return list(results.values())


def _wrong(faults: Iterable[Fault], known: dict[int, set[Steps]]) -> set[Steps]:
    """Return the places of faults; of those within a union, the places that all of its branches find wrong."""
    places: set[Steps] = set()
    for fault in faults:
        places.add(fault.steps)
        if fault.within:
            if id(fault) not in known:
                first, *others = (_wrong(branch, known) for branch in fault.within)
                known[id(fault)] = first.intersection(*others)
            places |= known[id(fault)]
    return places


def _at(value: Any, steps: Steps) -> Any:
    for step in steps:
        value = value[step]
    return value


def _decoded(text: str) -> Any:
    try:
        return decode(text.encode())
    except (ProtocolError, UnicodeEncodeError):
        return text


def _with(arguments: Json, changes: Changes) -> Json:
    """Return a copy with other values at some places; what holds none of them is shared."""
    if () in changes:
        whole: Json = changes[()]
        return whole
    whole = arguments.copy()
    copies: dict[Steps, Any] = {(): whole}
    for steps, value in changes.items():
        for length in range(1, len(steps)):
            inner, outer = steps[:length], steps[: length - 1]
            if inner not in copies:
                copies[inner] = copies[outer][steps[length - 1]] = copies[outer][steps[length - 1]].copy()
        copies[steps[:-1]][steps[-1]] = value
    return whole
