"""A tool that returns its argument is the identity for every supported type, as ajv in Node judges."""

# ruff: noqa: UP007, UP045 - built of what is known at run time only, and the old spellings are tested on purpose
from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any, NamedTuple, Optional, Union

import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

from mcpkit.schema.formats import SIGNED_DURATION
from mcpkit.schema.hints import describe
from mcpkit.schema.patterns import read
from mcpkit.schema.values import DECIMAL_PATTERN, is_unique, matches
from tests.helpers.node import NodeJudge, node_judge
from tests.helpers.supported_types import EVERY, REVISIONS, Echo, Supported, is_same
from tests.helpers.tables import each_row

pytestmark = pytest.mark.long

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
    "date": _DATES, "time": _TIMES,
    "date-time": st.builds("{}{}{}".format, _DATES, st.sampled_from("Tt"), _TIMES),
    "duration": st.from_regex(
        r"P([0-9]{1,2}W|([0-9]Y)?([0-9]M)?[0-9]D|([0-9]Y)?T([0-9]H)?([0-9]M)?[0-9]S|[0-9]Y[0-9]D)",
        fullmatch=True,
    ),
    "uuid": st.uuids().flatmap(lambda uuid: st.sampled_from([str(uuid), str(uuid).upper()])),
    "uri": st.builds("https://{}.org/{}".format, st.text("abc", min_size=1), st.text("abc-._~")),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).flatmap(lambda ip: st.sampled_from([str(ip), ip.exploded.upper()])),
    "ipv4network": st.ip_addresses(v=4).map(str), "regex": st.text("abc+", min_size=1).map(re.escape),
    "password": _TEXT,
}  # fmt: skip
"""Texts of each format, without the limits that the documentation names, such as leap seconds."""


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
    "string": _string, "integer": _integer,
    "number": lambda *_: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "boolean": lambda *_: st.booleans(), "null": lambda *_: st.none(), "array": _array, "object": _object,
}  # fmt: skip


def _container(
    name: str, annotation: Any, values: st.SearchStrategy[Any], *inner: Supported, **options: Any
) -> Supported:
    options.setdefault("is_field", all(each.is_field for each in inner))
    options["is_exact"] = all(each.is_exact for each in inner)
    return Supported(name, annotation, values, None, **options)


def _list(inner: Supported) -> Supported:
    return _container("list", list[inner.annotation], st.lists(inner.values, max_size=3), inner)


def _pair(first: Supported, second: Supported) -> Supported:
    annotation = tuple[first.annotation, second.annotation]
    is_hashable = first.is_hashable and second.is_hashable
    return _container(
        "tuple", annotation, st.tuples(first.values, second.values), first, second, is_hashable=is_hashable
    )


def _tuple(inner: Supported) -> Supported:
    values = st.lists(inner.values, max_size=3).map(tuple)
    return _container("tuple", tuple[inner.annotation, ...], values, inner, is_hashable=inner.is_hashable)


def _optional(inner: Supported) -> Supported:
    return inner._replace(name="Optional", annotation=Optional[inner.annotation], values=st.none() | inner.values,
                          is_key=False)  # fmt: skip


def _mapping(key: Supported, inner: Supported) -> Supported:
    values = st.dictionaries(key.values, inner.values, max_size=3)
    return _container("dict", dict[key.annotation, inner.annotation], values, key, inner)


def _set(inner: Supported) -> Supported:
    return _container("set", set[inner.annotation], st.sets(inner.values, max_size=3), inner)


def _union(first: Supported, second: Supported) -> Supported:
    annotation = Union[first.annotation, second.annotation]
    return _container("union", annotation, first.values | second.values, first, second,
                 is_content=first.is_content or second.is_content,
                 is_hashable=first.is_hashable and second.is_hashable)  # fmt: skip


def _model(inner: Supported) -> Supported:
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model = pydantic.create_model(
        "Model", __config__=config, value=(inner.annotation, ...), note=(str, "none")
    )
    # Not by its own `__init__`: that takes some types in another form.
    values = inner.values.map(lambda value: model.model_construct(value=value, note="a"))
    return _container("model", model, values, inner)


def _dataclass(inner: Supported) -> Supported:
    cls: Any = dataclasses.make_dataclass("Data", [("value", inner.annotation), ("note", str, "none")])
    return _container("dataclass", cls, inner.values.map(cls), inner)


def _typed_dict(inner: Supported) -> Supported:
    cls: Any = TypedDict("Record", {"value": inner.annotation}, total=False)
    return _container("TypedDict", cls, st.fixed_dictionaries({}, optional={"value": inner.values}), inner)


def _named_tuple(inner: Supported) -> Supported:
    cls: Any = NamedTuple("Entry", [("value", inner.annotation)])
    return _container("NamedTuple", cls, inner.values.map(cls), inner)


def _annotated(inner: Supported) -> Supported:
    return inner._replace(annotation=Annotated[inner.annotation, "a note"])


def kinds(annotation: Any) -> set[str]:
    """Return the types that JSON values of a type may have."""
    described = describe(annotation)
    return set(_kinds(described.schema, described.definitions))


