"""Whose turn it is, of several queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Deals what is in several queues so that none waits for what is in the others.

    A queue from which nothing has been taken for longest comes first. What it knows is what this process has taken.
    """

    def __init__(self) -> None:
        self._served: dict[str, int] = {}
        self._count = 0

    def order(self, queues: Iterable[str]) -> list[str]:
        """Return the queues, each once, in the order of their turns."""
        return sorted(dict.fromkeys(queues), key=lambda queue: self._served.get(queue, 0))

    def serve(self, queue: str) -> None:
        """Note that something was taken from a queue, which comes last now."""
        self._count += 1
        self._served[queue] = self._count

    def deal(self, lines: Mapping[str, Sequence[T]], most: int) -> list[T]:
        """Take from the first queue, the second and so on, and again, and note that.

        Args:
            lines: What is in each, in the order of their turns.
            most: How many at most.
        """
        dealt: list[T] = []
        for place in range(max(map(len, lines.values()), default=0)):
            for queue, line in lines.items():
                if len(dealt) < most and place < len(line):
                    dealt.append(line[place])
                    self.serve(queue)
        return dealt
