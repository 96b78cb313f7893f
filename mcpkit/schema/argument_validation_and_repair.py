"""Arguments of calls: their JSON Schema, the validator that accepts exactly the same values, and header arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, from_json

from .._utils.exceptions import ArgumentsError, Problem, ProtocolError, RegistrationError, UnresolvedHint
from ..content.json_encoding import check_sendable
from ..protocol.jsonrpc import Json, decode, is_array, is_object, without
from ..protocol.objects import KEYWORD, MirroredParameter
from .fast_path_for_builtin_types import describe
from .function_signatures import Parameter, Signature, empty
from .json_schema import Described, any_of, default_value, identity, published, subschemas
from .value_validators import validator

if TYPE_CHECKING:
    from ..content.blocks import Steps
    from .validation_errors import Fault, Reader

    _Changes = dict[Steps, Any]  # new values by their places
    _Faults = Callable[[Json], list[Fault]]  # finds the faults of arguments


class Arguments:
    """Arguments of a function: JSON Schema and validator.

    Args:
        build: Returns the JSON Schema 2020-12, with an object as its root; called on first use.
        core: Validator of the same object. Omitted arguments stay omitted.
        mirrored: Arguments that clients repeat in HTTP headers.
    """

    def __init__(
        self, build: Callable[[], Json], core: CoreSchema, mirrored: tuple[MirroredParameter, ...] = ()
    ) -> None:
        self._build = build
        self._core = core
        self.mirrored = mirrored

    @cached_property
    def schema(self) -> Json:
        """JSON Schema of the arguments."""
        return self._build()

    @cached_property
    def _validator(self) -> SchemaValidator:
        return validator(self._core)

    @classmethod
    def of(cls, signature: Signature, *, drops_unknown: bool = False) -> Arguments:
        """Return the arguments of a function.

        Args:
            signature: The function's signature.
            drops_unknown: Whether unknown arguments are ignored instead of refused, unless `**kwargs` accepts them.

        Raises:
            RegistrationError: A type has no form in JSON; the message names the argument.
            UnresolvedHint: A type needs a name that is not defined yet.
        """
        drops_unknown = drops_unknown and signature.extra is empty
        return cls.of_parameters(
            signature.name, signature.parameters, signature.extra, drops_unknown=drops_unknown
        )

    @classmethod
    def of_parameters(
        cls, owner: str, parameters: Sequence[Parameter], extra: Any = empty, *, drops_unknown: bool = False
    ) -> Arguments:
        """Return the arguments for a list of parameters.

        Args:
            owner: Function or class of the parameters, for messages.
            parameters: The named arguments.
            extra: The type of other arguments; `empty` if there may be none.
            drops_unknown: Whether others are ignored instead of refused.

        Raises:
            RegistrationError: A type has no form in JSON; the message names the argument.
            UnresolvedHint: A type needs a name that is not defined yet.
        """
        schemas: dict[str, Json] = {}
        fields: dict[str, core_schema.TypedDictField] = {}
        definitions: Json = {}
        cores: dict[str, CoreSchema] = {}

        def add(where: str, parameter: Parameter) -> tuple[Json, CoreSchema]:
            described = _described(where, parameter)
            definitions.update(described.definitions)
            core: Any = described.core
            if core["type"] == "definitions":  # they have global names, and move to the root
                cores.update({definition["ref"]: definition for definition in core["definitions"]})
                core = core["schema"]
            return described.schema, core

        supplies_all = any(each.factory_takes_data for each in parameters)
        for parameter in parameters:
            where = f"{owner}: argument {parameter.python_name!r}"
            schemas[parameter.name], core = add(where, parameter)
            check_sendable(where, "alias", parameter.name)
            check_sendable(where, "description", parameter.text)
            fields[parameter.python_name] = _field(parameter, core, supplies_all=supplies_all)
        additional: Any = drops_unknown
        behavior: Literal["forbid", "ignore", "allow"] = "ignore" if drops_unknown else "forbid"
        extras: CoreSchema | None = None
        if extra is not empty:
            schema, extras = add(f"{owner}: **", Parameter("**", extra))
            additional, behavior = schema or True, "allow"
        whole: CoreSchema = core_schema.typed_dict_schema(
            fields, extras_schema=extras, extra_behavior=behavior
        )
        if cores:
            whole = core_schema.definitions_schema(whole, list(cores.values()))

        def build() -> Json:
            properties = {each.name: _property(each, schemas[each.name]) for each in parameters}
            schema: Json = {"type": "object", "properties": properties}
            if required := [each.name for each in parameters if each.is_required]:
                schema["required"] = required
            schema["additionalProperties"] = additional
            return published(schema | ({"$defs": definitions} if definitions else {}))

        parts: Json = {"properties": schemas, "additionalProperties": additional, "$defs": definitions}
        return cls(build, whole, mirrored(owner, parts))

    def validate(self, arguments: Json) -> dict[str, Any]:
        """Validate and convert the arguments of a call.

        If they do not match, strings of JSON are parsed in places where a string is not allowed (see `repair`).

        Args:
            arguments: JSON values, as `pydantic_core.from_json` returns them.

        Returns:
            Keyword arguments without those that the caller omitted, for which Python's defaults apply.

        Raises:
            ArgumentsError: They do not match the schema.
        """
        try:
            kwargs: dict[str, Any] = self._validator.validate_python(arguments, by_alias=True, by_name=False)
        except ValidationError as error:
            return self._validate_repaired(arguments, error)
        return kwargs

    def _validate_repaired(self, arguments: Json, error: ValidationError) -> dict[str, Any]:
        from .validation_errors import Reader, problems_of

        failed = _failed(error)
        reader = Reader(self.schema)

        def faults(changed: Json) -> list[Fault]:
            return [each for each in reader.faults(changed) if failed is None or each.steps[0] in failed]

        candidate, found = repaired(arguments, faults, self.mirrored)
        if candidate is not arguments:
            try:
                validated = self._validator.validate_python(candidate, by_alias=True, by_name=False)
            except ValidationError as other:
                arguments, error = candidate, other
            else:
                return cast("dict[str, Any]", validated)
        # Checks of the author's own are not in the schema.
        raise ArgumentsError(problems_of(found) or from_validator(error, arguments, self.schema)) from None

    def validate_strings(self, arguments: Mapping[str, str | list[str]]) -> dict[str, Any]:
        """Validate and convert the arguments of a prompt or URI template, which are strings.

        A parameter that takes a string gets the string; for other types it is parsed as JSON. An empty string for an
        optional parameter that does not accept it stands for the default.

        Args:
            arguments: Strings by name; a list of strings for an exploded variable of a template.

        Returns:
            Keyword arguments.

        Raises:
            ArgumentsError: They do not match the schema.
        """
        from .validation_errors import Reader

        properties: Json = self.schema.get("properties", {})
        additional = self.schema.get("additionalProperties")
        rest: Json = additional if is_object(additional) else {}
        reader = Reader(self.schema)
        parsed = {
            name: _parsed(properties.get(name, rest), text, reader) if rest or name in properties else text
            for name, text in arguments.items()  # an unknown argument stays as it is
        }
        # Hosts send empty strings for fields that were not filled in.
        optional = properties.keys() - self.schema.get("required", ())
        if blank := {name for name, text in arguments.items() if text in ("", [""]) and name in optional}:
            given = {name: parsed[name] for name in blank}
            try:
                self._validator.validate_python(given, by_alias=True, by_name=False)
            except ValidationError as error:
                parsed = without(parsed, *blank.intersection(_failed(error) or blank))
        return self.validate(parsed)


def _described(where: str, parameter: Parameter) -> Described:
    try:
        described = describe(parameter.annotation)
    except RegistrationError as error:
        kind = UnresolvedHint if isinstance(error, UnresolvedHint) else RegistrationError
        raise kind(f"{where}: {error}") from error
    schema = described.schema
    check_sendable(where, "schema", {**schema, "$defs": dict(described.definitions)})
    takes_null = any(
        branch.get("type", "null") == "null" and None in branch.get("enum", [None])
        for branch in schema.get("anyOf", [schema])
    )
    if parameter.default is not None or takes_null:
        return described
    # `text: str = None` is an old spelling of Optional.
    return described._replace(
        schema=any_of([schema, {"type": "null"}]), core=core_schema.nullable_schema(described.core)
    )


def _property(parameter: Parameter, schema: Json) -> Json:
    """Return the schema of an argument, with its description and default."""
    described = dict(schema)
    if parameter.description:
        described["description"] = parameter.description
    if parameter.default is not empty:
        try:
            described["default"] = default_value(parameter.default)
        except ValueError:  # it is not in the schema; the argument is optional nevertheless
            return described
    return described


def _field(parameter: Parameter, core: CoreSchema, *, supplies_all: bool) -> core_schema.TypedDictField:
    """Return the member for a parameter.

    Args:
        parameter: The parameter.
        core: The core schema of its type.
        supplies_all: Whether defaults that Python knows are supplied too, for default factories that take them.
    """
    if parameter.default_factory is not None:
        takes_data = parameter.factory_takes_data
        core = core_schema.with_default_schema(
            core, default_factory=parameter.default_factory, default_factory_takes_data=takes_data
        )
    elif parameter.is_supplied and parameter.default is not empty:
        core = core_schema.with_default_schema(core, default=parameter.default)
    elif supplies_all and parameter.default is not empty:  # uncopied, as Python itself supplies it
        core = core_schema.with_default_schema(core, default_factory=lambda: parameter.default)
    alias = parameter.name if parameter.name != parameter.python_name else None
    return core_schema.typed_dict_field(core, required=parameter.is_required, validation_alias=alias)


# --- Errors of the validator

# How many errors of a validator are read one by one: each takes ten times as long as to validate.
_MAX_ERRORS = 1000


def _failed(error: ValidationError) -> set[Any] | None:
    """Return the names of the arguments that a validator refused; None if it has too many errors."""
    if error.error_count() > _MAX_ERRORS:
        return None
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return {detail["loc"][0] for detail in details}


def from_validator(error: ValidationError, value: Any, schema: Json) -> list[Problem]:
    """Return the problems of checks that are not in the schema.

    Args:
        error: Error of the validator.
        value: The value that it refused.
        schema: Schema of the value, which marks secrets.
    """
    from ..content.blocks import path, shown
    from .validation_errors import holds_secret, kind_of

    if error.error_count() > _MAX_ERRORS:
        return [Problem("", f"{error.error_count()} values are invalid")]
    found: dict[str, Problem] = {}
    properties: Json = schema.get("properties", {})
    for detail in error.errors(include_url=False):
        steps: Steps = ()
        inner: Any = value
        for step in detail["loc"]:  # some name validators, not places
            with suppress(TypeError, LookupError):
                if not isinstance(inner, str):
                    steps, inner = (*steps, step), inner[step]
        cause = detail.get("ctx", {}).get("error")
        if cause is not None:
            message = " ".join(str(cause).split())
        else:
            holder = properties.get(str(steps[0]), schema) if steps else schema
            message = detail["msg"].replace("Input should be ", "expected ", 1)
            got = kind_of(inner) if holds_secret(holder, schema) else shown(inner)
            message = f"{message[:1].lower()}{message[1:]}, got {got}"
        found.setdefault(path(steps), Problem(path(steps), message))
    return list(found.values())


# --- Strings


def _parsed(schema: Json, text: str | list[str], reader: Reader) -> Any:
    """Return the JSON value that a string, or each string of a list, stands for."""
    if isinstance(text, list):
        branches: list[Json] = schema.get("anyOf", [schema])
        arrays: list[Json] = [branch for branch in branches if branch.get("type") == "array"]
        array: Json = arrays[0] if arrays else {}
        prefix: list[Json] = array.get("prefixItems", [])
        items = [*prefix, *[array.get("items", {})] * len(text)]
        return [_parsed(item, part, reader) for item, part in zip(items, text, strict=False)]
    if reader.takes(schema, text):
        return text
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:  # validation reports what was expected
        return text


# --- Headers
#
# Arguments that clients repeat in HTTP headers (basic/transports/streamable-http, "Schema Extension"): clients drop a
# tool that breaks one of the rules.

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, section 5.6.2
_HEADER_TYPES = {"string": '""', "integer": "0", "boolean": "False"}


def mirrored(owner: str, schema: Json) -> tuple[MirroredParameter, ...]:
    """Return the arguments that a schema repeats in headers.

    Args:
        owner: Component, for messages.
        schema: JSON Schema of the arguments; of its root only keywords with subschemas are needed.

    Raises:
        RegistrationError: A rule of the specification is broken. The message contains the remedy.
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for path, keyword, marked in _marks(schema, (), None):
        where = f"{owner}: argument {'.'.join(path)!r}" if path else owner
        name = _checked_header(where, path, keyword, marked)
        if (other := found.get(name.lower())) is not None:
            raise RegistrationError(
                f"{where}: argument {'.'.join(other[1])!r} already has the header {name!r}. Header names "
                "ignore case; use another one"
            )
        found[name.lower()] = name, path
    return tuple(MirroredParameter(f"mcp-param-{key}".encode(), path) for key, (_, path) in found.items())


