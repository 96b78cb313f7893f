"""Signatures and calls that nobody has thought of: the same tool as in mcp 1.x."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PLAIN = ["int", "str", "float", "bool", "Any", "list", "dict", "bytes", "None", "Literal['a', 1]"]
OTHERS = [
    "Person",
    "Color",
    "Path",
    "date",
    "Key",
    "Box",
    "Tree",
    "Page[int]",
    "types.TextContent",
    "Decimal",
]
DEFAULTS = ["None", "1", "'x'", "[]", "{'a': 1}", "Field(description='q')", "Field(1, ge=0)", "Color.RED"]
NAMES = ["a", "value", "json", "copy", "camelCase", "x_y", "schema", "名"]


def around(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("list[{}]".format, types),
        st.builds("dict[str, {}]".format, types),
        st.builds("Optional[{}]".format, types),
        st.builds("Union[{}, {}]".format, types, types),
        st.builds("tuple[{}, {}]".format, types, types),
        st.builds("Annotated[{}, Field(description='d')]".format, types),
    )


TYPES = st.recursive(st.sampled_from(PLAIN + OTHERS), around, max_leaves=4)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "1", "null", "[1]", '{"name": "x"}', "red", "2020-01-01", "true", "{"])
    | st.just({"name": "x", "age": "3"})
    | st.just({"a": 1}),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.sampled_from("ab"), values, max_size=2),
    max_leaves=4,
)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    parameters = []
    for name in names:
        default = draw(st.none() | st.sampled_from(DEFAULTS))
        annotation = draw(st.just("") | TYPES.map(": {}".format))
        parameters.append(f"{name}{annotation}" + (f" = {default}" if default else ""))
    returned = draw(st.just("") | TYPES.map(" -> {}".format))
    value = draw(st.sampled_from([*names, "None", "Person(name='n')", "[1, 'x']", "{'a': 1}"]))
    is_async = draw(st.sampled_from(["", "async "]))
    declared = ", ".join(["*", *parameters] if parameters else [])
    source = f"{is_async}def f({declared}){returned}:\n    return {value}\nfunctions = [f]\n"
    calls = st.lists(st.dictionaries(st.sampled_from([*NAMES, "z"]), VALUES, max_size=3), max_size=4)
    structured = draw(st.sampled_from([None, None, True, False]))
    return {"source": source, "calls": draw(calls), "options": {"structured_output": structured}}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(cases(), min_size=3, max_size=6))
def test_drawn_functions_are_the_same_tools(theirs, ours, drawn):
    answer = theirs(drawn)
    assert ours(drawn) == answer()
