"""Properties of all types: validator and published schema agree; schemas of arrays name their items."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as InvalidError
from jsonschema.validators import extend
from pydantic_core import ValidationError

from mcpkit.common.errors import ArgumentsError
from tests.helpers.schema_cases import ANNOTATIONS, arguments_of, fitting, holds_integer, holds_json

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
