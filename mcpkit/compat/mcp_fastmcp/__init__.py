"""The decorators of `mcp.server.fastmcp`, over mcpkit's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._utils.package import __version__ as __version__
from ..._utils.package import late_names

if TYPE_CHECKING:
    from ..types import Icon
    from .function_metadata import Audio, Image
    from .mcp_server import Context, FastMCP

__all__ = ["Audio", "Context", "FastMCP", "Icon", "Image"]

_MODULES = {".mcp_server": "Context FastMCP", "..types": "Icon", ".function_metadata": "Audio Image"}
__getattr__ = late_names(globals(), _MODULES)
