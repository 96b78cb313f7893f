"""Names and values that options give: `NAME=VALUE`, `NAME:VALUE`."""

from __future__ import annotations

from collections.abc import Iterable

import click


def pairs(texts: Iterable[str], separator: str, usage: str) -> dict[str, str]:
    """Return values by name.

    Args:
        texts: What was given.
        separator: What stands between a name and its value; spaces after a colon are none of the value.
        usage: How the option is written.

    Raises:
        click.UsageError: The separator is missing, or the name; no value is shown.
    """
    named: dict[str, str] = {}
    for text in texts:
        name, found, value = text.partition(separator)
        if not found or not name.strip():
            raise click.UsageError(
                f"invalid value: it has no {separator!r} or no name before it. Write {usage}"
            )
        named[name.strip()] = value.strip() if separator == ":" else value
    return named
