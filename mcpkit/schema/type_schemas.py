"""Types to JSON Schema and validator by pydantic: models, dataclasses, TypedDicts, and others that are not plain.

pydantic describes a type twice: as core schema, which pydantic_validators.py makes follow JSON Schema, and as JSON
Schema, which is made shorter and plainer here.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, cast, get_args, get_origin

from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import PydanticSerializationError, SchemaError
from pydantic_core import core_schema as cs

from .._utils.exceptions import RegistrationError, UnresolvedHint, exception_text
from ..content.iterators_and_third_party_values import is_struct
from ..content.json_encoding import is_named_tuple, member_name, serializing
from ..protocol.jsonrpc import Json, is_object
from . import json_schema, patterns_and_formats, third_party_types
from .function_signatures import check_copied, hints_of, last_text
from .json_schema import Described, Mode
from .pydantic_validators import (
    INTEGER_KEY,
    NUMBER_KEY,
    TEMPORAL,
    copied,
    decimal_pattern,
    encoding,
    nodes,
    scheme_pattern,
    validating,
)

# Subscribed with what is only known at run time, which no type checker follows.
_TUPLE: Any = tuple


class _Key:
    """An annotation as a key of the cache: `int | str` equals `str | int`, but their schemas differ."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        # Types described before a call of json_type may have another form after it.
        self._parts = (*map(id, json_schema.json_types.values()), self._split(annotation))

    def _split(self, annotation: Any) -> Any:
        arguments, origin = get_args(annotation), get_origin(annotation)
        is_class = isinstance(annotation, type) and origin is None
        return id(annotation) if is_class or not arguments else (origin, *map(self._split, arguments))

    def __hash__(self) -> int:
        return hash(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._parts == other._parts


def describe(annotation: Any, mode: Mode) -> Described:
    """Return JSON Schema and validator of a type; see `fast_path_for_builtin_types.describe`."""
    return _cached(_Key(annotation), mode)


@lru_cache(maxsize=1024)
def _cached(key: _Key, mode: Mode) -> Described:
    annotation = key.annotation
    token = json_schema.mode.set(mode)
    try:
        return _describe(annotation, mode)
    except (PydanticUndefinedAnnotation, NameError) as error:
        raise UnresolvedHint(
            f"the type hint {named(annotation)} needs {error.name!r}, which is not defined; define or import it in "
            "the module of the class"
        ) from error
    except PydanticInvalidForJsonSchema as error:
        problem = f"{named(annotation)} cannot be converted to JSON; use another type"
        raise RegistrationError(problem) from error
    except RegistrationError:
        raise
    except Exception as error:  # of pydantic, or of the author's classes and metadata
        problem = exception_text(error) or type(error).__name__
        if isinstance(error, SchemaError):
            lines = [line.strip() for line in str(error).splitlines()]
            problem = lines[-1]  # without those about the validators around it
            for at, line in enumerate(lines[:-1]):
                if line.endswith("regex parse error:"):
                    patterns_and_formats.linear_pattern(lines[at + 1])
        elif isinstance(error, PydanticUserError):
            problem = error.message
            if error.code in ("class-not-fully-defined", "undefined-annotation"):
                raise UnresolvedHint(
                    f"{named(annotation)} refers to a class that is not defined; define or import it in the same module"
                ) from error
            if error.code == "schema-for-unknown-type":
                raise RegistrationError(
                    f"{named(annotation)} is, or contains, a class that cannot be converted to JSON; "
                    "use a dataclass, a TypedDict or a pydantic model"
                ) from error
        raise RegistrationError(
            f"{named(annotation)} cannot be described: {problem}; change the type, or its Field or Annotated metadata"
        ) from error
    finally:
        json_schema.mode.reset(token)


def _describe(annotation: Any, mode: Mode) -> Described:
    third_party_types.prepare(annotation)
    core = third_party_types.restored(_core(third_party_types.supported(annotation)))
    for node in nodes(core, ("default", "metadata", "serialization")):
        if mode == "validation" and node["type"] == "default" and "default" in node:
            check_copied(named(annotation), node["default"])
    try:
        generated = _Generator(by_alias=True, ref_template="#/$defs/{model}").generate(core, mode)
    except KeyError as error:
        # pydantic looks up each reference, also those in additions of the author to the schema.
        if not str(error.args[0]).startswith("#"):
            raise
        raise RegistrationError(json_schema.UNRESOLVED.format(error.args[0])) from None
    schema = json_schema.inlined(generated)
    definitions = schema.pop("$defs", {})
    return Described(schema, validating(core, _described_node), serializing(core), definitions=definitions)


# Core schema keys under which pydantic checks for instances of classes that it can serialize.
_PYTHON_ONLY = frozenset({"python_schema", "strict_schema", "lax_schema", "metadata"})


def _core(annotation: Any) -> Any:
    try:
        return TypeAdapter(annotation).core_schema
    except PydanticUserError as error:
        if error.code != "schema-for-unknown-type":
            raise
    # Once more, with the classes that pydantic does not know. A class of its own would refuse a config.
    with warnings.catch_warnings():
        warnings.simplefilter("error", ArbitraryTypeWarning)  # for values that are no classes
        try:
            config = ConfigDict(arbitrary_types_allowed=True)
            core: Any = TypeAdapter(_TUPLE[annotation], config=config).core_schema
        except ArbitraryTypeWarning as warning:
            value = str(warning).partition(" is not a Python type")[0]
            raise RegistrationError(
                f"{named(annotation)} contains {value}, which is not a type; write a class or another type hint there"
            ) from None
    for node in nodes(core, _PYTHON_ONLY):
        if node["type"] == "is-instance" and _described_node(node) is None:
            raise RegistrationError(
                f"{named(node['cls'])} cannot be converted to JSON; use a dataclass, a TypedDict or a pydantic "
                "model, or register it with mcpkit.types.json_type"
            )
    if core["type"] == "definitions":
        return {**core, "schema": core["schema"]["items_schema"][0]}
    return core["items_schema"][0]


def _described_node(node: Any) -> Described | None:
    """Return schema and validator of a node for a class that pydantic does not know; None for other nodes."""
    mode = json_schema.mode.get()
    found = third_party_types.described_node(node, lambda annotation: describe(annotation, mode))
    if found is not None or node.get("type") != "is-instance" or not is_struct(node["cls"]):
        return found
    # A class of attrs or msgspec in a model of pydantic that was defined before the class was known here.
    found = describe(node["cls"], mode)
    if found.definitions:
        raise RegistrationError(
            f"{node['cls'].__qualname__} contains itself, which is not supported within a pydantic model; make the "
            "model a dataclass"
        )
    return Described(found.schema, _inlined(found.core, {}), found.output)


def _inlined(core: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a core schema without definitions, of which each may be in a schema only once."""
    kind = core.get("type") if is_object(core) else None
    if kind == "definitions":
        return _inlined(core["schema"], {each["ref"]: each for each in core["definitions"]})
    if kind == "definition-ref":
        return _inlined(definitions[core["schema_ref"]], definitions)
    inlined = copied(core, lambda inner: _inlined(inner, definitions), ("metadata", "config", "cls"))
    if isinstance(kind, str):  # else it is fields by name
        inlined.pop("ref", None)
    return inlined


def named(annotation: Any) -> str:
    """Return the name of a type for messages, without the metadata of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return named(annotation.__origin__)
    # `list[int]` is a type in Python 3.10.
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__qualname__
    try:
        return str(annotation)
    except Exception:  # noqa: BLE001 - of metadata that cannot be shown
        return type(annotation).__qualname__


# --- JSON Schema


def _field_texts(cls: Any) -> Mapping[str, str]:
    """Return the texts of fields, `Annotated[str, "text"]`, which pydantic ignores."""
    known: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})
    texts = {
        each: text
        for name, field in known.items()
        if (text := last_text(field.metadata)) is not None
        for each in (name, field.alias)
    }
    if not known and any(hasattr(cls, mark) for mark in ("__total__", "__dataclass_fields__", "_fields")):
        for name, hint in hints_of(cls).items():
            if (text := last_text(getattr(hint, "__metadata__", ()))) is not None:
                texts[name] = text
    return texts


