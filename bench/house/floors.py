"""The floors of the house: which modules stand above which, as `floors.txt` declares it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from imports import ROOT, Graph

DECLARED: Final = ROOT / "tests" / "house" / "floors.txt"


class Floors:
    """The declared floors, from the bottom.

    Args:
        text: One floor a line, from the bottom: files and folders (`protocol/`), the longest that fits a module says
            where it stands. What follows a `#` is for people.

    Attributes:
        rows: What stands on each floor.
    """

    def __init__(self, text: str) -> None:
        lines = (line.partition("#")[0].split() for line in text.splitlines())
        self.rows = [line for line in lines if line]
        self._of = {entry: floor for floor, row in enumerate(self.rows) for entry in row}

    @classmethod
    def declared(cls) -> Floors:
        """Return those of this house."""
        return cls(DECLARED.read_text("utf-8"))

    def entry(self, module: str) -> str | None:
        """Return the entry that says where a module stands; None where none does."""
        fitting = [
            each for each in self._of if each == module or (each[-1] == "/" and module.startswith(each))
        ]
        return max(fitting, key=len, default=None)

    def of(self, module: str) -> int:
        """Return the floor of a module, 0 at the bottom; what is not declared stands on top of all."""
        entry = self.entry(module)
        return len(self.rows) if entry is None else self._of[entry]

    def upward(self, graph: Graph) -> Iterator[tuple[str, str]]:
        """Yield the imports of a higher floor: who imports, and what."""
        for module, imported in sorted(graph.items()):
            for other in sorted(imported):
                if self.of(other) > self.of(module):
                    yield module, other


def room(module: str) -> str:
    """Return the folder at the root that a module is in, with a slash, or the module itself at the root."""
    folder, slash, _ = module.partition("/")
    return folder + slash


def rooms(graph: Graph) -> Mapping[str, set[str]]:
    """Return which rooms import which."""
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        found.setdefault(room(module), set()).update(map(room, imported))
    return {each: others - {each} for each, others in found.items()}
