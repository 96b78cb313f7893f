"""Patterns: as ECMA-262 in published schemas, in linear time in validation; others are refused at registration."""

import re
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, StringConstraints

from mcpkit._utils.exceptions import ArgumentsError, RegistrationError
from mcpkit.schema import Output, custom_schemas
from mcpkit.schema.patterns_and_formats import matches, published_pattern
from tests.helpers.schema_cases import arguments_of
from tests.helpers.tables import each_row

EXPONENTIAL = "^(?:(?=a)a+)+$"


UNBOUNDED = [
    r"^(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9]{8,}$", r"^(?!admin$)[a-z]+$", r"^([a-z]+)-\1$", r"(?<=\$)[0-9]+",
    r"^(?P<quote>['\"]).*(?P=quote)$", "(?i)^(?!admin)", "^(a)?(?(1)b|c)(?!d)",
]  # fmt: skip


@each_row("pattern", UNBOUNDED)
def test_pattern_with_lookaround_or_backreference_is_refused(pattern: str) -> None:
    annotated = Annotated[str, Field(pattern=pattern)]
    compiled = Annotated[str, StringConstraints(pattern=re.compile(pattern))]
    for annotation in (annotated, list[annotated], compiled):  # type: ignore[valid-type]
        with pytest.raises(
            RegistrationError, match=r"has lookarounds, backreferences .* unbounded matching time. Write it"
        ):
            arguments_of(annotation)


def test_pattern_with_lookaround_in_explicit_schema_is_bounded() -> None:
    for schema in (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": EXPONENTIAL}}},
        {"type": "object", "patternProperties": {EXPONENTIAL: {}}, "additionalProperties": False},
    ):
        assert custom_schemas.arguments(schema).schema == schema
        checked = custom_schemas.CheckedSchema(schema, "input_schema")
        assert checked.fits({"a" * 40: 1} if "patternProperties" in schema else {"a": "a" * 40})
        assert not checked.fits(
            {"a" * 60 + "b": 1} if "patternProperties" in schema else {"a": "a" * 60 + "b"}
        )


TRANSLATED = [
    (r"\Aa\Z", "^a$"), (r"\Aa\z", "^a$"), ("(?P<year>[0-9]+)-x", "(?<year>[0-9]+)-x"), (r"[\w.-]+@\d{2,}?", None),
    (r"^[-\w]+(?:\.[a-z]+)*$", None), (r"\\A[\]A\\Z]", None), (r"\p{Lu}\x41\u00e9", None), ("^[^\\s]*$", None),
]  # fmt: skip


@each_row(("pattern", "expected"), TRANSLATED)
def test_pattern_is_published_as_ecma(pattern: str, expected: str | None) -> None:
    assert published_pattern(pattern) == (expected or pattern)
    matches(pattern)


def test_pattern_end_is_the_very_end() -> None:
    for pattern in ("^a$", r"\Aa\Z", r"\Aa\z"):
        assert matches(pattern)("a")
        assert not matches(pattern)("a\n")


LEFT_OUT = [
    *(
        "(?i)abc", "(?i:abc)", "(?m)^a", "(?x)a b", "[[:alpha:]]", "[a-z&&[^b]]", r"\<a", r"\p{Greek}", "^*",
        r"\@",
    ),
    *(r"a\-b", "a{", "]", "(?#comment)a"),
]  # fmt: skip


@each_row("pattern", LEFT_OUT)
def test_pattern_without_ecma_form_is_recognized(pattern: str) -> None:
    assert published_pattern(pattern) is None


class Code(BaseModel):
    code: Annotated[str, Field(pattern="(?i)^[a-z]{2}$")]
    other: Annotated[str, StringConstraints(pattern=re.compile("^x$", re.IGNORECASE))] = "x"


@each_row(("annotation", "accepted", "refused"), [
    (Annotated[str, Field(pattern="(?i)^never published$")], "NEVER published", "ever"),
    (Code, {"code": "CH", "other": "X"}, {"code": "C"}),
    (Code, {"code": "CH"}, {"code": "CH", "other": "y"}),
    (dict[Annotated[str, Field(pattern="(?i)^key$")], int], {"KEY": 1}, {"other": 1}),
])  # fmt: skip
def test_pattern_left_out_of_schema_is_checked_in_arguments(annotation, accepted, refused) -> None:
    arguments = arguments_of(annotation)
    assert "pattern" not in str(arguments.schema)
    arguments.validate({"value": accepted})
    with pytest.raises(ArgumentsError, match="match"):
        arguments.validate({"value": refused})
    output = Output.of(annotation)
    assert output is not None
    assert "pattern" not in str(output.schema)


EXPLICIT = {
    "type": "object",
    "properties": {"pattern": {"type": "string", "pattern": r"\Aa\Z", "default": r"\A"},
     "enum": {"not": {"pattern": "(?i)^b$"}},
     "either": {"oneOf": [{"pattern": "(?i)^c$"}, {"type": "string", "maxLength": 2}]}},
    "patternProperties": {r"\Ax-": {"type": "integer"}, "(?i)^y-": {"type": "integer"}},
    "propertyNames": {"pattern": "^[a-zA-Z0-9-]+\\Z"}, "additionalProperties": False,
}  # fmt: skip


def test_pattern_of_explicit_schema_is_never_stricter() -> None:
    arguments = custom_schemas.arguments(EXPLICIT)
    assert arguments.schema == {"type": "object",
        "properties": {"pattern": {"type": "string", "pattern": "^a$", "default": r"\A"}, "enum": {},
        "either": {"anyOf": [{}, {"type": "string", "maxLength": 2}]}},
        "patternProperties": {"^x-": {"type": "integer"}},
        "propertyNames": {"pattern": "^[a-zA-Z0-9-]+$"}}  # fmt: skip
    arguments.validate({"pattern": "a", "enum": "c", "either": "de", "x-a": 1, "Y-b": 2})
    wrong = {"pattern": "a\n", "enum": "B", "either": "C", "Y-b": "c", "x-b": "c", "zz": 1, "x-\n": 1}
    for name, value in wrong.items():
        with pytest.raises(ArgumentsError):
            arguments.validate({name: value})


@each_row("pattern", ["(", "[", "a{2,1}", "(?P<a>", "*a", r"(?<=a+)b"])
def test_pattern_that_is_invalid_is_refused(pattern: str) -> None:
    with pytest.raises(RegistrationError, match="is not a regular expression"):
        arguments_of(Annotated[str, Field(pattern=pattern)])


def test_pattern_mismatch_is_explained_in_linear_time() -> None:
    pattern = r"^(\w+\s?)+$"
    properties = {"value": {"type": "string", "pattern": pattern}}
    for arguments in (
        arguments_of(Annotated[str, Field(pattern=pattern)]),
        custom_schemas.arguments({"type": "object", "properties": properties}),
    ):
        with pytest.raises(ArgumentsError, match="expected a string that matches"):
            arguments.validate({"value": "a" * 60 + "!"})


def test_pattern_lone_surrogate_does_not_match() -> None:
    assert not matches("^[^a]")("\ud800")
