"""Edits of the configuration files of hosts: JSON with comments, TOML and YAML.

An edit replaces the text of one entry; libraries find its place and write its value. They do not write the whole file,
since none of them keeps the rest byte for byte: ruamel.yaml 0.19 writes `a:   1`, `[1,2]` and indented sequences anew,
tomlkit 0.15 has the comments above a table as part of the table before it, and json-five 1.1 rejects U+2028 in strings
and needs 1.6 seconds for a MB, which `~/.claude.json` exceeds.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Final, NamedTuple

from ..._utils.package import missing_package
from ...client.targets.host_configuration import parse_jsonc, plain_json, without_comments
from ...protocol.jsonrpc import Json, is_object
from ..exit_status import CommandError
from .host_table import ConfigFile

_BOM: Final = "\ufeff"


class ConfigDocument(ABC):
    """The content of a configuration file.

    Args:
        file: The file.
        data: Its bytes.

    Attributes:
        entries: The entries of servers by name.

    Raises:
        CommandError: The content is invalid; the message has the position.
    """

    def __init__(self, file: ConfigFile, data: bytes) -> None:
        self._file = file
        self._keys = file.keys
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise CommandError(f"{file.path} is not UTF-8: {error}. Save it as UTF-8") from error
        self._bom = _BOM if text.startswith(_BOM) else ""
        self._text = text.removeprefix(_BOM)
        self._content = self._read(self._text)
        self.entries = self._entries_of(self._content)

    def with_entry(self, name: str, entry: Json) -> bytes:
        """Return the file with an entry, which replaces one with the same name."""
        return self._check(self._add(name, entry), {**self.entries, name: entry}, f"Add {name}")

    def without_entry(self, name: str) -> bytes:
        """Return the file without an entry."""
        rest = {each: entry for each, entry in self.entries.items() if each != name}
        return self._check(self._remove(name), rest, f"Remove {name}")

    @abstractmethod
    def _parse(self, text: str) -> object:
        """Parse a text; an empty one is an empty object.

        Raises:
            ValueError: The text is invalid; the message has line and column.
        """

    @abstractmethod
    def _add(self, name: str, entry: Json) -> str:
        """Return the text with an entry, which replaces one with the same name."""

    @abstractmethod
    def _remove(self, name: str) -> str:
        """Return the text without an entry that it has; comments around it stay."""

    def _check(self, text: str, entries: Mapping[str, object], instruction: str) -> bytes:
        """Return the bytes of an edited text; raise if anything but the entry has changed."""
        try:
            content = self._read(text)
        except CommandError:
            content = {}
        if self._entries_of(content) != entries or self._others(content) != self._others(self._content):
            raise CommandError(
                f"cannot edit {self._file.path} without changing other parts of it. "
                f"{instruction} by hand (mcpkit install --print shows the entry)"
            )
        return (self._bom + text).encode()

    def _read(self, text: str) -> Json:
        try:
            content = self._parse(text)
        except ValueError as error:
            raise CommandError(f"{self._file.path} is not valid {self._file.host.format}: {error}") from error
        if not is_object(content):
            raise CommandError(f"{self._file.path} is not a configuration: its top level must be an object")
        return content

    def _entries_of(self, content: Json) -> Json:
        for key in self._keys:
            inner = content.get(key)
            if key not in content or (inner is None and self._file.host.format == "YAML"):
                return {}
            if not is_object(inner):
                raise CommandError(f"{self._file.path}: {key} must be an object with the servers by name")
            content = inner
        return content

    def _others(self, content: object) -> list[Json]:
        """Return everything in a file but its entries."""
        others: list[Json] = []
        for key in self._keys:
            level = content if is_object(content) else {}
            others.append({each: value for each, value in level.items() if each != key})
            content = level.get(key)
        return others


def read_document(file: ConfigFile, data: bytes) -> ConfigDocument:
    """Parse the content of a configuration file.

    Raises:
        CommandError: The content is invalid, or the parser of its format is not installed.
    """
    documents: Mapping[str, Callable[[ConfigFile, bytes], ConfigDocument]]
    documents = {"JSON": _JsonDocument, "TOML": _TomlDocument, "YAML": _YamlDocument}
    try:
        return documents[file.host.format](file, data)
    except ModuleNotFoundError as error:
        raise CommandError(
            missing_package(f"reading {file.host.format}", f"the package {error.name}", "cli")
        ) from None


def entries_in(file: ConfigFile) -> Json:
    """Return the entries of a file by name; none if the file does not exist.

    Raises:
        CommandError: The content is invalid; the message has the position.
    """
    return read_document(file, file.path.read_bytes()).entries if file.path.is_file() else {}


# Lines


def _newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _indentation(text: str, at: int) -> str:
    line = text[_line_start(text, at) :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _is_first_in_line(text: str, at: int) -> bool:
    return not text[_line_start(text, at) : at].strip()


def _end_of_content(lines: Sequence[str], start: int, end: int, *, column: int = 0) -> int:
    """Return the end of a block of lines without the empty lines and `#` comments at its end.

    Args:
        lines: The lines of the text.
        start: The first line of the block.
        end: The line after the block.
        column: Comments with at least this indentation belong to the block; 0 for none.
    """
    while end > start + 1:
        line = lines[end - 1]
        is_comment = line.lstrip().startswith("#")
        if line.strip() and (not is_comment or (column and len(line) - len(line.lstrip()) >= column)):
            break
        end -= 1
    return end


# JSON with comments


class _JsonDocument(ConfigDocument):
    """A file in JSON with comments and trailing commas."""

    def _parse(self, text: str) -> object:
        return parse_jsonc(text) if without_comments(text).strip() else {}

    def _add(self, name: str, entry: Json) -> str:
        is_empty = not without_comments(self._text).strip()
        source = _JsonSource(self._text + "{}" + _newline_of(self._text) if is_empty else self._text)
        brace, missing = source.object_at(self._keys)
        if not missing:
            for member in reversed(source.members(brace)[0]):
                if member.key == name:
                    return source.replace(member, entry)
        value: object = entry
        for key in reversed([*missing, name][1:]):
            value = {key: value}
        return source.insert(brace, [*missing, name][0], value)

    def _remove(self, name: str) -> str:
        source = _JsonSource(self._text)
        return source.remove(source.object_at(self._keys)[0], name)


class _Member(NamedTuple):
    """A member of an object, with the positions of its key, of its value, and after its value."""

    key: str
    start: int
    value: int
    end: int


_COMMENTS_IN_LINE: Final = re.compile(r"(?:[ \t]*/\*.*?\*/)*(?:[ \t]*(//)[^\r\n]*)?", re.DOTALL)
"""Comments between a position and the end of its line."""


class _JsonSource:
    """The text of JSON with comments, and the positions in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._with_commas = without_comments(text)
        self._plain = plain_json(text)
        self._newline = _newline_of(text)
        members, _ = self.members(self._after_blanks(0))
        first = next((each.start for each in members if _is_first_in_line(text, each.start)), None)
        self._unit = "  " if first is None else _indentation(text, first)
        self._is_multiline = not members or first is not None

    def object_at(self, keys: Sequence[str]) -> tuple[int, Sequence[str]]:
        """Return the position of the innermost object at a path of keys, and the keys that are missing in it."""
        brace = self._after_blanks(0)
        for index, key in enumerate(keys):
            values = [member.value for member in self.members(brace)[0] if member.key == key]
            if not values:
                return brace, keys[index:]
            brace = values[-1]
        return brace, ()

    def members(self, brace: int) -> tuple[list[_Member], int]:
        """Return the members of the object at a position, and the position of its closing brace."""
        decoder = json.JSONDecoder()
        members: list[_Member] = []
        at = self._after_blanks(brace + 1)
        while self._plain[at] != "}":
            key, end = decoder.raw_decode(self._plain, at)
            value = self._after_blanks(self._after_blanks(end) + 1)
            _, end = decoder.raw_decode(self._plain, value)
            members.append(_Member(str(key), at, value, end))
            at = self._after_blanks(end)
            if self._plain[at] == ",":
                at = self._after_blanks(at + 1)
        return members, at

    def insert(self, brace: int, key: str, value: object) -> str:
        """Return the text with one more member at the beginning of an object, so that no other line changes."""
        text = self._text
        members, close = self.members(brace)
        comments = _COMMENTS_IN_LINE.match(text, brace + 1, close)
        assert comments is not None, "the pattern matches the empty text"
        at, indent = comments.end(), None
        if members and _is_first_in_line(text, members[0].start):
            indent = _indentation(text, members[0].start)
        elif comments[1] or (not members and self._is_multiline):
            indent = _indentation(text, brace) + self._unit
        before, after = text[:at], text[at:]
        if indent is None:
            before += " " if comments[0] else ""
            after = (" " if members else "") + after.lstrip(" ")
        else:
            before += self._newline + indent
            if not members and "\n" not in text[at:close]:
                after = self._newline + _indentation(text, brace) + text[close:]
        member = f"{json.dumps(key, ensure_ascii=False)}: {self._dumps(value, indent)}"
        return before + member + ("," if members else "") + after

    def replace(self, member: _Member, value: object) -> str:
        """Return the text with another value of a member."""
        text = self._text
        indent = _indentation(text, member.start) if _is_first_in_line(text, member.start) else None
        return text[: member.value] + self._dumps(value, indent) + text[member.end :]

    def remove(self, brace: int, name: str) -> str:
        """Return the text without a member of an object and one comma next to it."""
        members, close = self.members(brace)
        index = max(index for index, member in enumerate(members) if member.key == name)
        start, end = members[index].start, members[index].end
        next_start = members[index + 1].start if index + 1 < len(members) else close
        text, at = self._text, start
        comma = self._with_commas.find(",", end, next_start)
        if comma >= 0:
            text = text[:start] + text[end:comma] + text[comma + 1 :]
        elif index > 0:  # the last member without a comma after it
            comma = self._with_commas.find(",", members[index - 1].end, start)
            text, at = text[:comma] + text[comma + 1 : start] + text[end:], start - 1
        else:
            text = text[:start] + text[end:]
        next_line = _next_line(text, at)
        rest = text[at:next_line]
        if _is_first_in_line(self._text, start) and not rest.strip() and rest.endswith("\n"):
            text = text[: _line_start(text, at)] + text[next_line:]
        else:
            rest = text[at:].lstrip(" \t")
            text = (text[:at].rstrip(" \t") if rest.startswith("}") else text[:at]) + rest
        close -= len(self._text) - len(text)
        is_empty = len(members) == 1 and not text[brace + 1 : close].strip()
        return text[: brace + 1] + text[close:] if is_empty else text

    def _dumps(self, value: object, indent: str | None) -> str:
        """Return JSON in one line if there is no indentation, else in lines."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit).split("\n")
        return (self._newline + indent).join(lines)

    def _after_blanks(self, at: int) -> int:
        while at < len(self._plain) and self._plain[at] in " \t\r\n":
            at += 1
        return at


# TOML


class _TomlDocument(ConfigDocument):
    """A file in TOML; each entry is a table, which may have tables below it."""

    def _parse(self, text: str) -> object:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(text).unwrap()
        except TOMLKitError as error:
            raise ValueError(str(error)) from error

    def _add(self, name: str, entry: Json) -> str:
        import tomlkit

        text, newline = self._text, _newline_of(self._text)
        content: Json = {name: entry}
        for key in reversed(self._keys):
            content = {key: content}
        block = tomlkit.dumps(content).rstrip("\n").replace("\n", newline) + newline
        start = next((start for start, _ in self._blocks(name)), None)
        if start is None:
            end = newline if text and not text.endswith("\n") else ""
            return text + end + (newline if text else "") + block
        lines = self._remove(name).splitlines(keepends=True)
        gap = newline if "".join(lines[start : start + 1]).strip() else ""
        return "".join([*lines[:start], block, gap, *lines[start:]])

    def _remove(self, name: str) -> str:
        lines = self._text.splitlines(keepends=True)
        for start, end in reversed(list(self._blocks(name))):
            has_gap = start > 0 and not lines[start - 1].strip()
            is_before_gap = not "".join(lines[end : end + 1]).strip()
            del lines[start - (has_gap and is_before_gap) : end]
        return "".join(lines)

    def _blocks(self, name: str) -> Iterator[tuple[int, int]]:
        """Yield the first line and the line after the last of each run of tables of an entry."""
        path = [*self._keys, name]
        lines = self._text.splitlines(keepends=True)
        start: int | None = None
        for index, line in enumerate([*lines, "[]"]):
            keys = [] if index == len(lines) else _keys_of_table(line)
            if keys is None:
                continue
            is_own = keys[: len(path)] == path
            if is_own and start is None:
                start = index
            elif not is_own and start is not None:
                yield start, _end_of_content(lines, start, index)
                start = None


def _keys_of_table(line: str) -> list[str] | None:
    """Return the keys of the table that a line begins; None for other lines."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

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


