"""Which functions may become tools when somebody asks for them: those of which nothing would be refused before."""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ...protocol.types import Json
from ..foreign import BLOCKS, find_context_parameter, is_kind
from ..tool_names import doubts_about
from ..types import AnyFunction, ToolAnnotations
from .signatures import ArgModelBase

PLAIN = (str, int, float, bool, NoneType, list, dict)
SAID = {"title": str, "description": str, "annotations": ToolAnnotations, "structured_output": bool}


def can_wait(fn: AnyFunction, name: str | None, said: Json) -> bool:
    """Whether `Tool.from_function` takes a function, and what is said of it, for sure."""
    is_usual = all(value is None or isinstance(value, SAID.get(key, ())) for key, value in said.items())
    if not is_usual or said.get("structured_output") or not isinstance(fn, FunctionType | MethodType):
        return False
    try:
        signature = inspect.signature(fn, eval_str=True)
    except Exception:  # noqa: BLE001 - whatever it is, the author shall see it
        return False
    context, parameters = find_context_parameter(fn), signature.parameters
    plain = (is_plain(each.annotation) and is_plain_value(each.default) for each in parameters.values())
    return (
        not doubts_about(name or fn.__name__)
        and not any(each.startswith("_") or hasattr(ArgModelBase, each) for each in parameters)
        and all(is_right or each == context for each, is_right in zip(parameters, plain, strict=True))
        and is_plain(signature.return_annotation, is_result=True)
    )


def is_plain(annotation: object, *, is_result: bool = False) -> bool:
    """Whether a field of this type can be built for sure, and be described unless it is a result that need not be."""
    origin, of = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        is_right = all(type(it) is str or is_plain_value(it) for it in of[1:])
        return is_right and is_plain(of[0], is_result=is_result)
    if origin is Literal:
        return all(type(each) in PLAIN for each in of)
    if origin in (Union, UnionType, list) or (origin is dict and (*of, str)[0] is str):
        return all(is_plain(each, is_result=is_result) for each in of)
    if is_result and origin is None and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        is_complete = annotation.__pydantic_complete__ and not is_kind(annotation, "CallToolResult")
        return is_complete or is_kind(annotation, *BLOCKS)
    return annotation in (*PLAIN, bytes, None, Any, inspect.Parameter.empty)


def is_plain_value(value: object) -> bool:
    """Whether every field can have this default, or `Field(...)` that only describes, or bounds by whole numbers."""
    if not isinstance(value, FieldInfo):
        return value is inspect.Parameter.empty or type(value) in PLAIN
    bounds = (getattr(each, type(each).__name__.lower(), None) for each in value.metadata)
    is_described = not value.discriminator and not callable(value.json_schema_extra)
    return is_described and all(type(bound) is int for bound in bounds)
