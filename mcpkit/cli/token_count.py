"""Estimates of the tokens that tools take in a model's context.

Each model splits text in its own way, and most vendors publish no tables. The tables here are those of o200k_base, the
encoding of OpenAI's models; other models differ by up to a fifth for English and JSON.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Final

_CHUNK: Final = 50_000
"""Characters per tokenizer call: at most 200,000 bytes, and so tokens, which is the tokenizer's limit."""

_BYTES_PER_TOKEN: Final = 4
"""Average bytes per token of English and JSON, used without the tokenizer's tables."""


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text, without a network.

    Without the package `bpe-openai`, which has no wheel for some platforms, it is a quarter of the bytes, rounded up.
    """
    encode = _tokenizer()
    if encode is None:
        return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)
    return sum(len(encode(text[start : start + _CHUNK])) for start in range(0, len(text), _CHUNK))


def count_tool_tokens(tool: Mapping[str, object]) -> int:
    """Estimate the tokens of a tool's name, description and input schema, as hosts send them to a model."""
    definition = {
        "name": tool.get("name"),
        "description": tool.get("description") or "",
        "input_schema": tool.get("inputSchema"),
    }
    return count_tokens(json.dumps(definition, ensure_ascii=False, separators=(",", ":")))


@cache
def _tokenizer() -> Callable[[str], Sequence[int]] | None:
    """Return the tokenizer, or None if it is not installed; loading its tables takes a second."""
    try:
        with warnings.catch_warnings():
            # On 3.11 and 3.12 it reads its tables with a function that was deprecated for a while.
            warnings.simplefilter("ignore", DeprecationWarning)
            library = import_module("bpe_openai")
    except ModuleNotFoundError:
        return None
    encode: Callable[[str], Sequence[int]] = library.get_encoding("o200k_base").encode_ordinary
    return encode