def _marks(
    schema: Any, path: tuple[str, ...], keyword: str | None
) -> Iterator[tuple[tuple[str, ...], str | None, Json]]:
    """Yield the path of each schema with a header, a keyword on it that clients cannot resolve, and the schema."""
    if not is_object(schema):
        return
    if KEYWORD in schema:
        yield path, keyword, schema
    for (key, *names), inner in subschemas(schema):
        if key == "properties":
            yield from _marks(inner, (*path, str(names[0])), keyword)
        else:
            yield from _marks(inner, path, keyword or str(key))


def _checked_header(where: str, path: tuple[str, ...], keyword: str | None, schema: Json) -> str:
    name, kind = schema[KEYWORD], schema.get("type")
    if not isinstance(name, str) or not re.fullmatch(_TOKEN, name):
        raise RegistrationError(
            f"{where}: {name!r} is not a valid HTTP header name; use letters, digits and -, as in Header('Region')"
        )
    if keyword is not None or not path:
        below = f"`{keyword}`" if keyword else "the root of the schema"
        advice = "use it for a parameter, or a field of a model that is a parameter"
        if keyword in {"anyOf", "oneOf"}:
            advice = "use one type, and a default of that type instead of None"
        raise RegistrationError(
            f"{where}: the header {name!r} is set at {below}, where clients cannot find a single value; {advice}"
        )
    if not isinstance(kind, str) or kind not in _HEADER_TYPES:
        kinds = [branch.get("type") for branch in schema.get("anyOf", ()) if is_object(branch)]
        kinds += schema["type"] if is_array(kind) else []
        advice = "use `str`, `int` or `bool`"
        if "null" in kinds:
            default = next((text for each, text in _HEADER_TYPES.items() if each in kinds), '""')
            advice = (
                f"it may be null; give it a default of its own type instead of None, such as `= {default}`"
            )
        elif kind == "number":
            advice = "the text of a number is not exact; use `int` or `str`"
        raise RegistrationError(f"{where}: the header {name!r} does not support this type: {advice}")
    return name


