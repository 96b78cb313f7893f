"""Signatures and docstrings of callables."""

import functools
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import Field

from mcpkit import Image, ResultOptions, Server
from mcpkit._utils.exceptions import ArgumentsError, RegistrationError
from mcpkit.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpkit.schema import Arguments, Signature, UnresolvedHint, custom_schemas
from mcpkit.schema.custom_schemas import CheckedSchema
from mcpkit.schema.docstrings import read
from mcpkit.schema.function_signatures import empty
from mcpkit.testing import connect
from tests.helpers.tables import each_row

if TYPE_CHECKING:
    pass


class Ctx:
    """Stands for what a framework injects."""


def signature_of(fn: Callable[..., Any]) -> Signature:
    return Signature.of(fn, is_injected=lambda annotation, default: annotation is Ctx)


def names(fn: Callable[..., Any]) -> list[str]:
    return [parameter.name for parameter in signature_of(fn).parameters]


def plain(city: str, days: int = 3, *, unit: str = "c") -> bool:
    """Say it.

    Args:
        city: Where.
        days: How long.
    """
    return True


async def coroutine(ctx: Ctx, city: str) -> None: ...


def test_signature_of_function() -> None:
    signature = signature_of(plain)
    assert signature.name == "plain"
    assert signature.description == "Say it."
    assert signature.returns is bool
    assert not signature.is_async
    assert [(p.name, p.annotation, p.default, p.is_required,
        p.description) for p in signature.parameters] == [("city", str, empty, True, "Where."), ("days", int,
        3, False, "How long."), ("unit", str, "c", False, None)]  # fmt: skip


def test_signature_of_partial_omits_bound_arguments() -> None:
    assert names(functools.partial(plain, "here")) == ["days", "unit"]
    assert names(functools.partial(plain, days=1)) == ["city", "unit"]
    assert names(functools.partial(functools.partial(plain, days=1), unit="f")) == ["city"]
    bound = signature_of(functools.partial(coroutine, city="x"))
    assert ([p.name for p in bound.injected], [*bound.parameters], bound.is_async) == (["ctx"], [], True)
    assert bound.returns is type(None)
    assert signature_of(functools.partial(plain, days=1)).name == "plain"


def test_signature_annotation_describes_before_docstring() -> None:
    def f(
        a: Annotated[int, "from text"],
        b: Annotated[int, Field(description="from Field")],
        c: int = Field(3, description="from default"),
        d: int = 0,
    ) -> None:
        """Do.

        Args:
            a: docstring
            b: docstring
            c: docstring
            d: docstring
        """

    assert [p.description for p in signature_of(f).parameters] == ["from text", "from Field", "from default",
        "docstring"]  # fmt: skip


def star(*cities: str) -> None: ...


def positional(city: str, /) -> None: ...


