"""Parameters of functions and keys of TypedDicts as arguments: names, types, defaults and texts."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, get_origin

from .._utils.exceptions import RegistrationError, exception_text
from . import typed_dict

if TYPE_CHECKING:
    from .docstring import Documentation

_OF_FIELDS = frozenset({
    "alias", "alias_priority", "validation_alias", "serialization_alias", "default", "default_factory", "repr"
})  # fmt: skip
"""Options of `Field` that a parameter has and a type has not."""

_LEVELS_OF_A_CALL = 250
"""How many levels less a default may have than can be copied here: a call comes from further down the stack."""

empty: Any = inspect.Parameter.empty
"""Stands where nothing is written: no annotation, no default."""


Documented = Callable[[], "Documentation"]
"""Parses a docstring on first use: registering a function does not need its texts."""


class Parameter:
    """One argument of a function.

    Args:
        name: Name in requests: the alias, if there is one.
        annotation: Type with its `Annotated` metadata; `empty` for none.
        default: Value of an omitted argument; `empty` when it is required or has a factory.
        default_factory: Returns the value of an omitted argument.
        is_supplied: Whether an omitted argument must be passed to the function, as Python does not know its default
            (`Field(default=...)`).
        may_be_omitted: Whether it is optional without a default, like a `NotRequired` key.
        text: Description in its annotation.
        metadata: `Annotated` metadata of the argument as a whole.
        documentation: Docstring of its function, for arguments without a description in the annotation.
        python_name: Name of the function's parameter; differs from `name` if there is an alias.
        factory_takes_data: Whether `default_factory` receives the arguments before it as a dict.
    """

    __slots__ = (
        "annotation",
        "default",
        "default_factory",
        "documentation",
        "factory_takes_data",
        "is_supplied",
        "may_be_omitted",
        "metadata",
        "name",
        "python_name",
        "text",
    )

    def __init__(
        self,
        name: str,
        annotation: Any = empty,
        default: Any = empty,
        default_factory: Callable[..., object] | None = None,
        is_supplied: bool = False,
        may_be_omitted: bool = False,
        text: str | None = None,
        metadata: tuple[Any, ...] = (),
        documentation: Documented | None = None,
        python_name: str | None = None,
        factory_takes_data: bool = False,
    ) -> None:
        self.name = name
        self.python_name = name if python_name is None else python_name
        self.annotation = annotation
        self.default = default
        self.default_factory = default_factory
        self.is_supplied = is_supplied
        self.may_be_omitted = may_be_omitted
        self.text = text
        self.metadata = metadata
        self.documentation = documentation
        self.factory_takes_data = factory_takes_data

    @property
    def description(self) -> str | None:
        """Description by `Annotated[T, "text"]`, `Field(description=...)` or the docstring, in this order."""
        if self.text is not None or self.documentation is None:
            return self.text
        return self.documentation().arguments.get(self.python_name)

    @property
    def context_hint(self) -> str:
        """Remedy for a parameter that may be meant to be the Context; empty for others."""
        if self.annotation is not empty or self.name not in ("ctx", "context"):
            return ""
        return f"Write `{self.name}: Context` to receive the Context"

    @property
    def is_required(self) -> bool:
        """True if the caller must pass the argument."""
        return self.default is empty and self.default_factory is None and not self.may_be_omitted


def parameter(
    name: str,
    annotation: Any,
    default: Any = empty,
    documentation: Documented | None = None,
    *,
    may_be_omitted: bool = False,
) -> Parameter:
    """Return a parameter, with the metadata of its annotation applied.

    Raises:
        RegistrationError: Its alias is not a single name.
    """
    is_supplied = _is_field(default)
    if is_supplied:
        annotation = Annotated[Any if annotation is empty else annotation, default]
        default = empty
    metadata: tuple[Any, ...] = annotation.__metadata__ if get_origin(annotation) is Annotated else ()
    factory: Callable[..., object] | None = None
    takes_data = False
    text: str | None = None
    alias: object = None
    for item in metadata:
        if (said := last_text([item])) is not None:
            text = said
        elif _is_field(item):
            text = item.description or text
            own = item.alias if item.validation_alias is None else item.validation_alias
            alias = alias if own is None else own
            if default is empty and item.default_factory is not None:
                factory, is_supplied = item.default_factory, True
                takes_data = bool(item.default_factory_takes_validated_data)
            elif default is empty and not item.is_required():
                default, is_supplied = item.default, True
                check_copied(f"argument {name!r}", default)
    published = name if alias is None else _published_name(name, alias)
    if (
        alias is not None or is_supplied
    ):  # pydantic writes the default of a type as text, which may not be possible
        annotation = _as_type(annotation)
    return Parameter(
        published,
        annotation,
        default,
        factory,
        is_supplied,
        may_be_omitted,
        text,
        metadata,
        documentation,
        python_name=name,
        factory_takes_data=takes_data,
    )


def check_copied(where: str, default: object) -> None:
    """Refuse a default that pydantic-core must copy for each call, as it has no hash, and cannot.

    Raises:
        RegistrationError: It is nested too deeply, or holds what has no copy.
    """
    try:
        hash(default)
    except Exception:  # noqa: BLE001 - of the author's class
        for _ in range(_LEVELS_OF_A_CALL):
            default = [default]
        try:
            copy.deepcopy(default)
        except Exception as error:
            raise RegistrationError(
                f"{where}: a default cannot be copied for each call: {exception_text(error) or type(error).__name__}. "
                "Use a `default_factory`, or a simpler value"
            ) from error


def last_text(metadata: Iterable[object]) -> str | None:
    """Return the last text among metadata of `Annotated`: a string, or `Doc("...")` of PEP 727."""
    text: str | None = None
    for item in metadata:
        written = getattr(item, "documentation", None) if type(item).__name__ == "Doc" else item
        text = written if isinstance(written, str) else text
    return text


def _is_field(value: object) -> bool:
    # By name: a server whose author does not import pydantic shall not import it either.
    return any(
        cls.__name__ == "FieldInfo" and cls.__module__ == "pydantic.fields" for cls in type(value).__mro__
    )


def _published_name(name: str, alias: object) -> str:
    """Return the name of an argument on the wire: the first alias that is a single name.

    Args:
        name: The name of the parameter.
        alias: A string, an `AliasPath` or an `AliasChoices`.

    Raises:
        RegistrationError: Every alias is a path into another value, which is not an argument.
    """
    for choice in getattr(alias, "choices", [alias]):
        path = getattr(choice, "path", [choice])
        if len(path) == 1 and isinstance(path[0], str):
            return path[0]
    raise RegistrationError(
        f"argument {name!r}: {alias!r} reads inside another argument, which a JSON Schema cannot describe. "
        "Use an alias that is a single name"
    )


def _as_type(annotation: Any) -> object:
    """Return an `Annotated` type without what only a field has: pydantic would warn that it has no effect."""
    parts: list[object] = [annotation.__origin__]
    for item in annotation.__metadata__:
        if not hasattr(item, "validation_alias"):
            parts.append(item)
            continue
        from pydantic import Field
        from pydantic_core import PydanticUndefined

        # pydantic 2.12.0 has no `FieldInfo.asdict()`.
        attributes = {
            key: value
            for key in item.__slots__
            if not key.startswith("_") and key not in ("annotation", "metadata")
            for value in [getattr(item, key)]
            if key not in _OF_FIELDS and value is not None and value is not PydanticUndefined
        }
        parts += [*item.metadata, Field(**attributes)]
    return Annotated[tuple(parts)]


def of_keys(cls: Any, documentation: Documented | None = None) -> list[Parameter]:
    """Return the keys of a TypedDict as parameters."""
    return [
        parameter(key, hint, documentation=documentation, may_be_omitted=not is_required)
        for key, (hint, is_required) in typed_dict.fields(cls).items()
    ]


def refuse_shared_names(owner: str, parameters: list[Parameter], *, has_keyword_arguments: bool) -> None:
    """Refuse two arguments of one name on the wire, and an alias beside `**kwargs`.

    Raises:
        RegistrationError: Two arguments share a name, or `**kwargs` would take the name of a parameter.
    """
    seen: dict[str, Parameter] = {}
    for each in parameters:
        other = seen.setdefault(each.name, each)
        if other is not each:
            raise RegistrationError(
                f"{owner}: the arguments {other.python_name!r} and {each.python_name!r} are both sent as "
                f"{each.name!r}. Give one of them another alias"
            )
        if has_keyword_arguments and each.name != each.python_name:
            raise RegistrationError(
                f"{owner}: argument {each.python_name!r} is sent as {each.name!r}, and **kwargs would take "
                f"{each.python_name!r} a second time. Remove the alias or **kwargs"
            )
