"""JSON written into a string where a value was meant: `"[1, 2]"` for `[1, 2]`, as models often send it.

It is read only where a value did not fit as it was, and only a value that is no string comes of it: what is
right as it stands, and whatever is meant to be text, stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..common.errors import ProtocolError
from ..content.wording import Steps
from ..protocol.jsonrpc import decode
from ..protocol.mirrored import MirroredParameter
from .problems import Fault
from .values import Json

_ROUNDS = 3
"""How deep strings may lie in strings."""


def repaired(
    arguments: Json, faults: Callable[[Json], list[Fault]], mirrored: Iterable[MirroredParameter]
) -> tuple[Json, list[Fault]]:
    """Return arguments with the strings decoded that fit only then.

    Args:
        arguments: Arguments that do not fit.
        faults: Finds what is wrong with arguments.
        mirrored: What clients repeat in headers. A string that holds such an argument stays one: nobody could
            have held the header against what is in it.

    Returns:
        A copy in which something has changed, or the very same arguments, and what is wrong with them. The copy
            may not fit either: then what is wrong with it lies deeper than what was wrong before.
    """
    found = faults(arguments)
    kept = {each.path[:length] for each in mirrored for length in range(1, len(each.path))}
    for _ in range(_ROUNDS):
        decoded = {
            steps: value
            for steps, text in _places(found)
            if isinstance(text, str)
            and steps not in kept
            # What is wrong with a key is told of the object that has it.
            and _at(arguments, steps) is text
            and not isinstance(value := _decoded(text), str)
        }
        if not decoded:
            break
        changed = _with(arguments, decoded)
        wrong = faults(changed)
        still_wrong = {steps for steps, _ in _places(wrong)}
        fitting = {steps: value for steps, value in decoded.items() if steps not in still_wrong}
        if not fitting:
            break
        if len(fitting) < len(decoded):
            changed = _with(arguments, fitting)
            wrong = faults(changed)
        arguments, found = changed, wrong
    return arguments, found


def _places(faults: Iterable[Fault]) -> Iterator[tuple[Steps, Any]]:
    """Yield where something is wrong, in unions too, and what is there; each fault once, whatever holds it."""
    seen: set[int] = set()
    waiting = list(faults)
    for fault in waiting:
        if id(fault) not in seen:
            seen.add(id(fault))
            yield fault.steps, fault.value
            waiting += fault.within


def _at(value: Any, steps: Steps) -> Any:
    for step in steps:
        value = value[step]
    return value


def _decoded(text: str) -> Any:
    try:
        return decode(text.encode())
    except (ProtocolError, UnicodeEncodeError):
        return text


def _with(arguments: Json, changes: dict[Steps, Any]) -> Json:
    """Return a copy with other values at some places; what holds none of them is shared."""
    whole = arguments.copy()
    copies: dict[Steps, Any] = {(): whole}
    for steps, value in changes.items():
        for length in range(1, len(steps)):
            inner, outer = steps[:length], steps[: length - 1]
            if inner not in copies:
                copies[inner] = copies[outer][steps[length - 1]] = copies[outer][steps[length - 1]].copy()
        copies[steps[:-1]][steps[-1]] = value
    return whole
