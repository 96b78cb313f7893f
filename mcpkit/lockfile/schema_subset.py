"""Decides whether each value that fits one JSON Schema fits another one.

A positive result is proven. If it cannot be proven, there is an obstacle, which may be a false one. Unknown keywords
are obstacles in the wider schema, and ignored in the narrower one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ..protocol.jsonrpc import Json, is_array, is_object
from . import keyword_bounds as plain
from .schemas import Held, bare, choices_of, kinds_of, target_of, text_of

_MOST_STEPS: Final = 20_000
_DEEPEST: Final = 60
_ALONE: Final = ("anyOf", "oneOf", "not", "if")
"""Keywords that are compared one at a time."""


class Obstacle(NamedTuple):
    """A reason why a schema is not included in another one.

    Attributes:
        path: The place, such as `stops[].city`; empty for the whole value.
        why: The reason.
    """

    path: str
    why: str


def obstacles(narrow: object, wide: object) -> list[Obstacle]:
    """Return what keeps values that fit `narrow` from fitting `wide`; nothing where each of them does.

    Args:
        narrow: A JSON Schema.
        wide: Another one.
    """
    return _Inclusion(narrow, wide).within(narrow, wide, "")


class _Inclusion:
    def __init__(self, narrow: object, wide: object) -> None:
        self._narrow = narrow
        self._wide = wide
        self._left = _MOST_STEPS
        self._assumed: set[tuple[str, str]] = set()

    def within(self, narrow: object, wide: object, path: str) -> list[Obstacle]:
        """Return what keeps `narrow` from being included in `wide`, both of them parts of the two schemas."""
        self._left -= 1
        if self._left < 0 or len(self._assumed) > _DEEPEST:
            return [Obstacle(path, "the schemas are too large to compare")]
        if narrow is False or wide is True or wide is None or wide == {}:
            return []
        pair = (text_of(narrow), text_of(wide))
        if pair in self._assumed or (pair[0] == pair[1] and '"$ref"' not in pair[0]):
            return []
        self._assumed.add(pair)
        try:
            return self._parts_within(narrow, wide, path)
        finally:
            self._assumed.discard(pair)

    def _parts_within(self, narrow: object, wide: object, path: str) -> list[Obstacle]:
        wanted = list(_parts(wide, self._wide))
        if len(wanted) != 1:
            return [found for part in wanted for found in self.within(narrow, part, path)]
        given = list(_parts(narrow, self._narrow))
        if len(given) > 1 and (joined := _together(given)) is not None:
            given = [joined]
        if len(given) > 1:
            return min((self._single_within(part, wanted[0], path) for part in given), key=len)
        return self._single_within(given[0] if given else {}, wanted[0], path)

    def _single_within(self, narrow: object, wide: object, path: str) -> list[Obstacle]:
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
        choices = choices_of(narrow)
        if choices is not None:
            return list(self._choices_within(choices, narrow, wide, path))
        kinds = kinds_of(narrow)
        if len(kinds) > 1:
            each = [{**narrow, "type": kind} for kind in kinds]
            return [found for part in each for found in self.within(part, wide, path)]
        return self._kind_within(kinds[0] if kinds else "", narrow, wide, path)

    def _choices_within(
        self, choices: list[object], narrow: Json, wide: Json, path: str
    ) -> Iterator[Obstacle]:
        given, wanted = Held(narrow, self._narrow), Held(wide, self._wide)
        for choice in choices:
            if not given.refuses(choice) and not wanted.takes(choice):
                yield Obstacle(path, f"{plain.shown(choice)} is not allowed")

    def _kind_within(self, kind: str, narrow: Json, wide: Json, path: str) -> list[Obstacle]:
        for keyword in _ALONE:
            if keyword in wide:
                return self._alone_within(keyword, narrow, wide, path)
        allowed = kinds_of(wide)
        taken = {kind, "number"} if kind == "integer" else {kind}
        if kind == "number" and plain.is_integral(narrow):
            taken.add("integer")
        if taken.isdisjoint(allowed):
            return [Obstacle(path, f"{_a(kind)} is not allowed, only {' or '.join(map(_a, allowed))}")]
        named = choices_of({key: wide[key] for key in ("enum", "const") if key in wide})
        if named is not None:
            return [Obstacle(path, f"only {', '.join(map(plain.shown, named[:5]))} is allowed")]
        compare: dict[str, Callable[[], Iterator[Obstacle]]] = {
            "array": lambda: self._array_within(narrow, wide, path),
            "object": lambda: self._object_within(narrow, wide, path),
        }
        found = [Obstacle(path, why) for why in plain.refused(kind, narrow, wide)]
        return found + (list(compare[kind]()) if kind in compare else [])

    def _alone_within(self, keyword: str, narrow: Json, wide: Json, path: str) -> list[Obstacle]:
        schemas: object = wide[keyword]
        if keyword == "anyOf" and is_array(schemas):
            tried = [self.within(narrow, each, path) for each in schemas]
            if any(not found for found in tried):
                return []
            return (
                min(tried, key=len)
                if len(tried) == 1
                else [Obstacle(path, "it does not match any alternative of `anyOf`")]
            )
        if keyword == "oneOf" and is_array(schemas):
            for index, each in enumerate(schemas):
                others = [*schemas[:index], *schemas[index + 1 :]]
                if all(self._is_apart(narrow, other) for other in others) and not self.within(
                    narrow, each, path
                ):
                    return []
            return [Obstacle(path, "it may not match exactly one alternative of `oneOf`")]
        if keyword == "not" and self._is_apart(narrow, schemas):
            return []
        return [Obstacle(path, f"`{keyword}` cannot be compared")]

    def _is_apart(self, narrow: Json, other: object) -> bool:
        """Return whether certainly no value fits both schemas: by types, values, or a required property."""
        parts = [part for part in _parts(other, self._wide) if is_object(part)]
        if other is False:
            return True
        kinds = set(map(_widest, kinds_of(narrow)))
        for part in parts:
            if kinds.isdisjoint(map(_widest, kinds_of(part))):
                return True
            choices = choices_of(narrow)
            if choices is not None and all(map(Held(part, self._wide).refuses, choices)):
                return True
            if _required(narrow) & _required(part) and kinds == {"object"}:
                mine, theirs = _properties(narrow), _properties(part)
                for name in _required(narrow) & _required(part) & mine.keys() & theirs.keys():
                    inner = _single(mine[name], self._narrow)
                    if inner is not None and self._is_apart(inner, theirs[name]):
                        return True
        return False

    # What holds other values

    def _array_within(self, narrow: Json, wide: Json, path: str) -> Iterator[Obstacle]:
        given, given_rest = _items(narrow)
        wanted, wanted_rest = _items(wide)
        most: object = narrow.get("maxItems")
        longest = max(len(given), len(wanted)) + 1
        for index in range(min(longest, most) if isinstance(most, int) else longest):
            mine = given[index] if index < len(given) else given_rest
            theirs = wanted[index] if index < len(wanted) else wanted_rest
            if mine is False:
                return
            place = f"{path}[{index}]" if index < len(wanted) else f"{path}[]"
            yield from self.within(mine, theirs, place)

    def _object_within(self, narrow: Json, wide: Json, path: str) -> Iterator[Obstacle]:
        mine, theirs = _properties(narrow), _properties(wide)
        rest, other = narrow.get("additionalProperties", True), wide.get("additionalProperties", True)
        dot = f"{path}." if path else ""
        for name in sorted(_required(wide) - _required(narrow)):
            yield Obstacle(f"{dot}{name}", "it is required")
        if narrow.get("patternProperties") != wide.get("patternProperties"):
            yield Obstacle(path, "`patternProperties` cannot be compared")
        for name, schema in mine.items():
            wanted = theirs.get(name, other)
            if wanted is False and schema is not False:
                yield Obstacle(f"{dot}{name}", "the property was removed")
            else:
                yield from self.within(schema, wanted, f"{dot}{name}")
        if rest is not False:
            for name in theirs.keys() - mine.keys():
                yield from self.within(rest, theirs[name], f"{dot}{name}")
            if other is False:
                yield Obstacle(path, "additional properties are not allowed")
            else:
                yield from self.within(rest, other, f"{dot}*")


def _parts(schema: object, root: object, depth: int = 0) -> Iterator[object]:
    """Yield schemas that together demand what one does: references followed, and each of `_ALONE` on its own."""
    if not is_object(schema):
        yield schema
        return
    said = bare(schema)
    if "$ref" in said:
        target = target_of(said.pop("$ref"), root)
        if target is None or depth > _DEEPEST:
            yield {"if": {}}  # which nothing is known of
        else:
            yield from _parts(target, root, depth + 1)
    together: object = said.pop("allOf", None)
    for each in together if is_array(together) else ():
        yield from _parts(each, root, depth + 1)
    for keyword in _ALONE:
        if keyword in said:
            alone: Json = {keyword: said.pop(keyword)}
            if keyword == "if":
                alone |= {key: said.pop(key) for key in ("then", "else") if key in said}
            yield alone
    if said:
        yield said


def _together(parts: list[object]) -> Json | None:
    """Return the parts merged into one schema; None if they have the same keyword with different values."""
    joined: Json = {}
    names: set[str] = set()
    for part in parts:
        if not is_object(part):
            return None
        names |= _properties(part).keys()
        for key, value in part.items():
            known = joined.setdefault(key, value)
            if key == "properties" and is_object(known) and is_object(value):
                if any(text_of(known[name]) != text_of(value[name]) for name in known.keys() & value.keys()):
                    return None
                joined[key] = {**known, **value}
            elif key == "required" and is_array(known) and is_array(value):
                joined[key] = [*known, *value]
            elif text_of(known) != text_of(value):
                return None
    is_open = joined.get("additionalProperties", True) is True and "patternProperties" not in joined
    has_all = all(
        _properties(part).keys() == names
        for part in parts
        if is_object(part) and "additionalProperties" in part
    )
    return joined if is_open or has_all else None


def _single(schema: object, root: object) -> Json | None:
    """Return a schema as one part; None where it is of several."""
    parts = list(_parts(schema, root))
    joined = _together(parts) if parts else {}
    return joined if joined is not None and not {"anyOf", "oneOf"} & joined.keys() else None


def _items(schema: Json) -> tuple[list[object], object]:
    """Return the schemas of an array's first items, and that of the others."""
    items: object = schema.get("items", True)
    first: object = schema.get("prefixItems", [])
    if is_array(items):  # as drafts before 2020-12 have it
        return list(items), schema.get("additionalItems", True)
    return list(first) if is_array(first) else [], items


def _properties(schema: Json) -> Json:
    properties: object = schema.get("properties")
    return properties if is_object(properties) else {}


def _required(schema: Json) -> set[str]:
    required: object = schema.get("required")
    return {str(name) for name in required} if is_array(required) else set()


def _widest(kind: str) -> str:
    return "number" if kind == "integer" else kind


def _a(kind: str) -> str:
    return "null" if kind == "null" else f"an {kind}" if kind[:1] in "aio" else f"a {kind}"