def _kinds(schema: Any, definitions: Any) -> Iterator[str]:
    if "$ref" in schema:
        yield from _kinds(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    elif "anyOf" in schema:
        for branch in schema["anyOf"]:
            yield from _kinds(branch, definitions)
    elif "type" in schema:
        yield "number" if schema["type"] == "integer" else schema["type"]
    else:
        names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
        yield from (names[type(value)] for value in schema["enum"])


def _are_apart(both: tuple[Supported, Supported]) -> bool:
    """Return whether a JSON value belongs to one of two types only."""
    return not kinds(both[0].annotation) & kinds(both[1].annotation)


class Holder(NamedTuple):
    """A container for a type.

    Args:
        hold: Makes the entry of the holder.
        may_hold: Tells whether it may hold an entry.
    """

    hold: Callable[[Supported], Supported]
    may_hold: Callable[[Supported], bool]


def _is_data(each: Supported) -> bool:
    """Return whether a list of it is an array: a list of `bytes` is content."""
    return not each.is_content


def _is_field(each: Supported) -> bool:
    return each.is_field


_NAMES = EVERY[0]


HOLDERS = {
    "list": Holder(_list, _is_data), "tuple": Holder(_tuple, _is_data),
    "set": Holder(_set, lambda each: each.is_hashable and not each.is_content),
    "Optional": Holder(_optional, lambda each: True), "Annotated": Holder(_annotated, lambda each: True),
    "values of dict": Holder(lambda each: _mapping(_NAMES, each), _is_field),
    "keys of dict": Holder(lambda each: _mapping(each, _NAMES), lambda each: each.is_key and _is_field(each)),
    "model": Holder(_model, _is_field), "dataclass": Holder(_dataclass, _is_field),
    "TypedDict": Holder(_typed_dict, _is_field), "NamedTuple": Holder(_named_tuple, _is_field),
}  # fmt: skip


LEAF_TYPES = st.sampled_from(EVERY)


KEYS = st.sampled_from([each for each in EVERY if each.is_key and _is_field(each)])


def _holding(name: str, inner: st.SearchStrategy[Supported]) -> st.SearchStrategy[Supported]:
    if name == "pair":
        return st.tuples(inner.filter(_is_data), inner.filter(_is_data)).map(lambda both: _pair(*both))
    if name == "union":
        return st.tuples(inner, inner).filter(_are_apart).map(lambda both: _union(*both))
    if name == "dict":
        return st.tuples(KEYS, inner.filter(_is_field)).map(lambda both: _mapping(*both))
    return inner.filter(HOLDERS[name].may_hold).map(HOLDERS[name].hold)


TYPES: st.SearchStrategy[Supported] = st.recursive(
    LEAF_TYPES,
    lambda inner: st.sampled_from([*HOLDERS, "pair", "union", "dict"]).flatmap(
        lambda name: _holding(name, inner)
    ),
    max_leaves=4,
)


CHECKER = Draft202012Validator.FORMAT_CHECKER


QUICKLY = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)


@pytest.fixture(scope="module")
def judge() -> Iterator[NodeJudge]:
    with node_judge() as process:
        yield process


def check(entry: Supported, echo: Echo, value: Any, revision: str, judge: NodeJudge) -> None:
    """Pass a value through a tool, and hold what travels and what comes back against the rules."""
    data = asyncio.run(echo.pass_on(value, revision))
    same = entry.is_same or is_same
    assert same(value, echo.received), f"{value!r} came back as {echo.received!r}"
    schemas = [echo.schema] if echo.output is None else [echo.schema, echo.output.schema]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema, format_checker=CHECKER).validate(data)
        assert judge.objection(schema, data) is None, (schema, data)


CONTAINERS = ("list", "Optional", "keys of dict", "model")
"""Containers that each type is tried in; random nested types are tried in all of them."""


@pytest.mark.parametrize("entry", EVERY, ids=[entry.name for entry in EVERY])
def test_round_trip_of_each_type_alone_and_in_containers(entry: Supported, judge: NodeJudge) -> None:
    containers = [HOLDERS[name] for name in CONTAINERS]
    held = (holder.hold(entry) for holder in containers if holder.may_hold(entry))
    for each in chain(
        [entry], held
    ):  # one after the other: a model is made once its member has been registered
        echo = Echo(each.annotation)

        @settings(QUICKLY, max_examples=3)
        @given(each.values, st.sampled_from(REVISIONS))
        def run(value: Any, revision: str) -> None:
            check(each, echo, value, revision, judge)

        run()
        if each is entry:
            for revision in REVISIONS:
                check(entry, echo, entry.sample, revision, judge)


@settings(QUICKLY, max_examples=60)
@given(TYPES, st.data(), st.sampled_from(REVISIONS))
def test_round_trip_of_nested_types(
    judge: NodeJudge, entry: Supported, data: st.DataObject, revision: str
) -> None:
    value = data.draw(entry.values, label=str(entry.annotation))
    check(entry, Echo(entry.annotation), value, revision, judge)


