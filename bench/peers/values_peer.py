"""Serves the ordinary values over stdio: `python values_peer.py mcpkit|mcp|fastmcp [HOLDER...]`.

For each type in each holder, or in those that are named, there is a tool that gives a value of it, and one that takes
it and gives it back; that one fails where it was given something else. What cannot be registered has no tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from values_tools import CONTAINERS, RESULTS, TYPES, is_same


def register_all(register: Callable[[Any], Any]) -> None:
    """Register the tools of all values.

    Args:
        register: Registers one function, by its name.
    """
    for number, (_, annotation, value) in enumerate(TYPES):
        for name in sys.argv[2:] or CONTAINERS:
            with contextlib.suppress(Exception):  # a value without its tools is counted as one that fails
                for tool in _pair(f"{number}_{name}", *CONTAINERS[name](annotation, value)):
                    register(tool)
    for number, (make, _) in enumerate(RESULTS.values()):
        register(_result(f"result_{number}", make))


def _pair(name: str, annotation: Any, value: Any) -> list[Any]:
    def give() -> Any:
        return value

    def echo(x: Any) -> Any:
        if not is_same(x, value):
            raise ValueError(f"got {x!r}, not {value!r}")
        return x

    give.__name__, echo.__name__ = f"give_{name}", f"echo_{name}"
    give.__annotations__ = {"return": annotation}
    echo.__annotations__ = {"x": annotation, "return": annotation}
    return [give, echo]


def _result(name: str, make: Callable[[], Any]) -> Any:
    def result():  # type: ignore[no-untyped-def]  # without an annotation, as many are written
        return make()

    result.__name__ = name
    return result


def build(library: str) -> Any:
    """Return the server, as an author of this library makes it."""
    if library == "mcpkit":
        from mcpkit import Server

        server: Any = Server("values")
        register_all(server.tool)
    elif library == "mcp":
        from mcp.server.mcpserver import MCPServer

        server = MCPServer("values", log_level="CRITICAL")
        register_all(server.tool())
    else:
        os.environ |= {"FASTMCP_LOG_LEVEL": "CRITICAL", "FASTMCP_CHECK_FOR_UPDATES": "off"}
        from fastmcp import FastMCP

        server = FastMCP("values")
        register_all(server.tool)
    return server


def main() -> None:
    library = sys.argv[1]
    server = build(library)
    if library == "fastmcp":
        asyncio.run(server.run_stdio_async(show_banner=False))
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
