"""Keywords that are about a value alone, whatever lies inside: what one schema demands, and another does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Final

from ..protocol.jsonrpc import Json, is_array, is_object

_SAME: Final = {
    "string": ("pattern", "format", "contentEncoding"),
    "array": ("contains", "minContains", "maxContains"),
    "object": ("dependentRequired", "propertyNames"),
}
"""Keywords that are the same, or cannot be compared."""
_NOT_COMPARED: Final = ("dependencies", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef",
                        "$recursiveRef")  # fmt: skip
_COUNTS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def refused(kind: str, narrow: Json, wide: Json) -> Iterator[str]:
    """Yield what `wide` demands of values of a kind and `narrow` does not."""
    if kind in ("integer", "number"):
        yield from _numbers_refused(kind, narrow, wide)
    if kind in _COUNTS:
        yield from _counts_refused(kind, narrow, wide)
    may_repeat = narrow.get("uniqueItems") is not True and _number(narrow, "maxItems", 2) > 1
    if kind == "array" and wide.get("uniqueItems") is True and may_repeat:
        yield "its items must be unique"
    for keyword in _SAME.get(kind, ()):
        if keyword in wide and narrow.get(keyword) != wide[keyword]:
            yield f"its {keyword} must be {shown(wide[keyword])}"
    for keyword in _NOT_COMPARED:
        if wide.get(keyword, True) is not True:
            yield f"`{keyword}` cannot be compared"


def is_integral(schema: Json) -> bool:
    """Return whether a schema allows integers only."""
    step = _number(schema, "multipleOf", 0)
    return step > 0 and step % 1 == 0


def shown(value: object) -> str:
    """Return a value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _numbers_refused(kind: str, narrow: Json, wide: Json) -> Iterator[str]:
    low, high = _bound(kind, wide, 1), _bound(kind, wide, -1)
    mine_low, mine_high = _bound(kind, narrow, 1), _bound(kind, narrow, -1)
    if low is not None and (mine_low is None or mine_low < low):
        yield f"it must be {'greater than' if low[1] else 'at least'} {_written(low[0])}"
    if high is not None and (mine_high is None or mine_high < high):
        yield f"it must be {'less than' if high[1] else 'at most'} {_written(-high[0])}"
    step = _number(wide, "multipleOf", 0)
    given = max(_number(narrow, "multipleOf", 0), Fraction(kind == "integer"))
    if step > 0 and (given == 0 or given % step != 0):
        yield f"it must be a multiple of {_written(step)}"


def _bound(kind: str, schema: Json, sign: int) -> tuple[Fraction, bool] | None:
    """Return the lower bound of numbers, and whether it is outside; with -1 for `sign` the upper one, turned around."""
    names = ("minimum", "exclusiveMinimum") if sign > 0 else ("maximum", "exclusiveMaximum")
    bounds: list[tuple[Fraction, bool]] = []
    for name, is_outside in zip(names, (False, True), strict=True):
        if is_number(schema.get(name)):
            bound = sign * Fraction(str(schema[name]))
            if kind == "integer":
                bounds.append((Fraction(floor(bound) + 1 if is_outside else ceil(bound)), False))
            else:
                bounds.append((bound, is_outside))
    return max(bounds, default=None)


def _counts_refused(kind: str, narrow: Json, wide: Json) -> Iterator[str]:
    least, most = _COUNTS[kind]
    what = {"string": "characters", "array": "items", "object": "properties"}[kind]
    fewest, many = max(Fraction(0), _number(narrow, least, 0)), _number(narrow, most, -1)
    if kind == "object":
        fewest = max(fewest, Fraction(len(_named(narrow, "required"))))
        if many < 0 and narrow.get("additionalProperties") is False and "patternProperties" not in narrow:
            many = Fraction(len(_named(narrow, "properties")))
    if fewest < _number(wide, least, 0):
        yield f"it must have at least {wide[least]} {what}"
    limit = _number(wide, most, -1)
    if limit >= 0 and not 0 <= many <= limit:
        yield f"it must have at most {wide[most]} {what}"


def _named(schema: Json, keyword: str) -> set[str]:
    names: object = schema.get(keyword)
    return {str(name) for name in names} if is_array(names) or is_object(names) else set()


def _number(schema: Json, keyword: str, otherwise: int) -> Fraction:
    value: object = schema.get(keyword)
    return Fraction(str(value)) if is_number(value) else Fraction(otherwise)


def is_number(value: object) -> bool:
    """Return whether a value is a finite JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _written(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"
