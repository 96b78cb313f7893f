"""Sends a value of each type through a tool: `python bench/types_page.py`, which writes docs/reference/type-mapping.md.

The types are those of tests/helpers/supported_types.py, which the tests of round trips draw from.
"""

from __future__ import annotations

import asyncio
import enum
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "type-mapping.md"
sys.path.insert(0, str(ROOT))

from mcpkit.schema import patterns_and_formats  # noqa: E402
from tests.helpers.supported_types import EVERY, REVISIONS, Echo, Supported  # noqa: E402

INTRODUCTION = """\
<!-- Written by bench/types_page.py: change that, or tests/helpers/supported_types.py, and run it again. -->

# Types

What a tool takes and returns, type by type. Each row was sent through `def echo(x: T) -> T` of a real server: the
value went out as the JSON that is shown, and came back as the value. Tests do the same with drawn values of each type,
alone and inside `list`, `tuple`, `set`, `dict`, `Optional`, unions, models, dataclasses, `TypedDict` and `NamedTuple`;
what travels is accepted by the published schema, as `jsonschema` and the validators of the TypeScript clients read it,
and what the schema allows is accepted.

*Lost* is what JSON has no room for.
"""

NOTES = """\
Some rules hold everywhere:

- Names in a JSON object are strings: a key is written as its value is, `{1: ...}` as `{"1": ...}`. Two names that
  stand for one key (`"7"` and `"07"` for an `int`) are refused.
- In a union, a text is read as a type that is written before `str`, if it fits: `datetime | str`. Types that are alike
  in JSON cannot be distinguished: of `list[int] | set[int]` the first that fits is chosen.
- A `bytes` by itself, or in a list, is content rather than data, see [Content](../guides/rich-content.md).
- Where a format allows what Python has not, it is refused: leap seconds, the year 0, durations of more than 999,999,999
  days. So is a text that the class itself refuses: a network with bits of a host, no regular expression. Fractions of
  a second end after six digits; those of numpy and pandas after nine. What a class of numpy is too small for is
  refused, as are arrays of rows of unlike lengths, and a `range` of numbers at unlike distances.
- What a serialiser of a model writes is sent as it is. Its schema is that of its return annotation, and
  nothing where there is none.
- A default value of a model, or a field that is left out, comes back filled in.
"""


def page() -> str:
    """Return the text of the page."""
    lines = ["| type | value | JSON | published schema | lost |", "| --- | --- | --- | --- | --- |"]
    lines += map(row, EVERY)
    patterns = "\n\n".join(f"`{name}`:\n\n```text\n{pattern}\n```" for name, pattern in PATTERNS.items())
    return f"{INTRODUCTION}\n" + "\n".join(lines) + f"\n\n{NOTES}\n## Patterns\n\n{LEAD}\n\n{patterns}\n"


LEAD = "No format allows these, so that the schemas above have patterns for them, by these names:"
PATTERNS = {
    "LOCAL_DATE_TIME": patterns_and_formats.LOCAL_DATE_TIME,
    "LOCAL_TIME": patterns_and_formats.LOCAL_TIME,
    "SIGNED_DURATION": patterns_and_formats.SIGNED_DURATION,
    "EXACT_DURATION": patterns_and_formats.EXACT_DURATION,
}


def row(entry: Supported) -> str:
    """Return the row of a type."""
    echo = Echo(entry.annotation)
    data = asyncio.run(echo.pass_on(entry.sample, REVISIONS[-1]))
    schema = json.dumps(echo.schema, ensure_ascii=False)
    for name, pattern in PATTERNS.items():
        schema = schema.replace(json.dumps(pattern), name)
    cells = [code(entry.name), code(shown(entry.sample)), code(json.dumps(data)), code(schema), entry.lost]
    return f"| {' | '.join(cells)} |"


def shown(value: Any) -> str:
    """Return a value as an author would write it."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    if "\n" in text:  # an array, a column
        return f"{type(value).__name__}({value.tolist()})"
    return text.replace("datetime.", "")


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
