"""The package `fastmcp`, 2 to 4, over mcpkit's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._utils.package import late_names

if TYPE_CHECKING:
    from .client import Client
    from .context import Context
    from .options import settings
    from .server import FastMCP

__all__ = ["Client", "Context", "FastMCP", "settings"]
__version__ = "4.1.2"

_HOMES = {".client": "Client", ".context": "Context", ".server": "FastMCP", ".options": "settings"}
__getattr__ = late_names(globals(), _HOMES)
