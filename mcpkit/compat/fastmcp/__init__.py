"""The package `fastmcp`, 2 to 4, over mcpkit's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._utils.package import late_names

if TYPE_CHECKING:
    from .fastmcp_components import settings
    from .fastmcp_context import Context
    from .fastmcp_server import FastMCP
    from .in_process_client import Client

__all__ = ["Client", "Context", "FastMCP", "settings"]
__version__ = "4.1.2"

_MODULES = {
    ".in_process_client": "Client",
    ".fastmcp_context": "Context",
    ".fastmcp_server": "FastMCP",
    ".fastmcp_components": "settings",
}
__getattr__ = late_names(globals(), _MODULES)
