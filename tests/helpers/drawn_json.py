"""JSON values that a published schema allows, drawn at random: no more is known of a type than its schema."""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mcpkit.schema.formats import SIGNED_DURATION
from mcpkit.schema.values import DECIMAL_PATTERN, is_unique

_DEEPEST = 4
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)

_DATES = st.dates().map(dt.date.isoformat)
_TIMES = st.builds(
    "{:02}:{:02}:{:02}{}{}".format,
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
    st.sampled_from(["", ".5", ".123456789"]),
    st.sampled_from(["Z", "z", "+00:00", "-05:30", "+23:59"]),
)
_FORMATS: dict[str, st.SearchStrategy[str]] = {
    "date": _DATES,
    "time": _TIMES,
    "date-time": st.builds("{}{}{}".format, _DATES, st.sampled_from("Tt"), _TIMES),
    "duration": st.from_regex(
        r"P([0-9]{1,2}W|([0-9]Y)?([0-9]M)?[0-9]D|([0-9]Y)?T([0-9]H)?([0-9]M)?[0-9]S|[0-9]Y[0-9]D)",
        fullmatch=True,
    ),
    "uuid": st.uuids().flatmap(lambda uuid: st.sampled_from([str(uuid), str(uuid).upper()])),
    "uri": st.builds("https://{}.org/{}".format, st.text("abc", min_size=1), st.text("abc-._~")),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).flatmap(lambda ip: st.sampled_from([str(ip), ip.exploded.upper()])),
    "ipv4network": st.ip_addresses(v=4).map(str),
    "regex": st.text("abc+", min_size=1).map(re.escape),
    "password": _TEXT,
}
"""What each format allows, but for years that Python has not, leap seconds and other ends that docs name."""

_LONG = re.compile("[0-9]{6}")
_NUMBERS = st.from_regex(r"-?[0-9]{1,9}(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def allowed(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Return what draws values that a schema allows.

    Args:
        schema: A schema of the keywords that the package writes.
        root: What holds its `$defs`.
        depth: How deep it stands; beyond some depth only what holds nothing is drawn.
    """
    if "$ref" in schema:
        return st.deferred(lambda: allowed(root["$defs"][schema["$ref"].rpartition("/")[2]], root, depth + 1))
    if "anyOf" in schema:
        return st.one_of([allowed(branch, root, depth) for branch in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "type" not in schema:
        return st.none() | st.booleans() | st.integers() | _TEXT
    return _OF_KIND[schema["type"]](schema, root, depth)


def _string(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if schema.get("contentEncoding") == "base64":
        return st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())
    if "format" in schema:
        pattern = re.compile(schema.get("pattern", ""))
        return _FORMATS[schema["format"]].filter(lambda text: pattern.search(text) is not None)
    if "pattern" in schema:
        if schema["pattern"] == DECIMAL_PATTERN:
            return _NUMBERS
        pattern = schema["pattern"].replace("$", r"\Z")
        drawn = st.from_regex(pattern, alphabet="abcxyz0123456789-+.:=PTYMWDHS_")
        # A duration of a million days may be beyond Python's.
        is_duration = schema["pattern"] == SIGNED_DURATION
        return drawn.filter(lambda text: _LONG.search(text) is None) if is_duration else drawn
    return _TEXT


def _integer(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    least = schema.get("minimum")
    most = schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else schema.get("maximum")
    whole = st.integers(least, most)
    return whole | whole.filter(lambda number: abs(number) < 2**53).map(float)


def _array(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        items = [allowed(item, root, depth + 1) for item in schema["prefixItems"]]
        lengths = st.integers(schema.get("minItems", 0), len(items))
        return lengths.flatmap(lambda length: st.tuples(*items[:length]).map(list))
    if depth > _DEEPEST or schema.get("maxItems") == 0:
        return st.just([])
    drawn = st.lists(allowed(schema.get("items", {}), root, depth + 1), max_size=2)
    return drawn.filter(is_unique) if schema.get("uniqueItems") else drawn


def _object(schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    members = {name: allowed(inner, root, depth + 1) for name, inner in schema.get("properties", {}).items()}
    required = schema.get("required", [])
    if members:
        optional = {name: inner for name, inner in members.items() if name not in required}
        return st.fixed_dictionaries(
            {name: members[name] for name in required}, optional={} if depth > _DEEPEST else optional
        )
    rest = schema.get("additionalProperties", True)
    names = allowed({"type": "string", **schema.get("propertyNames", {})}, root, depth)
    # Two names may stand for the same key, which no schema can say: one is drawn where they are no texts.
    most = 1 if "propertyNames" in schema else 3
    return st.dictionaries(
        names, allowed(rest if isinstance(rest, dict) else {}, root, depth + 1), max_size=most
    )


_OF_KIND: dict[str, Callable[[Any, Any, int], st.SearchStrategy[Any]]] = {
    "string": _string,
    "integer": _integer,
    "number": lambda *_: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "boolean": lambda *_: st.booleans(),
    "null": lambda *_: st.none(),
    "array": _array,
    "object": _object,
}