@each_row(("function", "message"), [
    (star, r"star: .*\*cities.*write `cities: list\[\.\.\.\]`"),
    (positional, "positional: .*'city'.*remove the `/`"),
])  # fmt: skip
def test_signature_of_parameters_without_names_is_refused(function: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        signature_of(function)


def test_signature_unresolved_hint_can_be_retried() -> None:
    namespace: dict[str, Any] = {}
    source = "from __future__ import annotations\ndef f(a: Later) -> list[Later]: ...\n"
    exec(source, namespace)
    with pytest.raises(UnresolvedHint, match="'Later' is not defined"):
        signature_of(namespace["f"])
    namespace["Later"] = int
    assert signature_of(namespace["f"]).parameters[0].annotation is int


def test_signature_field_as_default() -> None:
    def f(a: int = Field(5, ge=1), b: list[int] = Field(default_factory=list), c: int = Field()) -> None: ...

    signature = signature_of(f)
    arguments = Arguments.of(signature)
    assert arguments.schema["required"] == ["c"]
    assert arguments.schema["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 5}
    assert arguments.validate({"c": 1}) == {"a": 5, "b": [], "c": 1}
    first, second = arguments.validate({"c": 1})["b"], arguments.validate({"c": 1})["b"]
    assert first is not second


@each_row("text", [None, "", "   "])
def test_docstring_missing_has_no_description(text: str | None) -> None:
    documentation = read(text)
    assert documentation.description is None
    assert documentation.arguments == {}


@each_row("text", [
    "Add.\n\nReturns:\n    The sum\n    of both.", "Add.\n\nReturns: The sum\n    of both.",
    "Add.\n\n    Returns:\n        int: The sum\n        of both.\n    ",
    "Add.\n\nReturn:\n    list[int]: The sum\n    of both.",
    "Add.\n\nReturns\n-------\nint\n    The sum\n    of both.\n",
    "Add.\n\nReturns\n-------\nThe sum\nof both.\n", "Add.\n\n:returns: The sum\n    of both.\n:rtype: int",
    "Add.\n\n:param a: One.\n:return: The sum\n    of both.",
    "Add.\n\nArgs:\n    a: One.\n\nReturns:\n    The sum\n    of both.\n",
    "Add.\n\nParameters\n----------\na : int\n    One.\n\nReturns\n-------\nint\n    The sum\n    of both.",
])  # fmt: skip
def test_docstring_returns_section_in_all_styles(text: str) -> None:
    assert read(text).description == "Add.\n\nReturns: The sum\nof both."


@each_row(("text", "description"), [
    ("Add.\n\nReturns:\n    A dict: keys are names.", "Add.\n\nReturns: A dict: keys are names."),
    ("Add.\n\nReturns:\n    Note: nothing.", "Add.\n\nReturns: Note: nothing."),
    ("Add.\n\nReturns:\n    pd.DataFrame: The rows.", "Add.\n\nReturns: The rows."),
    ("Add.\n\nYields:\n    The next.", "Add.\n\nYields: The next."),
    ("Add.\n\n:yield: The next.", "Add.\n\nYields: The next."),
    ("Add.\n\nYields\n------\nint\n    The next.", "Add.\n\nYields: The next."),
    (
        "Cut.\n\nReturns\n-------\nhead : str\n    The first.\ntail : str\n    The rest.\n\nNotes\n-----\nQuick.",
        "Cut.\n\nReturns: head: The first.\ntail: The rest.\n\nNotes\n-----\nQuick.",
    ),
    ("Add.\n\n:returns: One.\n\nAnd more.", "Add.\n\nReturns: One.\n\nAnd more."),
    ("Returns: to sender.", "Returns: to sender."),
    ("Returns the sum of both.", "Returns the sum of both."), ("Add.\n\n:rtype: int", "Add."),
    ("Add.\n\nReturns:", "Add."),
])  # fmt: skip
def test_docstring_other_result_sections(text: str, description: str) -> None:
    assert read(text).description == description


NAMES = {
    "query": "query", "limit": "limit", "_hint": "_hint", "$from": "start", "start": "start", "ctx": None,
}  # fmt: skip


@each_row(("text", "arguments", "rest"), [
    # Google
    ("Args:\n    query: A.\n    limit (int, optional): B\n        and C.\n    ctx: D.\n\nReturns:\n    E.",
     {"query": "A.", "limit": "B\nand C."}, "\n\nReturns: E."),
    ("Arguments:\n    query: A.\n\n        More.\n    other: B.", {"query": "A.\nMore."},
     "\n\nArguments:\n    other: B."),
    ("Parameters:\n    - `query`: A.\n    * **limit**: B.\n    + _hint: C.",
     {"query": "A.", "limit": "B.", "_hint": "C."}, ""),
    ("Params:\n    1. **`query`** - A.\n    2) **limit:** B.\n    (3) <$from> \u2014 C.",
     {"query": "A.", "limit": "B.", "start": "C."}, ""),
    ("Keyword Args:\n    \u2022 query, limit: A.\n    __hint__ => B.", {"query": "A.", "limit": "A."},
     "\n\nKeyword Args:\n    __hint__ => B."),
    ("Keyword Arguments:\n    query [int] -- A.\n    limit (from 1 to 9): B.",
     {"query": "A.", "limit": "(from 1 to 9) B."}, ""),
    ("Other Parameters:\n    query\n        A.\n    limit\n        B.", {"query": "A.", "limit": "B."}, ""),
    ("Args:\n    query: A.\n    More of it.\n    limit: B.", {"query": "A.\nMore of it.", "limit": "B."}, ""),
    ("Args:\n    | name | text |\n    query: A.", {"query": "A."}, "\n\nArgs:\n    | name | text |"),
    ("Args:\n    query: A.\n    ```\n    print(1)\n    ```", {"query": "A.\n```\nprint(1)\n```"}, ""),
    ("Args:\n    ctx: A.\n      B.\n    Words.\n    query: C.", {"query": "C."}, "\n\nArgs:\n    Words."),
    ("Args:\n    ctx: A.", {}, ""), ("Args:\n    other: A.", {}, "\n\nArgs:\n    other: A."),
    ("Args:\n    query (list[str], default: 5): A.\n    limit (a long story): B.",
     {"query": "A.", "limit": "(a long story) B."}, ""),
    ("Args:\n    TODO(me): A.\n    query: B.", {"query": "B."}, "\n\nArgs:\n    TODO(me): A."),
    ("Args:\n\nWords.", {}, "\n\nArgs:\n\nWords."),
    ("Args:\n    query" + ", query" * 200 + ":\n", {}, "\n\nArgs:\n    query" + ", query" * 200 + ":"),
    # NumPy
    ("Parameters\n---\nquery : int\n    A.\n    And B.\nctx : Context\n    D.\n\nNotes\n---\nE.",
     {"query": "A.\nAnd B."}, "\n\nNotes\n---\nE."),
    ("Parameters\n---\nquery : str, the words\n    A.\nother : int\n    B.", {"query": "(str, the words) A."},
     "\n\nParameters\n---\nother : int\n    B."),
    ("Parameters\n---\n    Words.\nquery : int\n    A.", {"query": "A."}, "\n\nParameters\n---\n    Words."),
    ("Parameters\n---\nquery : int\nlimit, start : int or str\n    C.", {"limit": "C.", "start": "C."}, ""),
    ("Params\n---\n**query** : int\n    A.", {"query": "A."}, ""),
    # reST
    (":param str query: A\n    and more.\n:type query: str\n:param ctx: B.\n:param other: C.",
     {"query": "A\nand more."}, "\n\n:param other: C."),
    (":param query: A.\n:type query: the words\n:param int limit: B.\n:return: C.",
     {"query": "A.\n(the words)", "limit": "B."}, "\n\nReturns: C."),
    (":param query, limit: A.", {"query": "A.", "limit": "A."}, ""),
    (":param $from:\n:param limit: B.", {"limit": "B."}, ""),
])  # fmt: skip
def test_docstring_texts_of_arguments_are_removed_and_others_remain(text, arguments, rest) -> None:
    documentation = read(f"Find.\n\n{text}", NAMES)
    assert documentation.arguments == arguments
    assert documentation.description == f"Find.{rest}"


# Schemas that an author writes: for arguments (`input_schema=`) and for results (`output_schema=`)


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 1},
     "when": {"type": "string", "format": "date-time"},
     "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "contains": {"const": 1}}},
    "required": ["kind"], "additionalProperties": False,
    "if": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, "then": {"required": ["count"]},
    "$defs": {"item": {"type": ["integer", "string"]}},
}  # fmt: skip


