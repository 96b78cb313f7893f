"""Messages for invalid JSON values: a value is read beside its schema, after a validator has refused it.

The reading supports the keywords that this package writes; errors of other checks are added by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from pydantic_core import SchemaError

from .._utils.exceptions import Problem
from .._utils.option_checks import nearest
from ..content.blocks import Steps, path, shown
from ..protocol.jsonrpc import Json, is_array, is_object
from . import patterns_and_formats
from .json_schema import identity, nodes, target
from .pydantic_validators import validator_of
from .value_validators import CONSTRAINTS

# --- Kinds of values


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": is_array,
    "object": is_object,
}

# Keywords that concern a value itself, each with the type of the values.
_KIND_OF_KEYWORD = {"format": "string", "contentEncoding": "string", "uniqueItems": "array"} | {
    keyword: str(kind) for kind, keywords in CONSTRAINTS.items() for keyword in keywords.values()
}
_ALONE = {"type", "enum", "const", *_KIND_OF_KEYWORD}


# --- Descriptions of expected and actual values

# How many choices or names are listed; of more, only some.
MAX_CHOICES = 20
_SOME_CHOICES = 5

_NAMES = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false",
          "null": "null", "array": "an array", "object": "an object"}  # fmt: skip
_SIZES = {"string": ("minLength", "maxLength", "character"), "array": ("minItems", "maxItems", "item"),
          "object": ("minProperties", "maxProperties", "key")}  # fmt: skip
_RANGES = {"minimum": "of at least", "exclusiveMinimum": "greater than", "maximum": "of at most",
           "exclusiveMaximum": "less than"}  # fmt: skip
_EXAMPLES = {
    # by format or pattern
    "date-time": "a date and time with offset such as 2026-01-31T09:30:00Z",
    patterns_and_formats.LOCAL_DATE_TIME: "a date and time without offset such as 2026-01-31T09:30:00",
    "date": "a date such as 2026-01-31",
    "time": "a time with offset such as 09:30:00Z",
    patterns_and_formats.LOCAL_TIME: "a time without offset such as 09:30:00",
    "duration": "an ISO 8601 duration such as PT1H30M",
    patterns_and_formats.EXACT_DURATION: "an ISO 8601 duration such as -P1DT0.5S",
    patterns_and_formats.FRACTION: 'a fraction such as "1/3"',
    patterns_and_formats.SIGNED_DURATION: "an ISO 8601 duration such as -PT0.5S",
    patterns_and_formats.DECIMAL_PATTERN: 'a string with a decimal number such as "12.50"',
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    "uri": "a URI such as https://example.org/page",
    "email": "an email address",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
}
_EITHER = {
    (
        "date-time",
        patterns_and_formats.LOCAL_DATE_TIME,
    ): "a date and time such as 2026-01-31T09:30:00 or 2026-01-31T09:30:00Z",
    ("time", patterns_and_formats.LOCAL_TIME): "a time such as 09:30:00 or 09:30:00Z",
    ("duration", patterns_and_formats.SIGNED_DURATION): "an ISO 8601 duration such as PT1H30M or -PT0.5S",
}


def kind_of(value: Any) -> str:
    """Return the type of a JSON value in words, without its contents."""
    if isinstance(value, bool):
        return "a boolean"
    return next((name for kind, name in _NAMES.items() if KINDS[kind](value)), "a value")


def expected(schema: Json, root: Json) -> str:
    """Return the values that a schema accepts, as the object of a sentence."""
    if "$ref" in schema:
        return expected(target(schema, root), root)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            texts = list(dict.fromkeys(expected(branch, root) for branch in schema[union]))
            for names, both in _EITHER.items():
                first, second = map(_EXAMPLES.__getitem__, names)
                if first in texts and second in texts:
                    texts = [both if text == first else text for text in texts if text != second]
            return " or ".join(texts)
    if "const" in schema:
        return shown(schema["const"])
    if "enum" in schema:
        choices = [shown(choice) for choice in schema["enum"]]
        if len(choices) > MAX_CHOICES:
            return f"one of {len(choices)} values such as {', '.join(choices[:_SOME_CHOICES])}"
        *others, last = choices or ["nothing"]
        return f"{', '.join(others)} or {last}" if others else last
    implied = dict.fromkeys(kind for key, kind in _KIND_OF_KEYWORD.items() if key in schema)
    kinds = schema.get("type") or list(implied)
    named = [_expected_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " or ".join(named) or "a value"


def _expected_kind(kind: str, schema: Json) -> str:
    text = _NAMES[kind]
    if kind in ("integer", "number"):
        if "minimum" in schema and "maximum" in schema:
            text += f" from {shown(schema['minimum'])} to {shown(schema['maximum'])}"
        elif parts := [f"{words} {shown(schema[key])}" for key, words in _RANGES.items() if key in schema]:
            text += f" {' and '.join(parts)}"
        step = f" that is a multiple of {shown(schema['multipleOf'])}" if "multipleOf" in schema else ""
        return text + step
    if kind == "string":
        if schema.get("pattern") in _EXAMPLES:
            return _EXAMPLES[schema["pattern"]]
        if schema.get("contentEncoding") == "base64":
            text = "a base64 string"
        text = _EXAMPLES.get(schema.get("format", ""), text)
    if kind in _SIZES:
        text += _expected_size(schema, *_SIZES[kind])
    if kind == "string" and "pattern" in schema:
        text += f" that matches {schema['pattern']}"
    return f"{text} without duplicates" if kind == "array" and schema.get("uniqueItems") else text


def _expected_size(schema: Json, minimum: str, maximum: str, unit: str) -> str:
    low, high = schema.get(minimum), schema.get(maximum)
    if low is None and high is None:
        return ""
    if low == high:
        text = f"{low}"
    elif high is None:
        text = f"at least {low}"
    else:
        text = f"at most {high}" if not low else f"{low} to {high}"
    return f" of {text} {unit}{'' if text.endswith(' 1') or text == '1' else 's'}"


# --- Faults

# Maximum number of problems reported for one value.
MAX_PROBLEMS = 100
_MAX_DEPTH = 32
# How many values are read, one by one, to explain the faults of one.
_MAX_VALUES = 2_000
# Integers from here on are not read as text, which takes time that grows with the square of their length.
_LARGEST_TEXT = 10**1_000


class Fault(NamedTuple):
    """A value that does not fit where it stands.

    Args:
        steps: Place of the value.
        value: The value; None for one that is missing or may not be there.
        message: The expected and the actual value.
        within: The faults that each branch of a union finds inside the value; branches that do not take a value of this
            kind are left out.
        text: The value as text, if it is an integer and only its text fits.
        guess: The faults of the branch of a union that was probably meant: they are reported instead of this one.
    """

    steps: Steps
    value: Any
    message: str
    within: tuple[tuple[Fault, ...], ...] = ()
    text: str | None = None
    guess: tuple[Fault, ...] = ()


def is_secret(schema: Json) -> bool:
    """Return whether a schema marks its value as secret, so that it must not be in messages.

    It is `writeOnly` (JSON Schema 2020-12, "readOnly" and "writeOnly"), or of the format `password`. pydantic
    generates this for `SecretStr` and `SecretBytes`; `Field(json_schema_extra={"writeOnly": True})` does the same.
    """
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def holds_secret(schema: Json, root: Json) -> bool:
    """Return whether a value of a schema, with references into `root`, may be or contain a secret."""
    return any(map(is_secret, nodes(schema, root)))


def problems(schema: Json, value: Any) -> list[Problem]:
    """Return the problems of a JSON value: at most `MAX_PROBLEMS`, none if it fits its schema."""
    return problems_of(Reader(schema).faults(value))


def problems_of(faults: Iterable[Fault]) -> list[Problem]:
    """Return the problems of faults for the caller, without duplicates and limited in number."""
    found = (Problem(path(fault.steps), fault.message) for fault in guessed(faults))
    return list(islice(dict.fromkeys(found), MAX_PROBLEMS))


def guessed(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield faults, and in place of those of unions the faults of the branches that were probably meant."""
    for fault in faults:
        if fault.guess:
            yield from guessed(fault.guess)
        else:
            yield fault


