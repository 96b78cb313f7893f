"""Proof that each value that fits one JSON Schema fits another one.

A positive result is proven. If it cannot be proven, there is an obstacle, which may be a false one. Unknown keywords
are obstacles in the wider schema, and ignored in the narrower one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Final, NamedTuple, TypeGuard

from ..client.server_schemas_and_typed_results import ServerSchema, UnusableSchemaError, library_validator
from ..protocol.jsonrpc import Json, is_array, is_object, object_at
from ..schema.json_schema import resolved

_MOST_STEPS: Final = 20_000
_DEEPEST: Final = 60
_SEPARATE: Final = ("anyOf", "oneOf", "not", "if")
"""Keywords that are compared one at a time."""

_KINDS: Final = ("null", "boolean", "number", "string", "array", "object")
"""The kinds of JSON values; integers are numbers."""

_ANNOTATIONS: Final = frozenset(
    {"$comment", "$schema", "$id", "$defs", "definitions", "default", "deprecated", "description", "examples",
     "readOnly", "title", "writeOnly", "contentMediaType", "contentSchema", "propertyOrdering"}
)  # fmt: skip
"""Keywords that reject no value."""


class Obstacle(NamedTuple):
    """A reason why a schema is not included in another one.

    Attributes:
        path: The place, such as `stops[].city`; empty for the whole value.
        why: The reason.
    """

    path: str
    why: str


def obstacles(narrow: object, wide: object) -> list[Obstacle]:
    """Return why values that fit `narrow` may not fit `wide`; an empty list if each of them does.

    Args:
        narrow: A JSON Schema.
        wide: Another JSON Schema.
    """
    return _Comparison(narrow, wide).within(narrow, wide, "")


class _Comparison:
    def __init__(self, narrow: object, wide: object) -> None:
        self._narrow = narrow
        self._wide = wide
        self._left = _MOST_STEPS
        self._assumed: set[tuple[str, str]] = set()

    def within(self, narrow: object, wide: object, path: str) -> list[Obstacle]:
        """Return the obstacles for a part of the narrow schema and one of the wide schema."""
        self._left -= 1
        if self._left < 0 or len(self._assumed) > _DEEPEST:
            return [Obstacle(path, "the schemas are too large to compare")]
        if narrow is False or wide is True or wide is None or wide == {}:
            return []
        pair = (_text_of(narrow), _text_of(wide))
        if pair in self._assumed or (pair[0] == pair[1] and '"$ref"' not in pair[0]):
            return []
        self._assumed.add(pair)
        try:
            return self._parts_within(narrow, wide, path)
        finally:
            self._assumed.discard(pair)

    def _parts_within(self, narrow: object, wide: object, path: str) -> list[Obstacle]:
        wide_parts = list(_parts(wide, self._wide))
        if len(wide_parts) != 1:
            return [found for part in wide_parts for found in self.within(narrow, part, path)]
        narrow_parts = list(_parts(narrow, self._narrow))
        if len(narrow_parts) > 1 and (merged := _merge(narrow_parts)) is not None:
            narrow_parts = [merged]
        # A value fits all parts, so one part that is included is enough.
        return min((self._part_within(part, wide_parts[0], path) for part in narrow_parts or [{}]), key=len)

    def _part_within(self, narrow: object, wide: object, path: str) -> list[Obstacle]:
        if wide is False:
            return [Obstacle(path, "no value is allowed")]
        if narrow is True:
            narrow = {}
        if not is_object(narrow) or not is_object(wide):
            return [Obstacle(path, "invalid schema")]
        for union in ("anyOf", "oneOf"):
            branches: object = narrow.get(union)
            if is_array(branches):
                rest = {key: value for key, value in narrow.items() if key != union}
                each = [branch if not rest else {"allOf": [rest, branch]} for branch in branches]
                return [found for branch in each for found in self.within(branch, wide, path)]
        choices = _choices_of(narrow)
        if choices is not None:
            in_narrow, in_wide = SchemaCheck(narrow, self._narrow), SchemaCheck(wide, self._wide)
            return [
                Obstacle(path, f"{shown(choice)} is not allowed")
                for choice in choices
                if not in_narrow.rejects(choice) and not in_wide.accepts(choice)
            ]
        kinds = kinds_of(narrow)
        if len(kinds) > 1:
            each = [{**narrow, "type": kind} for kind in kinds]
            return [found for part in each for found in self.within(part, wide, path)]
        return self._kind_within(kinds[0] if kinds else "", narrow, wide, path)

    def _kind_within(self, kind: str, narrow: Json, wide: Json, path: str) -> list[Obstacle]:
        for keyword in _SEPARATE:
            if keyword in wide:
                return self._separate_within(keyword, narrow, wide, path)
        allowed = kinds_of(wide)
        kinds = {kind, "number"} if kind == "integer" else {kind}
        if kind == "number" and _is_integral(narrow):
            kinds.add("integer")
        if kinds.isdisjoint(allowed):
            return [Obstacle(path, f"{_a(kind)} is not allowed, only {' or '.join(map(_a, allowed))}")]
        choices = _choices_of({key: wide[key] for key in ("enum", "const") if key in wide})
        if choices is not None:
            return [Obstacle(path, f"only {', '.join(map(shown, choices[:5]))} is allowed")]
        found = [Obstacle(path, why) for why in _rejections(kind, narrow, wide)]
        if kind == "array":
            found += self._array_within(narrow, wide, path)
        elif kind == "object":
            found += self._object_within(narrow, wide, path)
        return found

    def _separate_within(self, keyword: str, narrow: Json, wide: Json, path: str) -> list[Obstacle]:
        schemas: object = wide[keyword]
        if keyword == "anyOf" and is_array(schemas):
            by_branch = [self.within(narrow, each, path) for each in schemas]
            if [] in by_branch:
                return []
            no_match = [Obstacle(path, "it does not match any alternative of `anyOf`")]
            return by_branch[0] if len(by_branch) == 1 else no_match
        if keyword == "oneOf" and is_array(schemas):
            for index, each in enumerate(schemas):
                others = [*schemas[:index], *schemas[index + 1 :]]
                is_alone = all(self._is_apart(narrow, other) for other in others)
                if is_alone and not self.within(narrow, each, path):
                    return []
            return [Obstacle(path, "it may not match exactly one alternative of `oneOf`")]
        if keyword == "not" and self._is_apart(narrow, schemas):
            return []
        return [Obstacle(path, f"`{keyword}` cannot be compared")]

    def _is_apart(self, narrow: Json, other: object) -> bool:
        """Return whether certainly no value fits both schemas: by types, values, or a required property."""
        if other is False:
            return True
        kinds = _json_kinds(narrow)
        for part in filter(is_object, _parts(other, self._wide)):
            if kinds.isdisjoint(_json_kinds(part)):
                return True
            choices = _choices_of(narrow)
            if choices is not None and all(map(SchemaCheck(part, self._wide).rejects, choices)):
                return True
            if kinds == {"object"}:
                properties, others = object_at(narrow, "properties"), object_at(part, "properties")
                for name in (
                    names_at(narrow, "required")
                    & names_at(part, "required")
                    & properties.keys()
                    & others.keys()
                ):
                    inner = _single(properties[name], self._narrow)
                    if inner is not None and self._is_apart(inner, others[name]):
                        return True
        return False

    # Arrays and objects

    def _array_within(self, narrow: Json, wide: Json, path: str) -> Iterator[Obstacle]:
        narrow_items, narrow_rest = _items(narrow)
        wide_items, wide_rest = _items(wide)
        length = max(len(narrow_items), len(wide_items)) + 1
        if isinstance(max_items := narrow.get("maxItems"), int):
            length = min(length, max_items)
        for index in range(length):
            item = narrow_items[index] if index < len(narrow_items) else narrow_rest
            if item is False:
                return
            if index < len(wide_items):
                yield from self.within(item, wide_items[index], f"{path}[{index}]")
            else:
                yield from self.within(item, wide_rest, f"{path}[]")

    def _object_within(self, narrow: Json, wide: Json, path: str) -> Iterator[Obstacle]:
        narrow_properties, wide_properties = object_at(narrow, "properties"), object_at(wide, "properties")
        narrow_rest = narrow.get("additionalProperties", True)
        wide_rest = wide.get("additionalProperties", True)
        dot = f"{path}." if path else ""
        for name in sorted(names_at(wide, "required") - names_at(narrow, "required")):
            yield Obstacle(f"{dot}{name}", "it is required")
        if narrow.get("patternProperties") != wide.get("patternProperties"):
            yield Obstacle(path, "`patternProperties` cannot be compared")
        for name, schema in narrow_properties.items():
            allowed = wide_properties.get(name, wide_rest)
            if allowed is False and schema is not False:
                yield Obstacle(f"{dot}{name}", "the property was removed")
            else:
                yield from self.within(schema, allowed, f"{dot}{name}")
        if narrow_rest is not False:
            for name in wide_properties.keys() - narrow_properties.keys():
                yield from self.within(narrow_rest, wide_properties[name], f"{dot}{name}")
            if wide_rest is False:
                yield Obstacle(path, "additional properties are not allowed")
            else:
                yield from self.within(narrow_rest, wide_rest, f"{dot}*")


def _parts(schema: object, root: object, depth: int = 0) -> Iterator[object]:
    """Split a schema into parts that together mean the same, with references resolved and each of `_SEPARATE` alone."""
    if not is_object(schema):
        yield schema
        return
    rest: Json = {
        key: value for key, value in schema.items() if key not in _ANNOTATIONS and not key.startswith("x-")
    }
    if "$ref" in rest:
        target = target_of(rest.pop("$ref"), root)
        if target is None or depth > _DEEPEST:
            yield {"if": {}}  # cannot be compared
        else:
            yield from _parts(target, root, depth + 1)
    all_of: object = rest.pop("allOf", None)
    for each in all_of if is_array(all_of) else ():
        yield from _parts(each, root, depth + 1)
    for keyword in _SEPARATE:
        if keyword in rest:
            alone: Json = {keyword: rest.pop(keyword)}
            if keyword == "if":
                alone |= {key: rest.pop(key) for key in ("then", "else") if key in rest}
            yield alone
    if rest:
        yield rest


def _merge(parts: list[object]) -> Json | None:
    """Return the parts merged into one schema; None if they have the same keyword with different values."""
    joined: Json = {}
    names: set[str] = set()
    for part in parts:
        if not is_object(part):
            return None
        names |= object_at(part, "properties").keys()
        for key, value in part.items():
            known = joined.setdefault(key, value)
            if key == "properties" and is_object(known) and is_object(value):
                common = known.keys() & value.keys()
                if any(_text_of(known[name]) != _text_of(value[name]) for name in common):
                    return None
                joined[key] = {**known, **value}
            elif key == "required" and is_array(known) and is_array(value):
                joined[key] = [*known, *value]
            elif _text_of(known) != _text_of(value):
                return None
    is_open = joined.get("additionalProperties", True) is True and "patternProperties" not in joined
    has_all = all(
        object_at(part, "properties").keys() == names
        for part in parts
        if is_object(part) and "additionalProperties" in part
    )
    return joined if is_open or has_all else None


def _single(schema: object, root: object) -> Json | None:
    """Return a schema as one part; None if it has several."""
    parts = list(_parts(schema, root))
    joined = _merge(parts) if parts else {}
    return joined if joined is not None and not {"anyOf", "oneOf"} & joined.keys() else None


def _items(schema: Json) -> tuple[list[object], object]:
    """Return the schemas of an array's first items, and that of the others."""
    items: object = schema.get("items", True)
    first: object = schema.get("prefixItems", [])
    if is_array(items):  # drafts before 2020-12
        return list(items), schema.get("additionalItems", True)
    return list(first) if is_array(first) else [], items