def accepted(entry: Supported, judge: NodeJudge, times: int) -> None:
    echo = Echo(entry.annotation)

    @settings(QUICKLY, max_examples=times)
    @given(allowed(echo.schema, echo.schema))
    def run(data: Any) -> None:
        Draft202012Validator(echo.schema, format_checker=CHECKER).validate(data)
        assert judge.objection(echo.schema, data) is None
        result = asyncio.run(echo.take(data))
        assert not result.is_error or (not entry.is_exact and result.text.startswith("x")), result.text

    run()


TEXTS = [
    *("", "a", "abc", "ABC", "a-b", "a b", "a.b", "12", "2026-2026", "2026-2027", "-", "_", "é", "ß", "٣", "😀", "aa"),
    *("a\n", "\n", "\r", "\u2028", "\ufeff", "\x85", "\x1c", "\xa0", "\t", "\b", "a\\b", "[", "]", "{", "}", "x{y}"),
    *("^", "$", "(a)", "a/b"),
    *("foo bar", "foobar", '"', "'", "#", "&", "~", "/", "a@b.ch", "+41 791234567", "0791234567", "\0", "A"),
]  # fmt: skip


PUBLISHED = {
    # as an author writes it: as clients read it
    r"\A[a-z]+\Z": "^[a-z]+$",
    r"[a-z]+\z": "[a-z]+$",
    r"(?P<year>\d{4})-(?P=year)": r"(?<year>\d{4})-\k<year>",
    r"(?<year>\d{4})-\k<year>": r"(?<year>\d{4})-\k<year>",
    r"a\-b\ c\#": "a-b c#",
    r"[\_\ \"\-\]]": r'[_ "\-\]]',
    r"x{y}": r"x\{y\}",
    r"a]": r"a\]",
    r"a{,3}": "a{0,3}",
    r"[]a]": r"[\]a]",
    r"[^]a]": r"[^\]a]",
    r"\U0001F600": "😀",
    r"\x{41}": "A",
    r"\pL+": r"\p{L}+",
    r"\01": r"\x01",
    r"(?#a year)\d{4}": r"\d{4}",
    r"(?a)\w+": r"\w+",
    r"(?s)a.b": r"a[\s\S]b",
    **{
        pattern: pattern
        for pattern in (
            *("^[a-z]+$", r"^\d{4}-\d{2}$", r"[\w.-]+@[\w-]+\.\w{2,}", r"^(\+\d{1,3}[- ]?)?\d{10}$", r"[^\S\n]"),
            *(r"^[^/\\]+$", r"\bfoo\b", r"\Bo", r"(?=a)b|(?!c)d", r"(?<=a)b", r"(?<!a)b", r"(a)\1", r"[\s\S]*?"),
            *("😀", "é", r"\D\W"),
            *(r"[\b]", r"\/", r"\n\t", r"[!-~]", r"[a-c-e]", "[[(]", "a|", "(?:a|b)+?", "[-a]", "[a-]", r"\u00e9"),
        )
    },
}  # fmt: skip


@each_row("pattern", PUBLISHED)
def test_published_pattern_compiles_in_node(pattern: str, judge: NodeJudge) -> None:
    known = read(pattern)
    assert known is not None
    assert known.published == PUBLISHED[pattern]
    again = read(known.published)
    assert again is not None
    assert again.published == known.published
    found = judge.matches(known.published, TEXTS)
    assert [matches(pattern)(text) for text in TEXTS] == found
    assert [matches(known.published)(text) for text in TEXTS] == found


PIECES = st.sampled_from(
    [
        *("a", "b", "-", "_", " ", "é", "😀", ".", r"\.", r"\-", r"\ ", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"),
        *(r"\n", "/", r"\x41", r"\u00e9"),
        *("[a-z]", "[^a-z]", r"[\w-]", r"[^\d\s]", r"[\S]", r"[\-\]]", "[]a]", r"[\x00-\x20]", "{", "}", "]"),
        *(r"\b", r"\B", "^", "$", r"\A", r"\Z", "(?=a)", "(?!b)", "(?#no)"),
    ]
)  # fmt: skip


GENERATED = st.recursive(
    st.lists(PIECES, min_size=1, max_size=4).map("".join),
    lambda inner: st.one_of(
        inner.map("({})".format),
        inner.map("(?:{})".format),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{,2}", "{0,2}?", "*?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=4,
)


@settings(derandomize=True)
@given(GENERATED, st.lists(st.text("ab-_ .é😀\n/]}{A0٣\u2028\xa0", max_size=4), max_size=8))
def test_published_pattern_matches_as_in_node(judge: NodeJudge, pattern: str, texts: list[str]) -> None:
    known = read(pattern)
    assert known is not None, pattern
    texts += TEXTS
    assert [matches(pattern)(text) for text in texts] == judge.matches(known.published, texts)
    # Of what is ASCII and ends no line, Python means the same.
    plain = [text for text in texts if text and text.isascii() and text.isprintable()]
    assert [matches(pattern)(text) for text in plain] == [
        re.search(pattern, text) is not None for text in plain
    ]
