"""Functions as people write them, for the real library and for ours: from the tables of this folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

TABLES = Path(__file__).with_name("tables")


def lines(name: str) -> list[str]:
    """Return the lines of a table."""
    return (TABLES / f"{name}.txt").read_text("utf-8").splitlines()


def sections(name: str) -> dict[str, str]:
    """Return the code under each heading of a table."""
    found = re.split(r"^=== (.*)\n", (TABLES / f"{name}.txt").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


ARGUMENTS = [
    *(
        "text",
        "",
        "1",
        "1.5",
        "true",
        "null",
        "[1, 2]",
        '{"a": 1}',
        '["a"]',
        '"quoted"',
        " [1] ",
        "[1",
        "{",
        "nul",
    ),
    *(
        "red",
        "a",
        "2020-01-01",
        "2020-01-01T10:00:00Z",
        "PT1H",
        "00000000-0000-0000-0000-000000000001",
        "/tmp/x",
    ),
    *(0, 1, -3, 2.5, 1e400, True, None, 10**30, [], [1, "2"], ["a", "b"], [[1, "x"]], {}, {"a": 1}),
    *(
        {"a": "1", "b": None},
        {"name": "Ann", "age": "3"},
        '{"name": "Ann"}',
        {"value": 1, "children": [{"value": "2"}]},
    ),
    *({"name": 1, "age": 200, "address": {"street": "s", "zipCode": "x"}}, {"the x": 1}, {"x": 1, "z": 2}),
    *({"items": [1, "2"], "next": None}, {"kind": "cat"}, {"kind": "bird"}, [{"kind": "dog"}], {"n": 0}),
    *(
        {"width": 1, "label": "l"},
        {"x": 1, "y": "2"},
        {"type": "text", "text": "t"},
        "NaN",
        "\ufeff[1]",
        "[1e999]",
    ),
    *("http://example.org/a b", "12 MB"),
]
CALLS = [
    *({}, {"a": 1}, {"a": "1", "b": "2"}, {"a": 1, "b": 2, "c": 3, "d": 4}, {"ctx": "mine", "a": 5}),
    {"self": 1, "a": 1},
]
LATER = "from __future__ import annotations\n"
TOLD = """
def told(x: {declared}):
    return f"{{sorted(x, key=str) if isinstance(x, (set, frozenset)) else x!r}} {{type(x).__name__}}"
functions = [told]
"""
RETURNING = """
MADE = [{made}]
def tool(which: int){arrow}:
    return MADE[which]()
functions = [tool]
"""
AFTERWARDS = """
import json
async def say(tool, **arguments):
    try:
        return str(await tool.run(arguments, convert_result=True))
    except ToolError as error:
        return [str(error), type(error.__cause__).__name__]
def f(a: int, b: str = 'x') -> str:
    'Doc.'
    return f'{{a}} {{b}}'
functions = [f]
async def more(tool):
{body}
"""


def case(source: str, calls: list[dict[str, Any]], later: str = "", **options: object) -> dict[str, Any]:
    """Return what `judged` takes."""
    return {"source": f"{later}{source}", "calls": calls, "options": options}


def told(declared: str, calls: list[dict[str, Any]], later: str = "") -> dict[str, Any]:
    """Return the case of a function that tells what it was given."""
    return case(TOLD.format(declared=declared), calls, later)


def returning(annotation: str, made: list[str], **options: object) -> dict[str, Any]:
    """Return the case of a function that returns one of some values."""
    source = RETURNING.format(
        made=", ".join(f"lambda: ({each})" for each in made), arrow=f" -> {annotation}" if annotation else ""
    )
    return case(source, [{"which": index} for index in range(len(made))], **options)


def results() -> dict[str, list[str]]:
    """Return the values that are returned under each annotation."""
    found: dict[str, list[str]] = {}
    for line in lines("results"):
        if line.startswith("    "):
            found[list(found)[-1]].append(line.strip())
        else:
            found[line] = []
    return found


GIVEN = [*({"x": value} for value in ARGUMENTS), {}, {"unknown": 1}, {"other": "o"}]
DEFAULTED = [{}, {"x": "1"}, {"x": None}, {"named": "n", "v": "v", "b": "b"}, {"unknown": 1}]
EVALUATED_LATER = ("no annotations", "keyword only", "optional context", "mutual models", "many", "context")

CASES = {
    **{f"x: {each}": told(each, GIVEN) for each in lines("annotations")},
    **{f"x: {each}, evaluated later": told(each, GIVEN[::4], LATER) for each in lines("annotations")[::5]},
    **{f"x: {each}": told(each, DEFAULTED) for each in lines("defaults")},
    **{f"-> {each}": returning(each, made) for each, made in results().items()},
    **{
        f"-> {each}, structured": returning(each, made[:1], structured_output=True)
        for each, made in results().items()
    },
    **{
        f"-> {each}, unstructured": returning(each, made[:1], structured_output=False)
        for each, made in list(results().items())[::3]
    },
    "no annotation": returning("", lines("values")),
    "no annotation, structured": returning("", ["1"], structured_output=True),
    **{name: case(f"{code}\nfunctions = [f]\n", CALLS) for name, code in sections("functions").items()},
    **{
        f"{name}, evaluated later": case(f"{sections('functions')[name]}\nfunctions = [f]\n", CALLS, LATER)
        for name in EVALUATED_LATER
    },
    **{
        f"options: {name}": case(
            f"def f(a: int = 1, b: str = 'x') -> str:\n    'Doc.'\n    return f'{{a}} {{b}}'\nfunctions = [f]\n{code}",
            CALLS,
        )
        for name, code in sections("options").items()
    },
    **{
        f"afterwards: {name}": case(AFTERWARDS.format(body=re.sub("(?m)^", "    ", code)), [])
        for name, code in sections("afterwards").items()
    },
}
