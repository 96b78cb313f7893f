"""Validates large arguments and results beside decoding them: `python bench/validation.py`, worst first.

What a client sends may take at most ten times what decoding it takes (`pydantic_core.from_json`), in time and in
memory, whether it fits or is refused with an explanation; up to 64 KiB it may take 50 ms, as an explanation costs what
it costs however little is wrong. Rows beyond that are marked. Times are the best of several turns, with the garbage
collector as it is; memory is the peak of `tracemalloc` beside the size of the decoded value. Decoding keeps texts that
are alike once, which makes it look the cheaper for the items here, and the results the larger.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import pathlib
import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from pydantic import AwareDatetime, BaseModel, Field
from pydantic_core import from_json

from mcpkit._utils.exceptions import ArgumentsError, OutputError
from mcpkit.schema import Arguments, Output, custom_schemas
from mcpkit.schema.function_signatures import parameter
from mcpkit.schema.patterns_and_formats import Email, Uri

SMALL, LARGE = 64 * 1024, 4_000_000
MOST_TIMES = 10
MOST_MILLISECONDS = 50


class Point(BaseModel):
    x: int
    y: str


class Series(BaseModel):
    x: str
    z: list[int]


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


@dataclasses.dataclass
class Station:
    id: int
    name: str


class Place(TypedDict):
    name: str
    size: int


class Pair(NamedTuple):
    first: int
    second: str


class Node(BaseModel):
    child: Node | Leaf | int | None = None
    a: int = 0


class Leaf(BaseModel):
    child: Node | Leaf | int | None = None
    b: int = 0


class Tone(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 1
    NOTHING = None


MANY_TEXTS: Any = Literal.__getitem__(tuple(f"choice{index}" for index in range(2_000)))
MANY_NUMBERS: Any = Literal.__getitem__(tuple(range(2_000)))
MANY_OBJECTS: dict[str, Any] = {"enum": [{"name": f"n{index}", "at": [index]} for index in range(2_000)]}
MODULUS = sys.hash_info.modulus

Text = Callable[[int], str]


def array(item: str, last: str | None = None) -> Text:
    """Return what makes an array of about so many bytes, of one item over and over."""

    def make(size: int) -> str:
        items = [item] * max(1, size // (len(item) + 1))
        return f"[{','.join(items if last is None else [*items, last])}]"

    return make


def numbered(item: str, width: int, brackets: str = "[]") -> Text:
    """Return the same of items that have a number in them, each about so many bytes wide."""

    def make(size: int) -> str:
        items = (item.replace("#", str(index)) for index in range(1, max(2, size // width)))
        return f"{brackets[0]}{','.join(items)}{brackets[1]}"

    return make


def colliding(item: str) -> Text:
    """Return the same of numbers of one hash."""

    def make(size: int) -> str:
        return f"[{','.join(item.replace('#', str(index * MODULUS)) for index in range(1, size // 23))}]"

    return make


def nested(member: str, leaf: str) -> Text:
    """Return objects in arrays of objects, each as deep as messages may be."""
    one = f'{{"{member}":' * 60 + leaf + "}" * 60
    return array(one)


def text(character: str) -> Text:
    """Return one long string."""
    return lambda size: f'"{character * (size // len(character))}"'


DAY = '"2026-01-31T09:30:00Z"'
FITTING: list[tuple[str, Any, Text]] = [
    ("int", list[int], array("1")),
    ("int written 1.0", list[int], array("1.0")),
    ("int written 1e300", list[int], array("1e300")),
    ("int in a range", list[Annotated[int, Field(ge=0, le=9)]], array("5")),
    ("float", list[float], array("0.5")),
    ("bool", list[bool], array("true")),
    ("str", list[str], array('"ab"')),
    ("str by a pattern", list[Annotated[str, Field(pattern="^[a-z]+$")]], array('"abc"')),
    ("one long str", str, text("a")),
    ("Any", list[Any], array('{"a":[1]}')),
    ("datetime", list[dt.datetime], array(DAY)),
    ("datetime without offset", list[dt.datetime], array('"2026-01-31T09:30:00"')),
    ("AwareDatetime", list[AwareDatetime], array(DAY)),
    ("date", list[dt.date], array('"2026-01-31"')),
    ("time", list[dt.time], array('"09:30:00"')),
    ("timedelta", list[dt.timedelta], array('"PT1H30M"')),
    ("UUID", list[uuid.UUID], array('"123e4567-e89b-12d3-a456-426614174000"')),
    ("Decimal", list[decimal.Decimal], array('"12.50"')),
    ("Fraction", list[fractions.Fraction], array('"1/3"')),
    ("IPv4Address", list[ipaddress.IPv4Address], array('"127.0.0.1"')),
    ("Path", list[pathlib.Path], array('"/a/b"')),
    ("Email", list[Email], array('"a@example.org"')),
    ("Uri", list[Uri], array('"https://example.org/a?b=c"')),
    ("bytes", list[bytes], array('"AP8="')),
    ("one long bytes", bytes, text("AAAA")),
    ("Enum of texts", list[Tone], array('"low"')),
    ("Enum of numbers", list[Level], array("1")),
    ("Enum of both", list[Mixed], array('"a"')),
    ("Literal of texts", list[Literal["a", "b"]], array('"b"')),
    ("Literal of numbers", list[Literal[1, 2]], array("2")),
    ("Literal of both", list[Literal[1, "a"]], array('"a"')),
    ("Literal of bools", list[Literal[True]], array("true")),
    ("2,000 texts to choose", list[MANY_TEXTS], array('"choice1999"')),
    ("int or null", list[int | None], array("null")),
    ("date or str", list[dt.date | str], array('"2026-01-31"')),
    ("int, str or list", list[int | str | list[int]], array("[1]")),
    ("model", list[Point], array('{"x":1,"y":"a"}')),
    ("models to choose", list[Point | Series], array('{"x":1,"y":"a"}')),
    ("models by a member", list[Annotated[Circle | Square, Field(discriminator="kind")]],
     array('{"kind":"square","side":1}')),
    ("dataclass", list[Station], array('{"id":1,"name":"a"}')),
    ("TypedDict", list[Place], array('{"name":"a","size":1}')),
    ("NamedTuple", list[Pair], array('[1,"a"]')),
    ("recursive union", list[Node | Leaf], nested("child", "1")),
    ("tuple", list[tuple[int, str]], array('[1,"a"]')),
    ("tuple of any length", tuple[int, ...], array("1")),
    ("lists of lists", list[list[list[int]]], array("[[1]]")),
    ("dict", dict[str, int], numbered('"k#":1', 9, "{}")),
    ("dict of int", dict[int, int], numbered('"#":1', 8, "{}")),
    ("dict of UUID", dict[uuid.UUID, int],
     lambda size: "{" + ",".join(f'"{uuid.UUID(int=n)}":1' for n in range(size // 41)) + "}"),
    ("set of int", set[int], numbered("#", 7)),
    ("set of str", set[str], numbered('"a#"', 10)),
    ("set of float", set[float], numbered("#.5", 9)),
    ("set of UUID", set[uuid.UUID],
     lambda size: "[" + ",".join(f'"{uuid.UUID(int=n)}"' for n in range(size // 39)) + "]"),
    ("set of Enum or int", set[Tone | int], numbered("#", 7)),
]  # fmt: skip

WRONG: list[tuple[str, Any, Text]] = [
    ("[] for int", list[int], array("[]")),
    ("{} for models", list[Point | Series], array("{}")),
    ("1 for str", list[str], array("1")),
    ("text for datetime", list[dt.datetime], array('"2026-01-31T09:30:00Zx"')),
    ("text for UUID", list[uuid.UUID], array('"x"')),
    ("text for 2,000 texts", list[MANY_TEXTS], array('"choice"')),
    ("one text for 2,000 texts", MANY_TEXTS, text("a")),
    ("text for 2,000 numbers", list[MANY_NUMBERS], array('"a"')),
    ("{} for 2,000 texts", list[MANY_TEXTS], array("{}")),
    ("the last of ints", list[int], array("1", '"x"')),
    ("the last of models", list[Point | Series], array('{"x":1,"y":"a"}', "{}")),
    ("the last of dates", list[dt.date], array('"2026-01-31"', '"x"')),
    ("the last of lists", list[list[int]], array("[1]", '["x"]')),
    ("the last of tuples", list[tuple[int, str]], array('[1,"a"]', "[1]")),
    ("the last of a set", set[int], lambda size: numbered("#", 7)(size)[:-1] + ',"x"]'),
    ("values of a dict", dict[str, int], numbered('"k#":"x"', 11, "{}")),
    ("the last value of a dict", dict[str, int], lambda size: numbered('"k#":1', 9, "{}")(size)[:-1] + ',"x":"x"}'),
    ("keys of a dict", dict[int, int], numbered('"k#":1', 9, "{}")),
    ("members of a model", Point, numbered('"k#":1', 9, "{}")),
    ("in lists of lists", list[list[list[int]]], array('[["x"]]')),
    ("in one long list of a list", list[list[int]], lambda size: f"[{array('1', '[]')(size)}]"),
    ("in a recursive union", list[Node | Leaf], nested("child", '"x"')),
    ("an int twice in a set", set[int], lambda size: numbered("#", 7)(size)[:-1] + ",1]"),
    ("objects in a set", set[int], array('{"a":{"b":[1,2]}}')),
    ("numbers of one hash", set[int], colliding("#")),
    ("UUIDs of one hash", set[uuid.UUID],
     lambda size: "[" + ",".join(f'"{uuid.UUID(int=n * MODULUS)}"' for n in range(1, size // 39)) + "]"),
    ("Decimals of one hash", set[decimal.Decimal], colliding('"#"')),
    ("JSON in texts", list[int], array('"5"')),
    ("JSON in one text", list[int], lambda size: '"' + array("1")(size) + '"'),
    ("a text that is no int", int, text("a")),
    ("a text that is no base64", bytes, text("-")),
]  # fmt: skip


def schema(items: Any, **others: Any) -> dict[str, Any]:
    """Return a schema of the author's own, of an array."""
    return {"type": "object", "properties": {"value": {"type": "array", "items": items, **others}}}


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "string"}},
    "required": ["x", "y"],
}
WRITTEN: list[tuple[str, dict[str, Any], Text]] = [
    ("integers", schema({"type": "integer"}), array("1")),
    ("objects", schema(POINT), array('{"x":1,"y":"a"}')),
    ("date-times", schema({"type": "string", "format": "date-time"}), array(DAY)),
    ("unique integers", schema({}, uniqueItems=True), numbered("#", 7)),
    ("unique objects", schema({}, uniqueItems=True), numbered('{"a":[#]}', 15)),
    ("2,000 objects to choose", schema(MANY_OBJECTS), array('{"name":"n1999","at":[1999]}')),
    ("[] for integers", schema({"type": "integer"}), array("[]")),
    ("{} for objects", schema(POINT), array("{}")),
    ("the last of integers", schema({"type": "integer"}), array("1", '"x"')),
    ("the last of objects", schema(POINT), array('{"x":1,"y":"a"}', "{}")),
    ("text for 2,000 objects", schema(MANY_OBJECTS), array('"a"')),
    ("objects for 2,000 objects", schema(MANY_OBJECTS), array('{"name":"n1999","at":[1]}')),
    ("2,000 branches", schema({"anyOf": [{"type": "object", "required": [f"m{n}"]} for n in range(2_000)]}),
     array("{}")),
    ("2,000 tagged branches", schema({"anyOf": [
        {"type": "object", "properties": {"kind": {"const": f"m{n}"}}, "required": ["kind"]} for n in range(2_000)]}),
     array('{"kind":"m"}')),
]  # fmt: skip


