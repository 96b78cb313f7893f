"""Arguments that the author describes (`input_schema=`) instead of the signature."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any

from pydantic_core import core_schema
from typing_extensions import is_typeddict

from ..errors import ArgumentsError, RegistrationError
from ..protocol.jsonrpc import is_object
from . import typed_dict
from .arguments import Arguments
from .expectations import kind_of, shown
from .formats import FORMATS
from .mirrored import mirrored
from .problems import Fault, Steps, mismatch, missing, unknown
from .secrets import holds_secret
from .signature import parameter
from .values import Json, matches

_MOST_ERRORS = 1000
"""How many errors are looked at; more are not told."""


def arguments(schema: Any, *, drops_unknown: bool = False) -> Arguments:
    """Return the arguments; see `Arguments.explicit`."""
    if is_typeddict(schema):
        fields = typed_dict.fields(schema)
        parameters = [
            parameter(name, hint, may_be_omitted=not is_required)
            for name, (hint, is_required) in fields.items()
        ]
        return Arguments.of_parameters(schema.__name__, parameters, drops_unknown=drops_unknown)
    if not is_object(schema):
        raise RegistrationError(
            "input_schema: write a JSON Schema as a dict, a TypedDict class, or a dict of names and types, "
            f"not {schema!r}; for a class of another kind, leave input_schema= out and annotate a parameter with it"
        )
    if schema.get("type") == "object":
        if drops_unknown:
            raise RegistrationError(
                'input_schema: a JSON Schema says itself what else it allows; write `"additionalProperties": true` '
                'into it instead of extra="ignore"'
            )
        return JSONSchemaArguments(schema)
    if "$schema" in schema or any(isinstance(value, (dict, list, bool, str)) for value in schema.values()):
        raise RegistrationError('input_schema: the root of a JSON Schema must say `"type": "object"`')
    parameters = [parameter(name, hint) for name, hint in schema.items()]
    return Arguments.of_parameters("input_schema", parameters, drops_unknown=drops_unknown)


class JSONSchemaArguments(Arguments):
    """Arguments that fit a JSON Schema of the author, with all that the dialect knows."""

    def __init__(self, schema: Json) -> None:
        super().__init__(lambda: schema, core_schema.any_schema())
        try:
            # Untyped, and there only with the extra.
            jsonschema: Any = import_module("jsonschema")
            referencing: Any = import_module("referencing.jsonschema")
            unresolvable: Any = import_module("referencing.exceptions").Unresolvable
            known: Any = import_module("jsonschema_specifications").REGISTRY
        except ModuleNotFoundError as error:
            raise RegistrationError(
                "input_schema: checking arguments against a JSON Schema takes jsonschema; "
                "pip install 'mcpkit[jsonschema]'"
            ) from error
        dialect = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
        validator = jsonschema.validators.validator_for({"$schema": dialect}, default=None)
        if validator is None:
            raise RegistrationError(
                f"input_schema: unknown dialect {dialect!r}; leave `$schema` out for 2020-12"
            )
        try:
            validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            where = error.json_path.removeprefix("$").removeprefix(".") or "the root"
            raise RegistrationError(
                f"input_schema: not a valid JSON Schema at {where}: {error.message}"
            ) from error
        self.mirrored = mirrored("input_schema", schema)
        resource = referencing.specification_with(dialect).create_resource(schema)
        # Meta-schemas come with the library; nothing else is there, and nothing is ever fetched.
        resolver = known.resolver_with_root(resource)
        for base, reference in _references(resolver, resource):
            try:
                base.lookup(reference)
            except unresolvable as error:
                raise RegistrationError(
                    f"input_schema: $ref {reference!r} leads nowhere; put the definition under `$defs` "
                    "and write `#/$defs/<name>` (nothing is fetched)"
                ) from error
        formats = _format_checker(jsonschema, validator)
        validator = jsonschema.validators.extend(
            validator, {"pattern": _patterns(jsonschema.ValidationError)}
        )
        self._checker: Any = validator(schema, registry=known, format_checker=formats)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check the arguments; see `Arguments.validate`. They come back as JSON values."""
        if not (found := list(self._faults_of(arguments))):
            return arguments
        from .repair import repaired

        candidate = repaired(arguments, self._faults_of, self.mirrored)
        if candidate is not arguments and not (found := list(self._faults_of(candidate))):
            return candidate
        raise ArgumentsError(list(dict.fromkeys(fault.problem for fault in found)))

    def _faults_of(self, arguments: Json) -> Iterator[Fault]:
        for error in islice(self._checker.iter_errors(arguments), _MOST_ERRORS):
            yield from _faults(error, self.schema)


def _references(resolver: Any, resource: Any) -> Iterator[tuple[Any, str]]:
    """Yield every reference in a schema with the resolver of the place where it stands."""
    contents = resource.contents
    if is_object(contents):
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(contents.get(keyword), str):
                yield resolver, contents[keyword]
    for inner in resource.subresources():
        yield from _references(resolver.in_subresource(inner), inner)


def _format_checker(jsonschema: Any, validator: Any) -> Any:
    checker = jsonschema.FormatChecker(formats=())
    checker.checkers = dict(validator.FORMAT_CHECKER.checkers)
    checker.checkers |= {name: (_about_text(is_valid), ()) for name, is_valid in FORMATS.items()}
    return checker


def _patterns(error: type[Exception]) -> Callable[[Any, str, Any, Any], Iterator[Exception]]:
    """Return what checks `pattern`, in linear time where that can be: what clients send may be made for the worst."""

    def check(_: Any, pattern: str, value: Any, schema: Any) -> Iterator[Exception]:
        if isinstance(value, str) and not matches(pattern)(value):
            yield error(f"{value!r} does not match {pattern!r}")

    return check


def _about_text(is_valid: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda value: not isinstance(value, str) or is_valid(value)


_WORDED = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)


def _faults(error: Any, root: Json) -> Iterator[Fault]:
    steps: Steps = tuple(error.absolute_path)
    schema = error.schema if is_object(error.schema) else {}
    within = tuple(fault for branch in error.context for fault in _faults(branch, root))
    holder = root.get("properties", {}).get(steps[0], root) if steps else root
    is_hidden = holds_secret(holder, root)
    if error.validator == "required":
        yield from missing(schema, error.instance, root, steps)
    elif error.validator == "additionalProperties" and error.validator_value is False:
        yield from (unknown(name, schema, steps) for name in _extra(schema, error.instance))
    elif error.validator is None:  # the schema is `false`; where it stands is not told
        yield Fault(steps, None, "there is an argument that nothing is allowed for")
    elif error.validator in _WORDED:
        yield Fault(steps, error.instance, mismatch(schema, error.instance, root, is_hidden), within)
    else:
        rule = shown({str(error.validator): error.validator_value})
        value = kind_of(error.instance) if is_hidden else shown(error.instance)
        yield Fault(steps, error.instance, f"{value} does not fit {rule}", within)


def _extra(schema: Json, value: Json) -> list[str]:
    patterns = schema.get("patternProperties", {})
    return [
        name
        for name in value
        if name not in schema.get("properties", {})
        and not any(re.search(pattern, name) for pattern in patterns)
    ]