class Reader:
    """Reads values beside their schema, with a limit of work for each message.

    It reads the first thousands of values, to a certain depth. A value is not read twice for one branch of a union.

    Args:
        root: Schema with `$defs`.
    """

    def __init__(self, root: Json) -> None:
        self.root = root
        self._has_secrets = holds_secret(root, root)
        self._left = _MAX_VALUES
        self._checks: dict[int, tuple[Json, Callable[[Any], bool]]] = {}
        self._names: dict[int, Json] = {}  # by the identity of `propertyNames`
        self._read: dict[tuple[int, Steps, bool], list[Fault]] = {}

    def faults(self, value: Any) -> list[Fault]:
        """Return the faults of a value."""
        self._read.clear()
        return list(self.read(self.root, value, (), False))

    def takes(self, schema: Json, value: Any) -> bool:
        """Return whether a value matches a part of the schema."""
        self._read.clear()
        return not any(self.read(schema, value, (), False))

    def read(self, schema: Json, value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        """Yield the faults of the value at `steps`."""
        if self._left <= 0 or len(steps) > _MAX_DEPTH:
            return
        self._left -= 1
        if "$ref" in schema:
            yield from self.read(target(schema, self.root), value, steps, is_hidden)
            return
        is_hidden = is_hidden or is_secret(schema)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                yield from self._in_union(schema[union], value, steps, is_hidden)
                return
        for part in schema.get("allOf", ()):
            yield from self.read(part, value, steps, is_hidden)
        if not self.fits_alone(schema, value):
            choices = schema.get("enum", ())
            self._left -= len(choices)  # with each of which the value is compared
            message = self._mismatch(schema, value, is_hidden)
            if not is_hidden and len(choices) > MAX_CHOICES and isinstance(value, str):
                guess = nearest(value, [choice for choice in choices if isinstance(choice, str)])
                message += f"; did you mean {shown(guess)}?" if guess is not None else ""
            yield Fault(steps, value, message, text=self._text(schema, value))
        elif is_object(value):
            yield from self._in_object(schema, value, steps, is_hidden)
        elif is_array(value):
            yield from self._in_array(schema, value, steps, is_hidden)

    def fits_alone(self, schema: Json, value: Any) -> bool:
        """Return whether a value matches, ignoring values inside it."""
        if id(schema) not in self._checks:
            part = {keyword: value for keyword, value in schema.items() if keyword in _ALONE}
            # With the schema, so that no other one gets its place in memory.
            self._checks[id(schema)] = schema, self.compiled(part)
        return self._checks[id(schema)][1](value)

    def compiled(self, schema: Json) -> Callable[[Any], bool]:
        """Return the check of a schema."""
        try:
            return validator_of(schema).isinstance_python
        except (KeyError, TypeError, SchemaError):  # keywords of the author's own
            return lambda _: False  # nothing is known of the value

    def _text(self, schema: Json, value: Any) -> str | None:
        """Return an integer as text if the schema accepts that; None for other values."""
        if type(value) is not int or abs(value) >= _LARGEST_TEXT or "contentEncoding" in schema:
            return None
        text = str(value)
        return text if self.fits_alone(schema, text) else None

    def _mismatch(self, schema: Json, value: Any, is_hidden: bool) -> str:
        """Return the message about the expected and the actual value; of a hidden value only its kind."""
        is_hidden = is_hidden or (self._has_secrets and holds_secret(schema, self.root))
        return f"expected {expected(schema, self.root)}, got {kind_of(value) if is_hidden else shown(value)}"

    def _in_array(self, schema: Json, value: list[Any], steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        prefix: list[Any] = schema.get("prefixItems", [])
        for index, inner in enumerate(prefix[: len(value)]):
            if is_object(inner):
                yield from self.read(inner, value[index], (*steps, index), is_hidden)
        rest: Any = schema.get("items")
        for index in range(len(prefix), len(value)) if is_object(rest) else ():
            if self._left <= 0:
                return
            yield from self.read(rest, value[index], (*steps, index), is_hidden)

    def _in_object(self, schema: Json, value: Json, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        properties: Json = schema.get("properties", {})
        required = schema.get("required", ())
        additional = schema.get("additionalProperties", True)
        for name in required:
            if name not in value:
                message = f"expected {expected(properties.get(name, {}), self.root)}, but it is missing"
                yield Fault((*steps, name), None, message)
        names: Json = schema.get("propertyNames", {})
        has_names = "propertyNames" in schema
        if has_names:  # the first schema made of it, as checks are found by the identity of a schema
            names = self._names.setdefault(id(names), {"type": "string", **names})
        for name, item in value.items():
            inner = (*steps, name)
            if self._left <= 0:
                return
            if has_names and any(self.read(names, name, inner, is_hidden)):
                yield Fault(inner, None, f"the key is not {expected(names, self.root)}")
            if name in properties:
                hint = "; leave it out instead" * (item is None and name not in required)
                for fault in self.read(properties[name], item, inner, is_hidden):
                    yield fault._replace(message=fault.message + hint)
            elif additional is False:
                self._left -= 1 + len(properties)  # with each of which the name is compared
                yield _unknown_member(name, list(properties), steps)
            elif additional is not True:
                yield from self.read(additional, item, inner, is_hidden)

    def _in_union(self, branches: list[Json], value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        found: list[tuple[Json, list[Fault]]] = []
        for branch in branches:
            key = (id(branch), steps, is_hidden)
            if key not in self._read:
                self._read[key] = list(self.read(branch, value, steps, is_hidden))
            if not self._read[key]:
                return
            followed: Json = branch if is_object(branch) else {}
            found.append((target(followed, self.root) if "$ref" in followed else followed, self._read[key]))
        # The branch that was meant has the kind of the value, and its problems lie inside it.
        meant = [each for each in found if all(fault.steps != steps or fault.guess for fault in each[1])]
        tagged = [each for each in found if _has_tag(each[0], value)]
        single = next((each[0] for each in (tagged, meant) if len(each) == 1), None)
        guess = [] if single is None else single[1]
        if len(meant) == 1 and guess is meant[0][1]:
            yield from guess  # no other branch takes a value of this kind
            return
        guess = guess or list(self._in_tags([branch for branch, _ in found], value, steps, is_hidden))
        if not guess and is_object(value) and meant:
            # The branches that know the most of an object's members.
            unknown = [sum(name not in branch.get("properties", ()) for name in value) for branch, _ in meant]
            if unknown.count(min(unknown)) == 1:
                guess = meant[unknown.index(min(unknown))][1]
        texts = (fault.text for _, wrong in found for fault in wrong if fault.steps == steps)
        text = next((each for each in texts if each is not None), None)
        inside = (wrong for _, wrong in found if all(each.steps != steps or each.within for each in wrong))
        message = "" if guess else self._mismatch({"anyOf": branches}, value, is_hidden)
        yield Fault(steps, value, message, tuple(map(tuple, inside)), text, tuple(guess))

    def _in_tags(self, branches: list[Json], value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        """Yield the faults of discriminating constants, if an object has none of theirs."""
        objects = [branch for branch in branches if "properties" in branch]
        if not is_object(value) or len(objects) < 2:
            return
        for name in objects[0]["properties"]:
            choices = [branch["properties"].get(name, {}).get("enum") for branch in objects]
            if all(choices):
                known = {identity(choice): choice for each in choices for choice in each}
                required = [name] if all(name in branch.get("required", ()) for branch in objects) else []
                tag: Json = {"properties": {name: {"enum": list(known.values())}}, "required": required}
                yield from self._in_object(tag, value, steps, is_hidden)


def _has_tag(branch: Json, value: Any) -> bool:
    """Return whether an object has the discriminating constant of a branch."""
    return is_object(value) and any(
        name in value and "enum" in inner and identity(value[name]) in map(identity, inner["enum"])
        for name, inner in branch.get("properties", {}).items()
    )


def _unknown_member(name: str, known: list[str], steps: Steps) -> Fault:
    kind, kinds = ("key", "keys") if steps else ("argument", "arguments")
    guess = nearest(name, known)
    if guess is not None:
        hint = f'did you mean "{guess}"?'
    elif known:
        more = len(known) - MAX_CHOICES
        listed = ", ".join(known[:MAX_CHOICES]) + (f" and {more} more" if more > 0 else "")
        hint = f"the {kinds} are: {listed}"
    else:
        hint = f"there are no {kinds}"
    return Fault((*steps, name), None, f"unknown {kind}; {hint}")
