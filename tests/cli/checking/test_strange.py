"""Lists of servers that are no lists, and schemas that are none: rules and verdicts find something, and never break."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.cli.checking.finding import Looked
from mcpkit.cli.checking.rules.catalogue import findings
from mcpkit.client.contract.changes import changes
from mcpkit.client.contract.lockfile import contract_of
from mcpkit.client.contract.surface import Surface

NAMES = """
type properties required items prefixItems enum const anyOf oneOf allOf not if then $ref $defs default examples
additionalProperties patternProperties minimum maximum multipleOf minLength maxItems minProperties pattern format
uniqueItems a name description inputSchema outputSchema annotations readOnlyHint execution arguments
"""
KEYS = st.sampled_from(NAMES.split())
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "string", "object", "array", "integer", "#", "#/$defs/a", "^a", "(", "x"]),
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=14,
)
OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)


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


@settings(max_examples=100, deadline=None, database=None)
@given(OBJECTS, OBJECTS, OBJECTS, OBJECTS)
def test_nothing_that_a_server_lists_breaks_a_check(old: Any, new: Any, prompt: Any, template: Any) -> None:
    look({"inputSchema": {"type": "object", **old}}, {"inputSchema": new}, prompt=prompt, template=template)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": None, "required": None},
        {"type": "object", "required": [[]]},
        {"type": "object", "properties": {"a": 5}, "maxProperties": 1},
    ],
)
def test_schemas_that_once_broke_one(schema: Any) -> None:
    look({"inputSchema": schema}, {"inputSchema": {"type": "object", "minProperties": 1}})
    look({"inputSchema": {"type": "object"}}, {"inputSchema": schema})
