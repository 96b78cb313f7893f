"""Masks secrets in messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...protocol.jsonrpc import is_array, is_object

MASK: Final = "***"

_SECRET: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|authoriz|api[-_]?key|private[-_]?key|credential|cookie",
    re.IGNORECASE,
)
"""Parts of the names of secrets."""

_OPEN: Final = frozenset({"progressToken", "maxTokens"})
"""Names in the specification that look like those of secrets but are not."""

_SHAPES: Final = re.compile(
    r"(?<=Bearer )[\w.~+/=-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|(?:sk|pk|gh[opsur]|glpat|xox[abprs])[-_][\w-]{16,}"
)
"""Patterns of tokens."""

_SHORTEST: Final = 6
"""The fewest characters of a value that is masked everywhere. Shorter ones occur in many words."""


class Mask:
    """Masks secrets: members with the name of a secret, texts that look like tokens, and known values.

    Args:
        known: Values that are always masked.
        more: Returns further values that are secret at the moment.
    """

    def __init__(self, known: Iterable[str] = (), more: Callable[[], Iterable[str]] = tuple) -> None:
        self._values: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self._more = more
        self._learn(known)

    def _learn(self, values: Iterable[str]) -> None:
        new = {value for value in values if len(value) >= _SHORTEST} - self._values
        if new:
            self._values |= new
            longest_first = sorted(self._values, key=len, reverse=True)
            self._known = re.compile("|".join(map(re.escape, longest_first)))

    @classmethod
    def of(cls, options: Mapping[str, object], more: Callable[[], Iterable[str]] = tuple) -> Mask:
        """Return the mask for the options of a client: its token, and secret headers and environment variables."""
        known = [str(options[name]) for name in ("token",) if isinstance(options.get(name), str)]
        for name in ("headers", "env"):
            values: Any = options.get(name) or {}
            known += [str(value) for key, value in values.items() if _SECRET.search(str(key))]
        return cls([*known, *(value.rpartition(" ")[2] for value in known)], more)

    def masked(self, line: bytes) -> str:
        """Return a message as one line of text, with its secrets masked."""
        self._learn(self._more())
        try:
            return json.dumps(self.value(json.loads(line)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.text(line.decode(errors="replace"))

    def value(self, value: object) -> object:
        """Return a JSON value with its secrets masked."""
        if isinstance(value, str):
            return self.text(value)
        if is_array(value):
            return [self.value(each) for each in value]
        if is_object(value):
            return {
                name: MASK if isinstance(each, str) and _is_secret(name) else self.value(each)
                for name, each in value.items()
            }
        return value

    def text(self, text: str) -> str:
        """Return a text with tokens and known values masked."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _SHAPES.sub(MASK, text)


def _is_secret(name: str) -> bool:
    return name not in _OPEN and _SECRET.search(name) is not None
