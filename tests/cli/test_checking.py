"""Rules of mcpkit check, and the estimate of tokens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.cli.checking import tokens as module
from mcpkit.cli.checking.finding import Looked
from mcpkit.cli.checking.rules.catalogue import RULES, findings
from mcpkit.cli.checking.tokens import tokens
from mcpkit.client.contract.changes import changes
from mcpkit.client.contract.lockfile import contract_of
from mcpkit.client.contract.surface import Surface
from tests.cli.planted import AT_EASE, BLOCKING, CLEAN, PLANTED, with_source

NAMES = """
type properties required items prefixItems enum const anyOf oneOf allOf not if then $ref $defs default examples
additionalProperties patternProperties minimum maximum multipleOf minLength maxItems minProperties pattern format
uniqueItems a name description inputSchema outputSchema annotations readOnlyHint execution arguments
"""

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "string", "object", "array", "integer", "#", "#/$defs/a", "^a", "(", "x"]),
)


KEYS = st.sampled_from(NAMES.split())

ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=14,
)


OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)

PAGE = Path(__file__).parents[2] / "docs" / "commands" / "check.md"


def test_findings_of_clean_server_are_empty() -> None:
    assert findings(Looked([CLEAN])) == []


def test_rules_have_a_planted_fault_each() -> None:
    assert {*PLANTED, "blocks-the-loop"} == set(RULES)


def test_rule_finds_its_planted_fault_unless_ignored() -> None:
    faults = []
    for code, looked in ((code, looked) for code, planted in PLANTED.items() for looked in planted):
        found = findings(looked)
        if code not in {finding.code for finding in found}:
            faults.append((code, "is not found", looked, found))
        if code in {finding.code for finding in findings(looked, ignored=[code])}:
            faults.append((code, "is found although it is ignored", looked))
        for finding in found:
            if not (finding.where and finding.what and finding.cure):
                faults.append((code, "lacks a part", finding))
            if finding.severity != RULES[finding.code].severity:
                faults.append((code, "has another severity", finding))
    assert faults == []


def test_blocking_call_is_found_with_its_line(tmp_path: Path) -> None:
    for line, head in BLOCKING:
        [finding] = findings(with_source(tmp_path, line, head=head))
        assert (finding.code, finding.where) == ("blocks-the-loop", "server.py:3 slow"), line
    for line, head in AT_EASE:
        assert findings(with_source(tmp_path, line, head=head)) == [], line


def test_blocking_call_in_thread_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("import time\n\ndef slow():\n    time.sleep(1)\n")
    assert findings(Looked([CLEAN], [tmp_path / "server.py"])) == []


def test_ignored_unknown_rule_raises_with_suggestion() -> None:
    with pytest.raises(ValueError, match="no such rule: name-leters; did you mean name-letters"):
        findings(Looked(), ignored=["name-leters"])


def test_page_lists_each_rule() -> None:
    page = PAGE.read_text()
    rows = {code: f"| `{code}` | {rule.severity} | {rule.summary} |" for code, rule in RULES.items()}
    assert [code for code, row in rows.items() if row not in page] == []


NAMES = """
type properties required items prefixItems enum const anyOf oneOf allOf not if then $ref $defs default examples
additionalProperties patternProperties minimum maximum multipleOf minLength maxItems minProperties pattern format
uniqueItems a name description inputSchema outputSchema annotations readOnlyHint execution arguments
"""


KEYS = st.sampled_from(NAMES.split())


def look(*tools: dict[str, Any], **others: dict[str, Any]) -> None:
    surfaces = [
        Surface(
            tools=[{**tool, "name": "t"}],
            prompts=[{**others.get("prompt", {}), "name": "p"}],
            templates=[{**others.get("template", {}), "uriTemplate": "{a}"}],
        )
        for tool in tools
    ]
    changed = changes(contract_of(surfaces[:1]), contract_of(surfaces[1:]))
    assert findings(Looked(surfaces, changes=changed, strict_hosts=["openai-strict", "anthropic-strict"]))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": None, "required": None},
        {"type": "object", "required": [[]]},
        {"type": "object", "properties": {"a": 5}, "maxProperties": 1},
    ],
)
def test_findings_of_malformed_schemas_do_not_raise(schema: Any) -> None:
    look({"inputSchema": schema}, {"inputSchema": {"type": "object", "minProperties": 1}})
    look({"inputSchema": {"type": "object"}}, {"inputSchema": schema})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ('{"type": "object", "properties": {"city": {"type": "string"}}}', 19),
        ("Ärzte für 東京", 5),
        ("<|endoftext|>", 7),
        ("\ud800", 1),
    ],
)
def test_tokens_equal_o200k_base(text: str, count: int) -> None:
    assert tokens(text) == count


def test_tokens_without_tokenizer_are_a_quarter_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    module._tokenizer.cache_clear()
    try:
        assert [tokens(text) for text in ("", "a", "hello world", "é" * 4)] == [0, 1, 3, 2]
    finally:
        module._tokenizer.cache_clear()


@settings(max_examples=100, deadline=None, database=None)
@given(OBJECTS, OBJECTS, OBJECTS, OBJECTS)
def test_findings_of_random_surfaces_do_not_raise(old: Any, new: Any, prompt: Any, template: Any) -> None:
    look({"inputSchema": {"type": "object", **old}}, {"inputSchema": new}, prompt=prompt, template=template)
