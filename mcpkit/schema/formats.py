"""The `format`s that are asserted: each name with the check that a text must pass.

JSON Schema 2020-12, "Vocabularies for Semantic Content With format". What an annotation of an
author publishes is checked here, once, for arguments and results alike.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII)
# RFC 3339, appendix A, and fractions of a second, as ISO 8601 has them: timedelta needs them.
_DURATION = re.compile(
    r"P(?:\d+W|(?=\d|T)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?)",
    re.ASCII,
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

EXAMPLES = {
    "date-time": "a date and time with offset such as 2026-01-31T09:30:00Z",
    "date": "a date such as 2026-01-31",
    "time": "a time with offset such as 09:30:00Z",
    "duration": "an ISO 8601 duration such as PT1H30M",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    "uri": "a URI such as https://example.org/page",
    "email": "an email address",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
}
"""How an error names what a format expects."""
