"""The package `mcp`, which every agent SDK brings, in whichever version it is."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def installed(name: str) -> ModuleType:
    """Return a module of the installed `mcp`, such as `mcp.types`.

    Raises:
        ImportError: It is not installed; the message says what to do.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"as_sdk_server() needs the package mcp, but {error.name} cannot be imported. Install the "
            "agent SDK, which includes it, or mcp>=1.23"
        ) from error
