"""Description of a server for a user that started it in a terminal, where a host is expected."""

from __future__ import annotations

import json
import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .._utils.start import mcpkit_command, module_command
from ..engine.engine import Engine
from ..engine.included_providers_and_extensions import CompositeCatalog

_MOST = 8
"""Maximum names of one kind that are listed."""

_WIDTH = 78
"""Columns of the text."""


def heading(engine: Engine) -> str:
    """Return name and version of a server as a line for a terminal.

    Args:
        engine: Engine of the server.
    """
    from .._utils.package import __version__

    what = f"{engine.runtime.name} {engine.version}, an MCP server (mcpkit {__version__})"
    return f"{what}, is waiting for an MCP host on standard input.\n"


def offer(engine: Engine) -> str:
    """Return the components of a server and how to try it, as lines for a terminal.

    Args:
        engine: Engine of the server.
    """
    command = _command()
    lines = [*_offers(engine.catalog), ""]
    if command:
        entry = {"mcpServers": {engine.runtime.name: {"command": command[0], "args": command[1:]}}}
        written = json.dumps(entry, indent=2, ensure_ascii=False)
        lines += [
            "An MCP host starts this server if its configuration contains:",
            "",
            textwrap.indent(written, "  "),
            "",
            "To try the server in a browser:",
            "",
            f"  npx @modelcontextprotocol/inspector {shlex.join(command)}",
            "",
        ]
    return "\n".join([*lines, "Press Ctrl+C to stop.", ""])


def _offers(catalog: CompositeCatalog) -> Iterator[str]:
    resources = [*catalog.resources, *catalog.resource_templates]
    kinds: dict[str, Iterable[Any]] = {
        "tools": catalog.tools,
        "resources": resources,
        "prompts": catalog.prompts,
    }
    names = {kind: [each.key for each in offered if each.is_enabled] for kind, offered in kinds.items()}
    if not any(names.values()) and not catalog.providers:
        yield "The server has no tools, resources or prompts yet."
    for kind, found in names.items():
        if found:
            told = ", ".join(found[:_MOST])
            rest = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
            number = f"{len(found)} {kind if len(found) > 1 else kind[:-1]}: "
            yield textwrap.fill(
                f"{number}{told}{rest}",
                _WIDTH,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def _command() -> list[str]:
    """Return the command that started this process, for use from any directory; empty if unknown."""
    main: Any = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m name
        name = spec.name.removesuffix(".__main__")
        if name == "mcpkit":
            return mcpkit_command(*sys.argv[1:])
        if spec.parent or file is None:
            return module_command(name, *sys.argv[1:])
    if file is None:  # python -c, or a prompt
        return []
    return [sys.executable, os.fspath(Path(file).resolve()), *sys.argv[1:]]
