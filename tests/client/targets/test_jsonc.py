"""JSON with comments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.targets.jsonc import loads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ('{"a": 1, // one\n "b": [1, 2,], /* and\n so on */ }', {"a": 1, "b": [1, 2]}),
        ('{"url": "https://a.b/*c*/", "text": ",}", "quote": "\\"// no"}',
         {"url": "https://a.b/*c*/", "text": ",}", "quote": '"// no'}),
        ("// first\n[1, /* , */ 2 /**/,\n// last\n]\n// end", [1, 2]),
    ],
)  # fmt: skip
def test_comments_and_last_commas_are_passed_over(text: str, value: Any) -> None:
    assert loads(text) == value


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["//", "/*", "*/", ",]", '"', "\\"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_all_json_is_read_as_it_is(value: Any) -> None:
    assert loads(json.dumps(value)) == value
    assert loads(json.dumps(value, indent=1, ensure_ascii=False)) == value


@pytest.mark.parametrize("text", ["", "[,]", '{"a" 1}', "[1 2]", "/* no end", "{'a': 1}", "[1,,]"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        loads(text)
