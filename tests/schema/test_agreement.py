"""Properties of all types: validator and published schema agree; schemas of arrays name their items."""

# ruff: noqa: UP045 - not every type drawn here can be written with `|` in Python 3.10
from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as InvalidError
from jsonschema.validators import extend
from pydantic import BaseModel, Field
from pydantic_core import ValidationError

from mcpkit.client.contract.verdict import Effect, of_input, of_output
from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Output
from mcpkit.schema.hints import describe
from tests.helpers.random_types import ANNOTATIONS, fitting
from tests.helpers.schema_cases import Point, arguments_of, holds_integer, holds_json
from tests.helpers.tables import each_row

CHECKER = Draft202012Validator.FORMAT_CHECKER


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[InvalidError]:
    # Python's `$` also matches before a last newline; JSON Schema's does not.
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield InvalidError(f"{value!r} does not match {pattern}")


SchemaJudge: Any = extend(Draft202012Validator, {"pattern": _pattern})


def judge(schema: Any, value: Any, root: Any) -> bool:
    """Validate with jsonschema, and check `contentEncoding`, which jsonschema ignores."""
    judging = SchemaJudge({**root, "properties": {"value": schema}}, format_checker=CHECKER)
    if not judging.is_valid({"value": value}):
        return False
    return _encoded(schema, value, root)


def _encoded(schema: Any, value: Any, root: Any) -> bool:
    if "$ref" in schema:
        return _encoded(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    if "anyOf" in schema:
        return any(judge(branch, value, root) for branch in schema["anyOf"])
    if schema.get("contentEncoding") == "base64":
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return False
    if isinstance(value, list):
        items = schema.get("prefixItems", [schema.get("items", {})] * len(value))
        return all(_encoded(inner, item, root) for inner, item in zip(items, value))
    if isinstance(value, dict):
        rest = schema.get("additionalProperties", {})
        members = schema.get("properties", {})
        return all(
            _encoded(members.get(name, rest if isinstance(rest, dict) else {}), item, root)
            for name, item in value.items()
        )
    return True


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_validator_agrees_with_published_schema(data: st.DataObject) -> None:
    annotation = data.draw(ANNOTATIONS, label="type")
    arguments = arguments_of(annotation)
    Draft202012Validator.check_schema(arguments.schema)
    value = data.draw(fitting(arguments.schema["properties"]["value"], arguments.schema), label="value")
    is_valid = judge(arguments.schema["properties"]["value"], value, arguments.schema)
    if is_valid:
        assert arguments.validate({"value": value}).keys() == {"value"}
        return
    with pytest.raises(ValidationError):
        arguments._validator.validate_python({"value": value}, by_alias=True, by_name=False)
    if holds_json(value) or holds_integer(value):
        return
    with pytest.raises(ArgumentsError, match=r"expected|unknown key|the key is not") as caught:
        arguments.validate({"value": value})
    assert all(problem.field.startswith("value") for problem in caught.value.problems)
    assert "pydantic" not in str(caught.value)


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "100"))


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
def test_array_schema_has_items_that_change_nothing(data: st.DataObject) -> None:
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


@each_row(
    ("annotation", "items"),
    [
        (tuple[int, int], N), (tuple[int, str, int], {"anyOf": [N, S]}), (tuple[()], {}),
        (tuple[Annotated[str, Field(description="x" * 990)], int], {}),
        (Point, {"anyOf": [N, {"type": "number", "default": 0.0}]}),
        (tuple[Point, Point], describe(Point).schema),
    ],
)  # fmt: skip
def test_tuple_schema_items(annotation: Any, items: Any) -> None:
    assert describe(annotation).schema["items"] == items
