"""Parses `WWW-Authenticate` (RFC 9110, "WWW-Authenticate"), and describes the challenges in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=[\s,]|$)")
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))(?=[\s,]|$)', re.DOTALL)
_TOKEN_68 = re.compile(r"\s+[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$))")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_WORDS = {
    "realm": "realm",
    "scope": "scope",
    "error": "error",
    "error_description": "says",
    "resource_metadata": "described at",
}
"""The parts of a challenge that an error message shows, in this order."""
_MOST_SHOWN = 300


class Challenge(NamedTuple):
    """One challenge of `WWW-Authenticate`.

    Args:
        scheme: The authentication scheme as the server writes it, such as `Bearer`.
        parameters: Its parameters by name in lower case; the first of each.
    """

    scheme: str
    parameters: Mapping[str, str]


def read_challenges(values: Iterable[str]) -> list[Challenge]:
    """Parse the values of `WWW-Authenticate`, of which each may hold several challenges.

    A syntax error ends the parsing of that value.
    """
    found: list[Challenge] = []
    for value in values:
        place = 0
        while scheme := _SCHEME.match(value, place):
            place = scheme.end()
            if token := _TOKEN_68.match(value, place):
                place = token.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(value, place):
                name, quoted, plain = parameter.groups()
                parameters.setdefault(name.lower(), plain or _ESCAPED.sub(r"\1", quoted))
                place = parameter.end()
            found.append(Challenge(scheme[1], parameters))
    return found


def in_words(challenges: Iterable[Challenge]) -> str:
    """Describe the challenges in words; empty if there are none."""
    return "; or ".join(map(_challenge_in_words, challenges))


def _challenge_in_words(challenge: Challenge) -> str:
    told = [
        f"{word} {_shown(challenge.parameters[name])}"
        for name, word in _WORDS.items()
        if challenge.parameters.get(name)
    ]
    return ", ".join((challenge.scheme[:_MOST_SHOWN], *told))


def _shown(text: str) -> str:
    return repr("".join(char if char.isprintable() else " " for char in text[:_MOST_SHOWN]))
