"""Patterns: what is published compiles as ECMA-262 with `u`, as Node judges, and matches what is accepted here."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints

from mcpkit import Server
from mcpkit.common.errors import ArgumentsError, OutputError, RegistrationError
from mcpkit.schema import Output, explicit
from mcpkit.schema.form import Form
from mcpkit.schema.patterns import read
from mcpkit.schema.values import matches
from mcpkit.testing import connect
from tests.helpers.node_judge import NodeJudge, node_judge
from tests.helpers.structures import arguments_of


@pytest.fixture(scope="module")
def judge() -> Iterator[NodeJudge]:
    with node_judge() as process:
        yield process


TEXTS = [
    *("", "a", "abc", "ABC", "a-b", "a b", "a.b", "12", "2026-2026", "2026-2027", "-", "_", "é", "ß", "٣", "😀", "aa"),
    *("a\n", "\n", "\r", "\u2028", "\ufeff", "\x85", "\x1c", "\xa0", "\t", "\b", "a\\b", "[", "]", "{", "}", "x{y}"),
    *("^", "$", "(a)", "a/b"),
    *("foo bar", "foobar", '"', "'", "#", "&", "~", "/", "a@b.ch", "+41 791234567", "0791234567", "\0", "A"),
]  # fmt: skip

PUBLISHED = {
    # as an author writes it: as clients read it
    r"\A[a-z]+\Z": "^[a-z]+$",
    r"[a-z]+\z": "[a-z]+$",
    r"(?P<year>\d{4})-(?P=year)": r"(?<year>\d{4})-\k<year>",
    r"(?<year>\d{4})-\k<year>": r"(?<year>\d{4})-\k<year>",
    r"a\-b\ c\#": "a-b c#",
    r"[\_\ \"\-\]]": r'[_ "\-\]]',
    r"x{y}": r"x\{y\}",
    r"a]": r"a\]",
    r"a{,3}": "a{0,3}",
    r"[]a]": r"[\]a]",
    r"[^]a]": r"[^\]a]",
    r"\U0001F600": "😀",
    r"\x{41}": "A",
    r"\pL+": r"\p{L}+",
    r"\01": r"\x01",
    r"(?#a year)\d{4}": r"\d{4}",
    r"(?a)\w+": r"\w+",
    r"(?s)a.b": r"a[\s\S]b",
    **{
        pattern: pattern
        for pattern in (
            *("^[a-z]+$", r"^\d{4}-\d{2}$", r"[\w.-]+@[\w-]+\.\w{2,}", r"^(\+\d{1,3}[- ]?)?\d{10}$", r"[^\S\n]"),
            *(r"^[^/\\]+$", r"\bfoo\b", r"\Bo", r"(?=a)b|(?!c)d", r"(?<=a)b", r"(?<!a)b", r"(a)\1", r"[\s\S]*?"),
            *("😀", "é", r"\D\W"),
            *(r"[\b]", r"\/", r"\n\t", r"[!-~]", r"[a-c-e]", "[[(]", "a|", "(?:a|b)+?", "[-a]", "[a-]", r"\u00e9"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("pattern", PUBLISHED)
def test_a_pattern_is_published_as_clients_read_it(pattern: str, judge: NodeJudge) -> None:
    known = read(pattern)
    assert known is not None
    assert known.published == PUBLISHED[pattern]
    again = read(known.published)
    assert again is not None
    assert again.published == known.published
    found = judge.matches(known.published, TEXTS)
    assert [matches(pattern)(text) for text in TEXTS] == found
    assert [matches(known.published)(text) for text in TEXTS] == found


LEFT_OUT = [
    *(
        "(?i)abc",
        "(?i:abc)",
        "(?m)^a",
        "(?x)a b",
        "a++",
        "(?>a)b",
        "[[:alpha:]]",
        "[a-z&&[^b]]",
        r"\<a",
        r"\p{Greek}",
    ),
    *("(a)?(?(1)b|c)", "(?=a)*", "^*", r"\N{DIGIT ONE}"),
]


@pytest.mark.parametrize("pattern", LEFT_OUT)
def test_what_clients_have_no_words_for_is_known(pattern: str) -> None:
    assert read(pattern) is None


PIECES = st.sampled_from(
    [
        *("a", "b", "-", "_", " ", "é", "😀", ".", r"\.", r"\-", r"\ ", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"),
        *(r"\n", "/", r"\x41", r"\u00e9"),
        *("[a-z]", "[^a-z]", r"[\w-]", r"[^\d\s]", r"[\S]", r"[\-\]]", "[]a]", r"[\x00-\x20]", "{", "}", "]"),
        *(r"\b", r"\B", "^", "$", r"\A", r"\Z", "(?=a)", "(?!b)", "(?#no)"),
    ]
)  # fmt: skip
GENERATED = st.recursive(
    st.lists(PIECES, min_size=1, max_size=4).map("".join),
    lambda inner: st.one_of(
        inner.map("({})".format),
        inner.map("(?:{})".format),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{,2}", "{0,2}?", "*?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(GENERATED, st.lists(st.text("ab-_ .é😀\n/]}{A0٣\u2028\xa0", max_size=4), max_size=8))
def test_any_pattern_means_the_same_on_both_sides(judge: NodeJudge, pattern: str, texts: list[str]) -> None:
    known = read(pattern)
    assert known is not None, pattern
    texts += TEXTS
    assert [matches(pattern)(text) for text in texts] == judge.matches(known.published, texts)
    # Of what is ASCII and ends no line, Python means the same.
    plain = [text for text in texts if text and text.isascii() and text.isprintable()]
    assert [matches(pattern)(text) for text in plain] == [
        re.search(pattern, text) is not None for text in plain
    ]


class Code(BaseModel):
    code: Annotated[str, Field(pattern="(?i)^[a-z]{2}$")]
    other: Annotated[str, StringConstraints(pattern=re.compile("^x$", re.IGNORECASE))] = "x"


@dataclass
class Named:
    name: Annotated[str, Field(pattern="^(?P<letter>[a-z])$")]
    extra: Annotated[str, Field(json_schema_extra={"pattern": r"\Aa\Z"})] = "a"


@pytest.mark.parametrize(
    ("annotation", "accepted", "refused"),
    [
        (Annotated[str, Field(pattern="(?i)^never published$")], "NEVER published", "ever"),
        (Code, {"code": "CH", "other": "X"}, {"code": "C"}),
        (Code, {"code": "CH"}, {"code": "CH", "other": "y"}),
        (dict[Annotated[str, Field(pattern="(?i)^key$")], int], {"KEY": 1}, {"other": 1}),
    ],
)
def test_what_is_left_out_is_checked(annotation: Any, accepted: Any, refused: Any) -> None:
    arguments = arguments_of(annotation)
    assert "pattern" not in str(arguments.schema)
    arguments.validate({"value": accepted})
    with pytest.raises(ArgumentsError, match="match"):
        arguments.validate({"value": refused})
    output = Output.of(annotation)
    assert output is not None
    assert "pattern" not in str(output.schema)


def test_what_is_left_out_is_checked_in_results() -> None:
    output = Output.of(list[Annotated[str, Field(pattern="(?i)^a$")]])
    assert output is not None
    assert output.dump(["A"]) == ["A"]
    with pytest.raises(OutputError):
        output.dump(["b"])


def test_what_is_left_out_is_said_once_when_it_is_registered(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    with caplog.at_level(logging.WARNING, "mcpkit"):
        for name in "ab":

            @server.tool(name=name)
            def find(text: Annotated[str, Field(pattern="(?i)^said once$")]) -> None:
                """Find something."""

    [record] = caplog.records
    assert record.getMessage() == (
        "the pattern '(?i)^said once$' is checked, but left out of what is published: clients read patterns as "
        "ECMA-262, which has no words for it"
    )


def test_every_pattern_of_a_class_is_published_as_clients_read_it() -> None:
    properties = arguments_of(Named).schema["properties"]["value"]["properties"]
    assert properties["name"]["pattern"] == "^(?<letter>[a-z])$"
    assert properties["extra"]["pattern"] == "^a$"


EXPLICIT = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "pattern": r"\Aa\Z", "default": r"\A"},
        "enum": {"not": {"pattern": "(?i)^b$"}},
        "either": {"oneOf": [{"pattern": "(?i)^c$"}, {"type": "string", "maxLength": 2}]},
    },
    "patternProperties": {r"\Ax-": {"type": "integer"}, "(?i)^y-": {"type": "integer"}},
    "propertyNames": {"pattern": "^[a-zA-Z0-9-]+\\Z"},
    "additionalProperties": False,
}


def test_a_schema_of_the_author_allows_no_less_than_it_did() -> None:
    arguments = explicit.arguments(EXPLICIT)
    assert arguments.schema == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "pattern": "^a$", "default": r"\A"},
            "enum": {},
            "either": {"anyOf": [{}, {"type": "string", "maxLength": 2}]},
        },
        "patternProperties": {"^x-": {"type": "integer"}},
        "propertyNames": {"pattern": "^[a-zA-Z0-9-]+$"},
    }
    arguments.validate({"pattern": "a", "enum": "c", "either": "de", "x-a": 1, "Y-b": 2})
    for wrong in (
        {"pattern": "a\n"},
        {"enum": "B"},
        {"either": "C"},
        {"Y-b": "c"},
        {"x-b": "c"},
        {"zz": 1},
        {"x-\n": 1},
    ):
        with pytest.raises(ArgumentsError):
            arguments.validate(wrong)


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_tool_with_such_patterns_is_listed_and_called(revision: str, judge: NodeJudge) -> None:
    server = Server("s")

    @server.tool
    def find(code: Annotated[str, Field(pattern=r"\A(?P<a>[a-z])(?P=a)\Z")]) -> Code:
        """Find a code."""
        return Code(code=code)

    async with connect(server, revision=revision) as client:
        tool = (await client.request("tools/list"))["tools"][0]
        result = await client.call("find", {"code": "aa"})
        refused = await client.call("find", {"code": "ab"})
    assert judge.objection(tool["inputSchema"], {"code": "aa"}) is None
    assert judge.objection(tool["inputSchema"], {"code": "ab"}) is not None
    assert judge.objection(tool["outputSchema"], result.structured) is None
    assert refused.text == r'code: expected a string that matches ^(?<a>[a-z])\k<a>$, got "ab"'


def test_a_form_asks_in_the_words_of_clients() -> None:
    form = Form.of(Annotated[str, Field(pattern=r"\A[a-z]\Z")])
    assert form.schema("2025-11-25")["properties"]["value"]["pattern"] == "^[a-z]$"


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "(?P<a>", "*a", r"(?<=a+)b"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(RegistrationError, match="is no regular expression"):
        arguments_of(Annotated[str, Field(pattern=pattern)])
