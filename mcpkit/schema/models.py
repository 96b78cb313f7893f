"""Any other type to JSON Schema and validator, by pydantic: models, dataclasses, TypedDicts and more.

pydantic describes a type twice: as core schema, from which come validator and serialiser once wire.py
has made them follow JSON Schema, and as JSON Schema, which is made shorter and plainer here.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, cast, get_origin

from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic.warnings import ArbitraryTypeWarning
from pydantic_core import PydanticSerializationError, SchemaError, core_schema

from .._utils.core_schema import copied, is_named_tuple, nodes
from .._utils.exceptions import RegistrationError, UnresolvedHint
from ..content.convert import json_value
from ..content.serializers import serializing
from ..content.third_party import is_struct
from ..protocol.jsonrpc import is_object
from ..protocol.types import Json
from . import (
    described,
    foreign_core,
    formats,
    inline,
    object_keys,
    patterns,
    recursion,
    structs,
    typed_dict,
    values,
    wire,
)
from .described import Described, Mode, NotInTable
from .parameters import check_copied, last_text
from .types import KINDS, enumeration, one_of

_KNOWS_NOT_ALL = ConfigDict(arbitrary_types_allowed=True)
_OF_PYTHON = frozenset({"python_schema", "strict_schema", "lax_schema", "metadata"})
"""Core schema keys under which pydantic checks for instances of classes that it can serialize."""

_NO_SCHEMAS = frozenset({"default", "metadata", "serialization"})
"""Where a core schema holds no schemas of what is validated."""

# Subscribed with what is only known at run time, which no type checker follows.
_TUPLE: Any = tuple


def describe(annotation: Any, mode: Mode) -> Described:
    """Return JSON Schema and validator of a type; see `hints.describe`."""
    try:
        typed_dict.prepare(annotation)
        structs.prepare(annotation)
        core = foreign_core.restored(_core(foreign_core.rewritten(annotation)))
        if mode == "validation":
            _check_defaults(annotation, core)
        schema = inline.definitions(_generated(core, mode))
        definitions = schema.pop("$defs", {})
        return Described(
            schema,
            recursion.bounded(wire.validating(core, _of_node)),
            serializing(core, json_value),
            definitions=definitions,
        )
    except (PydanticUndefinedAnnotation, NameError) as error:
        raise UnresolvedHint(
            f"the type hint {named(annotation)} needs {error.name!r}, which is not defined; define or import it in "
            "the module of the class"
        ) from error
    except SchemaError as error:
        # Without the lines that say into which validator it was being built.
        problem = str(error).splitlines()[-1].strip()
        raise RegistrationError(
            f"{named(annotation)} cannot be described: {problem}; change the type, or its Field or Annotated metadata"
        ) from error
    except PydanticInvalidForJsonSchema as error:
        raise RegistrationError(
            f"{named(annotation)} cannot be converted to JSON; use another type"
        ) from error
    except PydanticUserError as error:
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
            f"{named(annotation)} cannot be described: {error.message}; change the type, or its Field or Annotated "
            "metadata"
        ) from error


def _check_defaults(annotation: object, core: object) -> None:
    for node in nodes(core, _NO_SCHEMAS):
        if node["type"] == "default" and "default" in node:
            check_copied(named(annotation), node["default"])


def _generated(core: Any, mode: Mode) -> Json:
    generator = _Generator(by_alias=True, ref_template="#/$defs/{model}")
    try:
        return generator.generate(core, mode)
    except KeyError as error:
        # pydantic looks up each reference, also those in what the author has added to the schema.
        if not str(error.args[0]).startswith("#"):
            raise
        raise RegistrationError(inline.NOWHERE.format(error.args[0])) from None


def _core(annotation: Any) -> Any:
    try:
        return TypeAdapter(annotation).core_schema
    except PydanticUserError as error:
        if error.code != "schema-for-unknown-type":
            raise
    # Once more, with the classes that pydantic does not know. Only what is no class of its own takes a config.
    with warnings.catch_warnings():
        warnings.simplefilter("error", ArbitraryTypeWarning)  # for what is no class at all
        try:
            core: Any = TypeAdapter(_TUPLE[annotation], config=_KNOWS_NOT_ALL).core_schema
        except ArbitraryTypeWarning as warning:
            value = str(warning).partition(" is not a Python type")[0]
            raise RegistrationError(
                f"{named(annotation)} contains {value}, which is not a type; write a class or another type hint there"
            ) from None
    for node in nodes(core, _OF_PYTHON):
        if node["type"] == "is-instance" and _of_node(node) is None:
            raise RegistrationError(
                f"{named(node['cls'])} cannot be converted to JSON; use a dataclass, a TypedDict or a pydantic "
                "model, or register it with mcpkit.types.json_type"
            )
    inner = core["schema"] if core["type"] == "definitions" else core
    alone = inner["items_schema"][0]
    return {**core, "schema": alone} if core["type"] == "definitions" else alone


def _of_node(node: Any) -> Described | None:
    """Return what `foreign_core.of_node` does, for classes of attrs and msgspec as well."""
    found = foreign_core.of_node(node)
    cls = node["cls"] if found is None and node.get("type") == "is-instance" else None
    return _struct(cls) if is_struct(cls) else found


def _struct(cls: Any) -> Described:
    """Describe a class of attrs or msgspec that a model of pydantic holds, defined before the class was known here."""
    found = describe(cls, described.mode.get())
    if found.definitions:
        raise RegistrationError(
            f"{cls.__qualname__} contains itself, which is not supported within a pydantic model; make the "
            "model a dataclass"
        )
    # It may stand in several places, and a definition only once.
    return found.but(core=_inlined(found.core, {}))


def _inlined(core: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a core schema with its definitions where they are used."""
    kind = core.get("type") if is_object(core) else None
    if kind == "definitions":
        return _inlined(core["schema"], {each["ref"]: each for each in core["definitions"]})
    if kind == "definition-ref":
        return _inlined(definitions[core["schema_ref"]], definitions)
    inlined = copied(core, lambda inner: _inlined(inner, definitions), foreign_core.NO_SCHEMAS)
    if isinstance(kind, str):  # else it is fields by name
        inlined.pop("ref", None)
    return inlined


