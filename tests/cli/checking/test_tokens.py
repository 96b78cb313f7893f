"""The estimate of what texts cost in tokens."""

from __future__ import annotations

import sys

import pytest

from mcpkit.cli.checking import tokens as module
from mcpkit.cli.checking.tokens import tokens


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
def test_texts_are_cut_by_the_tables_of_o200k_base(text: str, count: int) -> None:
    assert tokens(text) == count


def test_texts_beyond_what_the_tokenizer_takes_at_a_time_are_counted() -> None:
    assert tokens("word " * 250_000) == pytest.approx(250_000, rel=0.01)


def test_without_the_tokenizer_it_is_a_quarter_of_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    module._tokenizer.cache_clear()
    try:
        assert [tokens(text) for text in ("", "a", "hello world", "é" * 4)] == [0, 1, 3, 2]
    finally:
        module._tokenizer.cache_clear()
