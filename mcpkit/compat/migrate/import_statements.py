"""Rewriting of imports, and renaming of the remaining names of version 1 in annotations, base classes and elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from .name_tables import ABSENT, CONTEXT_CLASSES, RENAMED, SERVER_CLASSES, UNMARKED
from .rewrite_step import SourceFile, Step
from .syntax import (
    Block,
    call,
    dotted,
    is_docstring,
    is_name,
    lines_above,
    module_of,
    names_in,
    names_of,
    path_of,
    text_of,
    without_statements,
)

_LOGGING = "mcp.server.fastmcp.utilities.logging"
_CLIENT_NAMES = (
    "mcp.client.",
    "mcp.ClientSession",
    "mcp.StdioServerParameters",
    "mcp.stdio_client",
    "mcp.os.",
)
_PARENT_MODULES = {
    "mcp.types",
    "mcp.server",
    "mcp.server.fastmcp",
    "mcp.server.fastmcp.prompts",
    "mcp.server.fastmcp.prompts.base",
    "mcp.server.fastmcp.exceptions",
    "mcp.server.fastmcp.server",
    "mcp.server.fastmcp.utilities.types",
}
_RESULT_HINTS = {
    "structuredContent": "in a ToolResult this is `structured`, or ToolResult.ABSENT if it is missing",
    "isError": "in a ToolResult this is `is_error`",
}
_OVERRIDE_HINTS = {
    **dict.fromkeys(
        ("list_tools", "call_tool", "list_resources", "read_resource", "list_prompts", "get_prompt"),
        "use a function with @server.middleware to see each request",
    ),
    **dict.fromkeys(("streamable_http_app", "sse_app"), "use the app that asgi() returns"),
    **dict.fromkeys(("run_stdio_async", "run_sse_async", "run_streamable_http_async"), "use run()"),
}
_MAX_LENGTH = 88  # of an import on one line
_SUBMODULES = {
    "serve_stdio": "mcpkit.transports.stdio",
    **dict.fromkeys(("ElicitationResult", "Root", "SamplingResult"), "mcpkit.elicitation"),
}

# Names


class Renaming(Step):
    """Replaces names of version 1 by native ones; marks those without a counterpart."""

    def __init__(self, file: SourceFile, *, has_client: bool) -> None:
        super().__init__(file)
        self._has_client = has_client
        self._inner: set[cst.CSTNode] = set()  # names within an attribute that is renamed
        self._overridden: set[str] = set()
        self._has_results = False
        self._absent: dict[str, cst.Name | cst.Attribute] = {}  # the first use of each name

    def visit_Module(self, node: cst.Module) -> None:
        """Find the names without a counterpart."""
        for each in names_in(node, with_imports=False):
            name = self._absent_name(each)
            if name is not None:
                self._absent.setdefault(name, each)

    def visit_Import(self, node: cst.Import) -> bool:
        """Skip imports."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        """Mark imports of names without a counterpart; skip other imports."""
        names = list(names_of(node).values())
        self._has_results |= "CallToolResult" in names and not self._has_client
        absent = [name for name in names if f"{module_of(node)}.{name}" in self._absent]
        if absent:
            self._mark_absent(absent)
        return False

    def visit_Subscript(self, node: cst.Subscript) -> None:
        """Skip type arguments that have no native counterpart."""
        if self.imported_names(node.value) & (CONTEXT_CLASSES | SERVER_CLASSES):
            for index, each in enumerate(node.slice):
                if index != 1 and len(node.slice) > 1:
                    self._inner.update(names_in(each))

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Treat `types.TextContent` as one name; mark it, or the read of a result, without a counterpart."""
        if self._has_results and node.attr.value in _RESULT_HINTS:
            self.mark(_RESULT_HINTS[node.attr.value])
        is_absent = node in self._absent.values()
        if self._native(node) is not None or is_absent:
            self._inner.update(names_in(node.value))
        if is_absent:
            self._mark_absent([node.attr.value])

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Find methods of a subclass that have no effect any more."""
        if any(self.imported_names(base.value) & SERVER_CLASSES for base in node.bases):
            methods = (each.name.value for each in node.body.body if isinstance(each, cst.FunctionDef))
            self._overridden.update(_OVERRIDE_HINTS.keys() & set(methods))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Mark a method that is never called."""
        if node.name.value in self._overridden:
            self.mark(f"mcpkit does not call this method: {_OVERRIDE_HINTS[node.name.value]}")

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Rename the attribute."""
        native = self._native(original_node)
        return updated_node if native is None else cst.Name(self.file.name(native))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        """Rename the name."""
        native = None if original_node in self._inner else self._native(original_node)
        return updated_node if native is None else updated_node.with_changes(value=self.file.name(native))

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        """Write `Context[State]` for `Context[Session, State]`, and `Server` for `FastMCP[State]`."""
        names = self.imported_names(original_node.value)
        if not names & (CONTEXT_CLASSES | SERVER_CLASSES):
            return updated_node
        if names & SERVER_CLASSES or len(updated_node.slice) == 1:
            return updated_node.value
        state = updated_node.slice[1]
        if isinstance(state.slice, cst.Index) and is_name(state.slice.value, "None", "Any"):
            return updated_node.value
        return updated_node.with_changes(slice=[state.with_changes(comma=cst.MaybeSentinel.DEFAULT)])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Use Python's `logging`."""
        names = self.imported_names(original_node.func)
        if f"{_LOGGING}.get_logger" in names:
            self.file.modules.add("logging")
            return updated_node.with_changes(func=dotted("logging.getLogger"))
        if f"{_LOGGING}.configure_logging" in names:
            self.file.modules.add("logging")
            level = [each.with_changes(keyword=cst.Name("level")) for each in updated_node.args]
            return call("logging.basicConfig", *level)
        return updated_node

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        """Rename names in a quoted annotation."""
        text = updated_node.annotation
        if not isinstance(text, cst.SimpleString):
            return updated_node
        value = text.value
        for whole in (*SERVER_CLASSES, *CONTEXT_CLASSES):
            old, native = whole.rpartition(".")[2], RENAMED[whole]
            if re.search(rf"\b{old}\b", value) and old not in self.file.defined:
                value = re.sub(rf"\b{old}\b", self.file.name(native), value)
        value = re.sub(r"\bContext\[\s*\w+\s*,\s*(\w+)[^\]]*\]", r"Context[\1]", value)
        return updated_node.with_changes(annotation=text.with_changes(value=value))

    def _native(self, node: cst.Name | cst.Attribute) -> str | None:
        return next((RENAMED[name] for name in self.imported_names(node) if name in RENAMED), None)

    def _absent_name(self, node: cst.Name | cst.Attribute) -> str | None:
        """Return the qualified name of an object of version 1 without a counterpart."""
        for name in sorted(self.imported_names(node)):
            if (
                name.startswith("mcp.")
                and name not in RENAMED
                and name not in _PARENT_MODULES
                and not name.startswith((_LOGGING, *_CLIENT_NAMES))
                and not (self._has_client and name.startswith("mcp.types."))
                and name.rpartition(".")[2] not in UNMARKED
            ):
                return name
        return None

    def _mark_absent(self, names: list[str]) -> None:
        hints = [f"{name}: {ABSENT[name]}" for name in names if name in ABSENT]
        others = ", ".join(name for name in names if name not in ABSENT)
        if others:
            hints.append(f"{others}: mcpkit has no equivalent")
        self.mark("; ".join(hints))


