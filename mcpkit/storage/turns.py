"""Fair order of several queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Serves several queues in turn, so that a full queue does not starve the others.

    The queue that was served least recently comes first. It only counts what this process has taken.
    """

    def __init__(self) -> None:
        self._served: dict[str, int] = {}
        self._count = 0

    def order(self, queues: Iterable[str]) -> list[str]:
        """Return the queues, without duplicates, in the order of their turns."""
        return sorted(dict.fromkeys(queues), key=lambda queue: self._served.get(queue, 0))

    def serve(self, queue: str) -> None:
        """Note that a queue was served, which comes last now."""
        self._count += 1
        self._served[queue] = self._count

    def deal(self, lines: Mapping[str, Sequence[T]], most: int) -> list[T]:
        """Take from the queues in turn, one entry at a time, and note that.

        Args:
            lines: Entries of each queue, in the order of their turns.
            most: Maximum number of entries.
        """
        dealt: list[T] = []
        for place in range(max(map(len, lines.values()), default=0)):
            for queue, line in lines.items():
                if len(dealt) < most and place < len(line):
                    dealt.append(line[place])
                    self.serve(queue)
        return dealt
