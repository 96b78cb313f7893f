"""Values that stand alone or in containers: what clients read, what is accepted as what, and what is refused."""

# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
# ruff: noqa: UP007, UP045 - the old spellings of unions are tested on purpose
from __future__ import annotations

import collections.abc
import enum
import json
import math
import subprocess
import sys
import typing
from typing import Annotated, Any, Literal, Optional, Union

import annotated_types as at
import pytest
from pydantic import BaseModel

from mcpkit.common.errors import RegistrationError
from mcpkit.schema import Arguments, UnresolvedHint
from mcpkit.schema.parameters import parameter
from tests.helpers.structures import Case, Color, arguments_of, check_type

NULL = {"type": "null"}


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Documented(enum.Enum):
    """How warm it is."""

    WARM = "warm"


CASES: list[Case] = [
    (str, {"type": "string"}, [("", ""), ("é", "é")], [1.0, True, None, ["a"]]),
    (int, {"type": "integer"}, [(5, 5), (5.0, 5), (2**70, 2**70), (1e300, int(1e300))], [5.5, "5", True, None]),
    (float, {"type": "number"}, [(5, 5.0), (0.5, 0.5)], ["5", True, None]),
    (bool, {"type": "boolean"}, [(True, True)], [1, 0.0, "true", None]),
    (None, NULL, [(None, None)], [0, "", False]),
    (
        bytes,
        {"type": "string", "contentEncoding": "base64"},
        [("AP8=", b"\x00\xff"), ("", b"")],
        ["A", "A===", "-_-_", "é", "AA AA", 1],
    ),
    (Any, {}, [(None, None), ({"a": [1]}, {"a": [1]})], []),
    (object, {}, [(1, 1)], []),
    (collections.abc.Hashable, {}, [(1, 1)], []),
    (
        list[dict[typing.Hashable, Any]],
        {"type": "array", "items": {"type": "object", "additionalProperties": True}},
        [([{"a": [1]}], [{"a": [1]}])],
        [[1]],
    ),
    (
        dict[int, typing.Hashable],
        {"type": "object", "additionalProperties": True, "propertyNames": {"pattern": "^-?[0-9]+$"}},
        [({"1": "a"}, {1: "a"}), ({"1": [2]}, {1: [2]})],
        [{"a": 1}],
    ),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, [("a", "a")], ["c", 1, ["a"], {}]),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, [(1, 1), (2.0, 2)], [True, "1", 3]),
    (Literal["a", None, True], {"enum": ["a", None, True]}, [(None, None), (True, True)], [1, False]),
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}, [("red", Color.RED)], ["blue"]),
    (Color, {"type": "string", "enum": ["red", "blue"]}, [("red", Color.RED)], ["RED", "green", None]),
    (Level, {"type": "integer", "enum": [1, 2]}, [(1, Level.LOW), (2.0, Level.HIGH)], [True, "1", 3]),
    (
        Documented,
        {"type": "string", "enum": ["warm"], "description": "How warm it is."},
        [("warm", Documented.WARM)],
        ["cold"],
    ),
    (list, {"type": "array", "items": {}}, [([1, "a"], [1, "a"])], [{}, "a", None]),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [([], []), ([1, 2.0], [1, 2])], [["1"], [1.5]]),
    (list[str], {"type": "array", "items": {"type": "string"}}, [(["a"], ["a"])], [[True]]),
    (
        collections.abc.Sequence[int],
        {"type": "array", "items": {"type": "integer"}},
        [([1], [1])],
        ["1", {"a": 1}, ["1"]],
    ),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
            "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
        [([1, "a"], (1, "a"))],
        [[1], [1, "a", 2], ["a", 1]],
    ),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [([1, 2], (1, 2))], [["1"]]),
    (
        set[int],
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        [([1, 2], {1, 2})],
        [[1, 1], [1, 1.0], ["1"], {}],
    ),
    (
        frozenset[str],
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        [(["a"], frozenset("a"))],
        [["a", "a"]],
    ),
    (dict, {"type": "object", "additionalProperties": True}, [({"a": [1]}, {"a": [1]})], [[], "a"]),
    (
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [({"a": 1.0}, {"a": 1})],
        [{"a": "1"}, []],
    ),
    (
        collections.abc.Mapping[str, float],
        {"type": "object", "additionalProperties": {"type": "number"}},
        [({"a": 1}, {"a": 1.0})],
        [{"a": "1"}],
    ),
    (
        dict[int, str],
        {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "propertyNames": {"pattern": "^-?[0-9]+$"},
        },
        [({"5": "a"}, {5: "a"})],
        [{"a": "a"}, {"5.0": "a"}],
    ),
    (
        dict[Color, int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "propertyNames": {"enum": ["red", "blue"]},
        },
        [({"red": 1}, {Color.RED: 1})],
        [{"green": 1}],
    ),
    (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}, [(None, None), (1, 1)], ["1"]),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, [(1, 1), ("1", "1")], [None, True, 1.5]),
    (Union[float, int], {"anyOf": [{"type": "number"}, {"type": "integer"}]}, [(0.5, 0.5)], ["1"]),
    (
        Union[bool, int],
        {"anyOf": [{"type": "boolean"}, {"type": "integer"}]},
        [(True, True), (1.0, 1)],
        ["1"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "schema", "accepted", "refused"), CASES, ids=[str(c[0]) for c in CASES]
)
def test_a_type(annotation: Any, schema: Any, accepted: list[tuple[Any, Any]], refused: list[Any]) -> None:
    check_type(annotation, schema, accepted, refused)


