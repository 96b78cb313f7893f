"""Models of function signatures, which validate arguments and convert results to content, images and audio included."""

from __future__ import annotations

import inspect
import json
import logging
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, WithJsonSchema, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import SchemaError, to_json
from typing_extensions import NotRequired, ReadOnly, Required, is_typeddict

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from .. import types
from ..shared_models_and_settings import BLOCKS, is_kind, is_list, to_own

_MODULE = "mcp.server.fastmcp.utilities.func_metadata"
"""Module name of generated models, which schemas show if two definitions have the same name."""
_DEFINITIONS = "#/$defs/"
_QUALIFIERS = (ClassVar, Final, Required, NotRequired, ReadOnly)

logger = logging.getLogger(_MODULE)

# Exceptions


class FastMCPError(Exception):
    """Base class of the exceptions."""


class ValidationError(FastMCPError):
    """Arguments or a result do not match their types."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool cannot be called, or failed."""


class InvalidSignature(Exception):  # noqa: N818 - the name that servers import
    """A function cannot be registered with these parameters or this return annotation."""


# Arguments and results


class ArgModelBase(BaseModel, arbitrary_types_allowed=True):
    """Base class of argument models."""

    def model_dump_one_level(self) -> Json:
        """Return the arguments by parameter name; nested models stay models."""
        return {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}


class FuncMetadata(BaseModel, arbitrary_types_allowed=True, defer_build=True):
    """The model of a function's arguments, and the schema of its structured content, if any."""

    arg_model: Annotated[type[ArgModelBase], WithJsonSchema(None)]
    output_schema: Json | None = None
    output_model: Annotated[type[BaseModel] | None, WithJsonSchema(None)] = None
    wrap_output: bool = False

    async def call_fn_with_arg_validation(
        self,
        fn: types.AnyFunction,
        fn_is_async: bool,
        arguments_to_validate: Json,
        arguments_to_pass_directly: Json | None,
    ) -> object:
        """Call a function with arguments that are validated, and others that are passed unchanged."""
        parsed = self.arg_model.model_validate(self.pre_parse_json(arguments_to_validate))
        result = fn(**(parsed.model_dump_one_level() | (arguments_to_pass_directly or {})))
        return await result if fn_is_async else result  # type: ignore[misc]  # an async function's

    def convert_result(self, result: object) -> object:
        """Return the content of a result, or a pair of content and structured content if there is a schema for it.

        A `CallToolResult` is returned as it is, after validation of its structured content.
        """
        if isinstance(result, BaseModel) and is_kind(type(result), "CallToolResult"):
            call_result = to_own(result)
            if self.output_schema is not None:
                self._validate(call_result.structuredContent)
            return call_result
        content = convert_to_content(result)
        if self.output_schema is None:
            return content
        validated = self._validate({"result": result} if self.wrap_output else result)
        return content, validated.model_dump(mode="json", by_alias=True)

    def _validate(self, structured: object) -> BaseModel:
        if self.output_model is None:
            raise AssertionError("Output model must be set if output schema is defined")
        return self.output_model.model_validate(structured)

    def pre_parse_json(self, data: Json) -> Json:
        """Return the arguments. Text with a JSON object, array or null is parsed if the parameter is not a string."""
        parsed = data.copy()
        for key, value in data.items():
            is_text = isinstance(value, str) and value.lstrip(" \t\n\r")[:1] in ("{", "[", "n")
            if is_text and not self._is_text(key):
                with suppress(json.JSONDecodeError):
                    parsed[key] = json.loads(value)
        return parsed

    def _is_text(self, key: str) -> bool:
        fields = reversed(self.arg_model.model_fields.items())
        return next((field.annotation is str for name, field in fields if key in (name, field.alias)), True)