# Imports


def with_imports(before: cst.Module, module: cst.Module, file: SourceFile) -> cst.Module:
    """Return a rewritten module with imports of mcpkit in place of those of version 1, and without unused ones.

    Args:
        before: The module of version 1.
        module: The rewritten module with the old imports.
        file: Facts about the file.
    """
    used = _words(module)
    needed = {file.name(native): native for native in sorted(file.native) if file.name(native) in used}
    rewritten = module.visit(_Imports(file, needed, gone=_words(before) - used, used=used))
    assert isinstance(rewritten, cst.Module)
    return _with_modules(rewritten, file.modules & used)


def _words(module: cst.Module) -> set[str]:
    """Return the names that are used outside of imports, including those in quoted annotations and `__all__`."""
    found = _Words()
    module.visit(found)
    return found.names


class _Words(cst.CSTVisitor):
    """Collects first parts of names outside of imports, without keywords of arguments, and words of short texts."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        text = text_of(node)
        if text is not None and len(text) < 100 and " " not in text.replace(" | ", "|").replace(", ", ","):
            self.names.update(re.findall(r"\w+", text))


class _Imports(cst.CSTTransformer):
    """Rewrites the imports of each block, those of the module last.

    Args:
        file: Facts about the file.
        needed: Native names to import: names in the file, and in mcpkit.
        gone: Names that are no longer used.
        used: Names that are used.
    """

    def __init__(self, file: SourceFile, needed: dict[str, str], *, gone: set[str], used: set[str]) -> None:
        super().__init__()
        self._file = file
        self._needed = needed
        self._gone = gone
        self._used = used
        self._imported: set[str] = set()

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        block = self._rewritten(updated_node, {})
        assert isinstance(block, cst.IndentedBlock), "the block stays an IndentedBlock"
        return block

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        missing = {name: native for name, native in self._needed.items() if name not in self._imported}
        module = self._rewritten(updated_node, missing)
        assert isinstance(module, cst.Module), "the result is a Module"
        return module

    def _rewritten(self, block: Block, missing: dict[str, str]) -> Block:
        """Return a block with its imports rewritten, and with imports of missing names."""
        removed: list[cst.CSTNode] = []
        body: list[cst.CSTNode] = []
        natives = dict(missing)
        place: int | None = None  # of the first import of the block that becomes one of mcpkit
        for statement in block.body:
            body.append(statement)
            imported = _imported(statement)
            if imported is None or isinstance(imported.names, cst.ImportStar):
                continue
            module, needed = module_of(imported), self._needed.values()
            old = (RENAMED.get(f"{module}.{name}") for name in names_of(imported).values()) if module else ()
            found = {self._file.name(native): native for native in old if native and native in needed}
            natives |= found
            if (found or module == "mcpkit") and place is None:
                place = len(body) - 1
            kept = [each for each in imported.names if self._stays(imported, each)]
            if not kept:
                removed.append(statement)
            elif len(kept) < len(imported.names):
                kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                body[-1] = statement.with_changes(body=[imported.with_changes(names=kept)])
        self._imported |= natives.keys()
        by_module: dict[str, dict[str, str]] = {}
        for name, native in natives.items():
            by_module.setdefault(_SUBMODULES.get(native, "mcpkit"), {})[name] = native
        for module, names in sorted(by_module.items()):
            self._insert(body, module, names, place, removed)
        return without_statements(block.with_changes(body=body), removed)

    def _insert(
        self,
        body: list[cst.CSTNode],
        module: str,
        names: dict[str, str],
        place: int | None,
        removed: list[cst.CSTNode],
    ) -> None:
        """Insert an import: at this place, or after the other imports."""
        there = body[place] if place is not None and place < len(body) else None
        if place is None or there is None or module != "mcpkit":
            at = _end_of_imports(body) if place is None else place + (there is not None)
            if at == 0 and body:  # there is no import yet
                body[0] = body[0].with_changes(leading_lines=lines_above(body[0]) or [cst.EmptyLine()])
            body.insert(at, _statement(module, names))
            return
        present = _imported(there)
        is_native = present is not None and module_of(present) == "mcpkit"
        if present is not None and is_native:
            names = names | names_of(present)
        body[place] = _statement(module, names).with_changes(leading_lines=lines_above(there))
        if there in removed or is_native:
            removed[:] = [each for each in removed if each is not there]
        else:
            body.insert(place + 1, there.with_changes(leading_lines=()))

    def _stays(self, node: cst.Import | cst.ImportFrom, alias: cst.ImportAlias) -> bool:
        """Return True if an imported name stays."""
        name = path_of(alias.asname.name) if alias.asname else path_of(alias.name)
        first = (name or "").partition(".")[0]
        module = module_of(node) if isinstance(node, cst.ImportFrom) else path_of(alias.name) or ""
        if module == "__future__":
            return True
        if isinstance(node, cst.ImportFrom) and f"{module}.{path_of(alias.name)}" in RENAMED:
            return False
        return first in self._used if f"{module}.".startswith("mcp.") else first not in self._gone


def _imported(node: cst.CSTNode | None) -> cst.Import | cst.ImportFrom | None:
    """Return the import that is alone on a line."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom() as only]):
            return only
        case _:
            return None


