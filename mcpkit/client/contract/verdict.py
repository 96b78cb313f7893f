"""What a change of a schema does to those who keep to the old one: nothing, break them, or what cannot be told."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .counterexamples import Counterexample, counterexample
from .inclusion import Obstacle, obstacles
from .schemas import Held, closed


class Effect(str, Enum):
    """What a change does to clients."""

    BREAKING = "breaking"
    UNTOLD = "untold"
    COMPATIBLE = "compatible"


class Verdict(NamedTuple):
    """What a change of a schema does.

    Attributes:
        effect: What it does. `BREAKING` has an example, `COMPATIBLE` has no obstacles.
        obstacles: What was found to be in the way.
        example: A value that fits one schema and not the other; None where there is none, or none was found.
    """

    effect: Effect
    obstacles: list[Obstacle]
    example: Counterexample | None


def of_input(old: object, new: object) -> Verdict:
    """Judge a new schema of arguments: each call that fits the old one has to fit it.

    Args:
        old: What clients know. Where its objects do not say so, they have no properties but those that are named:
            clients send what is declared.
        new: What the server takes now.
    """
    return _included(closed(old), new)


def of_output(old: object, new: object) -> Verdict:
    """Judge a new schema of results: each result that fits it has to fit the old one, which clients know.

    Args:
        old: What clients know.
        new: What the server answers now: the properties that are named, where it does not say otherwise.
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
