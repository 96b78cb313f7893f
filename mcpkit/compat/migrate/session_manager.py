"""Removal of code that runs the session manager, as mcpkit's app runs it itself."""

from __future__ import annotations

import libcst as cst

from .name_tables import HINTS
from .rewrite_step import SourceFile, Step
from .syntax import is_docstring, path_of, with_arguments

_CONTEXT_MANAGERS = {"asynccontextmanager", "contextlib.asynccontextmanager"}


class SessionManager(Step):
    """Removes code that runs the session manager of a server."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._handled: set[cst.CSTNode] = set()

    def visit_With(self, node: cst.With) -> None:
        """Find context managers that are entered."""
        for each in node.items:
            self._find(each.item)

    def leave_With(
        self, original_node: cst.With, updated_node: cst.With
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Remove the session manager; without another context manager, remove the `with` statement."""
        kept = [
            each
            for each, before in zip(updated_node.items, original_node.items, strict=True)
            if not self._runs_manager(before.item)
        ]
        if len(kept) == len(updated_node.items):
            return updated_node
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(items=kept)
        body = [each for each in updated_node.body.body if isinstance(each, cst.BaseStatement)]
        if body and isinstance(body[0], cst.SimpleStatementLine | cst.BaseCompoundStatement):
            lines = [*updated_node.leading_lines, *body[0].leading_lines]
            body[0] = body[0].with_changes(leading_lines=lines)
        return cst.FlattenSentinel(body)

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        """Find statements that enter it in an exit stack."""
        self._find(_stack_item(node))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remove statements that enter it in an exit stack."""
        return self.drop(updated_node) if self._runs_manager(_stack_item(original_node)) else updated_node

    def visit_Call(self, node: cst.Call) -> None:
        """Find a lifespan that only runs it."""
        for each in node.args:
            if isinstance(each.value, cst.Lambda):
                self._find(each.value.body)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Remove a lifespan that only runs it."""
        kept = [
            each
            for each, before in zip(updated_node.args, original_node.args, strict=True)
            if not (isinstance(before.value, cst.Lambda) and self._runs_manager(before.value.body))
        ]
        return updated_node if len(kept) == len(updated_node.args) else with_arguments(updated_node, kept)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Mark any other use of it."""
        if node not in self._handled and self.method_of_server(node) == "session_manager":
            self.mark(f"`session_manager`: {HINTS['session_manager']}")

    def _find(self, node: cst.BaseExpression | None) -> None:
        if self._runs_manager(node):
            assert isinstance(node, cst.Call)
            assert isinstance(node.func, cst.Attribute)
            self._handled.add(node.func.value)

    def _runs_manager(self, node: cst.BaseExpression | None) -> bool:
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="run"), value=manager)):
                return self.method_of_server(manager) == "session_manager"
            case _:
                return False


def _stack_item(node: cst.SimpleStatementLine) -> cst.BaseExpression | None:
    """Return the context manager in `await stack.enter_async_context(...)`."""
    match node.body[0]:
        case cst.Expr(
            value=cst.Await(
                expression=cst.Call(
                    func=cst.Attribute(attr=cst.Name(value="enter_async_context")), args=[only]
                )
            )
        ):
            return only.value
        case _:
            return None


class EmptyLifespans(Step):
    """Removes functions that only contain `yield` after the session manager was removed.

    They are removed if they are only used as `lifespan=` of outer apps.
    """

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._empty: set[str] = set()

    def visit_Module(self, node: cst.Module) -> None:
        """Find the functions."""
        functions = [each for each in node.body if isinstance(each, cst.FunctionDef)]
        empty = {each.name.value for each in functions if _is_empty(each)}
        if empty:
            uses = _Uses()
            node.visit(uses)
            self._empty = {name for name in empty if 0 < uses.lifespans.count(name) == uses.all.count(name)}

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        """Remove the function."""
        is_removed = updated_node.name.value in self._empty and _is_empty(original_node)
        return cst.RemoveFromParent() if is_removed else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Remove `lifespan=`."""
        kept = [each for each in updated_node.args if _lifespan(each) not in self._empty]
        return updated_node if len(kept) == len(updated_node.args) else with_arguments(updated_node, kept)


class _Uses(cst.CSTVisitor):
    """Collects the values of `lifespan=`, and all uses of names."""

    def __init__(self) -> None:
        super().__init__()
        self.lifespans: list[str] = []
        self.all: list[str] = []

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.all.remove(original_node.name.value)  # its own name is no use of it

    def visit_Arg(self, node: cst.Arg) -> bool:
        name = _lifespan(node)
        if name is not None:
            self.lifespans.append(name)
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.all.append(node.value)


def _lifespan(node: cst.Arg) -> str | None:
    """Return the name in `lifespan=name`."""
    is_lifespan = node.keyword is not None and node.keyword.value == "lifespan"
    return node.value.value if is_lifespan and isinstance(node.value, cst.Name) else None


def _is_empty(node: cst.FunctionDef) -> bool:
    """Return True for a context manager that only contains `yield`."""
    if not any(path_of(each.decorator) in _CONTEXT_MANAGERS for each in node.decorators):
        return False
    match [each for each in node.body.body if not is_docstring(each)]:
        case [cst.SimpleStatementLine(body=[cst.Expr(value=cst.Yield(value=None))])]:
            return True
        case _:
            return False