def _with_text(schema: JsonSchemaValue, text: str | None) -> JsonSchemaValue:
    return schema if text is None or "description" in schema else {**schema, "description": text}


def _with_items(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of a tuple of fixed length with `items`; other arrays unchanged."""
    if "items" not in schema and schema.get("maxItems") == len(schema.get("prefixItems", ())):
        return {**schema, "items": json_schema.ITEMS_OF_TUPLE}
    return schema


def _named_tuple(cls: Any, schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of a NamedTuple with the texts of its fields, and its own unless Python wrote it."""
    if cls.__doc__ and cls.__doc__ != f"{cls.__name__}({', '.join(cls._fields)})":
        schema["description"] = inspect.cleandoc(cls.__doc__)
    texts = _field_texts(cls)
    if texts and "prefixItems" in schema:
        items = zip(cls._fields, schema["prefixItems"], strict=False)
        schema["prefixItems"] = [_with_text(item, texts.get(name)) for name, item in items]
    return schema


_KEY_SCHEMAS: dict[str, Json] = {
    "integer": {"type": "string", "pattern": INTEGER_KEY},
    "number": {"type": "string", "pattern": NUMBER_KEY},
    "boolean": {"type": "string", "enum": ["true", "false"]},
    "null": {"type": "string", "enum": ["None"]},
}


def _key_schema(schema: Json) -> Json | None:
    """Return the JSON Schema of the names that stand for values of a schema; None if some values cannot be keys."""
    if "anyOf" in schema:
        branches = [_key_schema(branch) for branch in schema["anyOf"]]
        known = [branch for branch in branches if branch is not None]
        if len(known) < len(branches):
            return None
        return {"type": "string"} if {"type": "string"} in known else json_schema.any_of(known)
    if "enum" in schema:
        if any(isinstance(value, (list, dict)) for value in schema["enum"]):
            return None
        return {"type": "string", "enum": list(dict.fromkeys(map(member_name, schema["enum"])))}
    kind = schema.get("type", "string")
    return schema if kind == "string" else _KEY_SCHEMAS.get(kind)


class _Generator(GenerateJsonSchema):
    """JSON Schema generator without generated titles, and with the JSON forms of types."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Ignore warnings of defaults and union branches that cannot be JSON: clients cannot send them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        if (found := _described_node(schema)) is not None:
            return dict(found.schema)
        result = super().generate_inner(schema)
        if (text := schema.get("metadata", {}).get(third_party_types.TEXT)) is not None:
            result = {**result, "description": text}
        if schema["type"] == "enum":
            # Its title is added after enum_schema.
            target = self.resolve_ref_schema(result)
            if target.get("title") == schema["cls"].__name__:
                del target["title"]
        return result

    def update_with_validations(
        self, json_schema: JsonSchemaValue, core_schema: Any, mapping: dict[str, str]
    ) -> None:
        # In the order of the author's constraints, so that `minimum` is before `maximum`.
        json_schema.update({mapping[name]: value for name, value in core_schema.items() if name in mapping})

    # Classes with fields

    def _fields(self, schema: JsonSchemaValue, core: Any) -> JsonSchemaValue:
        cls = core.get("cls")
        config: Json = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
        if "title" not in config and "model_title_generator" not in config:
            schema.pop("title", None)
        if texts := _field_texts(cls):
            properties = schema.get("properties", {}).items()
            schema["properties"] = {name: _with_text(inner, texts.get(name)) for name, inner in properties}
        return schema

    def model_schema(self, schema: cs.ModelSchema) -> JsonSchemaValue:
        return self._fields(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: cs.DataclassSchema) -> JsonSchemaValue:
        return self._fields(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: cs.TypedDictSchema) -> JsonSchemaValue:
        return self._fields(super().typed_dict_schema(schema), schema)

    def tuple_schema(self, schema: cs.TupleSchema) -> JsonSchemaValue:
        return _with_items(super().tuple_schema(schema))

    def named_tuple_schema(self, schema: cs.NamedTupleSchema) -> JsonSchemaValue:
        return _named_tuple(schema["cls"], _with_items(super().named_tuple_schema(schema)))

    def call_schema(self, schema: cs.CallSchema) -> JsonSchemaValue:
        result = super().call_schema(schema)
        cls: Any = schema["function"]
        return _named_tuple(cls, result) if is_named_tuple(cast("Any", schema)) else result

    def p_arguments_schema(self, arguments: Any, var_args_schema: Any) -> JsonSchemaValue:
        # A NamedTuple is called with these in pydantic 2.12 and 2.13.
        return _with_items(super().p_arguments_schema(arguments, var_args_schema))

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        # Always `propertyNames`: `patternProperties` alone allows any keys that do not match.
        inner = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
        result: JsonSchemaValue = {"type": "object", "additionalProperties": inner or True}
        if "keys_schema" in schema:
            keys = _key_schema(self.resolve_ref_schema(self.generate_inner(schema["keys_schema"])))
            if keys is None:
                self.handle_invalid_for_json_schema(schema, "a dict with keys that are not strings")
            elif names := {key: value for key, value in keys.items() if (key, value) != ("type", "string")}:
                result["propertyNames"] = names
        self.update_with_validations(result, schema, self.ValidationsMapping.object)
        return result

    frozendict_schema = ordered_dict_schema = dict_schema

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        return self.dict_schema({**schema, "values_schema": cs.int_schema()})

    # Values

    def enum_schema(self, schema: cs.EnumSchema) -> JsonSchemaValue:
        values = [value for value, _ in json_schema.members(schema["cls"])]
        return self._choice(schema, values, schema["cls"])

    def literal_schema(self, schema: cs.LiteralSchema) -> JsonSchemaValue:
        return self._choice(schema, [json_schema.choice_value(value) for value in schema["expected"]])

    def _choice(self, schema: Any, values: list[Any], cls: type | None = None) -> JsonSchemaValue:
        if (result := json_schema.enumeration(values, cls)) is not None:
            return result
        return self.handle_invalid_for_json_schema(schema, "a choice with a value that JSON does not have")

    def str_schema(self, schema: cs.StringSchema) -> JsonSchemaValue:
        result = super().str_schema(schema)
        if "pattern" in schema:
            result["pattern"] = patterns_and_formats.pattern_source(schema["pattern"])
        return result

    def bytes_schema(self, schema: cs.BytesSchema) -> JsonSchemaValue:
        result: JsonSchemaValue = {"type": "string", "contentEncoding": "base64"}
        for name, keyword in ("min_length", "minLength"), ("max_length", "maxLength"):
            if (length := schema.get(name)) is not None:
                # Four characters for every three bytes begun.
                result[keyword] = -(-cast("int", length) // 3) * 4
        return result

    def function_after_schema(self, schema: cs.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        if encoding(schema) == "base64url":
            return {"type": "string", "pattern": patterns_and_formats.BASE64URL_PATTERN}
        return super().function_after_schema(schema)

    def decimal_schema(self, schema: cs.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": decimal_pattern(schema)}

    def url_schema(self, schema: cs.UrlSchema) -> JsonSchemaValue:
        result: JsonSchemaValue = {"type": "string", "format": "uri"}
        if schemes := schema.get("allowed_schemes"):
            result["pattern"] = scheme_pattern(schemes)
        if (length := schema.get("max_length")) is not None:
            result["maxLength"] = length
        return result

    def _temporal_schema(self, schema: Any) -> JsonSchemaValue:
        return patterns_and_formats.format_schema(TEMPORAL[schema["type"]], schema.get("tz_constraint"))

    datetime_schema = date_schema = time_schema = timedelta_schema = _temporal_schema

    def complex_schema(self, schema: cs.ComplexSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a complex number")

    def tagged_union_schema(self, schema: cs.TaggedUnionSchema) -> JsonSchemaValue:
        # `anyOf`, like every other union: the tags keep the branches apart, and `discriminator` is OpenAPI's.
        tag = schema["discriminator"]
        branches: list[JsonSchemaValue] = []
        for choice in schema["choices"].values():
            branch = self.generate_inner(choice)
            if isinstance(tag, str):
                # A tag with a default is optional in the class, but nothing else distinguishes the classes.
                target = self.resolve_ref_schema(branch)
                if tag not in target.get("required", ()):
                    target["required"] = [tag, *target.get("required", ())]
            branches.append(branch)
        return self.get_flattened_anyof(branches)

    # Defaults and serializers

    def default_schema(self, schema: cs.WithDefaultSchema) -> JsonSchemaValue:
        try:
            return super().default_schema(schema)
        except (ValueError, RecursionError):  # from the text of a warning about a default
            return self.generate_inner(schema["schema"])

    def encode_default(self, dft: Any) -> Any:
        try:
            if not isinstance(dft, (set, frozenset, bytes)):
                dft = super().encode_default(dft)
            return json_schema.default_value(dft)
        except (ValueError, RecursionError) as error:  # pydantic leaves the default out of the schema
            raise PydanticSerializationError(str(error)) from error

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        result = super().ser_schema(schema)
        if result is not None or schema["type"] not in ("function-plain", "function-wrap"):
            return result
        function = schema["function"]
        if function in json_schema.KINDS:
            return {"type": json_schema.KINDS[function]}
        # pydantic's own follow the type; an author's function without annotation may return any value.
        return None if (getattr(function, "__module__", None) or "pydantic").startswith("pydantic") else {}
