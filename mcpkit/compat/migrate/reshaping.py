"""Rewriting of the arguments of a call to their native form and order."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from .file import File
from .layout import with_arguments
from .nodes import bound, call, dotted, keyword, path_of
from .shapes import Shape


def reshaped(
    node: cst.Call,
    shape: Shape,
    file: File,
    *,
    without: frozenset[str] = frozenset(),
    added: Mapping[str, cst.BaseExpression] | None = None,
) -> cst.Call | None:
    """Return a call with native arguments. The called function is not changed.

    Args:
        node: The call of version 1.
        shape: The native form of its arguments.
        file: Facts about the file.
        without: Arguments to leave out.
        added: Further arguments, by native name.

    Returns:
        The call; None if `*` or `**` hides some of its arguments.
    """
    given = bound(node, shape.parameters)
    if given is None:
        return None
    first: dict[str, cst.Arg] = {}
    others: list[cst.Arg] = []
    are_named = False
    for name in shape.first:
        if name in given:
            value = _value(name, given[name].value, shape, file)
            if are_named:
                others.append(keyword(shape.renamed.get(name, name), value))
            else:
                first[name] = cst.Arg(value)
        elif name not in without:
            are_named = True  # what comes after it cannot be given by position
    for name, argument in given.items():
        if name in shape.first or name in shape.dropped or name in without:
            continue
        value = _value(name, argument.value, shape, file)
        others.append(
            argument.with_changes(
                keyword=cst.Name(shape.renamed.get(name, name)), equal=keyword("x", value).equal, value=value
            )
        )
    others += [keyword(name, value) for name, value in (added or {}).items()]
    return with_arguments(node, [*first.values(), *others])


def _value(name: str, value: cst.BaseExpression, shape: Shape, file: File) -> cst.BaseExpression:
    if name in shape.urls:
        return url_text(value)
    if name in shape.encoded:
        return decoded(value, file)
    return value


def url_text(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return the text in `AnyUrl(text)`."""
    if isinstance(value, cst.Call) and len(value.args) == 1:
        name = path_of(value.func)
        if name is not None and name.rpartition(".")[2] == "AnyUrl":
            return value.args[0].value
    return value


def decoded(value: cst.BaseExpression, file: File) -> cst.BaseExpression:
    """Return the bytes of a base64 expression: without its encoding, or with a decoding around it."""
    inner = value
    if (
        isinstance(inner, cst.Call)
        and isinstance(inner.func, cst.Attribute)
        and inner.func.attr.value == "decode"
    ):
        inner = inner.func.value
        if isinstance(inner, cst.Call) and len(inner.args) == 1:
            name = path_of(inner.func)
            if name in {"base64.b64encode", "b64encode", "base64.standard_b64encode"}:
                return inner.args[0].value
    file.modules.add("base64")
    return call(dotted("base64.b64decode"), value)
