"""Arguments that the author describes (`input_schema=`) instead of the signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

from pydantic_core import core_schema
from typing_extensions import is_typeddict

from .._utils.exceptions import ArgumentsError, RegistrationError
from .._utils.package import install_command
from ..content.blocks import Steps, shown
from ..content.convert import check_sendable
from ..protocol.jsonrpc import is_array, is_object, without
from ..protocol.types import Json
from . import choices
from .arguments import Arguments
from .backtracking import within_bounds
from .expectations import kind_of
from .formats import FORMATS
from .mirrored import mirrored
from .parameters import of_keys, parameter
from .problems import Fault, Fits, Reader, holds_secret, told
from .published import published
from .references import subschemas
from .values import matches


def arguments(schema: Any, *, drops_unknown: bool = False) -> Arguments:
    """Return arguments with a schema of the author; the function receives them as one dict.

    Args:
        schema: A JSON Schema 2020-12 with `"type": "object"`, a TypedDict class, or a mapping of names to types
            (`{"city": Annotated[str, "Where"]}`).
        drops_unknown: Whether unknown arguments are dropped and not refused; a JSON Schema defines this itself.

    Raises:
        RegistrationError: The schema is invalid, has a reference without a target, or jsonschema-rs is missing.
    """
    if is_typeddict(schema):
        return Arguments.of_parameters(schema.__name__, of_keys(schema), drops_unknown=drops_unknown)
    if not is_object(schema):
        raise RegistrationError(
            "input_schema must be a JSON Schema as a dict, a TypedDict class, or a dict of names and types, "
            f"got {schema!r}. For another class, remove input_schema= and annotate a parameter with it"
        )
    if schema.get("type") == "object":
        return JSONSchemaArguments(schema)
    if any(isinstance(value, (dict, list, bool, str)) for value in schema.values()):
        raise RegistrationError('input_schema: the root of the JSON Schema must have `"type": "object"`')
    parameters = [parameter(name, hint) for name, hint in schema.items()]
    return Arguments.of_parameters("input_schema", parameters, drops_unknown=drops_unknown)


class JSONSchemaArguments(Arguments):
    """Arguments that fit a JSON Schema of the author, with all that the dialect knows."""

    def __init__(self, schema: Json) -> None:
        check_sendable("", "input_schema", schema)
        super().__init__(lambda: published(schema), core_schema.any_schema())
        self._checked = CheckedSchema(schema, "input_schema")
        self.mirrored = mirrored("input_schema", schema)

    def validate(self, arguments: Json) -> dict[str, Any]:
        """Check the arguments; see `Arguments.validate`. They come back as JSON values."""
        if self._checked.fits(arguments):
            return arguments
        from .repair import repaired

        reader = self._checked.reader()

        def faults(changed: Json) -> list[Fault]:
            return list(reader.faults(changed, guesses=False))

        candidate, found = repaired(arguments, faults, self.mirrored)
        if candidate is not arguments and self._checked.fits(candidate):
            return candidate
        raise ArgumentsError(told(found))


_STEPS_OF_A_NAME = 10_000
"""Steps that the name of a member may take where a pattern in `patternProperties` goes back over it."""


class CheckedSchema:
    """A JSON Schema that an author has written, and what fits it.

    Args:
        schema: The schema. Its references lead to places in it, or to the meta-schemas: nothing is fetched.
        name: What the author calls it, for messages.

    Raises:
        RegistrationError: It is not valid, of an unknown dialect, refers to what is not there, or the package
            that checks values is missing.
    """

    def __init__(self, schema: Json, name: str) -> None:
        self.schema = published(schema, drops=False)
        try:
            self._library: Any = import_module("jsonschema_rs")  # there only with the extra
        except ModuleNotFoundError as error:
            raise RegistrationError(
                f"{name}: checking values against a JSON Schema needs jsonschema-rs. "
                f"Run: {install_command('jsonschema')}"
            ) from error
        self._options: dict[str, Any] = {
            "validate_formats": True,
            "formats": {name: matches(pattern) for name, pattern in FORMATS.items()},
            "keywords": {choices.KEYWORD: choices.Choices},
            "offline": True,
        }
        self._patterns: dict[str, Callable[[Any], bool]] = {}
        try:
            self.fits = self._compiled(self.schema)
        except self._library.ValidationError as error:
            raise RegistrationError(f"{name}: {_refusal(error, schema)}") from None
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{name}: {error}; use string keys and JSON values") from error

    def _compiled(self, schema: Json) -> Any:
        """Return what fits; a pattern that cannot be read in linear time has so many steps for a text, and no more."""
        return self._built(self._library.validator_for, schema).is_valid

    def _built(self, build: Callable[..., Any], schema: Json) -> Any:
        linear = self._library.RegexOptions()
        schema = choices.looked_up(schema)
        try:
            return build(schema, pattern_options=linear, **self._options)
        except self._library.ValidationError:
            checks = dict(self._options["formats"])
            schema = within_bounds(schema, checks)
        options = {**self._options, "formats": checks}
        try:
            return build(schema, pattern_options=linear, **options)
        except self._library.ValidationError:  # such as by a pattern of names
            engine = self._library.FancyRegexOptions(backtrack_limit=_STEPS_OF_A_NAME)
            return build(schema, pattern_options=engine, **options)

    def reader(self) -> Reader:
        """Return what explains why values do not fit."""
        return _AuthorReader(self.schema, self._fits_part, self._matches)

    def _fits_part(self, schema: Any, value: Any) -> bool:
        if not is_object(schema):
            return schema is not False
        validator = self._validators.get(id(schema))
        return validator is not None and bool(
            validator.is_valid(value)
        )  # of what is no part nothing is known

    def _matches(self, pattern: str, text: str) -> bool:
        is_match = self._patterns.get(pattern)
        if is_match is None:
            is_match = self._patterns[pattern] = self._compiled({"pattern": pattern})
        return bool(is_match(text))

    @cached_property
    def _validators(self) -> dict[int, Any]:
        """The validators of all parts of the schema, by what they are validators of."""
        compiled = self._built(self._library.validator_map_for, self.schema)
        return {id(part): compiled[place] for place, part in _parts(self.schema, "#") if place in compiled}


def _parts(part: Any, place: str) -> Iterator[tuple[str, Json]]:
    """Yield a schema and every schema in it, each with the JSON pointer that leads to it."""
    if is_object(part):
        yield place, part
        for steps, inner in subschemas(part):
            keys = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
            yield from _parts(inner, "/".join([place, *keys]))


def _refusal(error: Any, schema: Json) -> str:
    message: str = error.message
    if type(error.kind).__name__ != "Referencing":
        where = ".".join(map(str, error.instance_path)) or "the root"
        return f"not a valid JSON Schema at {where}: {message}"
    if message.startswith("Unknown meta-schema"):
        return f"unknown dialect {schema['$schema']!r}; remove `$schema` to use 2020-12"
    return (
        f"a $ref cannot be resolved ({message}); put the definition under `$defs` and write `#/$defs/<name>` "
        "(remote schemas are not fetched)"
    )


_READ = frozenset({
    "$schema", "$id", "$defs", "$comment", "$anchor", "title", "description", "default", "examples", "type",
    "enum", "const", "anyOf", "allOf", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "writeOnly", "readOnly", "minItems", "maxItems",
    "uniqueItems", "items", "prefixItems", "deprecated", "minProperties", "maxProperties", "required",
    "properties", "additionalProperties", "propertyNames"
})  # fmt: skip
"""The keywords that a Reader reads, and those that demand nothing."""


class _AuthorReader(Reader):
    """Reads schemas with any keywords; for unknown ones, the message is that the value does not match them.

    Args:
        root: The schema.
        fits: Returns whether a value matches a part of it.
        matches: Returns whether a text matches a pattern.
    """

    def __init__(self, root: Json, fits: Fits, matches: Callable[[str, str], bool]) -> None:
        super().__init__(root, fits)
        self._matches = matches

    def fits_alone(self, schema: Json, value: Any) -> bool:
        """Return whether a value matches, ignoring values inside it; patterns are matched as in validation."""
        pattern = schema.get("pattern")
        if pattern is None:
            return super().fits_alone(schema, value)
        others = without(schema, "pattern")
        does_match = not isinstance(value, str) or self._matches(pattern, value)
        return does_match and super().fits_alone(others, value)

    def read(self, schema: Any, value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        """Yield what is wrong with the value that `steps` lead to."""
        if not is_object(schema):
            if schema is False:
                yield Fault(steps, None, "no value is allowed here")
            return
        if self.fits(schema, value):
            return
        found = list(self._worded(schema, value, steps, is_hidden))
        yield from found
        if not found:
            rules = without(schema, *_READ) or without(schema, "$defs", "definitions")
            is_hidden = is_hidden or holds_secret(schema, self.root)
            got = kind_of(value) if is_hidden else shown(value)
            yield Fault(steps, value, f"{got} does not fit {shown(rules)}")

    def _in_array(self, schema: Json, value: list[Any], steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        if is_array(schema.get("items")):  # up to 2019-09 an array here is `prefixItems`
            prefix, rest = schema["items"], schema.get("additionalItems", True)
            schema = {**schema, "prefixItems": prefix, "items": rest}
        yield from super()._in_array(schema, value, steps, is_hidden)

    def _in_object(self, schema: Json, value: Json, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        patterns: Json = schema.get("patternProperties", {})
        matched: set[str] = set()
        for name, item in value.items() if patterns else ():
            if self._left <= 0:
                return
            for pattern, inner in patterns.items():
                if self._matches(pattern, name):
                    matched.add(name)
                    yield from self.read(inner, item, (*steps, name), is_hidden)
        matched -= schema.get("properties", {}).keys()
        rest = {name: item for name, item in value.items() if name not in matched}
        for fault in super()._in_object(schema, rest, steps, is_hidden):
            if not matched.intersection(map(str, fault.steps[len(steps) : len(steps) + 1])):
                yield fault  # those left out are only called missing

    def _worded(self, schema: Json, value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        yield from super().read(schema, value, steps, is_hidden)
        if "if" in schema:
            consequence = schema.get("then" if self.fits(schema["if"], value) else "else", True)
            yield from self.read(consequence, value, steps, is_hidden)
