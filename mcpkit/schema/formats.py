"""The `format`s that are asserted: each name with the pattern of its texts.

JSON Schema 2020-12, "Vocabularies for Semantic Content With format". What an annotation of an
author publishes is checked here, once, for arguments and results alike. Every engine of regular expressions reads
these patterns alike, and pydantic's own takes linear time for them, without a call of Python.
"""

from __future__ import annotations

from typing import Any

_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # RFC 3339 has a year 0, Python has not.
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_DATE = f"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

LOCAL_DATE_TIME = f"^{_DATE}T{_CLOCK}$"
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


# RFC 3339, appendix A, as validators read it that clients use: any unit may be left out between two others.
_DAYS = "(?:[0-9]+Y(?:[0-9]+M)?(?:[0-9]+D)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_TIME = "T(?:[0-9]+H(?:[0-9]+M)?(?:[0-9]+S)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"

# RFC 3986, section 3 and appendix A; an IP literal is any text in brackets that its characters allow.
_NAME = r"(?:[A-Za-z0-9_\-.~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_USER = r"(?:[A-Za-z0-9_\-.~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})"
_CHARACTER = r"(?:[A-Za-z0-9_\-.~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_END = rf"(?:{_CHARACTER}|[/?])*"
_HOST = rf"(?:{_USER}*@)?(?:\[[0-9A-Fa-fvV:.]+\]|{_NAME}*)(?::[0-9]*)?"
_PATH = rf"(?://{_HOST}(?:/{_CHARACTER}*)*|/(?:{_CHARACTER}+(?:/{_CHARACTER}*)*)?|{_CHARACTER}+(?:/{_CHARACTER}*)*|)"

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
# RFC 4291, section 2.2: eight groups, of which "::" stands for one or more, and the last two may be an IPv4 address.
_GROUP = "[0-9A-Fa-f]{1,4}"
_LAST = f"(?:{_GROUP}:{_GROUP}|{_IPV4})"
_IPV6 = "|".join(
    [
        f"(?:{_GROUP}:){{6}}{_LAST}",
        f"::(?:{_GROUP}:){{5}}{_LAST}",
        *(f"(?:{_GROUP}(?::{_GROUP}){{0,{4 - n}}})?::(?:{_GROUP}:){{{n}}}{_LAST}" for n in range(4, -1, -1)),
        f"(?:{_GROUP}(?::{_GROUP}){{0,5}})?::{_GROUP}",
        f"(?:{_GROUP}(?::{_GROUP}){{0,6}})?::",
    ]
)

FORMATS: dict[str, str] = {
    "date-time": f"^{_DATE}[Tt]{_CLOCK}{_OFFSET}$",
    "date": f"^{_DATE}$",
    "time": f"^{_CLOCK}{_OFFSET}$",
    "duration": f"^P(?:[0-9]+W|{_DAYS}(?:{_TIME})?|{_TIME})$",
    "uuid": "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
    "uri": rf"^[A-Za-z][A-Za-z0-9+.\-]*:{_PATH}(?:\?{_END})?(?:\#{_END})?$",
    "email": "@",
    "ipv4": f"^{_IPV4}$",
    "ipv6": f"^(?:{_IPV6})$",
}
"""Formats that JSON Schema does not define are annotations only, as it specifies."""

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


def pattern(name: str, tz_constraint: object = None) -> str:
    """Return the pattern of the texts of `schema(name, tz_constraint)`."""
    if name not in _PATTERNS or tz_constraint not in (None, "naive"):
        return FORMATS[name]
    if tz_constraint == "naive":
        return _PATTERNS[name]
    return f"{FORMATS[name]}|{_PATTERNS[name]}"


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
