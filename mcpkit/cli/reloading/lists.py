"""The lists of one process of the server: fetched, kept while code is broken, and compared with the next one's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from ..._utils.exceptions import ProtocolError
from ...protocol.jsonrpc import Json, is_array, is_object
from .child import Child
from .conversation import Conversation

MEMBERS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The result member with the items, by list method."""

_MOST_PAGES: Final = 1000


class Lists:
    """What a process has listed, as far as that is known."""

    def __init__(self) -> None:
        self._results: dict[str, Json] = {}

    @classmethod
    async def of(cls, child: Child, conversation: Conversation) -> Lists:
        """Ask a process for all of its lists.

        Raises:
            ChildEndedError: The process ends.
        """
        lists = cls()
        await lists.ask(child, conversation)
        return lists

    async def ask(self, child: Child, conversation: Conversation) -> None:
        """Learn all the lists of a process from it; one that it does not have is empty.

        Raises:
            ChildEndedError: The process ends.
        """
        for method in MEMBERS:
            self._results[method] = await _all(child, conversation, method)

    def learn(self, method: str, result: Json) -> None:
        """Learn the only page of a list."""
        self._results[method] = result

    def result(self, method: str) -> Json:
        """Return the result of a method, with all entries; none where they are not known."""
        return {MEMBERS[method]: [], **self._results.get(method, {})}

    def entries(self, method: str) -> list[Json]:
        """Return the entries that a method lists."""
        entries: object = self.result(method)[MEMBERS[method]]
        return [each for each in entries if is_object(each)] if is_array(entries) else []

    def differences(self, later: Lists) -> dict[str, str]:
        """Return the kinds of what a later process lists otherwise, or may, and what has become of each.

        Args:
            later: What the later process lists.
        """
        told: dict[str, str] = {}
        for method in MEMBERS:
            before, after = _by_name(self.entries(method)), _by_name(later.entries(method))
            counts = {
                "+": len(after.keys() - before.keys()),
                "-": len(before.keys() - after.keys()),
                "~": sum(before[name] != after[name] for name in before.keys() & after.keys()),
            }
            kind = method.partition("/")[0]
            is_known = method in self._results
            said = " ".join(f"{sign}{number}" for sign, number in counts.items() if number and is_known)
            if said or list(before) != list(after) or not is_known:
                told[kind] = " ".join(filter(None, (told.get(kind), said)))
        return told


async def _all(child: Child, conversation: Conversation, method: str) -> Json:
    pages: list[Json] = []
    cursor: object = None
    with suppress(ProtocolError):  # it has none of that kind, or a page less
        while len(pages) < _MOST_PAGES:
            params = {} if cursor is None else {"cursor": cursor}
            pages.append(await child.ask(method, conversation.params(params)))
            cursor = pages[-1].get("nextCursor")
            if cursor is None:
                break
    entries: list[object] = []
    for page in pages:
        listed: object = page.get(MEMBERS[method])
        entries += listed if is_array(listed) else []
    rest = {name: value for name, value in (pages[0] if pages else {}).items() if name != "nextCursor"}
    return {**rest, MEMBERS[method]: entries}


def _by_name(entries: list[Json]) -> dict[str, Json]:
    return {str(each.get("uri") or each.get("uriTemplate") or each.get("name")): each for each in entries}
