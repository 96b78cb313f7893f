"""Changes to the text of YAML, which leave all else as it is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from typing import Protocol, TypeGuard

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from ...protocol.jsonrpc import Json
from .lines import line_after, newline_of, without_remarks_after


class _Mark(Protocol):
    """A place in a text."""

    index: int
    line: int
    column: int


class _Node(Protocol):
    """A key or a value, as it is written."""

    id: str
    value: object
    start_mark: _Mark
    end_mark: _Mark


class _Mapping(Protocol):
    """A mapping, as it is written."""

    value: Sequence[tuple[_Node, _Node]]
    flow_style: bool | None
    start_mark: _Mark
    end_mark: _Mark


class _Problem(Protocol):
    """What is wrong with a text, and where."""

    problem: str | None
    context: str | None
    problem_mark: _Mark | None
    context_mark: _Mark | None


class _Yaml(Protocol):
    """What of the library is used, which has no types for it."""

    default_flow_style: bool | None
    width: int | None

    def load(self, stream: str) -> object: ...

    def compose(self, stream: StringIO) -> _Node | None: ...

    def dump(self, data: object, stream: StringIO) -> None: ...


def read(text: str) -> object:
    """Read it, as YAML 1.2; a text without a value is an empty object.

    Raises:
        ValueError: It is no YAML; the message says in which line and column.
    """
    try:
        content = _yaml("safe").load(text)
    except MarkedYAMLError as error:
        wrong = _problem(error)
        mark = wrong.problem_mark or wrong.context_mark
        where = "" if mark is None else f": line {mark.line + 1} column {mark.column + 1}"
        raise ValueError(f"{wrong.problem or wrong.context}{where}") from error
    return {} if content is None else content


def with_entry(text: str, keys: Sequence[str], name: str, entry: Json) -> str:
    """Return the text with an entry in one of its mappings, in the place of one of that name if there is one.

    Args:
        text: YAML that can be read.
        keys: The key that leads to the mapping of all entries.
        name: The name of the entry.
        entry: The entry.
    """
    [key] = keys
    newline = newline_of(text)
    pair = _pair(_composed(text), key)
    if pair is None:
        end = newline if text and not text.endswith("\n") else ""
        return text + end + _block({key: {name: entry}}, 0, newline)
    written, holder = pair
    if not _is_mapping(holder):  # nothing at all is written after the key
        at = line_after(text, written.end_mark.index)
        end = "" if text[:at].endswith("\n") else newline
        return text[:at] + end + _block({name: entry}, 2, newline) + text[at:]
    start, stop = holder.start_mark.index, holder.end_mark.index
    if holder.flow_style:
        inner = text[start + 1 : stop - 1].strip().rstrip(",")
        if inner:
            added = json.dumps({name: entry}, ensure_ascii=False)[1:-1]
            return f"{text[:start]}{{{inner}, {added}}}{text[stop:]}"
        rest = text[stop : line_after(text, stop)].strip()
        at = line_after(text, stop)
        remark = f" {rest}" if rest else ""
        return text[:start].rstrip(" ") + remark + newline + _block({name: entry}, 2, newline) + text[at:]
    column = holder.start_mark.column
    lines = text.splitlines(keepends=True)
    first, last = _lines_of(text, holder, name)
    if first < last:
        lines[first:last] = [_block({name: entry}, column, newline)]
        return "".join(lines)
    if not lines[last - 1].endswith("\n"):
        lines[last - 1] += newline
    lines.insert(last, _block({name: entry}, column, newline))
    return "".join(lines)


def without_entry(text: str, keys: Sequence[str], name: str) -> str:
    """Return the text without an entry that it has; comments beside it stay."""
    [key] = keys
    pair = _pair(_composed(text), key)
    holder = None if pair is None else pair[1]
    assert holder is not None
    assert _is_mapping(holder), "the entry has been read from it"
    lines = text.splitlines(keepends=True)
    first, last = _lines_of(text, holder, name)
    if len(holder.value) == 1 and not holder.flow_style:
        lines[first:last] = [" " * holder.start_mark.column + "{}" + newline_of(text)]
    else:
        del lines[first:last]
    return "".join(lines)


def _lines_of(text: str, holder: _Mapping, name: str) -> tuple[int, int]:
    """Return the first line of an entry, and the line after its last; twice the same, where it would be, if none is."""
    column = holder.start_mark.column
    lines = text.splitlines(keepends=True)
    starts = [(str(key.value), key.start_mark.line) for key, _ in holder.value]
    end = len(lines)
    for index in range(starts[-1][1] + 1, len(lines)):
        line = lines[index]
        if line.strip() and not line.lstrip().startswith("#") and len(line) - len(line.lstrip(" ")) < column:
            end = index
            break
    for (key, start), (_, stop) in zip(starts, [*starts[1:], ("", end)], strict=True):
        if key == name:
            return start, without_remarks_after(lines, start, stop)
    last = without_remarks_after(lines, starts[-1][1], end, column=column)
    return last, last


def _composed(text: str) -> _Mapping | None:
    node = _yaml("rt").compose(StringIO(text))
    return node if node is not None and _is_mapping(node) else None


def _yaml(kind: str) -> _Yaml:
    return YAML(typ=kind, pure=True)


def _problem(error: MarkedYAMLError) -> _Problem:
    return error


def _is_mapping(node: _Node) -> TypeGuard[_Mapping]:
    return node.id == "mapping"


def _pair(mapping: _Mapping | None, key: str) -> tuple[_Node, _Node] | None:
    """Return the key and the value of an entry of a mapping; None where there is none."""
    pairs = () if mapping is None else mapping.value
    return next((pair for pair in reversed(pairs) if pair[0].value == key), None)


def _block(content: Json, column: int, newline: str) -> str:
    written = StringIO()
    yaml = _yaml("rt")
    yaml.default_flow_style = False
    yaml.width = 10_000
    yaml.dump(content, written)
    lines = written.getvalue().splitlines()
    return "".join(f"{' ' * column}{line}{newline}" for line in lines)