def func_metadata(
    func: types.AnyFunction, skip_names: Sequence[str] = (), structured_output: bool | None = None
) -> FuncMetadata:
    """Return the metadata for calls of a function with JSON. Raises InvalidSignature.

    Args:
        func: The function.
        skip_names: Parameters that are not arguments.
        structured_output: False for no structured content; True raises an error if the return type does not allow it.
    """
    try:
        signature = inspect.signature(func, eval_str=True)
    except NameError as error:
        text = f"Unable to evaluate type annotations for callable {func.__name__!r}"
        raise InvalidSignature(text) from error
    name, fields = func.__name__, Json()
    for each in signature.parameters.values():
        if each.name.startswith("_"):
            raise InvalidSignature(f"Parameter {each.name} of {name} cannot start with '_'")
        if each.name not in skip_names:
            fields.update(_field(each))
    arguments = create_model(f"{name}Arguments", __base__=ArgModelBase, __module__=_MODULE, **fields)
    if structured_output and signature.return_annotation is signature.empty:
        raise InvalidSignature(f"Function {name}: return annotation required for structured output")
    result = None if structured_output is False else _result_type(signature.return_annotation, name)
    output = _output_fields(*result, name) if result else {}
    if structured_output and result and not output:
        text = f"Function {name}: return type {result[1]} is not serializable for structured output"
        raise InvalidSignature(text)
    return FuncMetadata(arg_model=arguments, **output)


def _field(parameter: inspect.Parameter) -> Json:
    name, annotation, metadata = parameter.name, parameter.annotation, [Field()]
    if callable(getattr(BaseModel, name, None)):  # no field can have this name
        name, metadata = f"field_{name}", [Field(alias=name)]
    if annotation is parameter.empty:
        annotation, metadata = Any, [WithJsonSchema({"title": parameter.name, "type": "string"}), *metadata]
    field = _annotated(annotation, *metadata)
    return {name: field if parameter.default is parameter.empty else (field, parameter.default)}


class StrictJsonSchema(GenerateJsonSchema):
    """Schema generator that raises ValueError for warnings of pydantic about an incomplete schema."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Raise ValueError with the warning."""
        raise ValueError(f"JSON schema warning: {kind} - {detail}")


def _result_type(annotation: object, name: str) -> tuple[object, object] | None:
    """Return the type of a function's structured content: the annotation, and the type in it.

    None stands for a `CallToolResult` without a type of its structured content. Raises InvalidSignature.
    """
    of, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if of in _QUALIFIERS or get_origin(of) in _QUALIFIERS:
        raise InvalidSignature(f"Function {name}: return annotation contains an invalid type qualifier")
    if get_origin(of) in (Union, UnionType) and any(map(_is_call_result, get_args(of))):
        raise InvalidSignature(
            f"Function {name}: CallToolResult cannot be used in Union or Optional types. "
            "To return empty results, use: CallToolResult(content=[])"
        )
    if not _is_call_result(of):
        return annotation, of
    if not metadata:
        return None
    return _annotated(*metadata) if metadata[1:] else metadata[0], metadata[0]


def _annotated(*parts: object) -> Incomplete:
    """Return `Annotated` with parts that are only known at run time."""
    form: Incomplete = Annotated
    return form[parts]


def _is_call_result(of: object) -> bool:
    return isinstance(of, type) and is_kind(of, "CallToolResult")


def _output_fields(annotation: object, of: object, name: str) -> Json:
    """Return the fields of a `FuncMetadata` for a return type; none if pydantic cannot create a schema for it."""
    model, is_wrapped = _result_model(annotation, of, name)
    if model is None:
        return {}
    try:
        schema = model.model_json_schema(schema_generator=StrictJsonSchema)
    except (PydanticUserError, TypeError, ValueError, SchemaError) as error:
        logger.info("Cannot create schema for type %s in %s: %s: %s", of, name, type(error).__name__, error)
        return {}
    reference: str = schema.pop("$ref", "")
    if reference.startswith(_DEFINITIONS):  # a model that refers to itself: the root has to say its type
        schema = {**schema["$defs"][reference.removeprefix(_DEFINITIONS)], **schema}
    return {"output_model": model, "output_schema": schema, "wrap_output": is_wrapped}


