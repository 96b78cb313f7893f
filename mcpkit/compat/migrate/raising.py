"""Rewriting of errors with texts for clients: mcpkit only sends texts of its own error classes."""

from __future__ import annotations

import libcst as cst

from .file import File
from .nodes import bound, call, path_of
from .step import Step

_CLASSES = {
    "tool": "ToolError",
    "add_tool": "ToolError",
    "resource": "ResourceError",
    "prompt": "PromptError",
}
_BUILTIN = {
    "Exception",
    "ValueError",
    "RuntimeError",
    "TypeError",
    "LookupError",
    "OSError",
    "IOError",
    "FileNotFoundError",
    "PermissionError",
    "TimeoutError",
    "ConnectionError",
    "NotImplementedError",
}
_MCP_ERROR = {"mcp.shared.exceptions.McpError", "mcp.McpError"}
_ERROR_DATA = {"mcp.types.ErrorData", "mcp.ErrorData"}
_CODES = {
    "PARSE_ERROR": -32700,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
}


class Raising(Step):
    """Rewrites errors with a text: tools raise ToolError, and other functions their own class."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._kinds: list[str | None] = []
        self._tries: list[int] = []
        self._helpers: dict[str, cst.Raise] = {}
        self._called: set[str] = set()
        self._names: list[set[str]] = []
        self._is_status_marked = False

    def visit_Module(self, node: cst.Module) -> None:
        """Find functions that other functions of the file call without catching errors."""
        calls = _Calls(self)
        node.visit(calls)
        self._called = calls.found

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Enter a function."""
        names = self.whole_names(node)
        kind = next((_CLASSES[self.file.registered[each]] for each in names if self._has_class(each)), None)
        self._kinds.append(kind)
        self._names.append(names)
        self._tries.append(0)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Leave it."""
        self._kinds.pop()
        self._names.pop()
        self._tries.pop()
        return updated_node

    def visit_Try_body(self, node: cst.Try) -> None:
        """Enter a `try` block."""
        if self._tries and node.handlers:
            self._tries[-1] += 1

    def leave_Try_body(self, node: cst.Try) -> None:
        """Leave it."""
        if self._tries and node.handlers:
            self._tries[-1] -= 1

    def visit_Raise(self, node: cst.Raise) -> None:
        """Mark a text that the client of a tool no longer gets."""
        if not self._names or self._kinds[-1] is not None or self._tries[-1] or not _has_text(node):
            return
        called = self._names[-1] & self._called
        if called and path_of(_class(node)) in _BUILTIN and not called & self._helpers.keys():
            self._helpers |= dict.fromkeys(called, node)
            self.mark(
                'the model only receives "Internal error (ref ...)" for this: '
                "raise ToolError to send it the text"
            )

    def visit_Call(self, node: cst.Call) -> None:
        """Mark, once, uncaught errors of HTTP clients."""
        is_status = isinstance(node.func, cst.Attribute) and node.func.attr.value == "raise_for_status"
        if not is_status or self._is_status_marked or not self._names or self._tries[-1]:
            return
        if self._kinds[-1] is not None or self._names[-1] & self._called:
            self._is_status_marked = True
            self.mark(
                'the model only receives "Internal error (ref ...)" for such an error: raise ToolError instead, '
                "here or for all tools in a function with @server.on_error"
            )

    def leave_Raise(self, original_node: cst.Raise, updated_node: cst.Raise) -> cst.Raise:
        """Raise an error with a text that mcpkit sends."""
        raised = updated_node.exc
        if not isinstance(raised, cst.Call) or not isinstance(original_node.exc, cst.Call):
            return updated_node
        kind = self._kinds[-1] if self._kinds else None
        if self.imported_names(original_node.exc.func) & _MCP_ERROR:
            return updated_node.with_changes(exc=self._of_protocol(original_node.exc, raised, kind))
        if kind is None or self._tries[-1] or not _has_text(updated_node):
            return updated_node
        if self._names[-1] & self._called or path_of(raised.func) not in _BUILTIN:
            return updated_node
        return updated_node.with_changes(exc=raised.with_changes(func=cst.Name(self.file.name(kind))))

    def _of_protocol(self, original: cst.Call, raised: cst.Call, kind: str | None) -> cst.BaseExpression:
        """Return the native error for `McpError(ErrorData(...))`."""
        data = raised.args[0].value if len(raised.args) == 1 else None
        before = original.args[0].value if len(original.args) == 1 else None
        if not isinstance(data, cst.Call) or not isinstance(before, cst.Call):
            return raised
        if not self.imported_names(before.func) & _ERROR_DATA:
            return raised
        given = bound(data, ()) or {}
        if not {"code", "message"} <= given.keys():
            return raised
        if kind == "ToolError" or (kind is None and "tool" in self.file.registered.values()):
            return call(self.file.name("ToolError"), given["message"].value)
        code = given["code"].value
        known = _CODES.get((path_of(code) or "").rpartition(".")[2])
        if known is not None:
            code = cst.UnaryOperation(cst.Minus(), cst.Integer(str(-known)))
        arguments = [code, given["message"].value, *([given["data"].value] if "data" in given else [])]
        return call(self.file.name("ProtocolError"), *arguments)

    def _has_class(self, name: str) -> bool:
        return self.file.registered.get(name) in _CLASSES


class _Calls(cst.CSTVisitor):
    """Collects the qualified names of functions that are called outside of `try` blocks."""

    def __init__(self, step: Raising) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._step = step
        self._tries = 0

    def visit_Try_body(self, node: cst.Try) -> None:
        self._tries += bool(node.handlers)

    def leave_Try_body(self, node: cst.Try) -> None:
        self._tries -= bool(node.handlers)

    def visit_Call(self, node: cst.Call) -> None:
        if not self._tries:
            self.found |= self._step.whole_names(node.func)


def _class(node: cst.Raise) -> cst.BaseExpression:
    assert node.exc is not None
    return node.exc.func if isinstance(node.exc, cst.Call) else node.exc


def _has_text(node: cst.Raise) -> bool:
    raised = node.exc
    return (
        isinstance(raised, cst.Call)
        and len(raised.args) == 1
        and raised.args[0].keyword is None
        and not raised.args[0].star
    )