def test_a_default_of_none_makes_the_argument_nullable() -> None:
    arguments = Arguments.of_parameters("f", [parameter("a", str, None)])
    assert arguments.schema["properties"]["a"] == {"anyOf": [{"type": "string"}, NULL], "default": None}
    assert arguments.validate({"a": None}) == {"a": None}


def test_an_argument_without_annotation_is_any_value() -> None:
    def f(a, b=1):  # type: ignore[no-untyped-def]  # what is tested
        return a, b

    from mcpkit.schema import Signature

    arguments = Arguments.of(Signature.of(f, is_injected=lambda *_: False))
    assert arguments.schema["properties"] == {"a": {}, "b": {"default": 1}}
    assert arguments.validate({"a": [None]}) == {"a": [None]}


@pytest.mark.parametrize(
    "annotation", [typing.Callable[[], int], type, complex, Literal[b"x"], dict[tuple[int, int], int]]
)
def test_a_type_that_json_does_not_know_is_refused_by_the_name_of_the_argument(annotation: Any) -> None:
    with pytest.raises(RegistrationError, match=r"f: argument 'value': "):
        arguments_of(annotation)


def test_a_class_that_is_no_structure_is_refused() -> None:
    class Opaque: ...

    with pytest.raises(RegistrationError, match=r"f: argument 'value': .*Opaque"):
        arguments_of(Opaque)


def test_a_model_that_is_not_complete_can_be_tried_again() -> None:
    class Early(BaseModel):
        later: "Later"  # noqa: UP037 - defined below, by name

    with pytest.raises(UnresolvedHint):
        arguments_of(Early)

    class Later(BaseModel):
        a: int

    Early.model_rebuild(_types_namespace={"Later": Later})
    assert arguments_of(Early).validate({"value": {"later": {"a": 1}}})["value"].later == Later(a=1)


def test_a_bound_that_json_has_no_number_for_is_refused_or_checked() -> None:
    arguments = arguments_of(Annotated[float, at.Le(math.inf)])
    json.dumps(arguments.schema, allow_nan=False)
    assert arguments.validate({"value": 1}) == {"value": 1.0}


@pytest.mark.slow
def test_the_text_is_the_same_on_every_run() -> None:
    code = (
        "import json; from typing import *; from mcpkit.schema import Arguments;"
        "from mcpkit.schema.parameters import parameter; from pydantic import BaseModel;"
        "M = type('M', (BaseModel,), {'__annotations__': {'b': Set[str], 'a': Literal['x', 'y', 'z']}});"
        "print(json.dumps(Arguments.of_parameters('f', [parameter('z', M), parameter('a', Optional[int])]).schema))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
    (text,) = runs
    assert list(json.loads(text)["properties"]) == ["z", "a"]


@pytest.mark.slow
def test_simple_types_do_not_import_pydantic() -> None:
    code = """
import datetime, decimal, enum, pathlib, sys, typing, uuid
from typing import Annotated, Literal, Optional
import annotated_types
from mcpkit.schema import Arguments, Output, Signature
class E(enum.Enum):
    A = "a"
class Place(typing.TypedDict):
    name: str
def f(a: int, b: Optional[list[str]], c: Literal["x"], d: E, e: datetime.date, g: uuid.UUID, h: pathlib.Path,
      i: decimal.Decimal, j: Annotated[float, "text"], k: Annotated[int, annotated_types.Ge(0)], m: bytes = b"",
      n: Place = None, **rest: int) -> dict[str, float]:
    '''Do.'''
arguments = Arguments.of(Signature.of(f, is_injected=lambda *_: False))
Output.of(dict[str, float]).dump({"a": 1.0})
try:
    arguments.validate({"a": "x"})
except Exception:
    pass
heavy = {"pydantic", "docstring_parser", "jsonschema", "email", "http", "starlette", "unittest"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)
