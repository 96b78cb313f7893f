"""Changes to the text of TOML, which leave all else as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ...protocol.jsonrpc import Json, is_object
from .lines import newline_of, without_remarks_after


def read(text: str) -> object:
    """Read it.

    Raises:
        ValueError: It is no TOML; the message says in which line and column.
    """
    try:
        return tomlkit.parse(text).unwrap()
    except TOMLKitError as error:
        raise ValueError(str(error)) from error


def with_entry(text: str, keys: Sequence[str], name: str, entry: Json) -> str:
    """Return the text with a table of its own for an entry, the last one or in the place of one of that name.

    Args:
        text: TOML that can be read.
        keys: The keys that lead to the table of all entries.
        name: The name of the entry.
        entry: The entry.
    """
    newline = newline_of(text)
    content: Json = {name: entry}
    for key in reversed(keys):
        content = {key: content}
    block = tomlkit.dumps(content).rstrip("\n").replace("\n", newline) + newline
    lines = text.splitlines(keepends=True)
    blocks = list(_blocks(lines, (*keys, name)))
    if not blocks:
        end = newline if lines and not text.endswith("\n") else ""
        return text + end + (newline if lines else "") + block
    start = blocks[0][0]
    kept = without_entry(text, keys, name).splitlines(keepends=True)
    following = kept[start:]
    gap = newline if following and following[0].strip() else ""
    return "".join(kept[:start]) + block + gap + "".join(following)


def without_entry(text: str, keys: Sequence[str], name: str) -> str:
    """Return the text without the tables of an entry; comments before the next table stay."""
    lines = text.splitlines(keepends=True)
    for start, end in reversed(list(_blocks(lines, (*keys, name)))):
        has_gap = start > 0 and not lines[start - 1].strip()
        del lines[start - (has_gap and not "".join(lines[end : end + 1]).strip()) : end]
    return "".join(lines)


def _blocks(lines: Sequence[str], path: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first line of each run of tables that a path has, and the line after its last."""
    headers = [(index, _header(line)) for index, line in enumerate(lines)]
    tables = [(index, header) for index, header in headers if header is not None]
    start: int | None = None
    for index, header in [*tables, (len(lines), ())]:
        is_own = tuple(header[: len(path)]) == tuple(path)
        if is_own and start is None:
            start = index
        elif not is_own and start is not None:
            yield start, without_remarks_after(lines, start, index)
            start = None


def _header(line: str) -> Sequence[str] | None:
    """Return the keys of the table that a line begins; None for other lines."""
    if not line.lstrip().startswith("["):
        return None
    try:
        content: object = tomlkit.parse(line).unwrap()
    except TOMLKitError:
        return None
    keys: list[str] = []
    while is_object(content) and content:
        [(key, content)] = content.items()
        keys.append(key)
    return keys