def lines(arguments: Arguments, value: dict[str, Any]) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        arguments.validate(value)
    return [str(problem) for problem in caught.value.problems]


@each_row(("value", "expected"), [
    ({}, ['kind: expected "a" or "b", but it is missing']),
    ({"kind": "c"}, ['kind: expected "a" or "b", got "c"']),
    ({"kind": "b"}, ["count: expected a value, but it is missing"]),
    ({"kind": "a", "count": 0}, ["count: expected an integer of at least 1, got 0"]),
    ({"kind": "a", "count": True}, ["count: expected an integer of at least 1, got true"]),
    ({"kind": "a", "cuont": 1}, ['cuont: unknown argument; did you mean "count"?']),
    ({"kind": "a", "when": "2026-01-31"},
     ['when: expected a date and time with offset such as 2026-01-31T09:30:00Z, got "2026-01-31"']),
    ({"kind": "a", "list": [1, None]}, ["list[1]: expected an integer or a string, got null"]),
    ({"kind": "a", "list": [2]}, ['list: [2] does not fit {"contains":{"const":1}}']),
])  # fmt: skip
def test_explicit_schema_wrong_arguments_are_reported(value: dict[str, Any], expected: list[str]) -> None:
    assert lines(custom_schemas.arguments(SCHEMA), value) == expected


