"""Rewriting of tools that return one text as a list of content: they return the text."""

from __future__ import annotations

import libcst as cst

from .content import Content
from .nodes import names_in, path_of

_LISTS = {"list", "List", "Sequence", "typing.List", "typing.Sequence"}


class Returns(Content):
    """Rewrites a tool with `-> list[TextContent]` and `return [Text(...)]` to `-> str` and `return ...`."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Return the call unchanged: it was rewritten before."""
        return updated_node

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Rewrite a tool."""
        if not any(self.file.registered.get(name) == "tool" for name in self.whole_names(original_node)):
            return updated_node
        if original_node.returns is None or not self._is_list_of_content(original_node.returns.annotation):
            return updated_node
        returns = _Own()
        updated_node.body.visit(returns)
        values = [each.value for each in returns.found]
        if not values or any(value is None or self.plain_item(value) is value for value in values):
            return updated_node
        returned = original_node.returns.with_changes(annotation=cst.Name("str"))
        body = updated_node.body.visit(_Unwrap(self))
        return updated_node.with_changes(returns=returned, body=body)

    def _is_list_of_content(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Subscript) or path_of(node.value) not in _LISTS:
            return False
        found = names_in(node)
        return any("mcp.types.TextContent" in self.whole_names(each) for each in found)


class _Own(cst.CSTVisitor):
    """Collects the `return` statements of a function, without those of inner functions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[cst.Return] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Return(self, node: cst.Return) -> None:
        self.found.append(node)


class _Unwrap(cst.CSTTransformer):
    def __init__(self, content: Content) -> None:
        super().__init__()
        self._content = content

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        return (
            updated_node
            if value is None
            else updated_node.with_changes(value=self._content.plain_item(value))
        )