def _statement(module: str, names: dict[str, str]) -> cst.SimpleStatementLine:
    """Return the import of names, in the order of isort: constants, classes, functions."""
    order = sorted(names.items(), key=lambda item: (not item[1].isupper(), item[1][:1].islower(), item[1]))
    parts = [native if name == native else f"{native} as {name}" for name, native in order]
    line = f"from {module} import {', '.join(parts)}"
    if len(line) > _MAX_LENGTH:
        line = f"from {module} import (\n" + "".join(f"    {each},\n" for each in parts) + ")"
    statement = cst.parse_statement(line)
    assert isinstance(statement, cst.SimpleStatementLine)
    return statement


def _end_of_imports(body: Sequence[cst.CSTNode]) -> int:
    """Return the position for an import of a package: after the others, and before those of the same package."""
    end = 0
    for index, each in enumerate(body):
        imported = _imported(each)
        if isinstance(imported, cst.ImportFrom) and imported.relative:
            return index
        if imported is not None or (index == 0 and is_docstring(each)):
            end = index + 1
    return end


def _with_modules(module: cst.Module, names: set[str]) -> cst.Module:
    """Return a module with `import name` for each of the names that it does not import."""
    body: list[cst.CSTNode] = list(module.body)
    present = {each.partition(".")[0] for line in body if (one := _imported(line)) for each in names_of(one)}
    for name in sorted(names - present):
        made = cst.SimpleStatementLine([cst.Import([cst.ImportAlias(dotted(name))])])
        at = _module_position(body, name)
        if at < len(body) and _imported(body[at]) is not None:
            made = made.with_changes(leading_lines=lines_above(body[at]))
            body[at] = body[at].with_changes(leading_lines=())
        body.insert(at, made)
    return module.with_changes(body=body)


def _module_position(body: Sequence[cst.CSTNode], name: str) -> int:
    """Return the position for `import name`: among those of its kind by name, or before all."""
    first: int | None = None
    after = 0
    for index, each in enumerate(body):
        imported = _imported(each)
        if imported is None or module_of(imported) == "__future__":
            after = index + 1 if is_docstring(each) or imported is not None else after
            if first is not None:
                break
            continue
        if isinstance(imported, cst.Import) and name != "uvicorn":
            first = index if first is None else first
            if (path_of(imported.names[0].name) or "") > name:
                return index
            after = index + 1
        elif module_of(imported).startswith(("mcp.", "mcpkit")):
            return index if name == "uvicorn" or first is None else after
        elif first is None and name != "uvicorn":
            return index
    return after
