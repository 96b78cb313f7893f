"""Functions of authors: the schema of their arguments, and calls with JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_json

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ...requests.request_record import call_of
from ..sdk_models import is_kind
from .dependencies import Dependency, current, get_context, opened
from .docstrings import read
from .schemas import rooted, untitled

_title_of = GenerateJsonSchema().get_title_from_name


class Function:
    """A function that is called with JSON arguments.

    Args:
        function: A function, a method, a partial, or a callable object.
        kind: Kind of component, for messages.
        may_take_any: Whether it may have `**` parameters.

    Raises:
        ValueError: It has parameters that cannot be passed by name.
    """

    def __init__(self, function: Incomplete, kind: str, *, may_take_any: bool = False) -> None:
        target: Incomplete = function
        while _is_partial(target):
            target = target.func
        own_name: str | None = getattr(function, "__name__", None)
        self.name: str = own_name or str(getattr(target, "__name__", type(target).__name__))
        is_partial = _is_partial(function)
        described = function if is_partial and "__doc__" in vars(function) else target
        if type(function).__name__ == "staticmethod":
            function = function.__func__
        is_routine: bool = inspect.isroutine(function)
        if not is_routine and not is_partial:
            function = target = function.__call__
        self.function = function
        signature = inspect.signature(function)
        _check(signature, kind, may_take_any)
        try:
            hints = _hints(target)
        except Exception:  # noqa: BLE001 - names that are not there: pydantic says which
            hints = getattr(target, "__annotations__", {})
        self.result = signature.return_annotation
        if isinstance(self.result, str):
            self.result = hints.get("return", self.result)
        self.injected = {
            name: each.default if isinstance(each.default, Dependency) else _context(each.default)
            for name, each in signature.parameters.items()
            if isinstance(each.default, Dependency) or _is_context(hints.get(name))
        }
        self.parameters = [each for name, each in signature.parameters.items() if name not in self.injected]
        self.hints = {
            each.name: _described(hints.get(each.name, each.annotation)) for each in self.parameters
        }
        self.is_async = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
        taking: Incomplete = self._taking()
        self._adapter: TypeAdapter[Json] = TypeAdapter(taking)
        self.documented = inspect.getdoc(described)
        self.description, _ = read(self.documented)
        inner = read(inspect.getdoc(target))
        self.description = self.description or inner[0]
        self._said = inner[1]

    def _taking(self) -> Callable[..., Json]:
        """Return a function with the same parameters that returns its arguments."""

        def taking(**given: Incomplete) -> Json:
            return given

        taking.__signature__ = inspect.Signature(self.parameters)  # type: ignore[attr-defined]  # as `inspect` reads it
        taking.__annotations__ = {
            name: each for name, each in self.hints.items() if each is not inspect.Parameter.empty
        }
        taking.__name__ = taking.__qualname__ = self.name
        return taking

    def schema(self) -> Json:
        """Return the schema of the arguments, with descriptions from the docstring."""
        raw = self._adapter.json_schema()
        schema: Json = untitled(rooted(raw))
        for name, each in schema.get("properties", {}).items():
            title = raw["properties"][name].get("title")
            if title is not None and title != _title_of(name):
                each["title"] = title
            if "description" not in each and name in self._said:
                each["description"] = self._said[name]
        return schema

    def validated(self, arguments: Json, *, strict: Literal[True] | None = None) -> Json:
        """Return the arguments, converted to the types of the parameters. Raises pydantic's ValidationError."""
        found: Json
        if strict:
            found = self._adapter.validate_json(to_json(arguments), strict=True)
        else:
            found = self._adapter.validate_python(arguments)
        return found

    async def call(self, arguments: Json, *, in_thread: bool = True) -> Incomplete:
        """Call the function with validated arguments; in a thread if it is not `async`."""
        if not self.injected:
            return await self._called(arguments, in_thread)
        async with AsyncExitStack() as stack:
            given = await opened(self.injected, stack, self.name)
            return await self._called({**arguments, **given}, in_thread)

    async def _called(self, arguments: Json, in_thread: bool) -> Incomplete:
        context = current.get(None)
        native = None if context is None else context.native
        if self.is_async or not in_thread or native is None:
            found = self._begun(arguments)
        else:
            call = call_of(native)
            found = await call.runtime.threads.run(self._begun, {"arguments": arguments}, call)
        if inspect.isawaitable(found):
            found = await found
        return [each async for each in found] if inspect.isasyncgen(found) else found

    def _begun(self, arguments: Json) -> Incomplete:
        found: Incomplete = self.function(**arguments)
        is_many: bool = inspect.isgenerator(found)
        return list(found) if is_many else found


def _hints(function: Incomplete) -> Json:
    """Return type hints as written: in Python 3.10, a default of None would make them optional."""
    home = getattr(inspect.unwrap(function), "__globals__", {})
    written = SimpleNamespace(__annotations__=function.__annotations__, __globals__=home)
    return get_type_hints(written, include_extras=True)


def _is_partial(of: object) -> bool:
    return isinstance(of, partial)


def _check(signature: inspect.Signature, kind: str, may_take_any: bool) -> None:
    for each in signature.parameters.values():
        if each.kind is each.POSITIONAL_ONLY:
            raise ValueError(
                f"Functions with positional-only parameters are not supported as {kind}. Remove the `/`"
            )
        if each.kind is each.VAR_POSITIONAL:
            raise ValueError(f"Functions with *args are not supported as {kind}")
        if each.kind is each.VAR_KEYWORD and not may_take_any:
            raise ValueError(f"Functions with **kwargs are not supported as {kind}")


def _context(default: object) -> Dependency:
    return Dependency(lambda: current.get(None)) if default is None else Dependency(get_context)


def _is_context(hint: object) -> bool:
    return any(isinstance(each, type) and is_kind(each, "Context") for each in (hint, *get_args(hint)))


def _described(hint: object) -> Incomplete:
    """Return a type with a single text as metadata as one with this description."""
    of = get_args(hint)
    if get_origin(hint) is Annotated and len(of) == 2 and isinstance(of[1], str):
        return Annotated[of[0], Field(description=of[1])]
    return hint
