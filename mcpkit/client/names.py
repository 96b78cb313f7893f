"""Unique names for tools and prompts of several servers: `weather_forecast` is `forecast` of `weather`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

LONGEST: Final = 64
"""Characters that a name may have for the models of all vendors; the protocol allows 128."""

_DIGITS: Final = 8
_DIGEST: Final = re.compile(f"_[0-9a-f]{{{_DIGITS}}}$")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that some model vendors refuse in names, while hosts allow them in server names."""


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
        """Return the server and its own name for each unique name.

        Args:
            listed: The names that each server has.
        """
        return {self._name(server, own): (server, own) for server, names in listed.items() for own in names}

    def _name(self, server: str, own: str) -> str:
        name = self.prefixes[server] + own
        if name == own or (len(name) <= LONGEST and self.likely(name) == (server, own)):
            return name
        import hashlib  # which takes as long to load as all else of a client's names

        digest = hashlib.sha256(f"{server}\n{own}".encode()).hexdigest()[:_DIGITS]
        return f"{name[: LONGEST - _DIGITS - 1]}_{digest}"

    def likely(self, name: str) -> tuple[str, str] | None:
        """Return the server that a name belongs to by its prefix, and the name there.

        If the name of one server is a prefix of another's, the longer one wins, so that no server can take the names of
        another.
        """
        found = [(len(prefix), server) for server, prefix in self.prefixes.items() if name.startswith(prefix)]
        if not found:
            return None
        length, server = max(found)
        return server, name[length:]

    def is_certain(self, name: str) -> bool:
        """Return whether the prefix alone identifies the server and the name: the name has no digest."""
        return len(self.prefixes) == 1 or _DIGEST.search(name) is None
