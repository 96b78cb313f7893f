"""Patterns (regular expressions) and formats of strings in JSON Schemas.

Authors write patterns for Python, pydantic's engine matches them in linear time, and clients read them as ECMA-262.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema

from .._utils.exceptions import RegistrationError

# --- Patterns
#
# Clients read patterns as ECMA-262 with the flag `u` (JSON Schema 2020-12, "Regular Expressions"); authors write them
# for Python. `\A`, `\Z` and named groups are translated. Matching takes linear time, in the engine of pydantic.

_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P<", re.DOTALL)
_PUBLISHED = {r"\A": "^", r"\Z": "$", r"\z": "$", "(?P<": "(?<"}
_RUST = {r"\Z": r"\z"}

_CODE = r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[pP]\{[LMNPSZC][a-z]?\}"
_MEMBER = (
    r"(?!&&|--|~~|\|\||\\[dDwWsS]-[^\]]|-\\[dDwWsS])"
    rf"(?:[^\\\[\]]|\\(?:[dDwWsSbtnrfv^$\\.*+?()\[\]{{}}|/-]|{_CODE}))"
)
_QUANTIFIER = r"(?:(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)?"
# Patterns that ECMA-262 can read. A client that cannot read one drops the whole list of tools.
_ECMA = re.compile(
    r"(?:\\[bB]|[\^$|]|\((?:\?(?::|<?[=!]|<[A-Za-z_]\w*>))?"
    rf"|(?:\\(?:[dDwWsStnrfv^$\\.*+?()\[\]{{}}|/1-9]|k<\w+>|{_CODE})|\[\^?-?(?:{_MEMBER})*\]|[^\\^$*+?()\[\]{{}}|]|\))"
    rf"{_QUANTIFIER})*",
    re.ASCII,
)


def pattern_source(pattern: str | re.Pattern[str]) -> str:
    """Return the text of a pattern that may be compiled, with its flags at the beginning."""
    if isinstance(pattern, str):
        return pattern
    flags = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


@lru_cache(maxsize=1024)
def published_pattern(pattern: str) -> str | None:
    """Return a pattern in the syntax of ECMA-262, None if it has none, as for `(?i)`."""
    translated = _TOKEN.sub(lambda match: _PUBLISHED.get(match[0], match[0]), pattern)
    return translated if _ECMA.fullmatch(translated) else None


@lru_cache(maxsize=1024)
def linear_pattern(pattern: str | re.Pattern[str]) -> str:
    """Return a pattern in the syntax of pydantic's engine, which takes linear time.

    Raises:
        RegistrationError: It is not a regular expression, or has lookarounds or backreferences.
    """
    source = pattern_source(pattern)
    translated = _TOKEN.sub(lambda match: _RUST.get(match[0], match[0]), source)
    try:
        SchemaValidator(core_schema.str_schema(pattern=translated))
    except SchemaError:
        try:
            re.compile(source)
        except re.error as error:
            raise RegistrationError(f"the pattern {source!r} is not a regular expression: {error}") from None
        raise RegistrationError(
            f"the pattern {source!r} has lookarounds, backreferences or other constructs with unbounded matching time. "
            "Write it without these, or check the value in the function"
        ) from None
    return translated


@lru_cache(maxsize=1024)
def matches(pattern: str) -> Callable[[Any], bool]:
    """Return a function that matches a pattern in linear time.

    Raises:
        RegistrationError: See `linear_pattern`.
    """
    core = core_schema.str_schema(pattern=linear_pattern(pattern), strict=True)
    return SchemaValidator(core).isinstance_python


# --- Formats
#
# They are asserted (JSON Schema 2020-12, "Vocabularies for Semantic Content With format"), by patterns that all engines
# read alike.

_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # RFC 3339 has a year 0, Python has not.
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_DATE = f"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

LOCAL_DATE_TIME = f"^{_DATE}T{_CLOCK}$"  # without offset; "naive" in Python
LOCAL_TIME = f"^{_CLOCK}$"

_SECONDS = r"[0-9]+(?:\.[0-9]+)?S"
_HOURS = f"[0-9]+H(?:[0-9]+M)?(?:{_SECONDS})?|[0-9]+M(?:{_SECONDS})?|{_SECONDS}"

# A duration (ISO 8601-2) that may be negative, and hold fractions of a second.
SIGNED_DURATION = (
    f"^-?P(?:[0-9]+W|(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?T(?:{_HOURS})"
    "|[0-9]+Y(?:[0-9]+M)?(?:[0-9]+D)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)$"
)

_PART = r"[0-9]+(?:\.[0-9]{1,9})?S"
_PARTS = f"T(?:[0-9]+H(?:[0-9]+M)?(?:{_PART})?|[0-9]+M(?:{_PART})?|{_PART})"

# A duration of days and what is shorter, down to nanoseconds, as numpy and pandas have them.
EXACT_DURATION = f"^-?P(?:[0-9]+D(?:{_PARTS})?|{_PARTS})$"

BASE64URL_PATTERN = "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$"
DECIMAL_PATTERN = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"
FRACTION = "^-?[0-9]+(?:/0*[1-9][0-9]*)?$"

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

# Formats that JSON Schema does not define are annotations only, as it specifies.
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

# Strings of Python values that are not in the format.
_PATTERNS = {"date-time": LOCAL_DATE_TIME, "time": LOCAL_TIME, "duration": SIGNED_DURATION}


def format_schema(name: str, tz_constraint: object = None) -> dict[str, Any]:
    """Return the JSON Schema of the strings of a Python class.

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


def format_pattern(name: str, tz_constraint: object = None) -> str:
    """Return the pattern of the strings of `format_schema(name, tz_constraint)`."""
    schema = format_schema(name, tz_constraint)
    return "|".join(each.get("pattern", FORMATS[name]) for each in schema.get("anyOf", [schema]))


class Format(NamedTuple):
    """Format of a string, in `Annotated`; other strings are refused.

    Args:
        name: Name in JSON Schema, such as `email`.
    """

    name: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Check the format of a model's field."""
        return core_schema.chain_schema([handler(source), core_schema.str_schema(pattern=FORMATS[self.name])])

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Add the format to the schema of a model's field."""
        return {**handler(core["steps"][0]), "format": self.name}


Email = Annotated[str, Format("email")]
"""An email address, as a `str`."""

Uri = Annotated[str, Format("uri")]
"""A URI, as a `str`."""
