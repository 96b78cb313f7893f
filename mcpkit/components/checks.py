"""Checks of values that follow the specification's schema, such as icons and annotations.

Hosts drop a whole list for one wrong member, so values are checked at registration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeGuard

from pydantic_core import SchemaValidator, ValidationError, from_json, to_json

from .._utils.errors import RegistrationError
from ..content.data import check_sendable
from ..protocol.capabilities import capability_path
from ..protocol.types import Icon, Json

_ICON_SCHEMES = ("https:", "http:", "data:")


def check_text(what: str, value: Any) -> None:
    """Check that a value is None or a string that can be sent.

    Raises:
        RegistrationError: It is neither, or the string has a lone surrogate.
    """
    if value is not None and not isinstance(value, str):
        raise RegistrationError(f"{what} must be a string, got {value!r}")
    where, _, part = what.rpartition(": ")
    check_sendable(where, part, value)


def check_members(what: str, value: Any, shape: type[Mapping[str, Any]], *, required: str = "") -> None:
    """Check a dict against a TypedDict of the specification: unknown, missing and wrongly typed members.

    Args:
        what: Name of the value in messages.
        value: The dict.
        shape: TypedDict with the specification's members.
        required: A member that must be present.

    Raises:
        RegistrationError: The dict does not match.
    """
    known = shape.__annotations__
    if not _is_mapping(value):
        raise RegistrationError(f"{what} must be a dict with {', '.join(known)}, got {value!r}")
    unknown = sorted(map(str, value.keys() - known.keys()))
    if unknown:
        raise RegistrationError(
            f"{what}: unknown member {unknown[0]!r}. The specification defines {', '.join(known)}"
        )
    if required and required not in value:
        raise RegistrationError(f"{what}: the member {required!r} is missing")
    schema, validator = _form(shape)
    members: Json = dict(value)
    try:
        validator.validate_python(members)
    except ValidationError:
        from ..schema.problems import problems

        wrong = "; ".join(map(str, problems(schema, members)))
        raise RegistrationError(f"{what}: {wrong}") from None
    where, _, part = what.rpartition(": ")
    check_sendable(where, part, members)


def check_icons(what: str, icons: Any) -> None:
    """Check icons ("icons" of the base protocol).

    Raises:
        RegistrationError: The value is not a list of icons, or an icon has a source that hosts must not load.
    """
    if icons is None:
        return
    if not _is_sequence(icons):
        raise RegistrationError(
            f'{what}: icons must be a list such as [{{"src": "https://..."}}], got {icons!r}'
        )
    for icon in icons:
        check_members(f"{what}: icon", icon, Icon, required="src")
        if not icon["src"].startswith(_ICON_SCHEMES):
            raise RegistrationError(f"{what}: icon: src must be an https: or data: URI, got {icon['src']!r}")


def json_object(what: str, value: Any) -> Json:
    """Return a copy of a dict as a JSON object; None gives an empty one.

    Raises:
        RegistrationError: It is not a dict with string keys, or a value cannot be converted to JSON.
    """
    if value is None:
        return {}
    if not _is_mapping(value) or not all(isinstance(key, str) for key in value):
        raise RegistrationError(f"{what} must be a dict with string keys, got {value!r}")
    try:
        copy: Json = from_json(to_json(dict(value), inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError as error:
        raise RegistrationError(f"{what} cannot be converted to JSON: {error}") from None
    return copy


def capabilities(what: str, requires: Any) -> tuple[str, ...]:
    """Return the checked capability names of `requires_capabilities=`.

    Raises:
        RegistrationError: It is neither a name nor a list of names, or a capability is unknown.
    """
    if not requires:
        return ()
    names: Any = (requires,) if isinstance(requires, str) else requires
    if not _is_sequence(names) or not all(isinstance(name, str) for name in names):
        raise RegistrationError(f"{what}: requires must be a list of strings, got {requires!r}")
    for name in names:
        try:
            capability_path(name)
        except ValueError as error:
            raise RegistrationError(f"{what}: requires: {error}") from None
    return tuple(names)


def check_size(what: str, size: Any) -> None:
    """Check a size in bytes.

    Raises:
        RegistrationError: It is neither None nor an integer of at least 0.
    """
    if size is not None and (type(size) is not int or size < 0):
        raise RegistrationError(f"{what}: size must be a number of bytes of at least 0, got {size!r}")


def check_media_type(what: str, media_type: Any) -> None:
    """Check that a value is None or a media type, and not a file extension.

    Raises:
        RegistrationError: It is something else.
    """
    if media_type is not None and (not isinstance(media_type, str) or "/" not in media_type):
        raise RegistrationError(
            f"{what}: mime_type must be a media type such as text/plain, got {media_type!r}"
        )


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


@cache
def _form(shape: type[Mapping[str, Any]]) -> tuple[Json, SchemaValidator]:
    from ..schema import hints

    described = hints.describe(shape)
    return described.schema, SchemaValidator(described.core)


def is_template(uri: str) -> bool:
    """Return whether a URI has braces, and so is a template, valid or not."""
    return "{" in uri or "}" in uri


def check_is_function(target: Any) -> None:
    """Check that a decorator received a function, and not a name as in `@server.tool("forecast")`.

    Raises:
        RegistrationError: It is not a function. The message contains the remedy.
    """
    if isinstance(target, str):
        raise RegistrationError(f"{target!r} is not a function. Write name={target!r} if it is the name")
    if isinstance(target, type):
        raise RegistrationError(
            f"{target.__qualname__} is a class. Decorate its methods with @tool, @resource or @prompt from mcpkit, "
            "then include(...) an instance"
        )
    if isinstance(target, classmethod | property):
        raise RegistrationError(
            f"{target!r} cannot be called without an instance. Decorate methods with @tool, @resource or @prompt from "
            "mcpkit, then include(...) an instance of their class"
        )
    if not callable(target):
        raise RegistrationError(f"{target!r} is not a function. Register a function or a callable object")
