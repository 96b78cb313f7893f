"""Arrays say their `items`, tuples too: it changes nothing of what they accept, and breaks no client."""

# ruff: noqa: UP045 - not every type drawn here can be written with `|` in Python 3.10
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, WithJsonSchema

from mcpkit.client.contract.verdict import Effect, of_input, of_output
from mcpkit.schema import Output, explicit
from mcpkit.schema.hints import describe
from tests.helpers.drawn import ANNOTATIONS, fitting
from tests.helpers.structures import Point, arguments_of

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))

S, N = {"type": "string"}, {"type": "integer"}


class Shape(BaseModel):
    color: tuple[int, int, int] = (0, 0, 0)
    """`prefixItems` in a model."""
    corners: tuple[Point, Point]


class Chain(NamedTuple):
    value: int
    rest: Chain | None = None


TUPLES = st.recursive(
    ANNOTATIONS | st.sampled_from([Point, Shape, Chain, tuple[()]]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda hints: tuple[tuple(hints) or ()]),
        inner.map(lambda hint: tuple[hint, hint]),
        inner.map(lambda hint: list[hint]),
        inner.map(lambda hint: Optional[hint]),
    ),
    max_leaves=5,
)


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a published schema and all objects in it; no type drawn here has data that looks like a schema."""
    if isinstance(schema, dict):
        yield schema
        for inner in schema.values():
            yield from schemas(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from schemas(inner)


def without_items(schema: Any) -> Any:
    """Return a schema in which tuples of fixed length have no `items`."""
    if isinstance(schema, list):
        return [without_items(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    is_fixed = schema.get("maxItems") == len(schema.get("prefixItems", ()))
    return {
        key: without_items(value)
        for key, value in schema.items()
        if not (is_fixed and key == "items" and schema.get("type") == "array")
    }


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.data())
def test_each_array_says_its_items_and_tuples_accept_what_they_did(data: st.DataObject) -> None:
    annotation = data.draw(TUPLES, label="type")
    new = arguments_of(annotation).schema
    for schema in schemas(new):
        if schema.get("type") == "array":
            assert isinstance(schema.get("items"), dict), schema
            if "prefixItems" in schema and schema.get("maxItems") == len(schema["prefixItems"]):
                assert schema["items"] in expected_items(schema["prefixItems"])
    old = without_items(new)
    value = data.draw(fitting(old["properties"]["value"], old), label="value")
    is_valid = [Draft202012Validator(each).is_valid({"value": value}) for each in (old, new)]
    assert is_valid[0] == is_valid[1]
    assert of_input(old, new).effect is of_input(new, old).effect is Effect.COMPATIBLE
    output = Output.of(annotation)
    if output is not None and (output.schema.keys() - {"$defs"}):
        before = without_items(output.schema)
        assert of_output(before, output.schema).effect is of_output(output.schema, before).effect
        assert of_output(before, output.schema).effect is Effect.COMPATIBLE


def expected_items(prefix: list[Any]) -> list[Any]:
    distinct = [each for index, each in enumerate(prefix) if each not in prefix[:index]]
    wanted = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
    return [wanted] if len(json.dumps(wanted, separators=(",", ":"))) <= 1_000 else [{}]


@pytest.mark.parametrize(
    ("annotation", "items"),
    [
        (tuple[int, int], N),
        (tuple[int, str, int], {"anyOf": [N, S]}),
        (tuple[()], {}),
        (tuple[Annotated[str, Field(description="x" * 990)], int], {}),
        (Point, {"anyOf": [N, {"type": "number", "default": 0.0}]}),
        (tuple[Point, Point], describe(Point).schema),
    ],
)
def test_the_items_of_a_tuple(annotation: Any, items: Any) -> None:
    assert describe(annotation).schema["items"] == items


PAIR = {"type": "array", "prefixItems": [N, S], "minItems": 2, "maxItems": 2}


def test_schemas_of_authors_stay_as_they_are() -> None:
    assert describe(Annotated[tuple[int, str], WithJsonSchema(PAIR)]).schema == PAIR
    schema = {"type": "object", "properties": {"pair": PAIR}}
    assert explicit.arguments(schema).schema == schema
    assert Output.explicit(schema).schema == schema
