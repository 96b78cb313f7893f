"""Two journeys beside each other, as canonical JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.helpers.published.journey import Step

VARIES = "(differs from run to run)"
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """Where two answers are not the same.

    Attributes:
        label: The request.
        path: The place in what was heard, as `0.result.content.0.text`.
        own: What stands there under the library of the server.
        ours: What stands there under mcpkit.
    """

    label: str
    path: str
    own: str
    ours: str


@dataclass(frozen=True)
class Verdict:
    """What comparing two journeys told.

    Attributes:
        requests: How many were compared.
        equal: How many were answered the same.
        varying: How many have parts that differ between two runs under the server's own library, too: these parts
            are not compared.
        differences: The rest.
    """

    requests: int
    equal: int
    varying: int
    differences: Sequence[Difference]


def compare(own: Sequence[Step], again: Sequence[Step], ours: Sequence[Step], version: str) -> Verdict:
    """Compare a journey under mcpkit with two under the server's own library.

    Args:
        own: The journey under its own library.
        again: The same, a second time: what differs between these two differs by nature.
        ours: The journey under mcpkit.
        version: The version of the library, which it says is the server's where a server says none.
    """
    equal = varying = 0
    differences: list[Difference] = []
    for number, step in enumerate(own):
        twin = again[number].heard if number < len(again) else step.heard
        masked, heard = _masked(step.heard, twin, step.heard), step.heard
        varying += masked != heard
        found = ours[number].heard if number < len(ours) else [{"never reached": True}]
        is_first = step.label == "initialize"
        here = [
            Difference(step.label, path, one, other)
            for path, one, other in _differing(masked, _masked(step.heard, twin, found))
            if not (is_first and path.endswith("result.serverInfo.version") and one == json.dumps(version))
        ]
        equal += not here
        differences += here
    return Verdict(len(own), equal, varying, differences)


def _masked(own: Any, again: Any, value: Any) -> Any:
    """Replace in `value` what differs between the first two."""
    if isinstance(own, dict) and isinstance(again, dict) and own.keys() == again.keys():
        if not isinstance(value, dict):
            return value
        return {
            key: _masked(own[key], again[key], each) if key in own else each for key, each in value.items()
        }
    if isinstance(own, list) and isinstance(again, list) and len(own) == len(again):
        if not isinstance(value, list) or len(value) != len(own):
            return value
        return [_masked(*each) for each in zip(own, again, value, strict=True)]
    if isinstance(own, str) and isinstance(again, str) and own != again and isinstance(value, str):
        return _masked_text(own, again, value)
    return value if own == again else VARIES


def _masked_text(own: str, again: str, value: str) -> str:
    """Replace in a text the lines that differ, where they are as many; a text of JSON is compared as JSON."""
    try:
        parsed = [json.loads(each) for each in (own, again, value)]
    except ValueError:
        lines = [each.split("\n") for each in (own, again, value)]
        if len({len(each) for each in lines}) > 1 or len(lines[0]) == 1:
            return VARIES
        return "\n".join(
            third if first == second else VARIES for first, second, third in zip(*lines, strict=True)
        )
    return canonical(_masked(*parsed))


def _differing(own: Any, ours: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(own, dict) and isinstance(ours, dict):
        for key in sorted(own.keys() | ours.keys()):
            yield from _differing(own.get(key, ABSENT), ours.get(key, ABSENT), f"{path}.{key}".lstrip("."))
    elif isinstance(own, list) and isinstance(ours, list) and len(own) == len(ours):
        for number, (one, other) in enumerate(zip(own, ours, strict=True)):
            yield from _differing(one, other, f"{path}.{number}".lstrip("."))
    elif canonical(own) != canonical(ours):
        yield path, canonical(own), canonical(ours)


def canonical(value: Any) -> str:
    """Return a value as JSON with its keys in order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
