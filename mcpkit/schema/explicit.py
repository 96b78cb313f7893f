"""Arguments that the author describes (`input_schema=`) instead of the signature."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from pydantic_core import core_schema
from typing_extensions import is_typeddict

from ..errors import ArgumentsError, Problem, RegistrationError
from ..protocol.jsonrpc import is_object
from . import typed_dict
from .arguments import Arguments
from .formats import FORMATS
from .mirrored import mirrored
from .problems import expected, missing, shown, unknown
from .signature import parameter
from .values import Json


def arguments(schema: Any) -> Arguments:
    """Return the arguments; see `Arguments.explicit`."""
    if is_typeddict(schema):
        fields = typed_dict.fields(schema)
        parameters = [
            parameter(name, hint, may_be_omitted=not is_required)
            for name, (hint, is_required) in fields.items()
        ]
        return Arguments.of_parameters(schema.__name__, parameters)
    if not is_object(schema):
        raise RegistrationError(
            "input_schema: write a JSON Schema as a dict, a TypedDict class, or a dict of names and types, "
            f"not {schema!r}; for a class of another kind, leave input_schema= out and annotate a parameter with it"
        )
    if schema.get("type") == "object":
        return JSONSchemaArguments(schema)
    if "$schema" in schema or any(isinstance(value, (dict, list, bool, str)) for value in schema.values()):
        raise RegistrationError('input_schema: the root of a JSON Schema must say `"type": "object"`')
    return Arguments.of_parameters("input_schema", [parameter(name, hint) for name, hint in schema.items()])


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
        self._checker: Any = validator(schema, registry=known, format_checker=formats)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check the arguments; see `Arguments.validate`. They come back as they are."""
        found = [problem for error in self._checker.iter_errors(arguments) for problem in _problems(error)]
        if found:
            raise ArgumentsError(list(dict.fromkeys(found)))
        return arguments


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


def _about_text(is_valid: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda value: not isinstance(value, str) or is_valid(value)


_WORDED = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "format", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)


def _problems(error: Any) -> Iterator[Problem]:
    path = ""
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    schema = error.schema if is_object(error.schema) else {}
    if error.validator == "required":
        yield from missing(schema, error.instance, schema, path)
    elif error.validator == "additionalProperties" and error.validator_value is False:
        yield from (unknown(name, schema, path) for name in _extra(schema, error.instance))
    elif error.validator in _WORDED:
        yield Problem(path, f"expected {expected(schema, schema)}, got {shown(error.instance)}")
    else:
        rule = json.dumps({str(error.validator): error.validator_value}, default=str)
        yield Problem(path, f"{shown(error.instance)} does not fit {rule}")


def _extra(schema: Json, value: Json) -> list[str]:
    patterns = schema.get("patternProperties", {})
    return [
        name
        for name in value
        if name not in schema.get("properties", {})
        and not any(re.search(pattern, name) for pattern in patterns)
    ]
