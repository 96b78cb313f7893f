"""The arguments of a call: their JSON Schema, and the validator that accepts exactly what it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from .._utils.core_schema import validator
from .._utils.exceptions import ArgumentsError, Problem, RegistrationError, UnresolvedHint
from ..content.convert import check_sendable
from ..protocol.jsonrpc import is_array, is_object, without
from ..protocol.mirrored import MirroredParameter
from ..protocol.types import Json
from . import hints, types, values
from .described import Described
from .mirrored import mirrored
from .parameters import Parameter, empty
from .published import published
from .signature import Signature

if TYPE_CHECKING:
    from ..content.blocks import Steps
    from .problems import Fault

_MOST_ERRORS = 1000
"""How many errors of a validator are looked at one by one: each takes ten times as long as to validate."""


class Arguments:
    """Arguments of a function: JSON Schema and validator.

    Args:
        describe: Returns the JSON Schema 2020-12, with an object as its root.
        core: Validator of the same object. Omitted arguments stay omitted.
        mirrored: Arguments that clients repeat in HTTP headers.
    """

    def __init__(
        self, describe: Callable[[], Json], core: CoreSchema, mirrored: tuple[MirroredParameter, ...] = ()
    ) -> None:
        self._describe = describe
        self._core = core
        self.mirrored = mirrored

    @cached_property
    def schema(self) -> Json:
        """JSON Schema of the arguments."""
        return self._describe()

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
        """Return the arguments that a list of parameters describes.

        Args:
            owner: What the parameters belong to, for messages.
            parameters: The named arguments.
            extra: The type of any other; `empty` when there may be none.
            drops_unknown: Whether others are dropped, and not refused.
        """
        schemas: dict[str, Json] = {}
        fields: dict[str, core_schema.TypedDictField] = {}
        definitions: Json = {}
        cores: dict[str, CoreSchema] = {}
        supplies_all = any(each.factory_takes_data for each in parameters)
        for parameter in parameters:
            place = f"{owner}: argument {parameter.python_name!r}"
            described = _described(place, parameter)
            for part, value in ("alias", parameter.name), ("description", parameter.text):
                check_sendable(place, part, value)
            definitions |= described.definitions
            schemas[parameter.name] = described.schema
            fields[parameter.python_name] = _field(
                parameter, _separate(described.core, cores), supplies_all=supplies_all
            )
        additional: Any = drops_unknown
        behavior: Literal["forbid", "ignore", "allow"] = "ignore" if drops_unknown else "forbid"
        extras: CoreSchema | None = None
        if extra is not empty:
            described = _described(f"{owner}: **", Parameter("**", extra))
            definitions |= described.definitions
            additional = described.schema or True
            extras, behavior = _separate(described.core, cores), "allow"
        core: CoreSchema = core_schema.typed_dict_schema(
            fields, extras_schema=extras, extra_behavior=behavior
        )
        if cores:
            core = core_schema.definitions_schema(core, list(cores.values()))

        def describe() -> Json:
            properties = {each.name: _property(each, schemas[each.name]) for each in parameters}
            schema: Json = {"type": "object", "properties": properties}
            required = [each.name for each in parameters if each.is_required]
            if required:
                schema["required"] = required
            schema["additionalProperties"] = additional
            if definitions:
                schema["$defs"] = definitions
            return published(schema)

        where: Json = {"properties": schemas, "additionalProperties": additional, "$defs": definitions}
        return cls(describe, core, mirrored(owner, where))

    @cached_property
    def _validator(self) -> SchemaValidator:
        return validator(self._core)

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
            validated: dict[str, Any] = self._validator.validate_python(
                arguments, by_alias=True, by_name=False
            )
        except ValidationError as error:
            return self._validate_repaired(arguments, error)
        return validated

    def _validate_repaired(self, arguments: Json, error: ValidationError) -> dict[str, Any]:
        from .problems import Reader, told
        from .repair import repaired

        failed = _failed(error)
        reader = Reader(self.schema)

        def faults(changed: Json) -> list[Fault]:
            found = reader.faults(changed, guesses=False)
            return [each for each in found if failed is None or each.steps[0] in failed]

        candidate, found = repaired(arguments, faults, self.mirrored)
        if candidate is not arguments:
            try:
                validated = self._validator.validate_python(candidate, by_alias=True, by_name=False)
            except ValidationError as other:
                arguments, error = candidate, other
            else:
                return cast("dict[str, Any]", validated)
        # Checks of the author's own have no place in the schema.
        raise ArgumentsError(told(found) or from_validator(error, arguments, self.schema)) from None

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
        from . import strings

        parsed = strings.parse(self.schema, arguments)
        if blank := strings.blank(self.schema, arguments):
            try:
                self._validator.validate_python(
                    {name: parsed[name] for name in blank}, by_alias=True, by_name=False
                )
            except ValidationError as error:
                parsed = without(parsed, *blank.intersection(_failed(error) or blank))
        return self.validate(parsed)


def _separate(core: CoreSchema, definitions: dict[str, CoreSchema]) -> CoreSchema:
    """Move the definitions at the root of a core schema, which have global names, into `definitions`."""
    if core["type"] == "definitions":
        for definition in core["definitions"]:
            definitions[cast("Any", definition)["ref"]] = definition
        return cast("CoreSchema", core["schema"])
    return core


def _described(where: str, parameter: Parameter) -> Described:
    try:
        described = hints.describe(parameter.annotation)
    except RegistrationError as error:
        kind = UnresolvedHint if isinstance(error, UnresolvedHint) else RegistrationError
        raise kind(f"{where}: {error}") from error
    definitions = {"$defs": described.definitions} if described.definitions else {}
    check_sendable(where, "schema", {**described.schema, **definitions})
    # `text: str = None` is an old way to say Optional.
    return (
        types.optional(described)
        if parameter.default is None and not _takes_null(described.schema)
        else described
    )


def _takes_null(schema: Json) -> bool:
    branches: list[Json] = schema.get("anyOf", [schema])
    return any(
        branch.get("type", "null") == "null" and None in branch.get("enum", [None]) for branch in branches
    )


def _property(parameter: Parameter, schema: Json) -> Json:
    """Return the schema of an argument, with what is known of it but for its type."""
    described = dict(schema)
    if parameter.description:
        described["description"] = parameter.description
    if parameter.default is not empty:
        try:
            described["default"] = values.default(parameter.default)
        except ValueError:
            # It stays out of the schema; the argument is optional all the same.
            return described
    return described


def _field(parameter: Parameter, core: CoreSchema, *, supplies_all: bool) -> core_schema.TypedDictField:
    """Return the member of a parameter.

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
    is_required = parameter.is_required
    alias = parameter.name if parameter.name != parameter.python_name else None
    return core_schema.typed_dict_field(core, required=is_required, validation_alias=alias)


