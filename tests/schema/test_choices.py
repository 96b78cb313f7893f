"""Long lists of choices under `input_schema=`: found by looking up, and equal as JSON Schema says."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcpkit import Server
from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import choices, explicit
from mcpkit.schema.explicit import CheckedSchema
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

MANY = [{"name": f"n{index}", "at": [index]} for index in range(choices._MANY)]
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.sampled_from([0, 1, 1.0, -0.0, 2**53, 2**70, 1e300, 1.5, "", "1", "a"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def schema(values: list[Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"value": {"type": "array", "items": {"enum": values}}}}


@settings(max_examples=300, deadline=None)
@given(VALUES, VALUES)
@example(1, 1.0)
@example(True, 1)
@example({"a": 1, "b": 2}, {"b": 2.0, "a": 1})
@example([0], [False])
def test_a_choice_is_equal_to_what_json_schema_says(choice: Any, value: Any) -> None:
    fits = CheckedSchema(schema([*MANY, choice]), "input_schema").fits({"value": [value]})
    assert fits == Draft202012Validator({"enum": [choice]}).is_valid(value)


def best(act: Any) -> float:
    def once() -> float:
        start = time.perf_counter()
        act()
        return time.perf_counter() - start

    return min(once() for _ in range(5))


@pytest.mark.slow
def test_more_choices_take_no_longer() -> None:
    def validate(count: int) -> Any:
        every = [{"name": "n" * 10, "at": [index]} for index in range(count)]
        arguments = explicit.arguments(schema(every))
        return lambda: arguments.validate({"value": [every[-1]] * 1000})

    assert best(validate(10_000)) < 10 * best(
        validate(choices._MANY)
    )  # compared with each, it takes a hundred times


async def test_what_is_none_of_many_choices_is_explained() -> None:
    server = Server("s")

    @server.tool(input_schema=schema(MANY))
    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    async with connect(server) as client:
        assert (await client.call("take", {"value": [{"at": [1.0], "name": "n1"}]})).text == "taken"
        result = await client.call("take", {"value": [{"name": "n1", "at": [2]}]})
        assert result.is_error
        assert 'value[0]: expected one of 100 values such as {"name":"n0","at":[0]}' in result.text


def test_a_member_that_is_named_as_a_keyword_is_a_member() -> None:
    described = {"type": "object", "properties": {"enum": {"type": "integer"}, "of": {"not": {"enum": MANY}}}}
    arguments = explicit.arguments(described)
    assert arguments.validate({"enum": 1, "of": 1})
    for wrong in ({"enum": "x"}, {"of": MANY[0]}):
        with pytest.raises(ArgumentsError):
            arguments.validate(wrong)
