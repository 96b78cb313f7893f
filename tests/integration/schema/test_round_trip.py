"""A tool that returns its argument is the identity for every supported type, as ajv in Node judges."""

# ruff: noqa: UP007, UP045 - built of what is known at run time only, and the old spellings are tested on purpose
import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional, Union

import pydantic
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typing_extensions import TypedDict

from mcpkit.schema.fast_path_for_builtin_types import describe
from mcpkit.schema.patterns_and_formats import matches, published_pattern
from tests.helpers.node import NodeJudge, node_judge
from tests.helpers.supported_types import EVERY, REVISIONS, Echo, Supported, is_same
from tests.helpers.tables import each_row

pytestmark = pytest.mark.long


def container(
    annotation: Any, values: st.SearchStrategy[Any], *inner: Supported, **options: Any
) -> Supported:
    """Return a type that contains others."""
    options.setdefault("is_field", all(each.is_field for each in inner))
    return Supported(str(annotation), annotation, values, None, **options)


def list_of(inner: Supported) -> Supported:
    return container(list[inner.annotation], st.lists(inner.values, max_size=3), inner)


def tuple_of(*inner: Supported) -> Supported:
    annotation = tuple[tuple(each.annotation for each in inner)]
    is_hashable = all(each.is_hashable for each in inner)
    return container(annotation, st.tuples(*(each.values for each in inner)), *inner, is_hashable=is_hashable)


def any_tuple_of(inner: Supported) -> Supported:
    values = st.lists(inner.values, max_size=3).map(tuple)
    return container(tuple[inner.annotation, ...], values, inner, is_hashable=inner.is_hashable)


def set_of(inner: Supported) -> Supported:
    return container(set[inner.annotation], st.sets(inner.values, max_size=3), inner)


def dict_of(key: Supported, inner: Supported) -> Supported:
    values = st.dictionaries(key.values, inner.values, max_size=3)
    return container(dict[key.annotation, inner.annotation], values, key, inner)


def optional(inner: Supported) -> Supported:
    annotation = Optional[inner.annotation]
    return inner._replace(annotation=annotation, values=st.none() | inner.values, is_key=False)


def union_of(*both: Supported) -> Supported:
    annotation, values = Union[tuple(each.annotation for each in both)], both[0].values | both[1].values
    is_content, is_hashable = any(each.is_content for each in both), all(each.is_hashable for each in both)
    return container(annotation, values, *both, is_content=is_content, is_hashable=is_hashable)


def model_of(inner: Supported) -> Supported:
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model = pydantic.create_model(
        "Model", __config__=config, value=(inner.annotation, ...), note=(str, "none")
    )
    # Not by its own `__init__`: that takes some types in another form.
    values = inner.values.map(lambda value: model.model_construct(value=value, note="a"))
    return container(model, values, inner)


def dataclass_of(inner: Supported) -> Supported:
    cls: Any = dataclasses.make_dataclass("Data", [("value", inner.annotation), ("note", str, "none")])
    return container(cls, inner.values.map(cls), inner)


def typed_dict_of(inner: Supported) -> Supported:
    cls: Any = TypedDict("Record", {"value": inner.annotation}, total=False)
    return container(cls, st.fixed_dictionaries({}, optional={"value": inner.values}), inner)


def named_tuple_of(inner: Supported) -> Supported:
    cls: Any = NamedTuple("Entry", [("value", inner.annotation)])
    return container(cls, inner.values.map(cls), inner)


