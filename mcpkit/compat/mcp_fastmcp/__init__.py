"""The decorators of `mcp.server.fastmcp`, over mcpkit's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._utils.package import __version__ as __version__
from ..._utils.package import late_names

if TYPE_CHECKING:
    from ..types import Icon
    from .context import Context
    from .media import Audio, Image
    from .server import FastMCP

__all__ = ["Audio", "Context", "FastMCP", "Icon", "Image"]

_HOMES = {".context": "Context", ".server": "FastMCP", "..types": "Icon", ".media": "Audio Image"}
__getattr__ = late_names(globals(), _HOMES)
