"""Compatibility with other SDKs: servers written for `mcp` and `fastmcp` run on mcpkit."""

from __future__ import annotations

__all__ = ["install"]


def install() -> None:
    """Replace `mcp` and `fastmcp` by mcpkit for all later imports in this process.

        import mcpkit.compat

        mcpkit.compat.install()
        from mcp.server.fastmcp import FastMCP

    The packages need not be installed. Further calls have no effect.

    Raises:
        RuntimeError: `mcp` or `fastmcp` was imported before; the message names the modules.
    """
    from .import_hook import install_hook

    install_hook()