def _failed(error: ValidationError) -> set[Any] | None:
    """Return the names of the arguments that a validator refused; None where it found too much to look at."""
    if error.error_count() > _MOST_ERRORS:
        return None
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return {detail["loc"][0] for detail in details}


def from_validator(error: ValidationError, value: Any, schema: Json) -> list[Problem]:
    """Return the problems that a validator found and that are not visible in the schema.

    Args:
        error: Error of the validator.
        value: The value that it refused.
        schema: Schema of the value, which marks secrets.
    """
    from ..content.blocks import path, shown
    from .expectations import kind_of
    from .problems import holds_secret

    if error.error_count() > _MOST_ERRORS:
        return [Problem("", f"{error.error_count()} values are invalid")]
    found: dict[str, Problem] = {}
    properties: Json = schema.get("properties", {})
    for detail in error.errors(include_url=False):
        steps, inner = _steps(detail["loc"], value)
        cause = detail.get("ctx", {}).get("error")
        if cause is not None:
            message = " ".join(str(cause).split())
        else:
            holder = properties.get(str(steps[0]), schema) if steps else schema
            is_hidden = holds_secret(holder, schema)
            message = f"{_lower(detail['msg'])}, got {kind_of(inner) if is_hidden else shown(inner)}"
        where = path(steps)
        found.setdefault(where, Problem(where, message))
    return list(found.values())


def _lower(message: str) -> str:
    message = message.replace("Input should be ", "expected ", 1)
    return message[:1].lower() + message[1:]


def _steps(location: Iterable[str | int], value: Any) -> tuple[Steps, Any]:
    """Return where an error is: of the validator's location, what leads through the value."""
    steps: Steps = ()
    for step in location:
        if _is_in(value, step):
            steps, value = (*steps, step), value[step]
    return steps, value


def _is_in(value: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return is_array(value) and step < len(value)
    return is_object(value) and step in value