@each_row(("schema", "message"), [
    ({"type": "object", "properties": {"a": {"type": "text"}}},
     r"not a valid JSON Schema at properties\.a\.type"),
    ({"type": "string"}, r'`"type": "object"`'), ({"properties": {}}, r'`"type": "object"`'),
    ({"$ref": "#/$defs/A"}, r'`"type": "object"`'),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, r"cannot be resolved \(Pointer '/\$defs/A'",),
    ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "remote schemas are not fetched"),
    ({"type": "object", "$schema": "https://example.org/own"}, "unknown dialect"), (["a"], r"got \['a'\]"),
    (int, "got <class 'int'>. For another class"),
])  # fmt: skip
def test_explicit_schema_that_is_invalid_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        custom_schemas.arguments(schema)


def test_explicit_schema_without_jsonschema_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(RegistrationError, match=r"pip install .*\[jsonschema\]"):
        custom_schemas.arguments(SCHEMA)


PAIR = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}


OLD_PAIR = {"items": [{"type": "integer"}, {"type": "string"}]}


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@each_row(("schema", "value", "expected"), [
    ({"properties": {"a": PAIR}}, {"a": [1, 2]}, ["a: [1,2] does not fit "]),
    ({"properties": {"a": {"anyOf": [PAIR, {"type": "null"}]}}}, {"a": [1, 2]}, ["a: expected "]),
    ({"$schema": DRAFT_7, "properties": {"a": OLD_PAIR}}, {"a": [1, True]},
     ["a[1]: expected a string, got true"]),
    ({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
     {"x-1": 1, "x-2": "q", "y": 1}, ["x-2: expected an integer", "y: unknown argument"]),
    ({"patternProperties": {"^x-": {"type": "integer"}}, "required": ["x-1", "x-2"]}, {"x-1": "q"},
     ["x-1: expected an integer", "x-2: expected a value, but it is missing"]),
])  # fmt: skip
def test_explicit_schema_every_fault_is_reported_at_its_place(schema, value, expected) -> None:
    found = lines(custom_schemas.arguments({"type": "object", **schema}), value)
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(sorted(found), expected, strict=True)), found


def test_explicit_schema_pattern_and_tuple_values_are_repaired() -> None:
    by_pattern = {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}
    assert custom_schemas.arguments({"type": "object", **by_pattern}).validate({"x-1": "5"}) == {"x-1": 5}
    value = {"kind": "b", "count": 5.0, "when": "2026-01-31T09:30:00Z", "list": [1, "x"]}
    assert custom_schemas.arguments(SCHEMA).validate(value) is value  # without a repair
    by_place = {"$schema": DRAFT_7, "type": "object", "properties": {"a": OLD_PAIR}}
    assert custom_schemas.arguments(by_place).validate({"a": ["1", 2]}) == {"a": [1, "2"]}


MANY = [{"name": f"n{index}", "at": [index]} for index in range(100)]


