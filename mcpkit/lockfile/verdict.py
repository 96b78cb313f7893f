"""The effect of a changed schema on clients: compatible, breaking or unknown."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .counterexamples import Counterexample, counterexample
from .schema_subset import Obstacle, obstacles
from .schemas import Held, closed


class Effect(str, Enum):
    """The effect of a change on clients."""

    BREAKING = "breaking"
    UNTOLD = "untold"
    COMPATIBLE = "compatible"


class Verdict(NamedTuple):
    """The effect of a changed schema.

    Attributes:
        effect: The effect. `BREAKING` has an example, `COMPATIBLE` has no obstacles.
        obstacles: The obstacles to compatibility.
        example: A value that fits one schema and not the other; None if there is none, or none was found.
    """

    effect: Effect
    obstacles: list[Obstacle]
    example: Counterexample | None


def of_input(old: object, new: object) -> Verdict:
    """Judge a new schema of arguments: each call that fits the old schema has to fit the new one.

    Args:
        old: The schema that clients know. Its objects have only the named properties, unless they allow others
            explicitly, since clients send what is declared.
        new: The new schema of the server.
    """
    return _included(closed(old), new)


def of_output(old: object, new: object) -> Verdict:
    """Judge a new schema of results: each result that fits the new schema has to fit the old one.

    Args:
        old: The schema that clients know.
        new: The new schema of the server, with the named properties only unless it allows others explicitly.
    """
    return _included(closed(new), old)


def _included(narrow: object, wide: object) -> Verdict:
    if not (Held(narrow, narrow).is_usable and Held(wide, wide).is_usable):
        return Verdict(Effect.UNTOLD, [Obstacle("", "the schema is invalid")], None)
    found = obstacles(narrow, wide)
    if not found:
        return Verdict(Effect.COMPATIBLE, [], None)
    example = counterexample(narrow, wide)
    return Verdict(Effect.UNTOLD if example is None else Effect.BREAKING, found, example)