class Row(NamedTuple):
    """The times of one case.

    Args:
        name: Its name.
        size: In bytes of JSON.
        time: Of validation, in seconds.
        times: How many times that of decoding.
        memory: How many times the memory of the decoded value.
        outcome: What it was answered.
    """

    name: str
    size: int
    time: float
    times: float
    memory: float
    outcome: str

    @property
    def is_beyond(self) -> bool:
        if self.size <= 1.3 * SMALL:
            return self.time * 1e3 > MOST_MILLISECONDS
        return max(self.times, self.memory) > MOST_TIMES


def cases() -> Iterator[tuple[str, Callable[[Any], Any], Text]]:
    """Yield each case with what validates its value, and what makes its text."""
    for kind, table in (("", FITTING), ("wrong: ", WRONG)):
        for name, annotation, make in table:
            arguments = Arguments.of_parameters("f", [parameter("value", annotation)])
            yield kind + name, lambda value, of=arguments: of.validate({"value": value}), make
    for name, written, make in WRITTEN:
        arguments = custom_schemas.arguments(written)
        yield f"input_schema: {name}", lambda value, of=arguments: of.validate({"value": value}), make
    for name, annotation, make in FITTING:
        if (output := Output.of(annotation)) is not None and name not in ("one long bytes",):
            yield f"result: {name}", _returned(annotation, output), make