VALUES = st.recursive(
    st.sampled_from([None, False, True, 0, 1, 1.0, -0.0, 2**53, 2**70, 1e300, 1.5, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, VALUES)
@example(1, 1.0)
@example(True, 1)
@example({"a": 1, "b": 2}, {"b": 2.0, "a": 1})
@example([0], [False])
def test_explicit_choice_equality_agrees_with_json_schema(choice: Any, value: Any) -> None:
    schema = {"type": "object", "properties": {"value": {"enum": [*MANY, choice]}}}
    assert CheckedSchema(schema, "input_schema").fits({"value": value}) == Draft202012Validator(
        {"enum": [choice]}
    ).is_valid(value)


FORECAST = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "array", "items": {"$ref": "#/$defs/degree"}}},
    "required": ["city", "degrees"], "additionalProperties": False,
    "$defs": {"degree": {"type": "number", "minimum": -90, "maximum": 60}},
}  # fmt: skip


EVEN = {"type": "object", "properties": {"n": {"multipleOf": 2}}, "not": {"required": ["m"]}}
"""Needs more than the validator in Rust knows."""


async def call(output_schema: Any, value: Any, revision: str = LATEST) -> tuple[Any, Any]:
    """Return the published schema of a tool that promises something and returns a value, and its result."""
    server = Server("promises")

    @server.tool(output_schema=output_schema)
    def observe() -> Any:
        return value

    async with connect(server, protocol_version=revision) as client:
        (tool,) = await client.list_tools()
        return tool.get("outputSchema"), await client.call_tool("observe")


@each_row(("schema", "value", "message"), [
    (FORECAST, {"city": "Rome"}, r"the tool ran, but result\.degrees: expected an array.*missing"),
    (FORECAST, {"city": "Rome", "degrees": [99]},
     r"result\.degrees\[0\]: expected a number from -90 to 60, got 99"),
    (FORECAST, {"city": "Rome", "degrees": [], "x": 1}, r"result\.x: unknown"),
    (FORECAST, None, "result: expected an object, got null"), (EVEN, {"n": 3}, r"result\.n: "),
    (EVEN, {"m": 2}, "result: .*does not fit"),
])  # fmt: skip
async def test_output_schema_wrong_result_is_error(schema: Any, value: Any, message: str) -> None:
    _, result = await call(schema, value)
    assert result.is_error
    assert result.structured_content is None
    assert re.search(message, result.text), result.text


async def test_output_schema_array_is_wrapped_in_handshake_versions() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    published, result = await call(schema, [1], LATEST)
    assert (published, result.structured_content) == (schema, [1])
    published, result = await call(schema, [1], LATEST_HANDSHAKE)
    assert published == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
        "required": ["result"],
        "$defs": {"n": {"type": "integer"}},
    }
    assert result.structured_content == {"result": [1]}


@each_row(("options", "message"), [
    ({"output_schema": {"type": "objekt"}}, "tool 'observe': output_schema: not a valid JSON Schema at type"),
    ({"output_schema": {"$ref": "#/$defs/x"}}, "output_schema: a \\$ref cannot be resolved"),
    ({"output_schema": {"type": "array", "items": {"$ref": "#"}}},
     "\\$ref '#'; move the definition under `\\$defs`"),
    ({"output_schema": "Report"}, "'Report' is neither a JSON Schema nor a type"),
    ({"output_schema": [int]}, "is neither a JSON Schema nor a type; pass a dict or a class"),
    ({"output_schema": Image}, "declares no data"), ({"output_schema": Any}, "declares no data"),
    ({"output_schema": FORECAST, "result": ResultOptions(structured=False)}, "needs structured content"),
])  # fmt: skip
def test_output_schema_that_is_invalid_is_refused(options: Any, message: str) -> None:
    def observe() -> None:
        """Look."""

    with pytest.raises(RegistrationError, match=message):
        Server("promises").tool(observe, **options)
