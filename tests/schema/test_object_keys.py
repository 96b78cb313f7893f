"""Keys of mappings: strings in JSON, whatever they are in Python."""

from __future__ import annotations

import collections
import datetime as dt
import enum
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel

from mcpkit.common.errors import ArgumentsError, OutputError, RegistrationError
from mcpkit.schema import Output, formats
from tests.helpers.structures import Color, arguments_of

INTEGER = {"pattern": "^-?[0-9]+$"}
UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Twice(BaseModel):
    level: Level
    counts: dict[Level, int]
    nested: dict[str, dict[Level, Level]]


@dataclass(frozen=True)
class Spot:
    x: int


KEYS: list[tuple[Any, Any, dict[str, Any], list[str]]] = [
    # the type of the keys, `propertyNames`, names with the keys that they become, names that are refused
    (int, INTEGER, {"5": 5, "-1": -1}, ["5.0", "a", "", "٣", "1\n", " 1"]),
    (float, {"pattern": r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"}, {"0.5": 0.5, "1e+300": 1e300}, ["nan", "inf"]),
    (bool, {"enum": ["true", "false"]}, {"true": True, "false": False}, ["True", "1"]),
    (int | None, {"anyOf": [{"type": "string", **INTEGER}, {"type": "string", "enum": ["None"]}]},
     {"1": 1, "None": None}, ["null", ""]),
    (UUID, {"format": "uuid"}, {UUID_TEXT: UUID(UUID_TEXT)}, ["x"]),
    (dt.date, {"format": "date"}, {"2026-01-31": dt.date(2026, 1, 31)}, ["2026-02-30", "1"]),
    (dt.datetime, {"anyOf": [{"type": "string", "format": "date-time"},
                             {"type": "string", "pattern": formats.LOCAL_DATE_TIME}]},
     {"2026-01-31T00:00:00": dt.datetime(2026, 1, 31)}, ["2026-01-31"]),
    (Color, {"enum": ["red", "blue"]}, {"red": Color.RED}, ["RED"]),
    (Level, {"enum": ["1", "2"]}, {"1": Level.LOW}, ["3", "LOW"]),
    (Access, {"enum": ["0", "1", "2", "3"]}, {"3": Access.READ | Access.WRITE}, ["4"]),
    (Literal[1, "a", None], {"enum": ["1", "a", "None"]}, {"1": 1, "a": "a", "None": None}, ["2"]),
    (Literal[Color.RED], {"enum": ["red"]}, {"red": Color.RED}, ["blue"]),
    (Decimal, {"pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}, {"1.50": Decimal("1.50")}, ["NaN"]),
    (Path, None, {"/a": Path("/a")}, []),
    (bytes, {"contentEncoding": "base64"}, {"+/8=": b"\xfb\xff"}, ["-_8="]),
    (int | str, None, {"1": 1, "a": "a"}, []),
    (str | int, None, {"1": 1, "a": "a"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("key", "names", "accepted", "refused"), KEYS, ids=[str(key) for key, *_ in KEYS])
def test_a_key(key: Any, names: Any, accepted: dict[str, Any], refused: list[str]) -> None:
    arguments = arguments_of(dict[key, int])
    assert arguments.schema["properties"]["value"].get("propertyNames") == names
    sent = dict.fromkeys(accepted, 0)
    read = arguments.validate({"value": sent})["value"]
    assert read == dict.fromkeys(accepted.values(), 0)
    assert list(map(type, read)) == list(map(type, accepted.values()))
    output = Output.of(dict[key, int])
    if output is not None:  # bytes are content
        assert output.dump(read) == sent
    for name in refused:
        with pytest.raises(ArgumentsError, match="the key is not"):
            arguments.validate({"value": {name: 0}})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Mapping[int, int], {1: 1}),
        (MutableMapping[int, int], {1: 1}),
        (collections.OrderedDict[int, int], collections.OrderedDict({1: 1})),
        (collections.defaultdict[int, list[int]], collections.defaultdict(list, {1: [1]})),
        (collections.Counter[int], collections.Counter([1, 1, 2])),
        (dict[int, dict[bool, list[dt.time]]], {1: {True: [dt.time(9)]}}),
        (Twice, Twice(level=Level.LOW, counts={Level.HIGH: 1}, nested={"a": {Level.LOW: Level.HIGH}})),
    ],
)
def test_every_mapping_has_such_keys(annotation: Any, value: Any) -> None:
    output = Output.of(annotation)
    assert output is not None
    sent = output.dump(value)
    read = arguments_of(annotation).validate({"value": sent})["value"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (dict[int, str], {"7": "a", "07": "b"}, '"7" and "07" stand for the same'),
        (dict[str, collections.Counter[int]], {"a": {"1": 1, "01": 2}}, 'a: the keys "1" and "01" stand'),
        (dict[float, str], {"1": "a", "1.0": "b"}, '"1" and "1.0" stand for the same'),
        (dict[UUID, int], {UUID_TEXT: 1, UUID_TEXT.upper(): 2}, "stand for the same"),
    ],
)
def test_two_names_of_one_key_are_refused(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(ArgumentsError, match=message):
        arguments_of(annotation).validate({"value": value})


class Open(BaseModel, extra="allow"):
    """Takes any field more."""


@pytest.mark.parametrize("value", [Open(more={1: "a", "1": "b"}), Open(more={"inner": {True: 1, "true": 2}})])
def test_two_keys_of_one_name_are_no_result(value: Open) -> None:
    output = Output.of(Open)
    assert output is not None
    with pytest.raises(OutputError, match="more"):
        output.dump(value)


@pytest.mark.parametrize("key", [tuple[int, int], Spot, frozenset[int], Literal[b"x"]])
def test_a_key_that_is_no_scalar_is_refused(key: Any) -> None:
    with pytest.raises(RegistrationError, match="has no form in JSON"):
        arguments_of(dict[key, int])
