"""Renaming of the remaining names of version 1: in annotations, base classes and elsewhere."""

from __future__ import annotations

import re

import libcst as cst

from .file import File
from .names import ABSENT, CONTEXT_CLASSES, LEFT, RENAMED, SERVER_CLASSES
from .nodes import OutsideImports, call, module_of, names_in, path_of
from .step import Step

_LOGGERS = "mcp.server.fastmcp.utilities.logging"
_STAYS = ("mcp.client.", "mcp.ClientSession", "mcp.StdioServerParameters", "mcp.stdio_client", "mcp.os.")
_MODULES = {
    "mcp.types.",
    "mcp.server.",
    "mcp.server.fastmcp.",
    "mcp.server.fastmcp.prompts.",
    "mcp.server.fastmcp.prompts.base.",
    "mcp.server.fastmcp.exceptions.",
    "mcp.server.fastmcp.server.",
    "mcp.server.fastmcp.utilities.types.",
}
_RESULT = {
    "structuredContent": "in a ToolResult this is `structured`, or ToolResult.ABSENT if it is missing",
    "isError": "in a ToolResult this is `is_error`",
}
_OVERRIDDEN = {
    **dict.fromkeys(
        ("list_tools", "call_tool", "list_resources", "read_resource", "list_prompts", "get_prompt"),
        "use a function with @server.middleware to see each request",
    ),
    **dict.fromkeys(("streamable_http_app", "sse_app"), "use the app that asgi() returns"),
    **dict.fromkeys(("run_stdio_async", "run_sse_async", "run_streamable_http_async"), "use run()"),
}


class Renaming(Step):
    """Replaces names of version 1 by native ones; marks those without a counterpart."""

    def __init__(self, file: File, *, has_client: bool) -> None:
        super().__init__(file)
        self._has_client = has_client
        self._inner: set[cst.CSTNode] = set()
        self._said: set[str] = set()
        self._has_results = False
        self._without_counterpart: dict[str, cst.Name | cst.Attribute] = {}

    def visit_Module(self, node: cst.Module) -> None:
        """Find the names without a counterpart."""
        found = _Names()
        node.visit(found)
        for each in found.nodes:
            name = self._left(each)
            if name is not None:
                self._without_counterpart.setdefault(name, each)

    def visit_Import(self, node: cst.Import) -> bool:
        """Skip imports."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        """Mark imports of names without a counterpart; skip other imports."""
        module = module_of(node)
        if not isinstance(node.names, cst.ImportStar):
            names = [path_of(each.name) or "" for each in node.names]
            self._has_results |= "CallToolResult" in names and not self._has_client
            left = [name for name in names if f"{module}.{name}" in self._without_counterpart]
            if left:
                self._mark_left(left)
        return False

    def visit_Subscript(self, node: cst.Subscript) -> None:
        """Skip type arguments that have no native counterpart."""
        if self.imported_names(node.value) & (CONTEXT_CLASSES | SERVER_CLASSES):
            for index, each in enumerate(node.slice):
                if index != 1 and len(node.slice) > 1:
                    self._inner.update(names_in(each))

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Treat `types.TextContent` as one name; mark it, or the read of a result, without a counterpart."""
        if self._has_results and node.attr.value in _RESULT:
            self.mark(_RESULT[node.attr.value])
        is_left = any(node is each for each in self._without_counterpart.values())
        if self._native(node) is not None or is_left:
            self._inner.update(names_in(node.value))
        if is_left:
            self._mark_left([node.attr.value])

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Mark methods of a subclass that have no effect any more."""
        is_server = any(self.imported_names(base.value) & SERVER_CLASSES for base in node.bases)
        if is_server and isinstance(node.body, cst.IndentedBlock):
            for each in node.body.body:
                if isinstance(each, cst.FunctionDef) and each.name.value in _OVERRIDDEN:
                    self._said.add(each.name.value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Mark a method that is never called."""
        if node.name.value in self._said and node.name.value in _OVERRIDDEN:
            self.mark(f"mcpkit does not call this method: {_OVERRIDDEN[node.name.value]}")

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
        if names & SERVER_CLASSES:
            return updated_node.value
        if not names & CONTEXT_CLASSES:
            return updated_node
        if len(updated_node.slice) == 1:
            return updated_node.value
        state = updated_node.slice[1].slice
        if (
            isinstance(state, cst.Index)
            and isinstance(state.value, cst.Name)
            and state.value.value in {"None", "Any"}
        ):
            return updated_node.value
        kept = updated_node.slice[1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(slice=[kept])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Use Python's `logging`."""
        names = self.imported_names(original_node.func)
        if f"{_LOGGERS}.get_logger" in names:
            self.file.modules.add("logging")
            return updated_node.with_changes(func=cst.Attribute(cst.Name("logging"), cst.Name("getLogger")))
        if f"{_LOGGERS}.configure_logging" in names:
            self.file.modules.add("logging")
            level = [each.with_changes(keyword=cst.Name("level")) for each in updated_node.args]
            return call("logging.basicConfig", *level)
        return updated_node

    def visit_Annotation(self, node: cst.Annotation) -> None:
        """Do nothing: quoted annotations are renamed in `leave_Annotation`."""

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        """Rename names in a quoted annotation."""
        text = updated_node.annotation
        if not isinstance(text, cst.SimpleString):
            return updated_node
        value = text.value
        for whole in (*SERVER_CLASSES, *CONTEXT_CLASSES):
            old, native = whole.rpartition(".")[2], RENAMED[whole]
            if re.search(rf"\b{old}\b", value) and old not in self.file.taken:
                value = re.sub(rf"\b{old}\b", self.file.name(native), value)
        value = re.sub(r"\bContext\[\s*\w+\s*,\s*(\w+)[^\]]*\]", r"Context[\1]", value)
        return updated_node.with_changes(annotation=text.with_changes(value=value))

    def _native(self, node: cst.Name | cst.Attribute) -> str | None:
        return next((RENAMED[name] for name in self.imported_names(node) if name in RENAMED), None)

    def _left(self, node: cst.Name | cst.Attribute) -> str | None:
        """Return the qualified name of an object of version 1 without a counterpart."""
        for name in sorted(self.imported_names(node)):
            last = name.rpartition(".")[2]
            is_clients = name.startswith(_STAYS) or (self._has_client and name.startswith("mcp.types."))
            if not name.startswith("mcp.") or name in RENAMED or name.startswith(_LOGGERS) or is_clients:
                continue
            if last in LEFT or last in {"ServerSession", "ErrorData"} or f"{name}." in _MODULES:
                continue
            return name
        return None

    def _mark_left(self, names: list[str]) -> None:
        hints = [f"{name}: {ABSENT[name]}" for name in names if name in ABSENT]
        others = ", ".join(name for name in names if name not in ABSENT)
        if others:
            hints.append(f"{others}: mcpkit has no equivalent")
        self.mark("; ".join(hints))


class _Names(OutsideImports):
    """Collects names and attributes outside of imports."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[cst.Name | cst.Attribute] = []

    def visit_Name(self, node: cst.Name) -> None:
        self.nodes.append(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.nodes.append(node)
