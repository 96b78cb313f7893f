"""Removal of statements from blocks, without the comments above them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

Block = cst.IndentedBlock | cst.Module


def lines_above(node: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    """Return the blank lines and comments above a statement."""
    lines: Sequence[cst.EmptyLine] = getattr(node, "leading_lines", ())
    return lines


def without(block: Block, gone: Collection[cst.CSTNode]) -> Block:
    """Return a block without some of its statements, or with `pass` if none is left.

    Comments above a removed statement move to the next one, and the number of blank lines stays.

    Args:
        block: The block.
        gone: The removed statements, compared by identity.
    """
    kept: list[cst.CSTNode] = []
    above: list[cst.EmptyLine] = []
    for statement in block.body:
        if any(statement is each for each in gone):
            lines = lines_above(statement)
            above += lines if any(each.comment for each in lines) or not above else ()
            continue
        own = [*lines_above(statement)]
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
