"""Servers that were written for other SDKs run on mcpkit."""

from __future__ import annotations

__all__ = ["install"]


def install() -> None:
    """Let `mcp`, `fastmcp` and their parts be mcpkit's from now on, for all that is imported in this process.

    It does not matter whether `mcp` is installed. Called again, it does nothing. Raises RuntimeError if `mcp` has been
    imported before: it names the modules that hold parts of it.
    """
    from .standing_in import stand_in

    stand_in()