def json_types(schema: Any, definitions: Any) -> set[str]:
    """Return the types of the JSON values that a schema allows."""
    if "$ref" in schema:
        return json_types(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return set().union(*(json_types(branch, definitions) for branch in schema["anyOf"]))
    if "type" in schema:
        return {"number" if schema["type"] == "integer" else schema["type"]}
    names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return {names[type(value)] for value in schema["enum"]}


def have_different_types(both: tuple[Supported, Supported]) -> bool:
    """Return whether a JSON value belongs to one of two types only."""
    first, second = (describe(each.annotation) for each in both)
    return not json_types(first.schema, first.definitions) & json_types(second.schema, second.definitions)


def is_data(each: Supported) -> bool:
    """Return whether a list of the type is an array: a list of `bytes` is content."""
    return not each.is_content


def is_field(each: Supported) -> bool:
    return each.is_field


def is_key(each: Supported) -> bool:
    return each.is_key and each.is_field


NAMES = EVERY[0]

CONTAINERS: dict[str, tuple[Callable[[Supported], Supported], Callable[[Supported], bool]]] = {
    # a function that makes the container, and the condition for its type
    "list": (list_of, is_data), "Optional": (optional, lambda each: True),
    "keys of dict": (lambda each: dict_of(each, NAMES), is_key), "model": (model_of, is_field),
}  # fmt: skip
"""Containers that each type is tried in."""

OTHERS = {
    "tuple": (any_tuple_of, is_data), "set": (set_of, lambda each: each.is_hashable and is_data(each)),
    "values of dict": (lambda each: dict_of(NAMES, each), is_field), "dataclass": (dataclass_of, is_field),
    "TypedDict": (typed_dict_of, is_field), "NamedTuple": (named_tuple_of, is_field),
}  # fmt: skip

KEYS = st.sampled_from([each for each in EVERY if is_key(each)])


def containers(inner: st.SearchStrategy[Supported]) -> st.SearchStrategy[Supported]:
    """Draw a container for one type or for two."""
    data, fields = inner.filter(is_data), inner.filter(is_field)
    return st.one_of(
        *(inner.filter(may_contain).map(make) for make, may_contain in {**CONTAINERS, **OTHERS}.values()),
        st.tuples(data, data).map(lambda both: tuple_of(*both)),
        st.tuples(inner, inner).filter(have_different_types).map(lambda both: union_of(*both)),
        st.tuples(KEYS, fields).map(lambda both: dict_of(*both)),
    )


TYPES = st.recursive(st.sampled_from(EVERY), containers, max_leaves=4)


CHECKER = Draft202012Validator.FORMAT_CHECKER


QUICKLY = settings(derandomize=True, phases=[Phase.explicit, Phase.generate, Phase.shrink])


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


@pytest.mark.parametrize("entry", EVERY, ids=[entry.name for entry in EVERY])
def test_round_trip_of_each_type_alone_and_in_containers(entry: Supported, judge: NodeJudge) -> None:
    # One after the other: a model is made once its member has been registered.
    for make in (
        lambda each: each,
        *(make for make, may_contain in CONTAINERS.values() if may_contain(entry)),
    ):
        each = make(entry)
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
def test_round_trip_of_nested_types(judge, entry, data, revision) -> None:
    value = data.draw(entry.values, label=str(entry.annotation))
    check(entry, Echo(entry.annotation), value, revision, judge)


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
    r"(?P<year>[0-9]{4})-[0-9]+": r"(?<year>[0-9]{4})-[0-9]+",
    **{
        pattern: pattern
        for pattern in (
            *("^[a-z]+$", r"^\d{4}-\d{2}$", r"[\w.-]+@[\w-]+\.\w{2,}", r"^(\+\d{1,3}[- ]?)?\d{10}$", r"[^\S\n]"),
            *(r"^[^/\\]+$", r"\bfoo\b", r"\Bo", r"(?=a)b|(?!c)d", r"(?<=a)b", r"(?<!a)b", r"(a)\1", r"[\s\S]*?"),
            *("😀", "é", r"\D\W", r"(?<year>\d{4})-\k<year>"),
            *(r"\/", r"\n\t", r"[!-~]", r"[a-c-e]", "a|", "(?:a|b)+?", "[-a]", "[a-]", r"\u00e9", r"[\-a]"),
        )
    },
}  # fmt: skip


@each_row("pattern", PUBLISHED)
def test_published_pattern_compiles_in_node(pattern: str, judge: NodeJudge) -> None:
    published = published_pattern(pattern)
    assert published == PUBLISHED[pattern]
    assert published_pattern(published) == published
    found = judge.matches(published, TEXTS)
    # Lookarounds and backreferences are for schemas of authors; classes of characters are Unicode in validation.
    if not re.search(r"\(\?<?[=!]|\\[dDwWsSbB1k]", pattern):
        assert [matches(pattern)(text) for text in TEXTS] == found
        assert [matches(published)(text) for text in TEXTS] == found
