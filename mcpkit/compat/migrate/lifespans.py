"""Removal of lifespans of outer apps that did nothing but run session managers."""

from __future__ import annotations

import libcst as cst

from .file import File
from .layout import with_arguments
from .nodes import path_of
from .step import Step

_MANAGERS = {"asynccontextmanager", "contextlib.asynccontextmanager"}


class Lifespans(Step):
    """Removes functions that only contain `yield`, if they are only used as `lifespan=`."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._empty: set[str] = set()

    def visit_Module(self, node: cst.Module) -> None:
        """Find the functions."""
        functions = [each for each in node.body if isinstance(each, cst.FunctionDef)]
        empty = {each.name.value for each in functions if _does_nothing(each)}
        if empty:
            given = _Given()
            node.visit(given)
            self._empty = {name for name in empty if 0 < given.names.count(name) == given.uses.count(name)}

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        """Remove the function."""
        is_empty = updated_node.name.value in self._empty and _does_nothing(original_node)
        return cst.RemoveFromParent() if is_empty else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Remove `lifespan=`."""
        kept = [each for each in updated_node.args if _lifespan(each) not in self._empty]
        return updated_node if len(kept) == len(updated_node.args) else with_arguments(updated_node, kept)


class _Given(cst.CSTVisitor):
    """Collects the values of `lifespan=`, and all uses of names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.uses: list[str] = []

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.uses.remove(original_node.name.value)  # its own name is no use of it

    def visit_Arg(self, node: cst.Arg) -> bool:
        name = _lifespan(node)
        if name is not None:
            self.names.append(name)
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.uses.append(node.value)


def _lifespan(node: cst.Arg) -> str | None:
    is_meant = node.keyword is not None and node.keyword.value == "lifespan"
    return node.value.value if is_meant and isinstance(node.value, cst.Name) else None


def _does_nothing(node: cst.FunctionDef) -> bool:
    if not any(path_of(each.decorator) in _MANAGERS for each in node.decorators):
        return False
    lines = [each for each in node.body.body if not _is_docstring(each)]
    only = lines[0].body if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) else ()
    value = only[0].value if len(only) == 1 and isinstance(only[0], cst.Expr) else None
    return isinstance(value, cst.Yield) and value.value is None


def _is_docstring(node: cst.CSTNode) -> bool:
    only = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    return isinstance(only, cst.Expr) and isinstance(only.value, cst.SimpleString)
