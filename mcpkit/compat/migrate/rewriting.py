"""Rewrites the source of one file, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import libcst as cst
from libcst.metadata import MetadataWrapper

from .answers import Answers
from .constructing import Constructing
from .content import Content
from .context import ContextUse
from .facts import Facts
from .file import File
from .imports import with_imports
from .lifespans import Lifespans
from .managing import Managing
from .names import DECORATORS, RENAMED
from .raising import Raising
from .registering import Registering
from .renaming import Renaming
from .returns import Returns
from .serving import Serving
from .step import MARK, Step
from .threads import Threads

Reason = Literal["lowlevel", "standalone"]


@dataclass(frozen=True)
class Rewritten:
    """The result for a file.

    Attributes:
        module: The new file; None if nothing changes.
        marks: Places to change by hand: the line, from 1, and the text.
        reason: Reason why an existing server is not rewritten.
    """

    module: cst.Module | None
    marks: tuple[tuple[int, str], ...] = ()
    reason: Reason | None = None


def rewritten(
    before: cst.Module, servers: set[str], *, are_native: bool = False, is_part: bool = False
) -> Rewritten:
    """Return a file rewritten to native mcpkit.

    Args:
        before: The file.
        servers: Names in it that are servers of other files, such as `.app.mcp`.
        are_native: Whether all of these are native already.
        is_part: Whether it belongs to a server that is rewritten, so that its names of `mcp.types` belong to the
            server.
    """
    imported = imports_of(before)
    if not makes_servers(before) and not servers and not _is_part(imported, before.code, is_part=is_part):
        return Rewritten(None, reason=_reason(imported))
    file = File(
        servers=set(servers), reads_schemas="inputSchema" in before.code, keeps_parentheses=are_native
    )
    module = _through(before, Facts(file))
    module = _through(module, Threads(file))
    serving = Serving(file)
    has_client = any(name.startswith(("mcp.client", "mcp.ClientSession")) for name in imported)
    steps: tuple[tuple[str, Callable[[], Step]], ...] = (
        # a pattern of what a step rewrites: where nothing fits it, the step is left out; and the step
        ("session_manager", lambda: Managing(file)),
        ("session_manager", lambda: Lifespans(file)),
        (r"\.(run|settings|sse_app|streamable_http_app)|_async", lambda: serving),
        ("FastMCP|_mcp_server", lambda: Constructing(file, serving.homeless)),
        (r"raise", lambda: Raising(file)),
        (r"", lambda: Registering(file)),
        (r"elicit|create_message", lambda: Answers(file)),
        (r"Content|Message|Resource|Result|Image|Audio", lambda: Content(file)),
        (r"TextContent", lambda: Returns(file)),
        (r"ctx|[Cc]ontext", lambda: ContextUse(file)),
        (r"", lambda: Renaming(file, has_client=has_client)),
    )
    for pattern, step in steps:
        if re.search(pattern, before.code):
            module = _through(module, step())
    module = with_imports(before, module, file)
    if module.code == before.code:
        return Rewritten(None)
    return Rewritten(module, tuple(marks_in(module.code)))


def makes_servers(module: cst.Module) -> bool:
    """Return True if a module uses `mcp.server.fastmcp`."""
    return any(each.startswith(("mcp.server.fastmcp", "mcp.server.FastMCP")) for each in imports_of(module))


def _is_part(imported: set[str], source: str, *, is_part: bool) -> bool:
    """Return True if a module without a server registers functions, creates content, or gets Contexts."""
    if is_part and ".request_context.lifespan_context" in source:
        return True
    if not any(each in RENAMED or each == "mcp.types" for each in imported) or _reason(imported) is not None:
        return False
    if any(each.startswith(("mcp.client", "mcp.ClientSession")) for each in imported):
        return False
    return is_part or any(f".{each}(" in source for each in DECORATORS)


def imports_of(module: cst.Module) -> set[str]:
    """Return the qualified names of all imports of a module."""
    found = _Imports()
    module.visit(found)
    return found.names


def marks_in(text: str) -> list[tuple[int, str]]:
    """Return the marks in a source: the line of each, from 1, and its text."""
    found: list[tuple[int, str]] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith(MARK):
            found.append((number, stripped.removeprefix(MARK)))
            is_open = True
        elif is_open and stripped.startswith("#   "):
            found[-1] = (found[-1][0], f"{found[-1][1]} {stripped.removeprefix('#').strip()}")
        else:
            is_open = False
    return found


def _through(module: cst.Module, step: Step) -> cst.Module:
    return MetadataWrapper(module).visit(step)


def _reason(imported: set[str]) -> Reason | None:
    if any(name.startswith("mcp.server.lowlevel") or name == "mcp.server.Server" for name in imported):
        return "lowlevel"
    return "standalone" if any(name.partition(".")[0] == "fastmcp" for name in imported) else None


class _Imports(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if node.relative or node.module is None:
            return
        module = cst.Module([]).code_for_node(node.module)
        if isinstance(node.names, cst.ImportStar):
            self.names.add(f"{module}.*")
        else:
            self.names.update(f"{module}.{cst.Module([]).code_for_node(each.name)}" for each in node.names)

    def visit_Import(self, node: cst.Import) -> None:
        self.names.update(cst.Module([]).code_for_node(each.name) for each in node.names)