def _json_kinds(schema: Json) -> set[str]:
    return {"number" if kind == "integer" else kind for kind in kinds_of(schema)}


def _a(kind: str) -> str:
    return "null" if kind == "null" else f"an {kind}" if kind[:1] in "aio" else f"a {kind}"


# Constraints of a value itself

_SAME: Final = {
    "string": ("pattern", "format", "contentEncoding"),
    "array": ("contains", "minContains", "maxContains"),
    "object": ("dependentRequired", "propertyNames"),
}
"""Keywords that must be equal, as they cannot be compared."""
_INCOMPARABLE: Final = (
    "dependencies", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"
)  # fmt: skip
_COUNTS: Final = {
    "string": ("Length", "characters"),
    "array": ("Items", "items"),
    "object": ("Properties", "properties"),
}
"""Ends of the keywords with `min` and `max`, and the parts that they count."""


def _rejections(kind: str, narrow: Json, wide: Json) -> Iterator[str]:
    """Yield the constraints of `wide` that `narrow` does not imply, without those of inner values."""
    if kind in ("integer", "number"):
        yield from _number_rejections(kind, narrow, wide)
    if kind in _COUNTS:
        yield from _count_rejections(kind, narrow, wide)
    may_repeat = narrow.get("uniqueItems") is not True and _number(narrow, "maxItems", 2) > 1
    if kind == "array" and wide.get("uniqueItems") is True and may_repeat:
        yield "its items must be unique"
    for keyword in _SAME.get(kind, ()):
        if keyword in wide and narrow.get(keyword) != wide[keyword]:
            yield f"its {keyword} must be {shown(wide[keyword])}"
    for keyword in _INCOMPARABLE:
        if wide.get(keyword, True) is not True:
            yield f"`{keyword}` cannot be compared"