def named(annotation: Any) -> str:
    """Return a type as a message names it, without the metadata of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return named(annotation.__origin__)
    if (
        isinstance(annotation, type) and get_origin(annotation) is None
    ):  # `list[int]` is a type in Python 3.10
        return annotation.__qualname__
    try:
        return str(annotation)
    except Exception:  # noqa: BLE001 - of metadata that cannot be shown
        return type(annotation).__qualname__


def _texts_of_fields(cls: Any) -> Mapping[str, str]:
    """Return the texts in the annotations of a class's fields, `Annotated[str, "text"]`, which pydantic passes over."""
    known: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})
    texts = {
        each: text
        for name, field in known.items()
        if (text := last_text(field.metadata)) is not None
        for each in (name, field.alias)
    }
    if not known and any(hasattr(cls, mark) for mark in ("__total__", "__dataclass_fields__", "_fields")):
        for name, hint in typed_dict.hints(cls).items():
            if (text := last_text(getattr(hint, "__metadata__", ()))) is not None:
                texts[name] = text
    return texts


def _with_texts_of_tuple(cls: Any, schema: JsonSchemaValue) -> JsonSchemaValue:
    """Add the text of a NamedTuple, unless Python wrote it, and the texts of its fields."""
    if cls.__doc__ and cls.__doc__ != f"{cls.__name__}({', '.join(cls._fields)})":
        schema["description"] = inspect.cleandoc(cls.__doc__)
    texts = _texts_of_fields(cls)
    if texts and "prefixItems" in schema:
        items = zip(cls._fields, schema["prefixItems"], strict=False)
        schema["prefixItems"] = [_with_text(item, texts.get(name)) for name, item in items]
    return schema


def _with_text(schema: JsonSchemaValue, text: str | None) -> JsonSchemaValue:
    return schema if text is None or "description" in schema else {**schema, "description": text}