# --- Repair
#
# Hosts and models send values in a neighbouring type. `"[1, 2]"` is read as a list, `"5"` as a number if one is
# expected, and `5` as `"5"` if only a string is. A value is read so only if it does not fit as it is, and if there is
# exactly one such reading. Booleans and fractions never become strings.

# How deep strings may lie in strings.
_ROUNDS = 3
# How many readings of one value are compared; a value with more is not read.
_MOST_WAYS = 16


def repaired(
    arguments: Json, faults: _Faults, mirrored: Iterable[MirroredParameter]
) -> tuple[Json, list[Fault]]:
    """Return arguments in which values that do not fit are read as values of another type that do.

    Args:
        arguments: Arguments that do not fit.
        faults: Finds what is wrong with arguments.
        mirrored: The arguments that clients repeat in headers. A string that holds such an argument stays one: no
            header could have been compared with what is in it.

    Returns:
        A copy in which something has changed, or the very same arguments, and what is wrong with them. The copy
            may not fit either: then what is wrong with it lies deeper than what was wrong before.
    """
    fixed = {each.path[:length] for each in mirrored for length in range(1, len(each.path))}
    return _repaired(arguments, faults(arguments), faults, fixed, _ROUNDS)


def _repaired(
    arguments: Json, found: list[Fault], faults: _Faults, fixed: set[Any], rounds: int
) -> tuple[Json, list[Fault]]:
    for left in range(rounds - 1, -1, -1):
        changes: _Changes = {}
        for fault in found:
            ways = _ways(fault, fixed, {})
            if len(ways) > 1:
                ways = _fitting(fault, ways, arguments, faults, fixed, left)
            if len(ways) == 1:
                changes |= ways[0]
        if not changes:
            break
        changed = _with(arguments, changes)
        wrong = faults(changed)
        still_wrong = _wrong(wrong, {})
        fitting = {steps: value for steps, value in changes.items() if steps not in still_wrong}
        if not fitting:
            break
        if len(fitting) < len(changes):
            changed = _with(arguments, fitting)
            wrong = faults(changed)
        arguments, found = changed, wrong
    return arguments, found