def _is_integral(schema: Json) -> bool:
    """Return whether a schema allows integers only."""
    step = _number(schema, "multipleOf", 0)
    return step > 0 and step % 1 == 0


def shown(value: object) -> str:
    """Return a value as JSON, truncated if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number_rejections(kind: str, narrow: Json, wide: Json) -> Iterator[str]:
    low, high = _bound(kind, wide, 1), _bound(kind, wide, -1)
    narrow_low, narrow_high = _bound(kind, narrow, 1), _bound(kind, narrow, -1)
    if low is not None and (narrow_low is None or narrow_low < low):
        yield f"it must be {'greater than' if low[1] else 'at least'} {_format(low[0])}"
    if high is not None and (narrow_high is None or narrow_high < high):
        yield f"it must be {'less than' if high[1] else 'at most'} {_format(-high[0])}"
    step = _number(wide, "multipleOf", 0)
    narrow_step = max(_number(narrow, "multipleOf", 0), Fraction(kind == "integer"))
    if step > 0 and (narrow_step == 0 or narrow_step % step != 0):
        yield f"it must be a multiple of {_format(step)}"


def _bound(kind: str, schema: Json, sign: int) -> tuple[Fraction, bool] | None:
    """Return the lower bound of numbers, and whether it is exclusive; with -1 for `sign` the negated upper bound."""
    names = ("minimum", "exclusiveMinimum") if sign > 0 else ("maximum", "exclusiveMaximum")
    bounds: list[tuple[Fraction, bool]] = []
    for name, is_exclusive in zip(names, (False, True), strict=True):
        if is_number(schema.get(name)):
            bound = sign * Fraction(str(schema[name]))
            if kind == "integer":
                bounds.append((Fraction(floor(bound) + 1 if is_exclusive else ceil(bound)), False))
            else:
                bounds.append((bound, is_exclusive))
    return max(bounds, default=None)


def _count_rejections(kind: str, narrow: Json, wide: Json) -> Iterator[str]:
    keyword, what = _COUNTS[kind]
    least, most = f"min{keyword}", f"max{keyword}"
    fewest, many = max(Fraction(0), _number(narrow, least, 0)), _number(narrow, most, -1)
    if kind == "object":
        fewest = max(fewest, Fraction(len(names_at(narrow, "required"))))
        if many < 0 and narrow.get("additionalProperties") is False and "patternProperties" not in narrow:
            many = Fraction(len(object_at(narrow, "properties")))
    if fewest < _number(wide, least, 0):
        yield f"it must have at least {wide[least]} {what}"
    limit = _number(wide, most, -1)
    if limit >= 0 and not 0 <= many <= limit:
        yield f"it must have at most {wide[most]} {what}"


def _number(schema: Json, keyword: str, otherwise: int) -> Fraction:
    value: object = schema.get(keyword)
    return Fraction(str(value)) if is_number(value) else Fraction(otherwise)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _format(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


# Values and parts of schemas


class SchemaCheck:
    """Validates values against a schema, including formats.

    For keywords such as `oneOf` and `prefixItems`, only `mcpkit[jsonschema]` decides which values fit. `mcpkit[cli]`
    includes it.

    Args:
        schema: The schema, or one within `root`.
        root: The root of its references; None for the schema itself.

    Attributes:
        is_usable: Whether the schema is valid and not too large.
    """

    def __init__(self, schema: object, root: object = None) -> None:
        if is_object(schema) and is_object(root) and schema is not root:
            definitions: Json = {key: root[key] for key in ("$defs", "definitions") if key in root}
            schema = {**definitions, **schema}
        self._schema: ServerSchema | None = None
        self._is_valid: Callable[[object], bool] | None = None
        try:
            self._schema = ServerSchema(schema, asserts_formats=True)
        except (UnusableSchemaError, RecursionError):
            pass
        else:
            if not self._schema.is_whole:
                self._is_valid = library_validator(schema, asserts_formats=True)
        self.is_usable = self._schema is not None

    def rejects(self, value: object) -> bool:
        """Return whether a value certainly does not fit."""
        if self._is_valid is not None:
            return not self._is_valid(value)
        return self._schema is not None and bool(self._schema.problems(value))

    def accepts(self, value: object) -> bool:
        """Return whether a value certainly fits."""
        if self._schema is None or not (self._schema.is_whole or self._is_valid is not None):
            return False
        return not self.rejects(value) and not self._schema.problems(value)


def _text_of(schema: object) -> str:
    """Return a schema as text, which is equal for equal schemas."""
    return json.dumps(schema, sort_keys=True)


def names_at(schema: Json, key: str) -> set[str]:
    """Return the names in a list of a schema, such as `required`; empty if it is not a list."""
    names: object = schema.get(key)
    return {str(name) for name in names} if is_array(names) else set()


def target_of(reference: object, root: object) -> object:
    """Return the target of a `$ref` within a schema; None if it is invalid or leads out of the schema."""
    try:
        found: object = resolved(reference, root)
    except LookupError:
        return None
    return found


def kinds_of(schema: Json) -> list[str]:
    """Return the types that a schema's `type` allows, `integer` among them; all types without `type`."""
    kinds: object = schema.get("type", list(_KINDS))
    return [kind for kind in (kinds if is_array(kinds) else [kinds]) if isinstance(kind, str)]


def _choices_of(schema: Json) -> list[object] | None:
    """Return the values of a schema that only allows those: by `enum`, `const` or its type; None for others."""
    choices: object = schema.get("enum")
    if is_array(choices):
        return list(choices)
    if "const" in schema:
        return [schema["const"]]
    named: dict[str, list[object]] = {"null": [None], "boolean": [False, True]}
    kinds = kinds_of(schema)
    return named.get(kinds[0]) if len(kinds) == 1 else None
