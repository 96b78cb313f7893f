"""A toy provider: tools and resources that a table of a database would have, different for each reader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mcpkit import Context, Provider, Resource, Tool


class Notes(Provider):
    """Notes by name: each is a resource, and a tool that reads it out.

    Attributes:
        texts: The notes.
        lists: How often a list was asked for.
    """

    kinds = frozenset({"tools", "resources"})

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__()
        self.texts = texts
        self.lists = 0

    async def list(self, kind: str, ctx: Context) -> Sequence[Any]:
        await asyncio.sleep(0)  # as a database would
        self.lists += 1
        return [each for name in self.texts if (each := self._made(kind, name)) is not None]

    async def find(self, kind: str, key: str, ctx: Context) -> Any:
        await asyncio.sleep(0)
        name = key.removeprefix("note://")
        return self._made(kind, name) if name in self.texts else None

    def write(self, name: str, text: str) -> None:
        """Write a note, in any thread."""
        self.texts[name] = text
        self.changed("tools")
        self.changed("resources")

    def _made(self, kind: str, name: str) -> Any:
        async def read() -> str:
            return self.texts[name]

        if kind == "tools":
            return Tool(read, name=name)
        if kind == "resources":
            return Resource(read, f"note://{name}")
        return None
