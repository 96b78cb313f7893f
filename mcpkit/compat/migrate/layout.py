"""Layout of a call's arguments after some were removed, added or moved."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from .nodes import code

_LINE = 78
_LONG = 84
_NOTHING = cst.SimpleWhitespace("")


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
    if len(arguments) == len(old) and all(_is_same(*pair) for pair in zip(arguments, old, strict=True)):
        return node
    gaps = [node.whitespace_before_args, *(_after(each) for each in old)]
    usual = _usual(gaps)
    places = [_place(each, old) for each in arguments]
    separated: list[cst.Arg] = []
    for index, argument in enumerate(arguments[:-1]):
        gap = _joined(gaps, places[index], places[index + 1], usual)
        separated.append(
            argument.with_changes(comma=cst.Comma(whitespace_after=gap), whitespace_after_arg=_NOTHING)
        )
    before = node.whitespace_before_args
    if isinstance(before, cst.ParenthesizedWhitespace) and places[0] is not None:
        before = _gap(gaps[places[0]], before)
    separated.append(_last(arguments[-1], old, places[-1], gaps))
    made = node.with_changes(args=separated, whitespace_before_args=before)
    return on_one_line(made) if len(arguments) <= 2 or len(arguments) != len(old) else made


def comments_of(node: cst.Call, gone: Sequence[cst.Arg]) -> list[str]:
    """Return the comments above and behind removed arguments, in order."""
    gaps = [node.whitespace_before_args, *(_after(each) for each in node.args)]
    found: list[str] = []
    for index, argument in enumerate(node.args):
        if any(argument is each for each in gone):
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
    if len(text) > _LINE:
        return node
    made = cst.parse_expression(text)
    return made if isinstance(made, cst.Call) else node


def broken(node: cst.Call) -> cst.Call:
    """Return a call with one argument per line, if it is too long for one line."""
    if len(node.args) < 2 or len(code(node)) <= _LONG:
        return node
    inside = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
    commas = [cst.Comma(whitespace_after=inside)] * (len(node.args) - 1)
    commas.append(cst.Comma(whitespace_after=cst.ParenthesizedWhitespace(indent=True)))
    arguments = [each.with_changes(comma=comma) for each, comma in zip(node.args, commas, strict=True)]
    return node.with_changes(args=arguments, whitespace_before_args=inside)


def _is_same(one: cst.Arg, other: cst.Arg) -> bool:
    return one.value is other.value and (one.keyword and one.keyword.value) == (
        other.keyword and other.keyword.value
    )


def _after(argument: cst.Arg) -> cst.BaseParenthesizableWhitespace:
    if isinstance(argument.comma, cst.Comma):
        return argument.comma.whitespace_after
    return argument.whitespace_after_arg


def _place(argument: cst.Arg, old: Sequence[cst.Arg]) -> int | None:
    for index, each in enumerate(old):
        if each.value is argument.value:
            return index
    for index, each in enumerate(old):
        both = each.keyword, argument.keyword
        if both[0] is not None and both[1] is not None and both[0].value == both[1].value:
            return index
    return None


def _usual(gaps: Sequence[cst.BaseParenthesizableWhitespace]) -> cst.BaseParenthesizableWhitespace:
    between = gaps[1:-1] or gaps[:1]
    first = between[0]
    if isinstance(first, cst.ParenthesizedWhitespace):
        return first.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    return cst.SimpleWhitespace(" ")


def _joined(
    gaps: Sequence[cst.BaseParenthesizableWhitespace],
    left: int | None,
    right: int | None,
    usual: cst.BaseParenthesizableWhitespace,
) -> cst.BaseParenthesizableWhitespace:
    """Return the whitespace and comments between two arguments: the rest of the left line and the lines above."""
    trailing = gaps[left + 1] if left is not None else usual
    leading = gaps[right] if right is not None else usual
    if isinstance(leading, cst.SimpleWhitespace):
        return usual
    return _gap(leading, trailing)


def _gap(
    leading: cst.BaseParenthesizableWhitespace, trailing: cst.BaseParenthesizableWhitespace | None
) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(leading, cst.ParenthesizedWhitespace):
        return leading
    first = (
        trailing.first_line if isinstance(trailing, cst.ParenthesizedWhitespace) else cst.TrailingWhitespace()
    )
    return leading.with_changes(first_line=first)


def _last(
    argument: cst.Arg,
    old: Sequence[cst.Arg],
    place: int | None,
    gaps: Sequence[cst.BaseParenthesizableWhitespace],
) -> cst.Arg:
    if not old:
        return argument.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=_NOTHING)
    closing = _gap(gaps[-1], gaps[place + 1] if place is not None else None)
    comma = old[-1].comma
    if isinstance(comma, cst.Comma):
        return argument.with_changes(
            comma=comma.with_changes(whitespace_after=closing), whitespace_after_arg=_NOTHING
        )
    return argument.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=closing)
