"""Effect of a changed JSON Schema on clients, with a value that fits one schema and not the other as its proof."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from ..protocol.jsonrpc import Json, is_array, is_object, object_at
from ..schema.json_schema import nodes, replaced, subschemas
from .schema_subset import Obstacle, SchemaCheck, is_number, kinds_of, obstacles, target_of


class Effect(str, Enum):
    """The effect of a change on clients."""

    BREAKING = "breaking"
    UNKNOWN = "unknown"
    COMPATIBLE = "compatible"


class Counterexample(NamedTuple):
    """A value that fits one schema, and not another; JSON's null, too, is one."""

    value: object


_IN_PLACE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
"""Keywords that apply further schemas to the same value."""


class Verdict(NamedTuple):
    """The effect of a changed schema.

    Attributes:
        effect: The effect. `BREAKING` has an example, `COMPATIBLE` has no obstacles.
        obstacles: The obstacles to compatibility.
        example: A value that fits one schema and not the other; None if there is none, or none was found.
    """

    effect: Effect
    obstacles: list[Obstacle]
    example: Counterexample | None


def compare_input_schemas(old: object, new: object) -> Verdict:
    """Judge a new schema of arguments: each call that fits the old schema has to fit the new one.

    Args:
        old: The schema that clients know. Its objects have only the named properties, unless they allow others
            explicitly, since clients send what is declared.
        new: The new schema of the server.
    """
    return _compare_schemas(closed(old), new)


def compare_output_schemas(old: object, new: object) -> Verdict:
    """Judge a new schema of results: each result that fits the new schema has to fit the old one.

    Args:
        old: The schema that clients know.
        new: The new schema of the server, with the named properties only unless it allows others explicitly.
    """
    return _compare_schemas(closed(new), old)


def _compare_schemas(narrow: object, wide: object) -> Verdict:
    if not (SchemaCheck(narrow).is_usable and SchemaCheck(wide).is_usable):
        return Verdict(Effect.UNKNOWN, [Obstacle("", "the schema is invalid")], None)
    found = obstacles(narrow, wide)
    if not found:
        return Verdict(Effect.COMPATIBLE, [], None)
    example = counterexample(narrow, wide)
    return Verdict(Effect.UNKNOWN if example is None else Effect.BREAKING, found, example)


def closed(schema: object) -> object:
    """Return a schema without additional properties, unless it allows them explicitly.

    JSON Schema allows further properties by default, but clients and servers send those that are declared. A schema
    that composes one object of several is returned unchanged.
    """
    return schema if _combines_schemas(schema) else _closed(schema)


def _combines_schemas(schema: object) -> bool:
    if not is_object(schema):
        return False
    in_place = _IN_PLACE if is_object(schema.get("properties")) else {"allOf", "not"}
    return bool(in_place & schema.keys()) or any(_combines_schemas(inner) for _, inner in subschemas(schema))


def _closed(schema: object) -> object:
    if not is_object(schema):
        return schema
    inner = replaced(schema, lambda _, each: _closed(each))
    is_open = not {"additionalProperties", "patternProperties", "unevaluatedProperties"} & schema.keys()
    if is_object(schema.get("properties")) and is_open:
        inner["additionalProperties"] = False
    return inner


# Counterexamples

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
    """Generator of values for a schema.

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
        first: list[object] = schema["prefixItems"] if is_array(schema.get("prefixItems")) else []
        items: object = schema.get("items", True)
        if is_array(items):
            return
        begin = [self._fitting(each, depth) for each in first]
        for index, each in enumerate(first):
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
        properties = object_at(schema, "properties")
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
                    self._numbers[value] = None
                elif key.startswith(("min", "max")) and isinstance(value, int) and 0 <= value <= 5_000:
                    self._counts |= {value, value + 1, max(0, value - 1)}
                elif key in ("enum", "const", "default", "examples"):
                    for each in value if is_array(value) else [value]:
                        if isinstance(each, str):
                            self._texts[each] = None
                        elif is_number(each):
                            self._numbers[each] = None
                elif key == "properties" and is_object(value):
                    self._texts |= dict.fromkeys(value)


def _interleave(iterators: list[Iterator[object]]) -> Iterator[object]:
    """Yield values of all iterators in turn."""
    waiting = deque(iterators)
    while waiting:
        each = waiting.popleft()
        for value in islice(each, 1):
            yield value
            waiting.append(each)


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
