"""Removal of code that runs the session manager, as mcpkit's app runs it itself."""

from __future__ import annotations

import libcst as cst

from .file import File
from .layout import with_arguments
from .names import HINTS
from .step import Step


class Managing(Step):
    """Removes code that runs the session manager of a server."""

    def __init__(self, file: File) -> None:
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
        if (call := _entered(node)) is not None:
            self._find(call)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remove statements that enter it in an exit stack."""
        entered = _entered(original_node)
        if entered is not None and self._runs_manager(entered):
            return self.drop(updated_node)
        return updated_node

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
        if len(kept) == len(updated_node.args):
            return updated_node
        return with_arguments(updated_node, kept)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Mark any other use of it."""
        if node not in self._handled and self.method_of_server(node) == "session_manager":
            self.mark(f"`session_manager`: {HINTS['session_manager']}")

    def _find(self, node: cst.BaseExpression) -> None:
        if self._runs_manager(node):
            assert isinstance(node, cst.Call)
            assert isinstance(node.func, cst.Attribute)
            self._handled.add(node.func.value)

    def _runs_manager(self, node: cst.BaseExpression) -> bool:
        return (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "run"
            and self.method_of_server(node.func.value) == "session_manager"
        )


def _entered(node: cst.SimpleStatementLine) -> cst.BaseExpression | None:
    """Return the context manager in `await stack.enter_async_context(...)`."""
    only = node.body[0]
    value = only.value if isinstance(only, cst.Expr) else None
    call = value.expression if isinstance(value, cst.Await) else None
    if (
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "enter_async_context"
        and len(call.args) == 1
    ):
        return call.args[0].value
    return None