# YAML


class _YamlDocument(ConfigDocument):
    """A file in YAML 1.2; the entries are in one mapping at the top level."""

    def _parse(self, text: str) -> object:
        from ruamel.yaml.error import MarkedYAMLError

        try:
            content = _yaml("safe").load(text)
        except MarkedYAMLError as error:
            problem: Any = error
            mark = problem.problem_mark or problem.context_mark
            place = "" if mark is None else f": line {mark.line + 1} column {mark.column + 1}"
            raise ValueError(f"{problem.problem or problem.context}{place}") from error
        return {} if content is None else content

    def _add(self, name: str, entry: Json) -> str:
        [key] = self._keys
        text, newline = self._text, _newline_of(self._text)
        key_node, mapping = self._mapping()
        if key_node is None:
            end = newline if text and not text.endswith("\n") else ""
            return text + end + _yaml_block({key: {name: entry}}, 0, newline)
        if mapping is None or mapping.flow_style:  # such as {}, or nothing is written after the key
            at = _next_line(text, (key_node if mapping is None else mapping).end_mark.index)
            head = text[:at]
            if mapping is not None:
                head = text[: mapping.start_mark.index].rstrip(" ") + text[mapping.end_mark.index : at]
            return (
                head.rstrip("\r\n")
                + newline
                + _yaml_block({**self.entries, name: entry}, 2, newline)
                + text[at:]
            )
        lines = text.splitlines(keepends=True)
        first, last = _lines_of_entry(lines, mapping, name)
        if first == last and not lines[last - 1].endswith("\n"):
            lines[last - 1] += newline
        lines[first:last] = [_yaml_block({name: entry}, mapping.start_mark.column, newline)]
        return "".join(lines)

    def _remove(self, name: str) -> str:
        _, mapping = self._mapping()
        assert mapping is not None, "the entry has been read from it"
        lines = self._text.splitlines(keepends=True)
        first, last = _lines_of_entry(lines, mapping, name)
        is_only = len(mapping.value) == 1 and not mapping.flow_style
        empty = " " * mapping.start_mark.column + "{}" + _newline_of(self._text)
        lines[first:last] = [empty] if is_only else []
        return "".join(lines)

    def _mapping(self) -> tuple[Any, Any]:
        """Return the nodes of the key and of the mapping with the entries; None for each that there is not."""
        [key] = self._keys
        root = _yaml("rt").compose(StringIO(self._text))
        if root is not None and root.id == "mapping":
            for key_node, value in reversed(root.value):
                if key_node.value == key:
                    return key_node, value if value.id == "mapping" else None
        return None, None