def _ways(fault: Fault, fixed: set[Any], known: dict[int, list[_Changes]]) -> list[_Changes]:
    """Return the changes that may mend a fault: one for a string or number, for a union one for each branch or more.

    Args:
        fault: The fault.
        fixed: Places of values that stay.
        known: The results so far by identity, as faults in unions within unions are shared.
    """
    if fault.text is not None:
        return [{fault.steps: fault.text}]
    if isinstance(fault.value, str):
        decoded = _decoded(fault.value)
        return [] if fault.steps in fixed or isinstance(decoded, str) else [{fault.steps: decoded}]
    if id(fault) not in known:
        ways: list[_Changes] = []
        for branch in fault.within:
            combined: list[_Changes] = [{}]
            for each in branch:
                inner = _ways(each, fixed, known)
                combined = [before | more for before in combined for more in inner][: _MOST_WAYS + 1]
            ways += (way for way in combined if way not in ways)
        known[id(fault)] = ways[: _MOST_WAYS + 1]
    return known[id(fault)]


def _fitting(
    fault: Fault, ways: list[_Changes], arguments: Json, faults: _Faults, fixed: set[Any], rounds: int
) -> list[_Changes]:
    """Return the changes that mend a fault wholly, and no more than that, as far as they lead to different values."""
    if len(ways) > _MOST_WAYS:
        return []
    steps = fault.steps

    def below(candidate: Json) -> list[Fault]:
        return [each for each in faults(candidate) if each.steps[: len(steps)] == steps]

    results: dict[Any, _Changes] = {}
    mending: list[_Changes] = []
    for way in sorted(ways, key=len):
        if any(less.items() <= way.items() for less in mending):
            continue
        changed = _with(arguments, way)
        mended, wrong = _repaired(changed, below(changed), below, fixed, rounds)
        if not wrong:
            mending.append(way)
            value: Any = mended
            for step in steps:
                value = value[step]
            results.setdefault(identity(value), {steps: value})
    return list(results.values())


def _wrong(faults: Iterable[Fault], known: dict[int, set[Steps]]) -> set[Steps]:
    """Return the places of faults; of those within a union, the places that all of its branches find wrong."""
    places: set[Steps] = set()
    for fault in faults:
        places.add(fault.steps)
        if fault.within:
            if id(fault) not in known:
                first, *others = (_wrong(branch, known) for branch in fault.within)
                known[id(fault)] = first.intersection(*others)
            places |= known[id(fault)]
    return places


def _decoded(text: str) -> Any:
    try:
        return decode(text.encode())
    except (ProtocolError, UnicodeEncodeError):
        return text


def _with(arguments: Json, changes: _Changes) -> Json:
    """Return a copy with other values at some places; what holds none of them is shared."""
    if () in changes:
        whole: Json = changes[()]
        return whole
    whole = arguments.copy()
    copies: dict[Steps, Any] = {(): whole}
    for steps, value in changes.items():
        for length in range(1, len(steps)):
            inner, outer = steps[:length], steps[: length - 1]
            if inner not in copies:
                copies[inner] = copies[outer][steps[length - 1]] = copies[outer][steps[length - 1]].copy()
        copies[steps[:-1]][steps[-1]] = value
    return whole
