"""JSON Schemas that authors write: of arguments, of results, and of their own classes (`json_type`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any, TypeVar, overload

from pydantic_core import core_schema
from typing_extensions import is_typeddict

from .._utils.exceptions import ArgumentsError, RegistrationError
from .._utils.package import missing_package
from ..content.blocks import Steps, shown
from ..content.json_encoding import check_sendable
from ..protocol.jsonrpc import Json, is_array, is_object, without
from . import json_schema
from .argument_validation_and_repair import Arguments, mirrored, repaired
from .function_signatures import key_parameters, parameter
from .json_schema import Described, JsonType, published, subschemas
from .patterns_and_formats import FORMATS, matches
from .validation_errors import Fault, Reader, holds_secret, kind_of, problems_of
from .value_validators import refusal

T = TypeVar("T")


# --- Arguments


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
        return Arguments.of_parameters(schema.__name__, key_parameters(schema), drops_unknown=drops_unknown)
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
    """Arguments that match a JSON Schema of the author, with all keywords of its dialect."""

    def __init__(self, schema: Json) -> None:
        check_sendable("", "input_schema", schema)
        super().__init__(lambda: published(schema), core_schema.any_schema())
        self._checked = CheckedSchema(schema, "input_schema")
        self.mirrored = mirrored("input_schema", schema)

    def validate(self, arguments: Json) -> dict[str, Any]:
        """Check the arguments; see `Arguments.validate`. They are returned as JSON values."""
        if self._checked.fits(arguments):
            return arguments
        candidate, found = repaired(arguments, _AuthorReader(self._checked).faults, self.mirrored)
        if candidate is not arguments and self._checked.fits(candidate):
            return candidate
        raise ArgumentsError(problems_of(found))


# --- Validation by jsonschema-rs

# Steps that a pattern with lookarounds may take for a text; a text that needs more does not match.
_BACKTRACK_LIMIT = 10_000


class CheckedSchema:
    """A JSON Schema of an author, with its validator.

    Args:
        schema: The schema. Its references lead to places in it, or to the meta-schemas: nothing is fetched.
        name: Name of the option, for messages.

    Raises:
        RegistrationError: It is not valid, of an unknown dialect, has a reference without a target, or jsonschema-rs is
            missing.
    """

    def __init__(self, schema: Json, name: str) -> None:
        self.schema = published(schema, drops=False)
        try:
            self._library: Any = import_module("jsonschema_rs")  # there only with the extra
        except ModuleNotFoundError as error:
            raise RegistrationError(
                missing_package(
                    f"{name}: checking values against a JSON Schema", "jsonschema-rs", "jsonschema"
                )
            ) from error
        try:
            self.fits = self._build(self._library.validator_for, self.schema).is_valid
        except self._library.ValidationError as error:
            raise RegistrationError(f"{name}: {_refusal(error, schema)}") from None
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{name}: {error}; use string keys and JSON values") from error

    def _build(self, build: Callable[..., Any], schema: Json) -> Any:
        # An engine that knows lookarounds; it matches other patterns in linear time.
        engine = self._library.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
        formats = {name: matches(pattern) for name, pattern in FORMATS.items()}
        return build(schema, pattern_options=engine, validate_formats=True, formats=formats, offline=True)

    def compiled(self, schema: Json) -> Callable[[Any], bool]:
        """Return the check of another schema of the same dialect."""
        check: Callable[[Any], bool] = self._build(self._library.validator_for, schema).is_valid
        return check

    def fits_part(self, schema: Any, value: Any) -> bool:
        """Return whether a value matches a part of the schema."""
        if not is_object(schema):
            return schema is not False
        validator = self._validators.get(id(schema))
        return validator is not None and bool(validator.is_valid(value))  # None: no part of the schema

    @cached_property
    def _validators(self) -> dict[int, Any]:
        """The validators of all parts of the schema, by the identity of the part."""
        compiled = self._build(self._library.validator_map_for, self.schema)
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


# Keywords that a Reader supports, and those that are no rules.
_READ = frozenset({
    "$schema", "$id", "$defs", "$comment", "$anchor", "title", "description", "default", "examples", "type",
    "enum", "const", "anyOf", "allOf", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "writeOnly", "readOnly", "minItems", "maxItems",
    "uniqueItems", "items", "prefixItems", "deprecated", "minProperties", "maxProperties", "required",
    "properties", "additionalProperties", "propertyNames"
})  # fmt: skip


class _AuthorReader(Reader):
    """Reads schemas with any keywords; for unknown ones, the message is that the value does not match them."""

    def __init__(self, checked: CheckedSchema) -> None:
        super().__init__(checked.schema)
        self._checked = checked

    def compiled(self, schema: Json) -> Callable[[Any], bool]:
        """Return the check of a schema."""
        return self._checked.compiled(schema)

    def read(self, schema: Any, value: Any, steps: Steps, is_hidden: bool) -> Iterator[Fault]:
        """Yield the faults of the value at `steps`."""
        if not is_object(schema):
            if schema is False:
                yield Fault(steps, None, "no value is allowed here")
            return
        if self._checked.fits_part(schema, value):
            return
        found = list(super().read(schema, value, steps, is_hidden))
        if "if" in schema:
            branch = "then" if self._checked.fits_part(schema["if"], value) else "else"
            found += self.read(schema.get(branch, True), value, steps, is_hidden)
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
        checks = {pattern: self.compiled({"pattern": pattern}) for pattern in patterns}
        matched: set[str] = set()
        for name, item in value.items() if patterns else ():
            if self._left <= 0:
                return
            for pattern, inner in patterns.items():
                if checks[pattern](name):
                    matched.add(name)
                    yield from self.read(inner, item, (*steps, name), is_hidden)
        matched -= schema.get("properties", {}).keys()
        rest = {name: item for name, item in value.items() if name not in matched}
        for fault in super()._in_object(schema, rest, steps, is_hidden):
            if not matched.intersection(map(str, fault.steps[len(steps) : len(steps) + 1])):
                yield fault  # matched members are only missing in `rest`


def described(option: str, schema: Json) -> tuple[Described, Callable[[], Reader]]:
    """Return a JSON Schema of an author with a validator that leaves values unchanged, and readers for its errors.

    Args:
        option: Name of the option, for messages.
        schema: The schema.

    Raises:
        RegistrationError: It is not valid, has a reference without a target, or jsonschema-rs is missing.
    """
    check_sendable("", option, schema)
    checked = CheckedSchema(schema, option)

    def check(value: Any) -> Any:
        if not checked.fits(value):
            for fault in problems_of(_AuthorReader(checked).faults(value)):
                raise refusal(str(fault))
            raise refusal("it does not match the schema")
        return value

    core = core_schema.no_info_plain_validator_function(check)
    found = Described(without(schema, "$defs"), core, definitions=schema.get("$defs", {}))
    return found, partial(_AuthorReader, checked)


# --- JSON forms of classes


@overload
def json_type(
    cls: type[T], *, schema: Any, encode: Callable[[T], Any], decode: Callable[[Any], T] | None = None
) -> type[T]: ...
@overload
def json_type(
    cls: None = None, *, schema: Any, encode: Callable[[Any], Any], decode: Callable[[Any], Any] | None = None
) -> Callable[[type[T]], type[T]]: ...
def json_type(
    cls: Any = None, *, schema: Any, encode: Callable[[Any], Any], decode: Callable[[Any], Any] | None = None
) -> Any:
    """Register the JSON form of a class, for arguments, results, and fields of other types.

    Call it for any class, `json_type(Money, schema=..., encode=..., decode=...)`, or decorate a class,
    `@json_type(schema=..., encode=..., decode=...)`. Call it before the class is used in fields of a pydantic model,
    as pydantic reads them when the model is defined.

    Args:
        cls: The class. Without it, a decorator is returned.
        schema: Form of the data: a JSON Schema as a dict (which needs the extra `jsonschema`), or any type that has
            one, such as `str`, a TypedDict or `Annotated[str, Field(pattern="^#[0-9a-f]{6}$")]`.
        encode: Returns data that match the schema for a value of the class. They may have any values that can be
            converted to JSON.
        decode: Returns a value of the class for data that match the schema; if the schema is a type, it receives a
            value of that type. The caller gets the message of a ValueError, with the name of the argument. None for a
            class that is only used in results.

    Returns:
        The class.

    Raises:
        RegistrationError: `cls` is not a class, the schema is invalid, or a function is missing.
    """
    if cls is None:
        return partial(json_type, schema=schema, encode=encode, decode=decode)
    if not isinstance(cls, type):
        raise RegistrationError(f"json_type takes a class, got {cls!r}")
    if cls in _FIXED:
        raise RegistrationError(
            f"json_type({cls.__qualname__}): the JSON form of this class is fixed; derive your own class from it"
        )
    if not all(callable(each) for each in (encode, decode or encode)):
        raise RegistrationError(f"json_type({cls.__qualname__}): encode= and decode= must be functions")
    if hasattr(cls, "__pydantic_validator__"):
        raise RegistrationError(
            f"json_type({cls.__qualname__}): pydantic supports this class; define its JSON form there, "
            "with serializers and validators"
        )
    own = JsonType(cls, cache(partial(_form, cls, schema)), encode, decode)
    if is_object(schema):
        own.form()  # errors are raised here
    from ..content.iterators_and_third_party_values import declare_encoder

    json_schema.json_types[cls] = own
    declare_encoder(cls, encode)
    try:
        setattr(cls, "__get_pydantic_core_schema__", _core_schema)  # noqa: B010 - the name is pydantic's
        setattr(cls, "__get_pydantic_json_schema__", _json_schema)  # noqa: B010
    except TypeError:
        pass  # A class of C, which takes no attributes: only models of pydantic do not know it.
    return cls


_FIXED = {str, int, float, bool, type(None), bytes, list, tuple, dict, set, frozenset, object, type}


def _form(cls: type, schema: Any) -> Described:
    """Return schema and validator of the data; see `JsonType`."""
    where = f"json_type({cls.__qualname__}): schema"
    if is_object(schema):
        found, _ = described(where, schema)
        flat = json_schema.inlined(schema) if "$defs" in schema else schema
    else:
        from .fast_path_for_builtin_types import describe

        found = describe(schema)
        flat = found.schema
    if "$defs" in flat or (found.definitions and "$ref" in flat):
        raise RegistrationError(
            f"{where}: the schema refers to recursive definitions; write it without them, or as a type"
        )
    return Described(flat, found.core, found.output, found.is_plain)


def _core_schema(source: Any, handler: Any) -> Any:
    own = json_schema.json_types.get(source)
    if own is None:  # a class derived from it
        return handler(source)
    from .third_party_types import of_json_type

    core = of_json_type(own).core
    return core_schema.json_or_python_schema(
        json_schema=core,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(own.cls), core]),
        serialization=core_schema.plain_serializer_function_ser_schema(own.encode, when_used="json"),
        metadata={"mcpkit": own.cls},
    )


def _json_schema(core: Any, handler: Any) -> Any:
    own = json_schema.json_types.get(core.get("metadata", {}).get("mcpkit"))
    return handler(core) if own is None else dict(own.form().schema)
