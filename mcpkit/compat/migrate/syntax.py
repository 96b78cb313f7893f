"""Helpers for libcst's syntax trees: names, calls, imports, blocks, and the layout of arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

Block = cst.IndentedBlock | cst.Module

_MAX_JOINED_LENGTH = 78  # of a changed call that is put on one line
_MAX_LENGTH = 84  # of a new call that stays on one line
_NOTHING = cst.SimpleWhitespace("")
_EQUAL = cst.AssignEqual(_NOTHING, _NOTHING)

# Names and texts


def attribute(node: str | cst.BaseExpression, path: str) -> cst.Attribute:
    """Return the expression `node.path`; the path may have several parts."""
    made = dotted(node) if isinstance(node, str) else node
    for name in path.split("."):
        made = cst.Attribute(made, cst.Name(name))
    assert isinstance(made, cst.Attribute), "a path has at least one part"
    return made


def dotted(text: str) -> cst.Name | cst.Attribute:
    """Return the expression for a text such as `a.b`."""
    first, _, path = text.partition(".")
    return attribute(cst.Name(first), path) if path else cst.Name(first)


def string(text: str) -> cst.SimpleString:
    """Return the expression for a text without quotes."""
    return cst.SimpleString(f'"{text}"')


def code(node: cst.CSTNode) -> str:
    """Return the source text of a node."""
    return cst.Module([]).code_for_node(node)


def path_of(node: cst.CSTNode) -> str | None:
    """Return `a.b.c` for names and attributes; None for other expressions."""
    return get_full_name_for_node(node) if isinstance(node, cst.Name | cst.Attribute) else None


def text_of(node: cst.BaseExpression) -> str | None:
    """Return the value of a plain string; None for other expressions."""
    value = node.evaluated_value if isinstance(node, cst.SimpleString | cst.ConcatenatedString) else None
    return value if isinstance(value, str) else None


def is_name(node: cst.CSTNode | None, *names: str | None) -> bool:
    """Return True if a node is one of these names, such as `False`."""
    return isinstance(node, cst.Name) and node.value in names


def is_literal(node: cst.BaseExpression) -> bool:
    """Return True if an expression has the same value at any place."""
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression)
    return isinstance(node, cst.SimpleString | cst.BaseNumber) or is_name(node, "True", "False", "None")


def is_docstring(node: cst.CSTNode) -> bool:
    """Return True if a statement is only a string."""
    only = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    return isinstance(only, cst.Expr) and isinstance(only.value, cst.SimpleString | cst.ConcatenatedString)


def owner_of(node: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """Return `x` if a node is `x.name`."""
    return node.value if isinstance(node, cst.Attribute) and node.attr.value == name else None


def set_attribute(node: cst.CSTNode, owner: str) -> tuple[cst.BaseExpression, str, cst.BaseExpression] | None:
    """Return `x`, the name and the value of a statement `x.owner.name = value`."""
    only = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    target = only.targets[0].target if isinstance(only, cst.Assign) and len(only.targets) == 1 else None
    x = owner_of(target.value, owner) if isinstance(target, cst.Attribute) else None
    if x is None or not isinstance(only, cst.Assign) or not isinstance(target, cst.Attribute):
        return None
    return x, target.attr.value, only.value


def nodes_in(node: cst.CSTNode, *, with_imports: bool = True) -> list[cst.CSTNode]:
    """Return a node and all below it, in the order of the text."""
    found, left = list[cst.CSTNode](), [node]
    while left:
        found.append(each := left.pop())
        if with_imports or not isinstance(each, cst.Import | cst.ImportFrom):
            left.extend(reversed(each.children))
    return found


def names_in(node: cst.CSTNode, *, with_imports: bool = True) -> list[cst.Name | cst.Attribute]:
    """Return all names and attribute paths in a node."""
    nodes = nodes_in(node, with_imports=with_imports)
    return [each for each in nodes if isinstance(each, cst.Name | cst.Attribute)]


# Calls


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """Return the argument `name=value`."""
    return cst.Arg(value, keyword=cst.Name(name), equal=_EQUAL)


def call(name: str | cst.BaseExpression, *arguments: cst.Arg | cst.BaseExpression) -> cst.Call:
    """Return a call of a name, a path or an expression."""
    function = dotted(name) if isinstance(name, str) else name
    return cst.Call(function, [each if isinstance(each, cst.Arg) else cst.Arg(each) for each in arguments])


def bound(node: cst.Call, parameters: Sequence[str]) -> dict[str, cst.Arg] | None:
    """Return the arguments of a call by parameter name; None if `*` or `**` hides some."""
    found: dict[str, cst.Arg] = {}
    for index, argument in enumerate(node.args):
        if argument.star or (argument.keyword is None and index >= len(parameters)):
            return None
        found[argument.keyword.value if argument.keyword else parameters[index]] = argument
    return found


# Imports


def module_of(node: cst.Import | cst.ImportFrom | None, *, relative: bool = False) -> str:
    """Return the module of a `from` import; for a relative one, optionally, without its dots."""
    if isinstance(node, cst.ImportFrom) and node.module is not None and (relative or not node.relative):
        return path_of(node.module) or ""
    return ""


def names_of(node: cst.Import | cst.ImportFrom) -> dict[str, str]:
    """Return the imported names, by their names in the file; none for `*`."""
    if isinstance(node.names, cst.ImportStar):
        return {}
    return {
        (path_of(each.asname.name) if each.asname else path_of(each.name)) or "": path_of(each.name) or ""
        for each in node.names
    }


def imports_in(block: Block) -> Iterator[cst.Import | cst.ImportFrom]:
    """Yield the imports among the statements of a block."""
    for line in block.body:
        for each in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(each, cst.Import | cst.ImportFrom):
                yield each


# Blocks


def lines_above(node: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    """Return the blank lines and comments above a statement."""
    lines: Sequence[cst.EmptyLine] = getattr(node, "leading_lines", ())
    return lines


def without_statements(block: Block, removed: Collection[cst.CSTNode]) -> Block:
    """Return a block without some of its statements, or with `pass` if none is left.

    Comments above a removed statement move to the next one, and the number of blank lines stays.
    """
    kept: list[cst.CSTNode] = []
    above: list[cst.EmptyLine] = []
    for statement in block.body:
        own = [*lines_above(statement)]
        if statement in removed:
            above += own if any(each.comment for each in own) or not above else ()
            continue
        if any(each.comment for each in above):
            own = above + own
        elif kept and len(above) > len(own):
            own = above
        kept.append(statement.with_changes(leading_lines=own) if above else statement)
        above = []
    if not kept and isinstance(block, cst.IndentedBlock):
        kept.append(cst.SimpleStatementLine([cst.Pass()]))
    comments = [each for each in above if each.comment]
    return block.with_changes(body=kept, footer=[*comments, *block.footer])


# Layout of arguments


def with_arguments(node: cst.Call, arguments: Sequence[cst.Arg]) -> cst.Call:
    """Return a call with other arguments in the same layout; comments stay at their arguments.

    A changed call that clearly fits on one line is put on one line.

    Args:
        node: The previous call.
        arguments: The new arguments; previous ones are found by value or name.
    """
    if not arguments:
        return node.with_changes(args=(), whitespace_before_args=_NOTHING)
    old = node.args
    if [(each.value, _keyword(each)) for each in arguments] == [(each.value, _keyword(each)) for each in old]:
        return node
    gaps = _gaps(node)
    usual: cst.BaseParenthesizableWhitespace = (gaps[1:-1] or gaps[:1])[0]
    if isinstance(usual, cst.ParenthesizedWhitespace):
        usual = usual.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    else:
        usual = cst.SimpleWhitespace(" ")
    places = [_place(each, old) for each in arguments]
    laid_out: list[cst.Arg] = []
    for argument, left, right in zip(arguments, places, places[1:], strict=False):
        # the rest of the left argument's line, and the lines above the right one
        trailing = usual if left is None else gaps[left + 1]
        leading = usual if right is None else gaps[right]
        gap = usual if isinstance(leading, cst.SimpleWhitespace) else _joined(leading, trailing)
        comma = cst.Comma(whitespace_after=gap)
        laid_out.append(argument.with_changes(comma=comma, whitespace_after_arg=_NOTHING))
    last_comma: cst.Comma | cst.MaybeSentinel = cst.MaybeSentinel.DEFAULT
    closing: cst.BaseParenthesizableWhitespace = _NOTHING
    if old:
        closing = _joined(gaps[-1], None if places[-1] is None else gaps[places[-1] + 1])
        if isinstance(old[-1].comma, cst.Comma):
            last_comma, closing = old[-1].comma.with_changes(whitespace_after=closing), _NOTHING
    laid_out.append(arguments[-1].with_changes(comma=last_comma, whitespace_after_arg=closing))
    before = node.whitespace_before_args
    if isinstance(before, cst.ParenthesizedWhitespace) and places[0] is not None:
        before = _joined(gaps[places[0]], before)
    made = node.with_changes(args=laid_out, whitespace_before_args=before)
    return on_one_line(made) if len(arguments) <= 2 or len(arguments) != len(old) else made


def comments_of(node: cst.Call, removed: Sequence[cst.Arg]) -> list[str]:
    """Return the comments above and behind removed arguments, in order."""
    gaps = _gaps(node)
    found: list[str] = []
    for index, argument in enumerate(node.args):
        if argument in removed:
            above, behind = gaps[index], gaps[index + 1]
            if isinstance(above, cst.ParenthesizedWhitespace):
                found += [each.comment.value for each in above.empty_lines if each.comment]
            if isinstance(behind, cst.ParenthesizedWhitespace) and behind.first_line.comment:
                found.append(behind.first_line.comment.value)
    return found


def on_one_line(node: cst.Call) -> cst.Call:
    """Return a call on one line, if it is short and has no comments and no multi-line strings."""
    text = code(node)
    if "\n" not in text or "#" in text or '"""' in text or "'''" in text:
        return node
    text = re.sub(r",?\s*\n\s*([)\]}])", r"\1", text)
    text = re.sub(r"([(\[{])\s*\n\s*", r"\1", text)
    text = re.sub(r"\s*\n\s*", " ", text)
    made = cst.parse_expression(text) if len(text) <= _MAX_JOINED_LENGTH else node
    return made if isinstance(made, cst.Call) else node


