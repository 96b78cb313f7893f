"""Import of the package `mcp` of an agent SDK, in any version."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def installed(name: str) -> ModuleType:
    """Import a module of the installed `mcp`, such as `mcp.types`.

    Raises:
        ImportError: The package is not installed. The message contains the fix.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"as_sdk_server() needs the package mcp, but {error.name} cannot be imported. Install the "
            "agent SDK, which includes it, or mcp>=1.23"
        ) from error
