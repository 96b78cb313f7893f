"""Annotations that contradict each other, or the name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..finding import Found, Looked, rule
from ..hosts import schema_of

_CHANGING: Final = frozenset(
    {"add", "append", "create", "delete", "destroy", "drop", "edit", "erase", "insert", "kill", "move", "overwrite",
     "purge", "remove", "rename", "reset", "revoke", "save", "send", "set", "truncate", "update", "upload",
     "wipe", "write"}
)  # fmt: skip
_DESTROYING: Final = frozenset(
    {"delete", "destroy", "drop", "erase", "overwrite", "purge", "remove", "truncate", "wipe"}
)
_READING: Final = frozenset({"describe", "fetch", "find", "get", "list", "read", "search", "show"})
"""First words of names, and what they promise."""


@rule("annotations-contradict", "error")
def contradict(looked: Looked) -> Iterator[Found]:
    """A tool has both `readOnlyHint` and `destructiveHint`."""
    for where, tool in looked.each("tool"):
        hints = schema_of(tool, "annotations")
        if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is True:
            yield Found(
                where,
                "readOnlyHint and destructiveHint are both true",
                "remove the one that is wrong",
            )


@rule("name-contradicts", "warning")
def name_contradicts(looked: Looked) -> Iterator[Found]:
    """The name of a tool contradicts its annotations."""
    for where, tool in looked.each("tool"):
        hints = schema_of(tool, "annotations")
        words = re.findall(r"[A-Z]?[a-z]+", str(tool.get("name"))) or [""]
        first = words[0].casefold()
        if first in _CHANGING and hints.get("readOnlyHint") is True:
            yield Found(
                where,
                f"its name begins with {first!r}, but readOnlyHint is true",
                "set readOnlyHint to false",
            )
        elif first in _DESTROYING and hints.get("destructiveHint") is False:
            yield Found(
                where,
                f"its name begins with {first!r}, but destructiveHint is false",
                "remove destructiveHint",
            )
        elif (
            first in _READING
            and hints.get("readOnlyHint") is not True
            and hints.get("destructiveHint") is True
        ):
            yield Found(
                where,
                f"its name begins with {first!r}, but destructiveHint is true",
                "set readOnlyHint, or rename the tool",
            )
