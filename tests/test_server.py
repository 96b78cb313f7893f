"""What a server is told about itself is checked at once."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Cache, Server


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offers": ["tools", "toolz"]}, "offers: unknown 'toolz'; there are tools, resources"),
        ({"cache": {"tools/call": Cache()}}, "cache: unknown 'tools/call'; there are .*tools/list"),
        ({"page_size": 0}, "page_size must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"max_running": 0}, "max_running must be at least 1"),
    ],
)
def test_an_argument_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Server("s", **options)
