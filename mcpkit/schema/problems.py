"""Messages for invalid JSON values, found by reading value and schema side by side.

It runs only after a validator has refused a value. It supports the keywords that this package writes; the caller adds
errors of other checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from pydantic_core import SchemaError

from .._utils.exceptions import Problem
from .._utils.options import nearest
from ..content.blocks import Steps, path, shown
from ..protocol.jsonrpc import is_array, is_object
from .backtracking import ran_out
from .equality import identity
from .expectations import MOST_CHOICES, expected, kind_of
from .keywords import fits_alone
from .references import nodes, target
from .values import Json

MOST_PROBLEMS = 100
"""Maximum number of problems reported for one value."""
_DEEPEST = 32
_MOST_VALUES = 2_000
"""How many values are looked at, one by one, to explain what is wrong with one."""
_MANY = 32
"""From how many items on those that fit are passed over by a validator, which takes a hundredth of the time."""
_SLICE = 256
"""How many of them are given to it at once, as most calls find nothing."""
_LARGEST_TEXT = 10**1_000
"""Whole numbers from here on are not read as text, which takes time that grows with the square of their length."""
_MEMBERS = ("properties", "additionalProperties", "propertyNames")

Fits = Callable[[Json, Any], bool]
"""Whether a value matches a part of the current schema. It never rejects a value that matches."""


class Fault(NamedTuple):
    """A value that does not fit where it stands.

    Args:
        steps: Where it is.
        value: What is there; None for what is missing, and for what may not be there.
        message: What was expected and what came instead.
        within: The faults that each branch of a union finds inside the value; branches that do not take a value of this
            kind are left out.
        text: The value as text, where it is a whole number and only its text fits.
        guess: The faults of the branch of a union that was probably meant: they are reported instead of this one.
    """

    steps: Steps
    value: Any
    message: str
    within: tuple[tuple[Fault, ...], ...] = ()
    text: str | None = None
    guess: tuple[Fault, ...] = ()

    @property
    def problem(self) -> Problem:
        """Problem for the caller."""
        return Problem(path(self.steps), self.message)


def is_secret(schema: Json) -> bool:
    """Return whether a schema marks its value as secret, so that it must not be in messages.

    It is `writeOnly` (JSON Schema 2020-12, "readOnly" and "writeOnly"), or of the format `password`. pydantic
    generates this for `SecretStr` and `SecretBytes`; `Field(json_schema_extra={"writeOnly": True})` does the same.
    """
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def holds_secret(schema: Json, root: Json) -> bool:
    """Return whether a value of a schema may be or contain a secret.

    Args:
        schema: The schema.
        root: Schema that references start from.
    """
    return any(map(is_secret, nodes(schema, root)))


def problems(schema: Json, value: Any) -> list[Problem]:
    """Return what is wrong with a value, in words: at most `MOST_PROBLEMS`, none when all fits.

    Args:
        schema: What it should fit, with its `$defs`.
        value: A JSON value.
    """
    return told(Reader(schema).faults(value))


def told(faults: Iterable[Fault]) -> list[Problem]:
    """Return the problems of faults for the caller, without duplicates and limited in number."""
    return list(islice(dict.fromkeys(fault.problem for fault in _guessed(faults)), MOST_PROBLEMS))


def _guessed(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield faults, and in place of those of unions the faults of the branches that were probably meant."""
    for fault in faults:
        if fault.guess:
            yield from _guessed(fault.guess)
        else:
            yield fault


