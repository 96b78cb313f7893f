"""Base classes and helpers of tools, resources, templates and prompts."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, validate_call

from ..sdk_models import find_context_parameter, to_own
from ..types import AnyFunction, Icon, Json
from .signatures import func_metadata

if TYPE_CHECKING:
    from .context import Context

ModelT = TypeVar("ModelT", bound=BaseModel)

_SAME = {each: each for each in ("name", "title", "description", "icons", "annotations", "uri")}
_CALLED = {"inputSchema": "parameters", "outputSchema": "output_schema", "arguments": "listed_arguments"}
_LISTED = {**_SAME, **_CALLED, "mimeType": "mime_type", "uriTemplate": "uri_template", "_meta": "meta"}
"""Attributes of components, and their names in list results."""


class Described(BaseModel, defer_build=True):
    """Base class of components, with title and icons."""

    title: str | None = None
    icons: list[Icon] | None = None

    @field_validator("icons", "annotations", mode="before", check_fields=False)
    @classmethod
    def _own(cls, value: object) -> object:
        return to_own(value)


class Called(Described):
    """A component with a function that takes arguments, and a context if it has a parameter for it."""

    name: str
    fn: AnyFunction = Field(exclude=True)
    context_kwarg: str | None = Field(default=None, exclude=True)

    async def call(self, arguments: Json, context: Context | None) -> object:
        """Call the function, `async` or not."""
        if context is not None and self.context_kwarg is not None:
            arguments = {**arguments, self.context_kwarg: context}
        result = self.fn(**arguments)
        return await result if inspect.iscoroutine(result) else result


def called(fn: AnyFunction, name: str | None, context_kwarg: str | None) -> tuple[Json, Json]:
    """Return the fields of a component with a function, and the JSON Schema of its arguments."""
    context_kwarg = context_kwarg or find_context_parameter(fn)
    metadata = func_metadata(fn, [context_kwarg] if context_kwarg else [], structured_output=False)
    made: Json = {"name": name_of(fn, name), "fn": validated(fn), "context_kwarg": context_kwarg}
    return made, metadata.arg_model.model_json_schema()


def validated(fn: AnyFunction) -> AnyFunction:
    """Return a function that converts its arguments to the types of its parameters."""
    return validate_call(config=ConfigDict(defer_build=True))(fn)


def listed(kind: type[ModelT], components: Iterable[object]) -> list[ModelT]:
    """Return the list entries of components, with the fields of their class."""
    names = {said: name for said, name in _LISTED.items() if said.strip("_") in kind.model_fields}
    return [
        kind(**{said: getattr(each, name) for said, name in names.items() if hasattr(each, name)})
        for each in components
    ]


def check_names(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Check the names of keyword arguments.

    Raises:
        TypeError: A name is unknown.
    """
    if unknown := [each for each in given if each not in known]:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")


def name_of(fn: AnyFunction, name: str | None) -> str:
    """Return the given name, or the name of the function.

    Raises:
        ValueError: The function is a lambda without a given name.
    """
    if (name := name or fn.__name__) == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")
    return name
