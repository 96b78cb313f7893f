"""How many tokens a text costs a model: an estimate.

Every model cuts text in its own way, and most makers publish no tables. The tables here are those of o200k_base, which
OpenAI's models have; others come to a fifth more or less for English and JSON.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Final

_CHUNK: Final = 50_000
"""Characters per tokenizer call: at most 200,000 bytes, and so tokens, which is the tokenizer's limit."""

_BYTES_OF_A_TOKEN: Final = 4
"""Average bytes of a token of English and JSON, used without the tokenizer's tables."""


def tokens(text: str) -> int:
    """Estimate how many tokens a text costs a model.

    It is counted by the tables of o200k_base, without a network. Where `bpe-openai` is not installed, since it has no
    wheel for the platform, it is a quarter of the bytes, rounded up.
    """
    encoded = _tokenizer()
    if encoded is None:
        return -(-len(text.encode(errors="replace")) // _BYTES_OF_A_TOKEN)
    return sum(len(encoded(text[start : start + _CHUNK])) for start in range(0, len(text), _CHUNK))


@cache
def _tokenizer() -> Callable[[str], Sequence[int]] | None:
    """Return what cuts text into tokens, made when it is first asked for: its tables take a second."""
    try:
        with (
            warnings.catch_warnings()
        ):  # on 3.11 and 3.12 it reads its tables in a way that was deprecated for a while
            warnings.simplefilter("ignore", DeprecationWarning)
            library = import_module("bpe_openai")
    except ModuleNotFoundError:
        return None
    encode: Callable[[str], Sequence[int]] = library.get_encoding("o200k_base").encode_ordinary
    return encode
