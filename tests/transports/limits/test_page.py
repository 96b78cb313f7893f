"""The page on limits: each row has its setting and default, and a test or a reason in `bounds.txt`."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from mcpkit import HttpOptions, Limits, Task, TaskOptions, Timeouts, resource_dir
from mcpkit.auth import Introspection, Jwt

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text()
TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| what is", "| ---"))
]
UNITS = {"KiB": 1024, "MiB": 1024 * 1024}

ROWS: dict[str, list[str]] = {}
"""The setting or the constants of each row."""
NO_TEST: set[str] = set()
NO_BOUNDS: set[str] = set()
for line in (Path(__file__).parent / "bounds.txt").read_text().splitlines():
    if line.startswith("- "):
        NO_BOUNDS.add(line[2:].partition(": ")[0])
    elif line.startswith("    no test"):
        NO_TEST.add([*ROWS][-1])
    elif line.startswith(" "):
        ROWS[[*ROWS][-1]].append(line.strip())
    elif line and not line.startswith("#"):
        ROWS[line] = []


OWNERS: dict[str, Any] = {
    "Limits({}=)": Limits, "Timeouts({}=)": Timeouts, "HttpOptions({}=)": HttpOptions, "Jwt({}=)": Jwt,
    "Introspection({}=)": Introspection, "Server(tasks=TaskOptions({}=))": TaskOptions,
    "@server.tool(task=Task({}=))": Task, "resource_dir({}=)": resource_dir,
}  # fmt: skip
IN_OTHER_ROWS = {"Jwt(clock=)", "Introspection(clock=)", "Introspection(timeout=)", "Introspection(leeway=)"}
SETTINGS: dict[str, Any] = {
    form.format(name): parameter.default
    for form, owner in OWNERS.items()
    for name, parameter in inspect.signature(owner).parameters.items()
    if re.search(r"\b(int|float)\b", str(parameter.annotation)) and form.format(name) not in IN_OTHER_ROWS
}
"""All settings that are numbers, with their defaults."""


def defaults_of(source: str) -> list[float]:
    """Return the default of a setting, the value of a constant, or a number itself."""
    if source.isdigit():
        return [float(source)]
    if ":" not in source:
        return [] if SETTINGS.get(source) is None else [SETTINGS[source]]
    module, _, path = source.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    if path == "MAX_INTEGER":
        value = value.bit_length() - 1
    return [1 / value if path == "INTERVAL" else value]


def numbers_in(cell: str) -> list[float]:
    """Return the numbers in a cell, in bytes where the cell has KiB."""
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?)(?: (KiB|MiB))?", cell)
    return [float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]


def test_limits_page_rows_have_setting_and_default() -> None:
    assert [row[0] for row in TABLE] == list(ROWS)
    faults = []
    for name, setting, default, outcome in TABLE:
        sources = ROWS[name]
        named = [source for source in sources if ":" not in source and not source.isdigit()]
        if setting != (f"`{named[0]}`" if named else "fixed"):
            faults.append(f"{name}: the setting is {setting}")
        if numbers_in(default) != [number for source in sources for number in defaults_of(source)]:
            faults.append(f"{name}: the default is {default}")
        if not outcome:
            faults.append(f"{name}: the last cell is empty")
    assert not faults, "\n".join(faults)


def test_limits_page_rows_that_need_a_test_have_one() -> None:
    """A test names its row in a mark, `pytest.mark.limit`."""
    marks = re.compile(r"""(?:mark\.|@|=)limit\(\s*"([^"]+)"\s*\)""")
    tests = [file.read_text() for file in (ROOT / "tests").rglob("test_*.py")]
    tested = {row for text in tests for row in marks.findall(text)}
    assert tested <= set(ROWS)
    assert set(ROWS) - NO_TEST - tested == set()


def test_limits_page_has_every_number_setting() -> None:
    assert set(SETTINGS) - {source for sources in ROWS.values() for source in sources} == NO_BOUNDS
