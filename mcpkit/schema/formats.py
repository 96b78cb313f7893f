"""Validators of single JSON values, as pydantic-core schemas, and the formats and patterns of strings.

Each accepts exactly the values of its JSON Schema. They run in Python mode on results of `pydantic_core.from_json`.
JSON Schema differs from Python in a few places: 5.0 is an integer and so is 1e300, `true` is not a number, a numeric
string is not a date, and a set has no duplicates. Only types with such a difference have extra cost.
"""

from __future__ import annotations

import binascii
import enum
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from operator import methodcaller
from typing import Annotated, Any, NamedTuple, cast

from pydantic_core import CoreSchema, PydanticCustomError, SchemaError, SchemaValidator, core_schema

from .._utils.exceptions import OutputError, RegistrationError
from ..content.blocks import blocking_allowed, described
from ..content.convert import json_value
from ..protocol.jsonrpc import SCALARS, is_array, is_object


def refusal(reason: str) -> PydanticCustomError:
    """Return the error that a validator raises to refuse a value."""
    # The text stays in the package: errors.py words what was expected.
    return PydanticCustomError("json_schema", "{reason}", {"reason": reason})


# --- Equality

LARGEST_HASH = sys.hash_info.modulus

_ALIKE = frozenset({str, float, type(None)})
"""Types that are equal in Python if they are equal in JSON, and safe against chosen hash collisions."""


def identity(value: Any) -> Any:
    """Return a hashable object that is equal for two JSON values that are equal in JSON Schema.

    JSON Schema 2020-12, "Instance Equality": 1 and 1.0 are equal, `true` and 1 are not. Clients cannot construct many
    values with the same hash: large numbers and tuples are converted to strings, and hashes of strings are randomized.
    """
    if type(value) is str or value is None:
        return value
    if is_object(value) or is_array(value):
        return object, _identity_text(value)
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value).encode() if isinstance(value, int) and abs(value) > LARGEST_HASH else value


def _identity_text(value: Any) -> str:
    # Inner texts are not quoted again at each level, which would need gigabytes after a few levels.
    if is_object(value):
        return f"{{{','.join(sorted(f'{key!r}:{_identity_text(item)}' for key, item in value.items()))}}}"
    if is_array(value):
        return f"[{','.join(map(_identity_text, value))}]"
    return repr(identity(value))


def is_unique(items: Sequence[Any]) -> bool:
    """Return whether JSON values are all different."""
    kinds = set(map(type, items))
    if kinds == {int}:
        is_within = min(items) > -LARGEST_HASH and max(items) < LARGEST_HASH
        return len(set(items if is_within else map(hex, items))) == len(items)
    if kinds <= _ALIKE:
        return len(set(items)) == len(items)
    return len({identity(item) for item in items}) == len(items)


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
_ECMA = re.compile(
    r"(?:\\[bB]|[\^$|]|\((?:\?(?::|<?[=!]|<[A-Za-z_]\w*>))?"
    rf"|(?:\\(?:[dDwWsStnrfv^$\\.*+?()\[\]{{}}|/1-9]|k<\w+>|{_CODE})|\[\^?-?(?:{_MEMBER})*\]|[^\\^$*+?()\[\]{{}}|]|\))"
    rf"{_QUANTIFIER})*",
    re.ASCII,
)
"""Patterns that ECMA-262 can read. A client that cannot read one drops the whole list of tools."""


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
    return SchemaValidator(string(pattern=pattern)).isinstance_python


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
"""Strings of Python values that are not in the format."""


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
    if name not in _PATTERNS or tz_constraint not in (None, "naive"):
        return FORMATS[name]
    if tz_constraint == "naive":
        return _PATTERNS[name]
    return f"{FORMATS[name]}|{_PATTERNS[name]}"


class Format(NamedTuple):
    """Format of a string, in `Annotated`; other strings are refused.

    Args:
        name: Name in JSON Schema, such as `email`.
    """

    name: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Check the format of a model's field."""
        return core_schema.chain_schema([handler(source), formatted(self.name)])

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Add the format to the schema of a model's field."""
        return {**handler(core["steps"][0]), "format": self.name}


Email = Annotated[str, Format("email")]
"""An email address, as a `str`."""

Uri = Annotated[str, Format("uri")]
"""A URI, as a `str`."""


# --- Validators

