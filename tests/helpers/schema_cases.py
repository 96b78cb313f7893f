"""Types for the tests of schemas, and checks of a type."""

from __future__ import annotations

import enum
import gc
import sys
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from pydantic_core import ValidationError, from_json
from typing_extensions import NotRequired

from mcpkit.common.errors import ArgumentsError
from mcpkit.schema import Arguments
from mcpkit.schema.parameters import parameter

Case = tuple[Any, Any, list[tuple[Any, Any]], list[Any]]
"""A type, its schema, what it accepts with what that becomes, and what it refuses."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Place(typing.TypedDict):
    name: str
    size: NotRequired[int]


def arguments_of(annotation: Any) -> Arguments:
    """Return the arguments of a function `f` that has one, `value`."""
    return Arguments.of_parameters("f", [parameter("value", annotation)])


def check_type(annotation: Any, schema: Any, accepted: list[tuple[Any, Any]], refused: list[Any]) -> None:
    """Check the schema of a type, and the conversion of values."""
    arguments = arguments_of(annotation)
    assert arguments.schema["properties"]["value"] == schema
    for value, converted in accepted:
        result = arguments.validate({"value": value})["value"]
        assert result == converted
        assert type(result) is type(converted)
    for value in refused:
        with pytest.raises(ValidationError):
            arguments._validator.validate_python({"value": value}, by_alias=True, by_name=False)
        if not holds_json(value):
            with pytest.raises(ArgumentsError, match=r"value"):
                arguments.validate({"value": value})


def calls_of(act: Callable[[], Any]) -> int:
    """Return the number of function calls, built-in functions included."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # Hypothesis has a function called by each collection
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def holds_json(value: Any) -> bool:
    """Return whether a string in a value is JSON of another type, which may be repaired."""
    if isinstance(value, str):
        try:
            return not isinstance(from_json(value, allow_inf_nan=False), str)
        except ValueError:
            return False
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(map(holds_json, value))


def holds_integer(value: Any) -> bool:
    """Return whether a value contains a whole number, which may be read as text."""
    if isinstance(value, dict):
        value = list(value.values())
    return type(value) is int or (isinstance(value, list) and any(map(holds_integer, value)))
