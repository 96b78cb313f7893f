"""Has a process take the server's side of the installed `mcp` from mcpkit, and leaves it its types and clients.

Tests that talk to their server as a client do so by `mcp.client`, which mcpkit does not stand in for. Import this
before anything of `mcp`.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from mcpkit.compat.import_hook import Finder


class ServerSide(Finder):
    """Finds `mcp.server` and what is in it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Give the module that stands in for one of `mcp.server`, and nothing else."""
        is_of_server = f"{fullname}.".startswith("mcp.server.")
        return super().find_spec(fullname, path, target) if is_of_server else None


sys.meta_path.insert(0, ServerSide())