def _result_model(annotation: object, of: Incomplete, name: str) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a return type, and True if it contains the value as `result`."""
    is_alias = isinstance(of, GenericAlias)
    if is_alias and of.__origin__ is dict and len(of.__args__) == 2 and of.__args__[0] is str:
        from pydantic import RootModel  # which is built when it is imported

        root: Json = {"root": of}
        model: type[BaseModel] = create_model("DictModel", __base__=RootModel, __module__=_MODULE, **root)
        model.__name__ = model.__qualname__ = f"{name}DictOutput"
        return model, False
    if is_alias or not inspect.isclass(of) or of in (str, int, float, bool, bytes, type(None)):
        wrapped: Json = {"result": annotation}
        return create_model(f"{name}Output", __module__=_MODULE, **wrapped), True
    return of if issubclass(of, BaseModel) else _model_of_class(of), False


def _model_of_class(of: type[Incomplete]) -> type[BaseModel] | None:
    fields: Json = get_type_hints(of)
    if is_typeddict(of):
        fields |= {each: (fields[each], None) for each in fields if each not in of.__required_keys__}
        return create_model(of.__name__, __module__=_MODULE, **fields)
    defaults = {each: (fields[each], getattr(of, each)) for each in fields if hasattr(of, each)}
    public: Json = {each: kind for each, kind in {**fields, **defaults}.items() if each[0] != "_"}
    config = ConfigDict(from_attributes=True)
    return create_model(of.__name__, __config__=config, __module__=_MODULE, **public) if fields else None


# Content

_SUBTYPES = {
    "image": {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"},
    "audio": {".wav": "wav", ".mp3": "mpeg", ".ogg": "ogg", ".flac": "flac", ".aac": "aac", ".m4a": "mp4"},
}
"""MIME types by file suffix. The first is the default for bytes."""


class Media:
    """A file or bytes with a MIME type, which `format` or the file's suffix determines."""

    kind = ""  # not annotated: pydantic would take it for a field of what a tool returns

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None):  # noqa: A002 - its name there
        if self.kind == "image" and (path is None) == (data is None):
            problem = "Either path or data must" if data is None else "Only one of path or data can"
            raise ValueError(f"{problem} be provided")
        if self.kind == "audio" and bool(path) == bool(data):
            raise ValueError("Either path or data can be provided")
        self.path, self.data, self._format = Path(path) if path else None, data, format
        self._mime_type = self._get_mime_type()

    def _get_mime_type(self) -> str:  # authors' classes override it
        if self._format:
            return f"{self.kind}/{self._format.lower()}"
        subtypes = _SUBTYPES[self.kind]
        subtype = subtypes.get(self.path.suffix.lower()) if self.path else next(iter(subtypes.values()))
        return f"{self.kind}/{subtype}" if subtype else "application/octet-stream"

    def _encoded(self) -> str:
        data = self.path.read_bytes() if self.path else self.data
        if data is None:
            raise ValueError(f"No {self.kind} data available")
        return b64encode(data).decode()


class Image(Media):
    """An image."""

    kind = "image"

    def to_image_content(self) -> types.ImageContent:
        """Return it as a content block; a file is read now."""
        return types.ImageContent(type="image", data=self._encoded(), mimeType=self._mime_type)


class Audio(Media):
    """An audio clip."""

    kind = "audio"

    def to_audio_content(self) -> types.AudioContent:
        """Return it as a content block; a file is read now."""
        return types.AudioContent(type="audio", data=self._encoded(), mimeType=self._mime_type)


def convert_to_content(result: Incomplete) -> list[object]:
    """Return a result as content blocks. Blocks, images and audio are kept, also in lists; other values become text."""
    if is_list(result):
        return [block for each in result for block in convert_to_content(each)]
    if result is None:
        return []
    kind: type[object] = result.__class__
    if kind is not str:
        if is_kind(kind, *BLOCKS):
            return [to_own(result)]
        if is_kind(kind, "Image", "Audio"):
            return [
                to_own(result.to_image_content() if is_kind(kind, "Image") else result.to_audio_content())
            ]
        if not isinstance(result, str):
            result = to_json(result, fallback=str, indent=2).decode()
    return [types.TextContent(type="text", text=result)]
