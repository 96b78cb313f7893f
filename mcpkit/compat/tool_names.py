"""Checks of tool names that some clients do not accept: server/tools, "Tool Names"."""

from __future__ import annotations

import logging
import re
from typing import Final

logger = logging.getLogger("mcp.shared.tool_name_validation")

SEP_986_URL: Final = "https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names"
DOUBTS: Final = {
    r"^\Z": "cannot be empty",
    r" ": "contains spaces, which may cause parsing issues",
    r",": "contains commas, which may cause parsing issues",
    r"^-|-\Z": "starts or ends with a dash, which may cause parsing issues in some contexts",
    r"^\.|\.\Z": "starts or ends with a dot, which may cause parsing issues in some contexts",
}
"""Warnings by the pattern that a name matches."""


def doubts_about(name: str) -> list[str]:
    """Return the problems that clients may have with a name."""
    if len(name) > 128:
        return [f"Tool name exceeds maximum length of 128 characters (current: {len(name)})"]
    doubts = [f"Tool name {text}" for pattern, text in DOUBTS.items() if re.search(pattern, name)]
    if strange := dict.fromkeys(re.findall(r"[^A-Za-z0-9._-]", name)):
        doubts.append(f"Tool name contains invalid characters: {', '.join(map(repr, strange))}")
        doubts.append("Allowed characters are: A-Z, a-z, 0-9, underscore (_), dash (-), and dot (.)")
    return doubts


def validate_and_warn_tool_name(name: str) -> bool:
    """Return True if the name has 1 to 128 letters, digits, `_`, `-` and `.`; log problems that clients may have."""
    if doubts := doubts_about(name):
        logger.warning('Tool name validation warning for "%s":', name)
        for doubt in doubts:
            logger.warning("  - %s", doubt)
        logger.warning("Tool registration will proceed, but this may cause compatibility issues.")
        logger.warning("Consider updating the tool name to conform to the MCP tool naming standard.")
        logger.warning("See SEP-986 (%s) for more details.", SEP_986_URL)
    return re.fullmatch(r"[A-Za-z0-9._-]{1,128}", name) is not None
