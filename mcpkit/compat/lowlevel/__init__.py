"""The low-level server of `mcp` 1.x, over mcpkit's engine."""

from .lowlevel_server import NotificationOptions as NotificationOptions
from .lowlevel_server import Server as Server
