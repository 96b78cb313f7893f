"""mcpkit with 500 tools over HTTP."""

from __future__ import annotations

from typing import Any

import workload
from mcpkit_server import asgi
from mcpkit_server import build as build_few

from mcpkit import Server

__all__ = ["asgi", "build"]

OF_ASGI = 3
"""The tools that `asgi` adds."""


def build(functions: list[Any]) -> Server:
    return build_few([*functions, *workload.numbered_tools(500 - len(functions) - OF_ASGI)])