class Reader:
    """Reads values beside their schema, with a limit of work for each message.

    It reads some thousands of values, to a certain depth; of many items only invalid ones. A value is not read twice,
    whatever unions refer to it.

    Args:
        root: Schema with `$defs`.
        fits: Returns which of many items match; None builds it from `root`.
    """

    def __init__(self, root: Json, fits: Fits | None = None) -> None:
        self.root = root
        self.fits = fits if fits is not None else _validators(root)
        self._has_secrets = holds_secret(root, root)
        self._left = _MOST_VALUES
        self._made: dict[tuple[int, str], Json] = {}
        self._read: dict[tuple[int, Steps, bool], list[Fault]] = {}

    def faults(self, value: Any, *, guesses: bool = True) -> Iterator[Fault]:
        """Yield what is wrong with a value; all values that one reader reads share what it may look at.

        Args:
            value: The value.
            guesses: Whether the faults of a union are those of the branch that was probably meant.
        """
        self._read.clear()
        found = self.read(self.root, value, (), False)
        return _guessed(found) if guesses else found

    def takes(self, schema: Json, value: Any) -> bool:
        """Return whether a value matches a part of the schema."""
        self._read.clear()
        return not any(self.read(schema, value, (), False))

    def read(self, schema: Json, value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        """Yield what is wrong with the value that `steps` lead to."""
        if self._left <= 0 or len(steps) > _DEEPEST:
            return
        self._left -= 1
        if "$ref" in schema:
            yield from self.read(target(schema, self.root), value, steps, is_hidden)
            return
        is_hidden = is_hidden or is_secret(schema)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                yield from self._of_union(schema[union], value, steps, is_hidden)
                return
        for part in schema.get("allOf", ()):
            yield from self.read(part, value, steps, is_hidden)
        ran_out.set(False)
        if not self.fits_alone(schema, value):
            self._left -= len(schema.get("enum", ()))  # with each of which the value is compared
            hint = "" if is_hidden else _nearest_choice(schema, value)
            if ran_out.get():
                hint += "; the check takes too many steps"
            message = self._mismatch(schema, value, is_hidden) + hint
            yield Fault(steps, value, message, text=self._text(schema, value))
        elif is_object(value):
            yield from self._in_object(schema, value, steps, is_hidden)
        elif is_array(value):
            yield from self._in_array(schema, value, steps, is_hidden)

    def _text(self, schema: Json, value: Any) -> str | None:
        """Return a whole number as text where the schema takes that; None where it does not, and for other values."""
        if type(value) is not int or abs(value) >= _LARGEST_TEXT or "contentEncoding" in schema:
            return None
        text = str(value)
        return text if self.fits_alone(schema, text) else None

    def fits_alone(self, schema: Json, value: Any) -> bool:
        """Return whether a value matches, ignoring values inside it."""
        return fits_alone(schema, value)

    def _in_array(self, schema: Json, value: list[Any], steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        prefix: list[Any] = schema.get("prefixItems", [])
        for index, inner in enumerate(prefix[: len(value)]):
            if is_object(inner):
                yield from self.read(inner, value[index], (*steps, index), is_hidden)
        rest = schema.get("items")
        if not is_object(rest):
            return
        for index in self._to_read(rest, value, len(prefix)):
            if self._left <= 0:
                return
            yield from self.read(rest, value[index], (*steps, index), is_hidden)

    def _to_read(self, schema: Json, values: list[Any], start: int = 0) -> Iterator[int]:
        """Yield the places of the values that are to be read: where there are many, those that fit are not."""
        if len(values) < _MANY:
            yield from range(start, len(values))
            return
        array = self._kept(schema, {"type": "array", "items": schema})
        for first in range(start, len(values), _SLICE):
            several = values[first : first + _SLICE]
            if not self.fits(array, several):
                yield from (
                    first + place for place, value in enumerate(several) if not self.fits(schema, value)
                )

    def _mismatch(self, schema: Json, value: Any, is_hidden: bool) -> str:
        """Return what was expected and what came instead; of a hidden value only what kind it is."""
        is_hidden = is_hidden or (self._has_secrets and holds_secret(schema, self.root))
        return f"expected {expected(schema, self.root)}, got {kind_of(value) if is_hidden else shown(value)}"

    def _of_union(self, branches: list[Json], value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        found: list[tuple[Json, list[Fault]]] = []
        for branch in branches:
            wrong = self._of_branch(branch, value, steps, is_hidden)
            if not wrong:
                return
            found.append((self._followed(branch), wrong))
        # The branch that was meant has the kind of the value, and its problems lie inside it.
        meant = [each for each in found if all(fault.steps != steps or fault.guess for fault in each[1])]
        tagged = [each for each in found if _has_tag(each[0], value)]
        guess: list[Fault] = next((each[0][1] for each in (tagged, meant) if len(each) == 1), list[Fault]())
        if len(meant) == 1 and guess is meant[0][1]:
            yield from guess  # no other branch takes a value of this kind
            return
        guess = guess or list(self._in_tags([branch for branch, _ in found], value, steps, is_hidden))
        if not guess and len(likely := _nearest_branches(meant, value)) == 1:
            guess = likely[0]
        texts = (fault.text for _, wrong in found for fault in wrong if fault.steps == steps)
        text = next((each for each in texts if each is not None), None)
        inside = (wrong for _, wrong in found if all(each.steps != steps or each.within for each in wrong))
        message = "" if guess else self._mismatch({"anyOf": branches}, value, is_hidden)
        yield Fault(steps, value, message, tuple(map(tuple, inside)), text, tuple(guess))

    def _of_branch(self, branch: Json, value: Any, steps: Steps, is_hidden: bool) -> list[Fault]:
        """Return what one branch of a union finds wrong with a value, read once whatever way leads there."""
        key = (id(branch), steps, is_hidden)
        if key not in self._read:
            self._read[key] = list(self.read(branch, value, steps, is_hidden))
        return self._read[key]

    def _followed(self, branch: Any) -> Json:
        if not is_object(branch):
            return {}
        return target(branch, self.root) if "$ref" in branch else branch

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

    def _in_object(self, schema: Json, value: Json, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        properties: Json = schema.get("properties", {})
        required = schema.get("required", ())
        additional = schema.get("additionalProperties", True)
        for name in required:
            if name not in value:
                wanted = expected(properties.get(name, {}), self.root)
                yield Fault((*steps, name), None, f"expected {wanted}, but it is missing")
        names: Json | None = schema.get("propertyNames")
        if names is not None:
            names = self._kept(names, {"type": "string", **names})
        for name, item in self._members(schema, value):
            inner = (*steps, name)
            if self._left <= 0:
                return
            if names is not None and self._may_be_wrong(names, name, len(value)):
                yield from self._of_key(names, name, inner, is_hidden)
            if name in properties:
                for fault in self.read(properties[name], item, inner, is_hidden):
                    hint = "; leave it out instead" * (item is None and name not in required)
                    more = (fault.within, fault.text, fault.guess)
                    yield Fault(fault.steps, fault.value, fault.message + hint, *more)
            elif additional is False:
                self._left -= 1 + len(properties)  # with each of which the name is compared
                yield _unknown_member(name, schema, steps)
            elif additional is not True and self._may_be_wrong(additional, item, len(value)):
                yield from self.read(additional, item, inner, is_hidden)

    def _may_be_wrong(self, schema: Json, value: Any, count: int) -> bool:
        """Return whether one of `count` values must be read; of many, those that match are skipped."""
        return count < _MANY or not self.fits(schema, value)

    def _members(self, schema: Json, value: Json) -> Iterator[tuple[str, Any]]:
        """Yield the members of an object; where there are many, not those slices of it that fit."""
        if len(value) < _MANY or ("properties" in schema and "propertyNames" in schema):
            yield from value.items()
            return
        content = self._kept(
            schema, {"type": "object", **{key: schema[key] for key in _MEMBERS if key in schema}}
        )
        items = iter(value.items())
        while several := dict(islice(items, _SLICE)):
            if not self.fits(content, several):
                yield from several.items()

    def _kept(self, schema: Json, made: Json) -> Json:
        """Return what was made of a schema: always the same, as validators are found by its place in memory."""
        return self._made.setdefault((id(schema), made["type"]), made)

    def _of_key(self, schema: Json, name: str, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        if any(self.read(schema, name, steps, is_hidden)):
            yield Fault(steps, None, f"the key is not {expected(schema, self.root)}")


def _validators(root: Json) -> Fits:
    """Return a function that validates values against parts of a schema."""
    built: dict[int, Callable[[Any], bool]] = {}

    def fits(schema: Json, value: Any) -> bool:
        is_valid = built.get(id(schema))
        if is_valid is None:
            from . import from_schema

            part = {**schema, "$defs": root.get("$defs", {})}
            try:
                is_valid = from_schema.validator(part).isinstance_python
            except (KeyError, TypeError, SchemaError):  # the author has put in keywords of their own
                is_valid = _unknown
            built[id(schema)] = is_valid
        return is_valid(value)

    return fits


def _unknown(value: Any) -> bool:
    return False


def _has_tag(branch: Json, value: Any) -> bool:
    """Return whether an object has the discriminating constant of a branch."""
    if not is_object(value):
        return False
    properties: Json = branch.get("properties", {})
    return any(
        name in value and "enum" in inner and identity(value[name]) in map(identity, inner["enum"])
        for name, inner in properties.items()
    )


def _nearest_branches(branches: list[tuple[Json, list[Fault]]], value: Any) -> list[list[Fault]]:
    """Return the faults of those branches that know the most of an object's members."""
    if not is_object(value):
        return []
    unknown = [sum(name not in branch.get("properties", ()) for name in value) for branch, _ in branches]
    least = min(unknown, default=0)
    return [wrong for (_, wrong), count in zip(branches, unknown, strict=True) if count == least]


def _nearest_choice(schema: Json, value: Any) -> str:
    """Return a hint at a text that is one of many, which are not all listed."""
    choices = schema.get("enum", ())
    if len(choices) <= MOST_CHOICES or not isinstance(value, str):
        return ""
    guess = nearest(value, [choice for choice in choices if isinstance(choice, str)])
    return f"; did you mean {shown(guess)}?" if guess is not None else ""


def _unknown_member(name: str, schema: Json, steps: Steps) -> Fault:
    """Return the fault of a member that an object may not have."""
    known = list(schema.get("properties", {}))
    kind, kinds = ("key", "keys") if steps else ("argument", "arguments")
    guess = nearest(name, known)
    if guess is not None:
        hint = f'did you mean "{guess}"?'
    else:
        hint = f"the {kinds} are: {_cut(known)}" if known else f"there are no {kinds}"
    return Fault((*steps, name), None, f"unknown {kind}; {hint}")


def _cut(names: list[str]) -> str:
    more = len(names) - MOST_CHOICES
    return ", ".join(names[:MOST_CHOICES]) + (f" and {more} more" if more > 0 else "")
