"""The `format`s that are asserted: each name with the check that a text must pass.

JSON Schema 2020-12, "Vocabularies for Semantic Content With format". What an annotation of an
author publishes is checked here, once, for arguments and results alike.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)
# RFC 3339, appendix A, as validators read it that clients use: any unit may be left out between two others.
_DURATION = re.compile(
    r"P(?:\d+W|(?=\d|T)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)", re.ASCII
)
# RFC 3986, section 3 and appendix A; an IP literal is any text in brackets that its characters allow.
_CHARACTER = r"(?:[\w\-.~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://(?:(?:[\w\-.~!$&'()*+,;=:]|%[0-9A-Fa-f]{{2}})*@)?"
    rf"(?:\[[0-9A-Fa-fvV:.]+\]|(?:[\w\-.~!$&'()*+,;=]|%[0-9A-Fa-f]{{2}})*)(?::\d*)?(?:/{_CHARACTER}*)*"
    rf"|/(?:{_CHARACTER}+(?:/{_CHARACTER}*)*)?"
    rf"|{_CHARACTER}+(?:/{_CHARACTER}*)*"
    r"|)"
    rf"(?:\?(?:{_CHARACTER}|[/?])*)?(?:\#(?:{_CHARACTER}|[/?])*)?",
    re.ASCII,
)

# What has no format: patterns that every engine reads alike, so that a published one says all that is asked.
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # RFC 3339 has a year 0, Python has not.
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"

LOCAL_DATE_TIME = f"^(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)T{_CLOCK}$"
"""A date and time without offset (ISO 8601; Python calls it naive)."""

LOCAL_TIME = f"^{_CLOCK}$"
"""A time without offset."""

_SECONDS = r"[0-9]+(?:\.[0-9]+)?S"
_HOURS = f"[0-9]+H(?:[0-9]+M)?(?:{_SECONDS})?|[0-9]+M(?:{_SECONDS})?|{_SECONDS}"

SIGNED_DURATION = (
    f"^-?P(?:[0-9]+W|(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?T(?:{_HOURS})"
    "|[0-9]+Y(?:[0-9]+M)?(?:[0-9]+D)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)$"
)
"""A duration (ISO 8601-2) that may be negative, and hold fractions of a second."""

_PART = r"[0-9]+(?:\.[0-9]{1,9})?S"
_PARTS = f"T(?:[0-9]+H(?:[0-9]+M)?(?:{_PART})?|[0-9]+M(?:{_PART})?|{_PART})"

EXACT_DURATION = f"^-?P(?:[0-9]+D(?:{_PARTS})?|{_PARTS})$"
"""A duration of days and what is shorter, down to nanoseconds, as numpy and pandas have them."""

FRACTION = "^-?[0-9]+(?:/0*[1-9][0-9]*)?$"
"""A fraction, or an integer."""


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses(dt.date.fromisoformat, text)


def _is_time(text: str) -> bool:
    # fromisoformat of 3.10 knows neither `Z` nor every length of a fraction: it gets the rest.
    return _TIME.fullmatch(text) is not None and _parses(dt.time.fromisoformat, text[:8])


def _is_date_time(text: str) -> bool:
    return text[10:11] in {"T", "t"} and _is_date(text[:10]) and _is_time(text[11:])


def _is_ipv4(text: str) -> bool:
    import ipaddress

    return _parses(ipaddress.IPv4Address, text)


def _is_ipv6(text: str) -> bool:
    import ipaddress

    return "%" not in text and _parses(ipaddress.IPv6Address, text)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "date": _is_date,
    "time": _is_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "uri": lambda text: _URI.fullmatch(text) is not None,
    "email": lambda text: "@" in text,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
}
"""Formats that JSON Schema does not define are annotations only, as it says."""

_PATTERNS = {"date-time": LOCAL_DATE_TIME, "time": LOCAL_TIME, "duration": SIGNED_DURATION}
"""What values of Python have beside a format."""


def schema(name: str, tz_constraint: object = None) -> dict[str, Any]:
    """Return the JSON Schema of the texts of a Python class.

    Args:
        name: The format of its values, or of most of them.
        tz_constraint: Which of dates and times there are, in pydantic's words: "naive" for those without
            offset, anything else for those with one; None for both.
    """
    text: dict[str, Any] = {"type": "string", "format": name}
    if name not in _PATTERNS or tz_constraint not in (None, "naive"):
        return text
    local = {"type": "string", "pattern": _PATTERNS[name]}
    return local if tz_constraint == "naive" else {"anyOf": [text, local]}


def check(name: str, tz_constraint: object = None) -> Callable[[str], bool]:
    """Return what tells whether a text fits `schema(name, tz_constraint)`."""
    is_formatted = FORMATS[name]
    if name not in _PATTERNS or tz_constraint not in (None, "naive"):
        return is_formatted
    matches = re.compile(_PATTERNS[name].replace("$", r"\Z")).match
    if tz_constraint == "naive":
        return lambda text: matches(text) is not None
    return lambda text: is_formatted(text) or matches(text) is not None


EXAMPLES = {
    "date-time": "a date and time with offset such as 2026-01-31T09:30:00Z",
    LOCAL_DATE_TIME: "a date and time without offset such as 2026-01-31T09:30:00",
    "date": "a date such as 2026-01-31",
    "time": "a time with offset such as 09:30:00Z",
    LOCAL_TIME: "a time without offset such as 09:30:00",
    "duration": "an ISO 8601 duration such as PT1H30M",
    EXACT_DURATION: "an ISO 8601 duration such as -P1DT0.5S",
    FRACTION: 'a fraction such as "1/3"',
    SIGNED_DURATION: "an ISO 8601 duration such as -PT0.5S",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    "uri": "a URI such as https://example.org/page",
    "email": "an email address",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
}
"""How an error names what a format or a pattern expects."""

EITHER = {
    (EXAMPLES["date-time"], EXAMPLES[LOCAL_DATE_TIME]): (
        "a date and time such as 2026-01-31T09:30:00 or 2026-01-31T09:30:00Z"
    ),
    (EXAMPLES["time"], EXAMPLES[LOCAL_TIME]): "a time such as 09:30:00 or 09:30:00Z",
    (EXAMPLES["duration"], EXAMPLES[SIGNED_DURATION]): "an ISO 8601 duration such as PT1H30M or -PT0.5S",
}
"""The same for two of them."""