def _returned(annotation: Any, output: Output) -> Callable[[Any], Any]:
    arguments = Arguments.of_parameters("f", [parameter("value", annotation)])
    kept: dict[int, Any] = {}

    def dump(value: Any) -> Any:
        if id(value) not in kept:
            kept.clear()
            kept[id(value)] = arguments.validate({"value": value})["value"]
        return output.dump(kept[id(value)])

    return dump


def measured(name: str, validate: Callable[[Any], Any], made: str, turns: int) -> Row:
    """Return what validating a text takes beside decoding it."""
    raw = made.encode()
    outcome = "fits"

    def act(value: Any) -> None:
        nonlocal outcome
        try:
            validate(value)
        except (ArgumentsError, OutputError) as error:
            outcome = " ".join(str(error).split())[:60]

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    value = from_json(raw)
    decoded = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    act(value)  # what is built once, is
    tracemalloc.start()
    act(value)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    decoding = min(_time(lambda: from_json(raw)) for _ in range(turns))
    validating = min(_time(lambda: act(value)) for _ in range(turns))
    return Row(name, len(raw), validating, validating / decoding, peak / decoded, outcome)


def _time(act: Callable[[], Any]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table, worst first."""
    yield "| case | bytes | ms | times decoding | times its memory | answer |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for row in sorted(rows, key=lambda row: (not row.is_beyond, -row.times)):
        name = f"**{row.name}**" if row.is_beyond else row.name
        figures = f"{row.time * 1e3:.2f} | {row.times:.1f} | {row.memory:.1f}"
        yield f"| {name} | {row.size:,} | {figures} | {row.outcome.replace('|', '/')} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--size", type=int, action="append", help=f"bytes of each; {SMALL} and {LARGE} by default"
    )
    parser.add_argument("--only", default="", help="the cases with this in their names")
    parser.add_argument("--turns", type=int, default=3, help="the best of how many is taken")
    options = parser.parse_args()
    for size in options.size or [SMALL, LARGE]:
        rows = []
        for name, validate, make in cases():
            if options.only in name:
                rows.append(measured(name, validate, make(size), options.turns))
        print("\n".join(table(rows)), flush=True)
        print(f"\n{sum(row.is_beyond for row in rows)} of {len(rows)} are beyond\n")


if __name__ == "__main__":
    main()
