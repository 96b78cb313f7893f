"""JSON forms of classes, registered by authors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, overload

from .._utils.exceptions import RegistrationError
from ..protocol.jsonrpc import is_object
from .declared import JsonType, declare, declared
from .described import Described

T = TypeVar("T")


@overload
def json_type(
    cls: type[T],
    *,
    schema: Any,
    encode: Callable[[T], Any],
    decode: Callable[[Any], T] | None = None,
) -> type[T]: ...
@overload
def json_type(
    cls: None = None,
    *,
    schema: Any,
    encode: Callable[[Any], Any],
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[type[T]], type[T]]: ...
def json_type(
    cls: Any = None,
    *,
    schema: Any,
    encode: Callable[[Any], Any],
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """Register the JSON form of a class, for arguments, results, and fields of other types.

    Call it for any class, `json_type(Money, schema=..., encode=..., decode=...)`, or decorate a class,
    `@json_type(schema=..., encode=..., decode=...)`. Call it before the class is used in fields of a pydantic model,
    as pydantic reads them when the model is defined.

    Args:
        cls: The class. Without it, a decorator is returned.
        schema: Form of the data: a JSON Schema as a dict, or any type that has one, such as `str`, a TypedDict or
            `Annotated[str, Field(pattern="^#[0-9a-f]{6}$")]`.
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

        def decorate(decorated: Any) -> Any:
            return json_type(decorated, schema=schema, encode=encode, decode=decode)

        return decorate
    if not isinstance(cls, type):
        raise RegistrationError(f"json_type takes a class, got {cls!r}")
    if cls in _KNOWN:
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
        own.form()  # checked while it is given
    declare(own)
    try:
        setattr(cls, "__get_pydantic_core_schema__", _core_schema)  # noqa: B010 - the name is pydantic's
        setattr(cls, "__get_pydantic_json_schema__", _json_schema)  # noqa: B010
    except TypeError:
        pass  # A class of C, which takes no attributes: only models of pydantic do not know it.
    return cls


def _form(cls: type, schema: Any) -> Described:
    """Return schema and validator of the data; see `JsonType`."""
    from . import hints, inline, written

    where = f"json_type({cls.__qualname__}): schema"
    if is_object(schema):
        found = written.described(where, schema)
        flat = inline.definitions(schema) if written.knows(schema) else schema
        found = found.but(schema=flat)
    else:
        found = hints.describe(schema)
    if "$defs" in found.schema or (found.definitions and "$ref" in found.schema):
        raise RegistrationError(
            f"{where}: the schema refers to recursive definitions; write it without them, or as a type"
        )
    return found.but(definitions={})


_KNOWN = frozenset(
    {str, int, float, bool, type(None), bytes, list, tuple, dict, set, frozenset, object, type}
)


def _core_schema(source: Any, handler: Any) -> Any:
    from pydantic_core import core_schema

    from .foreign_types import of_json_type

    own = declared(source)
    if own is None:
        return handler(source)
    core = of_json_type(own).core
    return core_schema.json_or_python_schema(
        json_schema=core,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(own.cls), core]),
        serialization=core_schema.plain_serializer_function_ser_schema(own.encode, when_used="json"),
        metadata={"mcpkit": own.cls},
    )


def _json_schema(core: Any, handler: Any) -> Any:
    own = declared(core.get("metadata", {}).get("mcpkit"))
    return handler(core) if own is None else dict(own.form().schema)
