"""Patterns with lookaround or backreferences: the work they take is bounded."""

import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints

from mcpkit import Server
from mcpkit._utils.exceptions import ArgumentsError, RegistrationError
from mcpkit._utils.package import install_command
from mcpkit.schema import Output, backtracking, explicit, patterns, values
from mcpkit.testing import connect
from tests.helpers.schema_cases import arguments_of
from tests.helpers.tables import each_row

EXPONENTIAL = "^(?:(?=a)a+)+$"


ORDINARY = [
    r"^(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9]{8,}$", r"^(?!admin$)[a-z]+$", r"^(?!.*(.)\1)[a-z]*$", r"^([a-z]+)-\1$",
    r"(?<=\$)[0-9]+(?!\.)", r"^(?!.*\.\.)[\w.]+$", r"^(?P<quote>['\"]).*(?P=quote)$", r"\b(?!foo\b)\w+\B",
    r"^(?:(?!ab).)*$",
]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("is_explicit", [False, True])
async def test_pattern_with_exponential_steps_is_refused(
    is_explicit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(texts: list[Annotated[str, Field(pattern=EXPONENTIAL)]]) -> str:
        return "fits"

    steps: list[bool] = []
    may_take_long = backtracking._may_take_long

    def count() -> bool:
        steps.append(may_take_long())
        return steps[-1]

    texts = {"type": "array", "items": {"type": "string", "pattern": EXPONENTIAL}}
    server = Server("s")
    if is_explicit:
        server.tool(
            lambda arguments: "fits",
            name="fit",
            input_schema={"type": "object", "properties": {"texts": texts}},
        )
    else:
        server.tool(fit)
    async with connect(server) as client:
        assert (await client.call_tool("fit", {"texts": ["a" * 40]})).text == "fits"
        monkeypatch.setattr(backtracking, "_may_take_long", count)
        long = (await client.call_tool("fit", {"texts": ["a" * 40 + "b"] * 1000})).text
        short = (await client.call_tool("fit", {"texts": ["aaab"]})).text
    assert "texts[0]: expected a string that matches" in long
    assert long.count("; the check takes too many steps") == ArgumentsError.MAX_PROBLEMS
    assert "texts[0]: expected a string that matches" in short
    assert "too many steps" not in short
    assert sum(steps) <= backtracking.MOST_LONG


@given(pattern=st.sampled_from(ORDINARY), text=st.text("aAbB09-.$'\"fo \n\u00e9", max_size=60))
def test_pattern_with_lookaround_agrees_with_python(pattern: str, text: str) -> None:
    known = patterns.read(pattern)
    assert known is not None
    is_match = backtracking.matcher(backtracking.written(known.rust))
    assert is_match is not None
    assert is_match(text) == (re.search(known.python, text) is not None)


def test_pattern_lone_surrogate_does_not_match() -> None:
    assert not values.matches("^(?!a)")("\ud800")


@pytest.fixture
def uncached() -> Iterator[None]:
    caches = (patterns.warn_of_time, values._engine, backtracking.matcher)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize("pattern", ["(?i)^(?!admin)", "^(a)?(?(1)b|c)(?!d)"])
def test_pattern_without_bound_is_logged(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    values.string(pattern=pattern)
    assert "can take unbounded time" in caplog.text


@pytest.mark.usefixtures("uncached")
def test_pattern_without_rust_engine_uses_python_and_warns(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert values.string(pattern="^(?!admin)")["regex_engine"] == "python-re"  # type: ignore[typeddict-item]
    assert install_command("jsonschema") in caplog.text


LEFT_OUT = [
    *("(?i)abc", "(?i:abc)", "(?m)^a", "(?x)a b", "a++", "(?>a)b", "[[:alpha:]]", "[a-z&&[^b]]", r"\<a"),
    *(r"\p{Greek}", "(a)?(?(1)b|c)", "(?=a)*", "^*", r"\N{DIGIT ONE}"),
]


@each_row("pattern", LEFT_OUT)
def test_pattern_without_ecma_form_is_recognized(pattern: str) -> None:
    assert patterns.read(pattern) is None


class Code(BaseModel):
    code: Annotated[str, Field(pattern="(?i)^[a-z]{2}$")]
    other: Annotated[str, StringConstraints(pattern=re.compile("^x$", re.IGNORECASE))] = "x"


@each_row(
    ("annotation", "accepted", "refused"),
    [
        (Annotated[str, Field(pattern="(?i)^never published$")], "NEVER published", "ever"),
        (Code, {"code": "CH", "other": "X"}, {"code": "C"}),
        (Code, {"code": "CH"}, {"code": "CH", "other": "y"}),
        (dict[Annotated[str, Field(pattern="(?i)^key$")], int], {"KEY": 1}, {"other": 1}),
    ],
)
def test_pattern_left_out_of_schema_is_checked_in_arguments(
    annotation: Any, accepted: Any, refused: Any
) -> None:
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
    arguments = explicit.arguments(EXPLICIT)
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
        explicit.arguments({"type": "object", "properties": properties}),
    ):
        with pytest.raises(ArgumentsError, match="expected a string that matches"):
            arguments.validate({"value": "a" * 60 + "!"})


def test_pattern_of_property_names_is_bounded() -> None:
    schema = {"type": "object", "patternProperties": {EXPONENTIAL: {}}, "additionalProperties": False}
    checked = explicit.CheckedSchema(schema, "input_schema")
    assert checked.fits({"a" * 40: 1})
    assert not checked.fits({"a" * 60 + "b": 1})
