"""Values with a format or a bound: what clients read, what is accepted as what, and what is refused."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import annotated_types as at
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, AnyUrl, AwareDatetime, Field, HttpUrl, NaiveDatetime, PastDatetime

from mcpkit.schema import formats, values
from tests.helpers.structures import Case, check_type


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("odd numbers are not served")
    return value


UTC = dt.timezone.utc
DATE_TIME = {"type": "string", "format": "date-time"}
LOCAL_DATE_TIME = {"type": "string", "pattern": formats.LOCAL_DATE_TIME}
DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}


CASES: list[Case] = [
    (
        dt.datetime,
        {"anyOf": [DATE_TIME, LOCAL_DATE_TIME]},
        [
            ("2026-01-31T09:30:00Z", dt.datetime(2026, 1, 31, 9, 30, tzinfo=UTC)),
            ("2026-01-31t09:30:00.25+00:00", dt.datetime(2026, 1, 31, 9, 30, 0, 250000, tzinfo=UTC)),
            ("2026-01-31T09:30:00", dt.datetime(2026, 1, 31, 9, 30)),
            ("2024-02-29T09:30:00.5", dt.datetime(2024, 2, 29, 9, 30, 0, 500000)),
        ],
        [
            *("2026-02-30T09:30:00Z", "2026-02-30T09:30:00", "2023-02-29T09:30:00", "0000-01-01T00:00:00"),
            *("2026-01-31", "2026-01-31 09:30:00", "2026-01-31T09:30", "2026-01-31T24:00:00"),
            *("2026-01-31T09:30:00\n", "1700000000", 1700000000, "now"),
        ],
    ),
    (
        NaiveDatetime,
        LOCAL_DATE_TIME,
        [("2026-01-31T09:30:00", dt.datetime(2026, 1, 31, 9, 30))],
        ["2026-01-31T09:30:00Z", "2026-01-31T09:30:00+00:00", "2026-01-31"],
    ),
    (
        AwareDatetime,
        DATE_TIME,
        [("2026-01-31T09:30:00Z", dt.datetime(2026, 1, 31, 9, 30, tzinfo=UTC))],
        ["2026-01-31T09:30:00", "2026-01-31"],
    ),
    (
        PastDatetime,
        {"anyOf": [DATE_TIME, LOCAL_DATE_TIME]},
        [("2020-01-31T09:30:00", dt.datetime(2020, 1, 31, 9, 30))],
        ["2999-01-31T09:30:00", "2999-01-31T09:30:00Z"],
    ),
    (
        Annotated[dt.datetime, Field(gt=dt.datetime(2026, 1, 1))],
        {"anyOf": [DATE_TIME, LOCAL_DATE_TIME]},
        [("2026-01-31T09:30:00", dt.datetime(2026, 1, 31, 9, 30))],
        ["2025-01-31T09:30:00"],
    ),
    (
        dt.date,
        {"type": "string", "format": "date"},
        [("2024-02-29", dt.date(2024, 2, 29))],
        ["2023-02-29", "20240229", "2024-02-29T00:00:00Z", 0, "0"],
    ),
    (
        dt.time,
        {"anyOf": [{"type": "string", "format": "time"}, {"type": "string", "pattern": formats.LOCAL_TIME}]},
        [("09:30:00Z", dt.time(9, 30, tzinfo=UTC)), ("09:30:00.000001", dt.time(9, 30, 0, 1))],
        ["09:30", "09:30Z", "25:00:00Z", "24:00:00", "09:60:00", 0, "34200"],
    ),
    (
        dt.timedelta,
        {
            "anyOf": [
                {"type": "string", "format": "duration"},
                {"type": "string", "pattern": formats.SIGNED_DURATION},
            ]
        },
        [
            ("PT1H30M", dt.timedelta(hours=1.5)),
            ("P1W", dt.timedelta(7)),
            ("PT0.5S", dt.timedelta(seconds=0.5)),
            ("-P1D", dt.timedelta(-1)),
            ("-P1DT0.5S", dt.timedelta(-1, -0.5)),
            ("-P1Y35D", dt.timedelta(-400)),
        ],
        ["P", "-P", "PT", "-PT", "P1D-", "--P1D", "1:30:00", "90", 90, "P1H", "PT1.5H", "-P1WT1H"],
    ),
    (
        UUID,
        {"type": "string", "format": "uuid"},
        [("123e4567-e89b-12d3-a456-426614174000", UUID("123e4567-e89b-12d3-a456-426614174000"))],
        ["123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}", "x", 1],
    ),
    (
        Decimal,
        DECIMAL,
        [("0.1", Decimal("0.1")), ("-1.50", Decimal("-1.50")), ("1E+3", Decimal("1E+3"))],
        [0.1, True, "NaN", "Infinity", "1_0", " 1", "٣", "1e99999"],
    ),
    (
        Annotated[Decimal, Field(decimal_places=2)],
        {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,2})?$"},
        [("0.25", Decimal("0.25"))],
        ["0.125", 0.25],
    ),
    (
        Annotated[Decimal, Field(decimal_places=0)],
        {"type": "string", "pattern": r"^-?[0-9]+$"},
        [("7", Decimal(7))],
        ["7.5", "7.", 7.0],
    ),
    (
        Annotated[bytes, Field(min_length=1, max_length=3)],
        {"type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 4},
        [("AP8=", b"\x00\xff")],
        ["", "AP8AAAAA", "AP8"],
    ),
    (IPv4Address, {"type": "string", "format": "ipv4"}, [("127.0.0.1", IPv4Address("127.0.0.1"))], ["1.2.3", 1]),
    (IPv6Address, {"type": "string", "format": "ipv6"}, [("::1", IPv6Address("::1"))], ["::1%eth0", ":", 1]),
    (Path, {"type": "string"}, [("/a/b", Path("/a/b"))], [True, None]),
    (
        HttpUrl,
        {"type": "string", "format": "uri", "pattern": "^(?:http|https):", "maxLength": 2083},
        [("https://example.org/a", HttpUrl("https://example.org/a"))],
        ["ftp://example.org", "example.org", "http://a b", 1],
    ),
    (AnyUrl, {"type": "string", "format": "uri"}, [("urn:a:b", AnyUrl("urn:a:b"))], ["no uri", "", 1]),
    (Annotated[int, at.Ge(0), at.Le(9)], {"type": "integer", "minimum": 0, "maximum": 9}, [(9.0, 9)], [10, -1]),
    (
        Annotated[float, at.Gt(0), at.Lt(1)],
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        [(0.5, 0.5)],
        [0, 1],
    ),
    (Annotated[int, at.MultipleOf(5)], {"type": "integer", "multipleOf": 5}, [(10, 10), (5.0, 5)], [7]),
    (
        Annotated[str, Field(min_length=1, max_length=3, pattern="^[a-z]*$")],
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
        [("abc", "abc")],
        ["", "abcd", "A", "a\n"],
    ),
    (Annotated[str, Field(min_length=0)], {"type": "string"}, [("", "")], [1.0]),
    (
        Annotated[list[int], at.Len(1, 2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [([1], [1])],
        [[], [1, 2, 3]],
    ),
    (
        Annotated[int, Field(json_schema_extra={"x-unit": "m"}, examples=[1], title="Height")],
        {"type": "integer", "title": "Height", "examples": [1], "x-unit": "m"},
        [(1.0, 1)],
        ["1"],
    ),
    (Annotated[int, AfterValidator(_even)], {"type": "integer"}, [(2, 2)], [3, "2"]),
    (Annotated[list[Annotated[str, "a name"]], "all names"],
     {"type": "array", "items": {"type": "string", "description": "a name"}, "description": "all names"},
     [(["a"], ["a"])], [[True]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "schema", "accepted", "refused"),
    CASES,
    ids=[re.sub(" at 0x[0-9a-f]+", "", str(c[0])) for c in CASES],
)
def test_a_format(annotation: Any, schema: Any, accepted: list[tuple[Any, Any]], refused: list[Any]) -> None:
    check_type(annotation, schema, accepted, refused)


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def test_a_date_is_a_day_of_the_calendar() -> None:
    is_date = values.matches(formats.FORMATS["date"])
    years = [0, 1, 4, 96, 100, 400, 1000, 1900, *range(1995, 2013), 2100, 2400, 4000, 9999]
    for year, month, day in itertools.product(years, range(14), range(33)):
        text = f"{year:04}-{month:02}-{day:02}"
        assert is_date(text) == _parses(dt.date.fromisoformat, text), text


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.data())
def test_an_address_is_what_its_class_reads(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([4, 6]))
    text = str(
        data.draw(
            st.ip_addresses(v=version)
            | st.integers(0, 2**20).map(IPv6Address if version == 6 else IPv4Address)
        )
    )
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + data.draw(st.sampled_from(["", ":", "::", ".", "0", "9", "25", "f", "1.2.3.4"]))
            + text[place + data.draw(st.integers(0, 2)) :]
        )
    cls = IPv4Address if version == 4 else IPv6Address
    assert values.matches(formats.FORMATS[f"ipv{version}"])(text) == _parses(cls, text), text