def _yaml(kind: str) -> Any:  # the library has no types for nodes
    from ruamel.yaml import YAML

    return YAML(typ=kind, pure=True)


def _yaml_block(content: Json, column: int, newline: str) -> str:
    stream = StringIO()
    yaml = _yaml("rt")
    yaml.default_flow_style = False
    yaml.width = 10_000
    yaml.dump(content, stream)
    return "".join(f"{' ' * column}{line}{newline}" for line in stream.getvalue().splitlines())


def _lines_of_entry(lines: Sequence[str], mapping: Any, name: str) -> tuple[int, int]:
    """Return the first line of an entry and the line after its last; if it is missing, both are its future line."""
    column = mapping.start_mark.column
    starts = [(str(key.value), key.start_mark.line) for key, _ in mapping.value]
    end = len(lines)
    for index in range(starts[-1][1] + 1, len(lines)):
        line = lines[index]
        if line.strip() and not line.lstrip().startswith("#") and len(line) - len(line.lstrip(" ")) < column:
            end = index
            break
    for (key, start), (_, stop) in zip(starts, [*starts[1:], ("", end)], strict=True):
        if key == name:
            return start, _end_of_content(lines, start, stop)
    last = _end_of_content(lines, starts[-1][1], end, column=column)
    return last, last
