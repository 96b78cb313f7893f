"""The low-level server of `mcp` 1.x, over mcpkit's engine."""

from .server import NotificationOptions as NotificationOptions
from .server import Server as Server