BASE64URL_PATTERN = "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$"
DECIMAL_PATTERN = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"

_NUMERIC = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
            "multiple_of": "multipleOf"}  # fmt: skip
CONSTRAINTS: Mapping[str | None, Mapping[str, str]] = {
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
"""Keywords by type and by the name of the constraint in pydantic-core."""

_WIDEST = 2.0**63
"""Floats from here on are integers, but pydantic does not read them as such."""


def integer(**constraints: Any) -> CoreSchema:
    """Return a validator of integers; a float without fraction is one and becomes `int`."""
    strict = cast("CoreSchema", {"type": "int", "strict": True, **constraints})
    narrow = core_schema.chain_schema(
        [core_schema.float_schema(gt=-_WIDEST, lt=_WIDEST), core_schema.int_schema()]
    )
    largest = core_schema.float_schema(allow_inf_nan=False, ge=_WIDEST)
    smallest = core_schema.float_schema(allow_inf_nan=False, le=-_WIDEST)
    wide = in_order([largest, smallest])
    widest = core_schema.chain_schema([wide, core_schema.no_info_plain_validator_function(int)])
    whole = core_schema.chain_schema(
        [core_schema.is_instance_schema(float), in_order([narrow, widest]), strict]
    )
    return in_order([strict, whole])


def number(**constraints: Any) -> CoreSchema:
    """Return a validator of numbers, which become `float`."""
    return cast("CoreSchema", {"type": "float", **constraints, "strict": True, "allow_inf_nan": False})


def string(**constraints: Any) -> CoreSchema:
    """Return a validator of strings.

    Raises:
        RegistrationError: The `pattern` among the constraints is not supported; see `linear_pattern`.
    """
    if "pattern" in constraints:
        constraints["pattern"] = linear_pattern(constraints["pattern"])
    return cast("CoreSchema", {"type": "str", **constraints, "strict": True})


def formatted(name: str) -> CoreSchema:
    """Return a validator of strings in a format of `FORMATS`."""
    return string(pattern=FORMATS[name])


def temporal(name: str, then: CoreSchema, tz_constraint: object = None) -> CoreSchema:
    """Return a validator of the strings of `format_schema(name, tz_constraint)`, which `then` converts."""
    return core_schema.chain_schema([string(pattern=format_pattern(name, tz_constraint)), then])


if sys.version_info >= (3, 11):
    decode_base64: Callable[[str], bytes] = partial(binascii.a2b_base64, strict_mode=True)
    """Returns the bytes of a base64 string (RFC 4648, section 4); raises ValueError for other strings."""
else:
    from base64 import b64decode

    def decode_base64(text: str) -> bytes:
        """Return the bytes of a base64 string: `strict_mode` is new in Python 3.11."""
        return b64decode(text.encode("ascii"), validate=True)


def string_to(convert: Callable[[str], Any]) -> CoreSchema:
    """Return a validator of strings, which `convert` turns into another value."""
    return core_schema.no_info_after_validator_function(convert, string())


def base64_bytes(then: CoreSchema, *, is_url_safe: bool = False) -> CoreSchema:
    """Return a validator of base64 strings, which become `bytes` and go on to `then`.

    Args:
        then: The next validator.
        is_url_safe: Whether they have the alphabet of RFC 4648, section 5.
    """
    steps = [string_to(decode_base64), then]
    if is_url_safe:
        translate = methodcaller("translate", str.maketrans("-_", "+/"))
        steps[:0] = [string(pattern=BASE64URL_PATTERN), string_to(translate)]
    return core_schema.chain_schema(steps)


def in_order(choices: Sequence[Any]) -> CoreSchema:
    """Return a validator of the first of some choices that a value fits."""
    return core_schema.union_schema(list(choices), mode="left_to_right")


def first_choices(choices: Sequence[Any]) -> list[Any]:
    """Return the choices of a union that are tried before all others.

    Any string is a `str`, so types written before it would never be chosen. Other strings may be base64 by accident.
    A number with a fraction of zero is an integer only where there is no `float`.
    """
    last = next((index for index, core in enumerate(choices) if core["type"] == "str"), 0)
    first = [core for core in choices[:last] if _takes_string(core)]
    if any(core["type"] == "union" and core["choices"][0]["type"] == "int" for core in choices):
        is_float = core_schema.is_instance_schema(float)
        first += [core_schema.chain_schema([is_float, core]) for core in choices if core["type"] == "float"]
    return first


def _takes_string(core: Any) -> bool:
    kind = core["type"]
    if kind == "chain":
        return core["steps"][0]["type"] == "literal" or _takes_string(core["steps"][0])
    if kind == "function-after":
        return core["function"]["function"] is not decode_base64 and _takes_string(core["schema"])
    return kind in ("str", "function-plain")


def one_of(choices: Sequence[tuple[Any, Any]]) -> CoreSchema:
    """Return a validator of a few JSON values, each with the Python value that it becomes."""
    kinds: set[type[Any]] = {type(value) for value, _ in choices}
    if len(kinds) == 1 and (kind := kinds.pop()) in (str, int, bool):
        steps: list[CoreSchema] = [core_schema.literal_schema([value for value, _ in choices])]
        if kind is not str:  # by itself it takes `true` for 1, as Python does
            steps.insert(0, integer() if kind is int else core_schema.bool_schema(strict=True))
        if any(value is not result for value, result in choices):
            steps.append(core_schema.no_info_plain_validator_function(dict(choices).__getitem__))
        return core_schema.chain_schema(steps) if len(steps) > 1 else steps[0]
    table = {identity(value): result for value, result in choices}

    def choose(value: Any) -> Any:
        try:
            return table[identity(value)]
        except KeyError:
            raise refusal("no choice") from None

    return core_schema.no_info_plain_validator_function(choose)


def choice_value(choice: Any) -> Any:
    """Return the JSON value of a member of an Enum; any other value unchanged.

    Raises:
        RegistrationError: It has none.
    """
    if not isinstance(choice, enum.Enum):
        return choice
    value = choice.value
    if type(value) in SCALARS:
        return value
    try:
        with blocking_allowed():
            return json_value(value)
    except OutputError:
        raise RegistrationError(
            f"the value of {choice} is {described(value)}, which cannot be converted to JSON; use a string or a number"
        ) from None


_MAX_FLAGS = 6


def members(cls: type[enum.Enum]) -> list[tuple[Any, enum.Enum]]:
    """Return the members of an Enum by their values, and the combinations of a Flag with few members.

    Raises:
        RegistrationError: The value of a member has no form in JSON.
    """
    named: list[tuple[Any, enum.Enum]] = [(choice_value(member), member) for member in cls]
    if not issubclass(cls, enum.Flag) or len(named) > _MAX_FLAGS:
        return named
    combined = dict(named)
    for _, member in named:
        for each in [cls(0), *combined.values()]:
            both: Any = cast("Any", each) | member
            combined.setdefault(both.value, both)
    return [(0, cls(0)), *sorted(combined.items())]


def array(then: CoreSchema) -> CoreSchema:
    """Return a validator of arrays, which go on to `then`."""
    return core_schema.chain_schema([core_schema.list_schema(strict=True), then])


def mapping(keys: CoreSchema | None = None, items: CoreSchema | None = None) -> CoreSchema:
    """Return a validator of objects, by their keys and values."""
    return cast("CoreSchema", {**core_schema.dict_schema(keys, items, strict=True), "fail_fast": True})


def unique(then: CoreSchema) -> CoreSchema:
    """Return a validator of arrays without duplicates, which go on to `then`."""

    def check(value: Any) -> Any:
        if is_array(value) and not is_unique(value):
            raise refusal("duplicates")
        return value

    return core_schema.no_info_before_validator_function(check, then)


MAX_COLLISIONS = 100


def check_hashes(values: Collection[Any]) -> None:
    """Refuse values of which many have the same hash: a set compares each of those with all others."""
    if len(set(map(hash, values))) > len(values) - MAX_COLLISIONS:
        return
    if max(Counter(map(hash, values)).values()) > MAX_COLLISIONS:
        raise refusal(f"expected at most {MAX_COLLISIONS} values that have the same hash in Python")


def hashed(build: Callable[[list[Any]], Any], items: CoreSchema, **constraints: Any) -> CoreSchema:
    """Return a validator of arrays without duplicates, which `build` turns into a set."""

    def make(values: list[Any]) -> Any:
        check_hashes(values)
        return build(values)

    items = core_schema.list_schema(items, strict=True, fail_fast=True, **constraints)
    return unique(core_schema.no_info_after_validator_function(make, items))