def broken(node: cst.Call) -> cst.Call:
    """Return a call with one argument per line, if it is too long for one line."""
    if len(node.args) < 2 or len(code(node)) <= _MAX_LENGTH:
        return node
    inside = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    end = cst.ParenthesizedWhitespace(indent=True)
    arguments = [each.with_changes(comma=cst.Comma(whitespace_after=inside)) for each in node.args[:-1]]
    arguments.append(node.args[-1].with_changes(comma=cst.Comma(whitespace_after=end)))
    return node.with_changes(args=arguments, whitespace_before_args=inside)


def _keyword(argument: cst.Arg) -> str | None:
    return argument.keyword.value if argument.keyword else None


def _gaps(node: cst.Call) -> list[cst.BaseParenthesizableWhitespace]:
    """Return the whitespace before each argument, and after the last one; the gap after argument `i` is `i + 1`."""
    gaps = [node.whitespace_before_args]
    for each in node.args:
        comma = each.comma
        gaps.append(comma.whitespace_after if isinstance(comma, cst.Comma) else each.whitespace_after_arg)
    return gaps


def _joined(
    leading: cst.BaseParenthesizableWhitespace, trailing: cst.BaseParenthesizableWhitespace | None
) -> cst.BaseParenthesizableWhitespace:
    """Return a gap with the first line of one and the other lines of another."""
    if not isinstance(leading, cst.ParenthesizedWhitespace):
        return leading
    first = cst.TrailingWhitespace()
    if isinstance(trailing, cst.ParenthesizedWhitespace):
        first = trailing.first_line
    return leading.with_changes(first_line=first)


def _place(argument: cst.Arg, old: Sequence[cst.Arg]) -> int | None:
    """Return the previous position of an argument, by value or else by name."""
    for index, each in enumerate(old):
        if each.value is argument.value:
            return index
    for index, each in enumerate(old):
        if each.keyword and argument.keyword and each.keyword.value == argument.keyword.value:
            return index
    return None
