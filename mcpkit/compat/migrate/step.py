"""Base class of the steps of a rewriting: qualified names, marks, and removed statements."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence
from typing import ClassVar

import libcst as cst
from libcst.metadata import ProviderT, QualifiedNameProvider, QualifiedNameSource

from .blocks import lines_above, without
from .file import File

MARK = "# mcpkit: "
_WIDTH = 100
_OWN = re.compile(r"\.[^.]+\.<locals>\.self(?=\.|$)")

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement | cst.Decorator


class Step(cst.CSTTransformer):
    """A pass over a file.

    Args:
        file: Facts about the file.
    """

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (QualifiedNameProvider,)

    def __init__(self, file: File) -> None:
        super().__init__()
        self.file = file
        self._marks: list[list[str]] = []
        self._gone: list[cst.CSTNode] = []
        self._awaiting: list[bool] = []

    def whole_names(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names that an expression may have: imported or defined in the file."""
        found = self.get_metadata(QualifiedNameProvider, node, None)
        return set() if found is None else {_OWN.sub(".self", each.name) for each in found}

    def imported_names(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names that an expression may have by imports."""
        found = self.get_metadata(QualifiedNameProvider, node, None) or ()
        return {each.name for each in found if each.source is QualifiedNameSource.IMPORT}

    def is_server(self, node: cst.CSTNode) -> bool:
        """Return True if an expression is a server of version 1."""
        return not self.file.servers.isdisjoint(self.whole_names(node))

    def is_context(self, node: cst.CSTNode) -> bool:
        """Return True if an expression is the Context of a request."""
        return not self.file.contexts.isdisjoint(self.whole_names(node))

    def method_of_server(self, node: cst.BaseExpression) -> str | None:
        """Return `name` if an expression is `server.name`."""
        if isinstance(node, cst.Attribute) and self.is_server(node.value):
            return node.attr.value
        return None

    def mark(self, text: str) -> None:
        """Add a comment above the current statement about a change to make by hand."""
        marks = self._marks[-1] if self._marks else None
        if marks is not None and text not in marks:
            marks.append(text)

    @property
    def is_in_coroutine(self) -> bool:
        """True if the innermost function around the current node is `async`."""
        return bool(self._awaiting) and self._awaiting[-1]

    def drop(self, statement: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        """Remove a statement, but keep the comments above it."""
        gone = statement.with_changes(body=[cst.Pass()])
        self._gone.append(gone)
        return gone

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Enter a statement or a function."""
        if isinstance(node, Statement):
            self._marks.append([])
        if isinstance(node, cst.FunctionDef):
            self._awaiting.append(node.asynchronous is not None)
        elif isinstance(node, cst.Lambda):
            self._awaiting.append(False)
        return super().on_visit(node)

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Leave a statement with the marks above it, and a block without removed statements."""
        left = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.FunctionDef | cst.Lambda):
            self._awaiting.pop()
        marks = self._marks.pop() if isinstance(original_node, Statement) else []
        return self._finished(left, marks)  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # of its class

    def _finished(self, left: object, marks: Sequence[str]) -> object:
        if marks and not any(left is each for each in self._gone):
            if isinstance(left, Statement):
                return _marked(left, marks)
            if isinstance(left, cst.FlattenSentinel):
                return _marked_last(left, marks)  # pyright: ignore[reportUnknownArgumentType]  # of nodes
        if self._gone and isinstance(left, cst.IndentedBlock | cst.Module):
            return without(left, self._gone)
        return left


def _marked_last(
    nodes: cst.FlattenSentinel[cst.CSTNode], marks: Sequence[str]
) -> cst.FlattenSentinel[cst.CSTNode]:
    *first, last = nodes
    assert isinstance(last, Statement), "the last item is a statement"
    return cst.FlattenSentinel([*first, _marked(last, marks)])


def _marked(node: Statement, marks: Sequence[str]) -> Statement:
    before = [*lines_above(node)]
    said = "".join(each.comment.value.removeprefix("#") for each in before if each.comment)
    for text in marks:
        if " ".join(f"mcpkit: {text}".split()) in " ".join(said.split()):
            continue
        lines = textwrap.wrap(f"{MARK}{text}", _WIDTH, subsequent_indent="#   ", break_long_words=False)
        before += [cst.EmptyLine(comment=cst.Comment(line)) for line in lines]
    return node.with_changes(leading_lines=before)
