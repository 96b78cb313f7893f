"""Names of tools and prompts of several servers, told apart: `weather_forecast` is `forecast` of `weather`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

LONGEST: Final = 64
"""Characters that a name may have for the models of all vendors; the protocol allows 128."""

_DIGITS: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
"""What some models' vendors refuse; hosts allow it in the names of servers."""


class Names:
    """Gives names to what several servers have. Of one server alone everything keeps its name.

    A name that would be too long, or that is taken, ends in a digest instead: it is the same in every run.

    Args:
        servers: The names of the servers.

    Attributes:
        prefixes: What the names of each server's things begin with.
    """

    def __init__(self, servers: Sequence[str]) -> None:
        self.prefixes: dict[str, str] = {}
        for server in servers:
            bare = _NOT_IN_NAMES.sub("_", server)
            prefix, number = f"{bare}_", 1
            while prefix in self.prefixes.values():
                number += 1
                prefix = f"{bare}_{number}_"
            self.prefixes[server] = prefix if len(servers) > 1 else ""

    def given(self, listed: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, str]]:
        """Return what is meant by each name: the server, and the name that it has there.

        Args:
            listed: The names that each server has.
        """
        meant: dict[str, tuple[str, str]] = {}
        for server, names in listed.items():
            prefix = self.prefixes[server]
            for own in names:
                name = prefix + own
                if prefix and (len(name) > LONGEST or meant.get(name, (server, own)) != (server, own)):
                    import hashlib  # which takes as long to load as all else of a client's names

                    digest = hashlib.sha256(f"{server}\n{own}".encode()).hexdigest()[:_DIGITS]
                    name = f"{name[: LONGEST - _DIGITS - 1]}_{digest}"
                meant[name] = (server, own)
        return meant

    def likely(self, name: str) -> list[tuple[str, str]]:
        """Return the servers that may have something of a name by the looks of it, and the name that it has there."""
        return [
            (server, name[len(prefix) :])
            for server, prefix in self.prefixes.items()
            if name.startswith(prefix)
        ]

    def is_certain(self, name: str) -> bool:
        """Say whether it can be told by the looks of a name alone what is meant."""
        return len(name) < LONGEST and len(self.likely(name)) == 1
