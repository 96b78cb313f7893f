"""Values that fit one JSON Schema and do not fit another one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ..protocol.jsonrpc import Json, is_array, is_object
from ..schema.json_schema import nodes
from .schema_subset import SchemaCheck, is_number, kinds_of, target_of

_MOST: Final = 4_000
"""Maximum number of values to try."""
_MOST_OF_A_PART: Final = 150
_DEEPEST: Final = 6

_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXTS: Final = (
    "", "a", "Ab-1", "0", "text of several words", "2024-02-29", "12:30:00Z", "2024-02-29T12:30:00Z", "P1D",
    "123e4567-e89b-12d3-a456-426614174000", "person@example.com", "example.com", "192.0.2.1", "2001:db8::1",
    "https://example.com/a", "YQ==", "ABC", "abc", "123",
)  # fmt: skip
"""Texts in common formats."""
_ANYTHING: Final[tuple[object, ...]] = ("a", 1, 1.5, True, None, [], {})


class Counterexample:
    """A value that fits one schema, and not another.

    Attributes:
        value: The value, of JSON.
    """

    def __init__(self, value: object) -> None:
        self.value = value


def counterexample(narrow: object, wide: object) -> Counterexample | None:
    """Return a value that certainly fits `narrow` and certainly does not fit `wide`; None if none was found.

    Values are generated for the first schema: at the bounds of both schemas and just beyond them, for each alternative,
    with and without each property. Each value is checked against both schemas.
    """
    narrow_check, wide_check = SchemaCheck(narrow), SchemaCheck(wide)
    for value in islice(_Values(narrow, wide).of(narrow, 0), _MOST):
        if wide_check.rejects(value) and narrow_check.accepts(value):
            return Counterexample(value)
    return None


class _Values:
    """Generates values for a schema.

    Args:
        root: The schema.
        other: Another schema, whose limits are used for values, too.
    """

    def __init__(self, root: object, other: object) -> None:
        self._root = root
        self._numbers: dict[float, None] = {}
        self._texts: dict[str, None] = {}
        self._counts: set[int] = set()
        for schema in (root, other):
            self._collect(schema)
        self._checks: dict[int, tuple[object, SchemaCheck]] = {}

    def of(self, schema: object, depth: int) -> Iterator[object]:
        """Yield values that a part of the schema may take; some do not fit."""
        if depth > _DEEPEST or schema is False:
            return
        if not is_object(schema):
            yield from _ANYTHING
            return
        if "$ref" in schema:
            target = target_of(schema["$ref"], self._root)
            if is_object(target):
                beside = {key: value for key, value in schema.items() if key != "$ref"}
                yield from self.of(_overlay(target, beside), depth + 1)
            return
        for key in ("enum", "examples"):
            if is_array(schema.get(key)):
                yield from schema[key]
        yield from (schema[key] for key in ("const", "default") if key in schema)
        within = [self.of(each, depth + 1) for each in self._alternatives(schema)]
        yield from _interleave([*within, *(self._of_kind(kind, schema, depth) for kind in kinds_of(schema))])

    def _alternatives(self, schema: Json) -> Iterator[Json]:
        if is_array(schema.get("allOf")):
            joined = {key: value for key, value in schema.items() if key != "allOf"}
            for each in schema["allOf"]:
                joined = _overlay(joined, self._resolve(each))
            yield joined
        for union in ("anyOf", "oneOf"):
            for each in schema[union] if is_array(schema.get(union)) else ():
                rest = {key: value for key, value in schema.items() if key != union}
                yield _overlay(rest, self._resolve(each))

    def _resolve(self, schema: object) -> Json:
        if is_object(schema) and "$ref" in schema:
            schema = target_of(schema["$ref"], self._root)
        return schema if is_object(schema) else {}

    def _of_kind(self, kind: str, schema: Json, depth: int) -> Iterator[object]:
        if kind == "null":
            yield None
        elif kind == "boolean":
            yield from (True, False)
        elif kind in ("integer", "number"):
            for number in (*self._numbers, 0, 1, -1, 7):
                for value in (number, number + 1, number - 1):
                    if kind == "number" or value == int(value):
                        yield int(value) if value == int(value) else value
                if kind == "number":
                    yield from (number + 0.5, number - 0.5, number + 0.01, number - 0.01)
        elif kind == "string":
            yield from _TEXTS
            yield from self._texts
            for count in sorted(self._counts):
                yield "a" * count
                yield from (text[:1] * count for text in self._texts if text[:1] not in ("", "a"))
        elif kind == "array":
            yield from self._of_arrays(schema, depth)
        elif kind == "object":
            yield from self._of_objects(schema, depth)

    def _of_arrays(self, schema: Json, depth: int) -> Iterator[object]:
        first: object = schema.get("prefixItems")
        items: object = schema.get("items", True)
        begin: list[object] = []
        for each in first if is_array(first) else ():
            begin.append(self._fitting(each, depth))
        if is_array(items):
            return
        for index, each in enumerate(first if is_array(first) else ()):
            for value in islice(self.of(each, depth + 1), _MOST_OF_A_PART):
                yield [*begin[:index], value, *begin[index + 1 :]]
        yield begin
        values = list(islice(self.of(items, depth + 1), _MOST_OF_A_PART))
        base = self._fitting(items, depth)
        fewest = schema.get("minItems", 0)
        filling = [base] * min(max(0, fewest - len(begin) - 1), 50) if isinstance(fewest, int) else []
        for value in values:
            yield [*begin, *filling, value]
        yield [*begin, *filling, base, base]
        fitting = [value for value in values if self._fits(items, value)]
        for count in sorted({1, 2, 3, len(begin) + 1} | self._counts):
            if count <= 60:
                yield [*begin, *([base] * (count - len(begin)))]
                yield [*begin, *fitting[: max(0, count - len(begin))]]

    def _of_objects(self, schema: Json, depth: int) -> Iterator[object]:
        properties: Json = schema["properties"] if is_object(schema.get("properties")) else {}
        names: list[object] = schema["required"] if is_array(schema.get("required")) else []
        required = [name for name in names if isinstance(name, str)]  # a malformed schema may have others
        rest: object = schema.get("additionalProperties", True)
        whole = {name: self._fitting(inner, depth) for name, inner in properties.items()}
        for name in required:
            if name not in whole:
                whole[name] = self._fitting(rest, depth)
        least = {name: whole[name] for name in required}
        yield least
        yield whole
        for name, each in whole.items():
            yield {key: value for key, value in whole.items() if key != name}
            yield {**least, name: each}
        for others in (least, whole):
            yield from _interleave(
                [
                    _with_member(others, name, islice(self.of(inner, depth + 1), _MOST_OF_A_PART))
                    for name, inner in properties.items()
                ]
            )
        for name in ("further", *self._texts):
            for value in islice(self.of(rest, depth + 1), 12 if name == "further" else 3):
                yield {**least, name: value}
        for count in sorted(self._counts):
            if count <= 60:
                yield {**least, **{f"further{number}": self._fitting(rest, depth) for number in range(count)}}

    def _fitting(self, schema: object, depth: int) -> object:
        """Return a value that fits a part, if one is found."""
        first: list[object] = []
        for value in islice(self.of(schema, depth + 1), _MOST_OF_A_PART):
            if self._fits(schema, value):
                return value
            first = first or [value]
        return first[0] if first else None

    def _fits(self, schema: object, value: object) -> bool:
        known = self._checks.get(id(schema))
        if known is None or known[0] is not schema:
            known = self._checks[id(schema)] = (schema, SchemaCheck(schema, self._root))
        return known[1].accepts(value)

    def _collect(self, schema: object) -> None:
        """Collect numbers, strings and sizes that occur in a schema."""
        for part in nodes(schema):
            for key, value in part.items():
                if key in _BOUNDS and is_number(value):
                    self._numbers |= {value: None}
                elif key.startswith(("min", "max")) and isinstance(value, int) and 0 <= value <= 5_000:
                    self._counts |= {value, value + 1, max(0, value - 1)}
                elif key in ("enum", "const", "default", "examples"):
                    self._collect_values(value if is_array(value) else [value])
                elif key == "properties" and is_object(value):
                    self._texts |= dict.fromkeys(value)

    def _collect_values(self, values: list[object]) -> None:
        for value in values:
            if isinstance(value, str):
                self._texts[value] = None
            elif is_number(value) and isinstance(value, (int, float)):
                self._numbers[value] = None


def _interleave(values: list[Iterator[object]]) -> Iterator[object]:
    """Yield values of all iterators in turn."""
    while values:
        going: list[Iterator[object]] = []
        for each in values:
            for value in islice(each, 1):
                yield value
                going.append(each)
        values = going


def _with_member(members: Json, name: str, values: Iterator[object]) -> Iterator[object]:
    return ({**members, name: value} for value in values)


def _overlay(schema: Json, more: Json) -> Json:
    """Return a schema merged with another one: the properties and `required` of both."""
    joined: Json = {**schema, **more}
    if is_object(schema.get("properties")) and is_object(more.get("properties")):
        joined["properties"] = {**schema["properties"], **more["properties"]}
    if is_array(schema.get("required")) and is_array(more.get("required")):
        joined["required"] = [*schema["required"], *more["required"]]
    return joined
