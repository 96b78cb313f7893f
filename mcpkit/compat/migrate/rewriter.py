"""Rewriting of files: the servers that a file imports from others, and the steps for one file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import libcst as cst
from libcst.metadata import MetadataWrapper

from .context_calls import ClientResults, ContextUses
from .function_results import Content, Errors, TextResults
from .import_statements import Renaming, with_imports
from .name_tables import DECORATORS, RENAMED, SERVER_CLASSES
from .rewrite_step import MARK, SourceFile, Step, SymbolCollector
from .run_calls import RunCalls
from .server_calls import Constructors, EmptyLifespans, Registrations, SessionManager
from .syntax import code, imports_in, module_of, names_of, nodes_in, path_of

_MAX_DEPTH = 4  # modules to follow, and parent folders to search

# Servers of other files: `from .app import mcp`


class Project:
    """Finds servers in the files that a file imports, without running them.

    Files are read once, so that those rewritten meanwhile are known in their previous form.
    """

    def __init__(self) -> None:
        self._modules: dict[Path, cst.Module] = {}

    def module(self, file: Path) -> cst.Module:
        """Return a file in its first form.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is not Python, or not in its declared encoding; the text contains the place.
        """
        found = self._modules.get(file)
        if found is None:
            source = file.read_bytes()
            try:
                found = self._modules[file] = cst.parse_module(source)
            except cst.ParserSyntaxError as error:
                problem = error.message.splitlines()[0]
                raise ValueError(f"line {error.raw_line}: invalid Python syntax: {problem}") from error
            except (UnicodeDecodeError, LookupError, SyntaxError) as error:
                raise ValueError(f"cannot decode the file: {error}") from error
        return found

    def servers_in(self, file: Path) -> dict[str, bool]:
        """Return the servers that a file imports, by the names that it imports, and whether each is native."""
        found: dict[str, bool] = {}
        for imported in self._imports(file):
            dots = "." * len(imported.relative)
            name = module_of(imported, relative=True)
            for imported_name in names_of(imported).values():
                is_native = self._is_native(file, imported, imported_name, _MAX_DEPTH)
                if is_native is not None:
                    found[f"{dots}{name}.{imported_name}" if name else f"{dots}{imported_name}"] = is_native
        return found

    def _imports(self, file: Path) -> list[cst.ImportFrom]:
        module = self._read(file)
        imports = () if module is None else imports_in(module)
        return [each for each in imports if isinstance(each, cst.ImportFrom)]

    def _read(self, file: Path) -> cst.Module | None:
        try:
            return self.module(file) if file.is_file() else None
        except (OSError, ValueError):
            return None

    def _is_native(self, file: Path, imported: cst.ImportFrom, name: str, depth: int) -> bool | None:
        """Return True if an imported name is a native server, False for one of version 1, None if it is no server."""
        for path in _files_of(file, len(imported.relative), module_of(imported, relative=True)):
            module = self._read(path)
            if module is None:
                continue
            constructor = _constructor_of(module, name)
            if constructor is not None:
                return self._server_classes(path, module).get(constructor)
            for each in self._imports(path) if depth else ():
                if name in names_of(each):
                    return self._is_native(path, each, names_of(each)[name], depth - 1)
            return None
        return None

    def _server_classes(self, path: Path, module: cst.Module) -> dict[str, bool]:
        """Return the names in a module that create a server: imported classes, subclasses, and functions."""
        known = {**dict.fromkeys(SERVER_CLASSES, False), "mcpkit.Server": True}
        classes = {
            alias: known[f"{module_of(imported)}.{name}"]
            for imported in self._imports(path)
            for alias, name in names_of(imported).items()
            if f"{module_of(imported)}.{name}" in known
        }
        for each in module.body:
            if isinstance(each, cst.ClassDef):
                bases = [path_of(base.value) or "" for base in each.bases]
                known_bases = [classes[base] for base in bases if base in classes]
                if known_bases:
                    classes[each.name.value] = known_bases[0]
        functions = {
            each.name.value: classes[path_of(each.returns.annotation) or ""]
            for each in module.body
            if isinstance(each, cst.FunctionDef)
            and each.returns is not None
            and path_of(each.returns.annotation) in classes
        }
        return {**classes, **functions}


def _constructor_of(module: cst.Module, name: str) -> str | None:
    """Return the name of the function in `name = function(...)`; None if the module does not assign the name."""
    for line in module.body:
        for each in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(each, cst.Assign | cst.AnnAssign) and isinstance(each.value, cst.Call):
                targets = [each] if isinstance(each, cst.AnnAssign) else each.targets
                if name in [path_of(target.target) for target in targets]:
                    return path_of(each.value.func) or ""
    return None


def _files_of(file: Path, dots: int, module: str) -> Iterator[Path]:
    """Yield the files that an import may refer to, in order."""
    parts = module.split(".") if module else []
    folders = [file.parent, *file.parent.parents]
    # `.` is the folder of the file, `..` the one above; the root of an absolute import is unknown
    roots = folders[dots - 1 : dots] or folders[-1:] if dots else folders[:_MAX_DEPTH]
    for root in roots:
        path = root.joinpath(*parts)
        if parts:
            yield path.with_suffix(".py")
        yield path / "__init__.py"


# One file

Reason = Literal["lowlevel", "fastmcp"]
"""Reasons why a server is not rewritten: it uses the low-level Server, or the package `fastmcp`."""


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
    source, imported = before.code, _qualified_imports(before)
    reason: Reason | None = None
    if any(name.startswith("mcp.server.lowlevel") or name == "mcp.server.Server" for name in imported):
        reason = "lowlevel"
    elif any(name.partition(".")[0] == "fastmcp" for name in imported):
        reason = "fastmcp"
    has_client = any(name.startswith(("mcp.client", "mcp.ClientSession")) for name in imported)
    if not has_servers(before) and not servers:
        # a module without a server may register functions, create content, or get Contexts
        has_names = any(name in RENAMED or name == "mcp.types" for name in imported)
        is_server_code = is_part or any(f".{each}(" in source for each in DECORATORS)
        reads_state = is_part and ".request_context.lifespan_context" in source
        if not reads_state and not (has_names and reason is None and not has_client and is_server_code):
            return Rewritten(None, reason=reason)
    file = SourceFile(
        servers=set(servers), reads_schemas="inputSchema" in source, keeps_parentheses=are_native
    )
    module = _apply(before, SymbolCollector(file))
    run_calls = RunCalls(file)
    # Each step with a pattern of what it rewrites: without a match, it is left out
    steps: tuple[tuple[str, Callable[[], Step]], ...] = (
        ("session_manager", lambda: SessionManager(file)),
        ("session_manager", lambda: EmptyLifespans(file)),
        (r"\.(run|settings|sse_app|streamable_http_app)|_async", lambda: run_calls),
        ("FastMCP|_mcp_server", lambda: Constructors(file, run_calls.unused)),
        (r"raise", lambda: Errors(file)),
        (r"", lambda: Registrations(file)),
        (r"elicit|create_message", lambda: ClientResults(file)),
        (r"Content|Message|Resource|Result|Image|Audio", lambda: Content(file)),
        (r"TextContent", lambda: TextResults(file)),
        (r"ctx|[Cc]ontext", lambda: ContextUses(file)),
        (r"", lambda: Renaming(file, has_client=has_client)),
    )
    for pattern, step in steps:
        if re.search(pattern, source):
            module = _apply(module, step())
    module = with_imports(before, module, file)
    if module.code == source:
        return Rewritten(None)
    return Rewritten(module, tuple(_marks_in(module.code)))


def has_servers(module: cst.Module) -> bool:
    """Return True if a module uses `mcp.server.fastmcp`."""
    names = ("mcp.server.fastmcp", "mcp.server.FastMCP")
    return any(each.startswith(names) for each in _qualified_imports(module))


def _apply(module: cst.Module, step: Step) -> cst.Module:
    return MetadataWrapper(module).visit(step)


def _qualified_imports(module: cst.Module) -> set[str]:
    """Return the qualified names of all absolute imports of a module, also of those in functions."""
    found: set[str] = set()
    for node in nodes_in(module):
        if isinstance(node, cst.Import):
            found.update(code(each.name) for each in node.names)
        elif isinstance(node, cst.ImportFrom) and not node.relative and node.module is not None:
            names = (
                ["*"] if isinstance(node.names, cst.ImportStar) else [code(each.name) for each in node.names]
            )
            found.update(f"{code(node.module)}.{name}" for name in names)
    return found


def _marks_in(text: str) -> list[tuple[int, str]]:
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
