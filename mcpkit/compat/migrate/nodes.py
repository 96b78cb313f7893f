"""Helpers for syntax trees."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def dotted(text: str) -> cst.Name | cst.Attribute:
    """Return the expression for a text such as `a.b`."""
    first, *others = text.split(".")
    node: cst.Name | cst.Attribute = cst.Name(first)
    for name in others:
        node = cst.Attribute(node, cst.Name(name))
    return node


def path_of(node: cst.CSTNode) -> str | None:
    """Return `a.b.c` for names and attributes; None for other expressions."""
    if isinstance(node, cst.Name | cst.Attribute):
        return get_full_name_for_node(node)
    return None


def text_of(node: cst.BaseExpression) -> str | None:
    """Return the value of a plain string; None for other expressions."""
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


def code(node: cst.CSTNode) -> str:
    """Return the source text of a node."""
    return cst.Module([]).code_for_node(node)


def is_literal(node: cst.BaseExpression) -> bool:
    """Return True if an expression has the same value at any place."""
    if isinstance(node, cst.SimpleString | cst.BaseNumber):
        return True
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression)
    return isinstance(node, cst.Name) and node.value in {"True", "False", "None"}


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Return the argument `name=value`."""
    return cst.Arg(value, keyword=cst.Name(name), equal=_TIGHT)


def call(name: str | cst.BaseExpression, *arguments: cst.Arg | cst.BaseExpression) -> cst.Call:
    """Return a call of a name, a path or an expression."""
    function = dotted(name) if isinstance(name, str) else name
    return cst.Call(function, [each if isinstance(each, cst.Arg) else cst.Arg(each) for each in arguments])


def bound(node: cst.Call, parameters: Sequence[str]) -> dict[str, cst.Arg] | None:
    """Return the arguments of a call by parameter name; None if `*` or `**` hides some."""
    found: dict[str, cst.Arg] = {}
    for index, argument in enumerate(node.args):
        if argument.star:
            return None
        if argument.keyword is not None:
            found[argument.keyword.value] = argument
        elif index < len(parameters):
            found[parameters[index]] = argument
        else:
            return None
    return found


def module_of(node: cst.Import | cst.ImportFrom | None, *, relative: bool = False) -> str:
    """Return the module of a `from` import; for a relative one, optionally, without its dots."""
    if isinstance(node, cst.ImportFrom) and node.module is not None and (relative or not node.relative):
        return path_of(node.module) or ""
    return ""


def names_of(node: cst.Import | cst.ImportFrom) -> dict[str, str]:
    """Return the imported names, by their names in the file."""
    assert not isinstance(node.names, cst.ImportStar)
    return {
        (path_of(each.asname.name) if each.asname else path_of(each.name)) or "": path_of(each.name) or ""
        for each in node.names
    }


def names_in(node: cst.CSTNode) -> list[cst.Name | cst.Attribute]:
    """Return all names and attribute paths in a node."""
    return [each for each in nodes_in(node) if isinstance(each, cst.Name | cst.Attribute)]


def nodes_in(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return a node and all below it."""
    found = [node]
    for each in found:
        found.extend(each.children)
    return found


class OutsideImports(cst.CSTVisitor):
    """Visitor that skips imports."""

    def visit_Import(self, node: cst.Import) -> bool:
        """Skip it."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        """Skip it."""
        return False