class _Generator(GenerateJsonSchema):
    """JSON Schema generator without generated titles, and with the JSON forms of types."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Ignore warnings of defaults and union branches that cannot be JSON: clients cannot send them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def _without_title(self, schema: JsonSchemaValue, core: Any) -> JsonSchemaValue:
        cls = core.get("cls")
        config: Json = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
        if "title" not in config and "model_title_generator" not in config:
            schema.pop("title", None)
        if texts := _texts_of_fields(cls):
            properties = schema.get("properties", {}).items()
            schema["properties"] = {name: _with_text(inner, texts.get(name)) for name, inner in properties}
        return schema

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._without_title(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        result = self._without_title(super().dataclass_schema(schema), schema)
        cls = schema["cls"]
        text = inspect.cleandoc(cls.__doc__ or "")
        # pydantic 2.12.0 drops docstrings of dataclasses; the decorator writes "Name(...)" where there is none.
        if text and "description" not in result and not text.startswith(f"{cls.__name__}("):
            result["description"] = text
        return result

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return self._without_title(super().typed_dict_schema(schema), schema)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        try:
            return super().default_schema(schema)
        except (ValueError, RecursionError):  # of the text of a default that pydantic says it leaves out
            return self.generate_inner(schema["schema"])

    def encode_default(self, dft: Any) -> Any:
        try:
            if not isinstance(dft, (set, frozenset, bytes)):
                dft = super().encode_default(dft)
            return values.default(dft)
        except (ValueError, RecursionError) as error:  # pydantic leaves the default out of the schema
            raise PydanticSerializationError(str(error)) from error

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        if (found := _of_node(schema)) is not None:
            return dict(found.schema)
        result = super().generate_inner(schema)
        if (text := schema.get("metadata", {}).get(foreign_core.TEXT)) is not None:
            result = {**result, "description": text}
        if schema["type"] == "enum":
            # Its title is added after enum_schema.
            target = self.resolve_ref_schema(result)
            if target.get("title") == schema["cls"].__name__:
                del target["title"]
        return result

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return enumeration(schema["cls"]).schema

    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        result = super().ser_schema(schema)
        if result is not None or schema["type"] not in ("function-plain", "function-wrap"):
            return result
        function = schema["function"]
        if function in KINDS:
            return {"type": KINDS[function]}
        # pydantic's own write what the type says; what an author's function without annotation writes, nobody knows.
        return None if (getattr(function, "__module__", None) or "pydantic").startswith("pydantic") else {}

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        if wire.encoding(schema) == "base64url":
            return {"type": "string", "pattern": values.BASE64URL_PATTERN}
        return super().function_after_schema(schema)

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        return self.handle_invalid_for_json_schema(schema, "a complex number")

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        # Always `propertyNames`: `patternProperties` alone says nothing of the keys that do not match.
        inner = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
        result: JsonSchemaValue = {"type": "object", "additionalProperties": inner or True}
        if "keys_schema" in schema:
            keys = object_keys.schema(self.resolve_ref_schema(self.generate_inner(schema["keys_schema"])))
            if keys is None:
                self.handle_invalid_for_json_schema(schema, "a dict with keys that are not strings")
            elif names := {key: value for key, value in keys.items() if (key, value) != ("type", "string")}:
                result["propertyNames"] = names
        self.update_with_validations(result, schema, self.ValidationsMapping.object)
        return result

    frozendict_schema = ordered_dict_schema = dict_schema

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        counted: Any = {**schema, "values_schema": core_schema.int_schema()}
        return self.dict_schema(counted)

    def _temporal_schema(self, schema: Any) -> JsonSchemaValue:
        return formats.schema(wire.TEMPORAL[schema["type"]], schema.get("tz_constraint"))

    datetime_schema = date_schema = time_schema = timedelta_schema = _temporal_schema

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        try:
            return one_of([(values.plain(value), value) for value in schema["expected"]]).schema
        except NotInTable:
            return self.handle_invalid_for_json_schema(
                schema, "a Literal with a value that JSON does not have"
            )

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        result = super().str_schema(schema)
        if "pattern" in schema:
            result["pattern"] = patterns.source(schema["pattern"])
        return result

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        return _with_items(super().tuple_schema(schema))

    def named_tuple_schema(self, schema: core_schema.NamedTupleSchema) -> JsonSchemaValue:
        return _with_texts_of_tuple(schema["cls"], _with_items(super().named_tuple_schema(schema)))

    def call_schema(self, schema: core_schema.CallSchema) -> JsonSchemaValue:
        cls: Any = schema["function"]
        result = super().call_schema(schema)
        return _with_texts_of_tuple(cls, result) if is_named_tuple(cast("Any", schema)) else result

    def p_arguments_schema(self, arguments: Any, var_args_schema: Any) -> JsonSchemaValue:
        # A NamedTuple is called with these in pydantic 2.12 and 2.13.
        return _with_items(super().p_arguments_schema(arguments, var_args_schema))

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        result: JsonSchemaValue = {"type": "string", "contentEncoding": "base64"}
        # Every three bytes begun are four characters.
        if (least := schema.get("min_length")) is not None:
            result["minLength"] = -(-least // 3) * 4
        if (most := schema.get("max_length")) is not None:
            result["maxLength"] = -(-most // 3) * 4
        return result

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": wire.decimal_pattern(schema)}

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        result: JsonSchemaValue = {"type": "string", "format": "uri"}
        if schemes := schema.get("allowed_schemes"):
            result["pattern"] = wire.scheme_pattern(schemes)
        if (most := schema.get("max_length")) is not None:
            result["maxLength"] = most
        return result

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        # `anyOf`, like every other union: the tags keep the branches apart, and `discriminator` is OpenAPI's.
        tag = schema["discriminator"]
        branches: list[JsonSchemaValue] = []
        for choice in schema["choices"].values():
            branch = self.generate_inner(choice)
            if isinstance(tag, str):
                # A tag with a default is optional in the class, but nothing else tells the classes apart.
                target = self.resolve_ref_schema(branch)
                if tag not in target.get("required", ()):
                    target["required"] = [tag, *target.get("required", ())]
            branches.append(branch)
        return self.get_flattened_anyof(branches)


def _with_items(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of a tuple of fixed length with `items`; that of any other array as it is."""
    if "items" not in schema and schema.get("maxItems") == len(schema.get("prefixItems", ())):
        return {**schema, "items": inline.ITEMS_OF_TUPLE}
    return schema
