"""Signatures of functions: parameters with resolved type hints and texts of the docstring."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args, get_origin

import typing_extensions

from .._utils.exceptions import RegistrationError, UnresolvedHint
from ..content.convert import check_sendable
from .parameters import Documented, Parameter, empty, of_keys, parameter, refuse_shared_names

if TYPE_CHECKING:
    from .docstring import Documentation

_UNPACKED = (typing_extensions.Unpack, getattr(typing, "Unpack", typing_extensions.Unpack))


class Head:
    """Name, parameters and type hints of a callable.

    Args:
        name: Name of the function, or of the class of a callable object.
        function: Plain function with the type hints, or a class.
        parameters: Parameters as they are written.
        hints: Resolved type hints by name.
        bound: Parameters that a partial binds by keyword.
    """

    __slots__ = ("bound", "function", "hints", "name", "parameters")

    def __init__(
        self,
        name: str,
        function: Any,
        parameters: tuple[inspect.Parameter, ...],
        hints: dict[str, Any],
        bound: frozenset[str],
    ) -> None:
        self.name = name
        self.function = function
        self.parameters = parameters
        self.hints = hints
        self.bound = bound


def head(fn: Callable[..., Any]) -> Head:
    """Read the head of a function, class, method, callable object or `functools.partial`.

    Raises:
        RegistrationError: It has no signature.
        UnresolvedHint: A type hint cannot be resolved now.
    """
    function = innermost(fn, through_decorators=True)
    name = getattr(function, "__name__", None) or type(fn).__name__
    if inspect.isfunction(function) and function.__name__ == "__call__":
        name = type(_unbound(fn)).__name__
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{name}: its signature cannot be read; wrap it in a function") from error
    written = tuple(signature.parameters.values())
    return Head(name, function, written, _hints(function, name), _bound_keywords(fn))


class Signature:
    """Parameters and return type of a function.

    Args:
        name: Name of the function.
        documentation: Docstring, read on first use.
        parameters: Arguments of a caller, in written order.
        injected: Parameters that the framework passes.
        extra: Type of `**kwargs`; `empty` for none.
        returns: Return annotation; `empty` for none.
        is_async: Whether calling it returns an awaitable.
    """

    __slots__ = ("documentation", "extra", "injected", "is_async", "name", "parameters", "returns")

    def __init__(
        self,
        name: str,
        documentation: Documented,
        parameters: tuple[Parameter, ...],
        injected: tuple[Parameter, ...],
        extra: Any,
        returns: Any,
        is_async: bool,
    ) -> None:
        self.name = name
        self.documentation = documentation
        self.parameters = parameters
        self.injected = injected
        self.extra = extra
        self.returns = returns
        self.is_async = is_async

    @property
    def description(self) -> str | None:
        """Give the docstring without the sections about arguments."""
        return self.documentation().description

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        is_injected: Callable[[Any, Any], bool],
        describes_arguments: bool = True,
    ) -> Signature:
        """Read the signature of a function, method, callable object or `functools.partial`.

        Arguments that a partial binds, by position or by keyword, are not arguments of the caller.

        Args:
            fn: The callable.
            is_injected: Returns whether the framework passes a parameter with this annotation and default.
            describes_arguments: Whether clients get descriptions of arguments by name; otherwise these stay in the
                description.

        Returns:
            The signature, with resolved type hints.

        Raises:
            RegistrationError: A parameter is positional-only, or the callable has no signature.
            UnresolvedHint: A type hint cannot be resolved now.
        """
        read = head(fn)
        name, hints = read.name, read.hints
        documented: dict[str, str | None] = dict.fromkeys(_passed(read.function))
        docstring = _docstring(fn, read.function)
        check_sendable(name, "docstring", docstring)
        documentation = _reader(docstring, documented)
        parameters: list[Parameter] = []
        injected: list[Parameter] = []
        extra: Any = empty
        for written in read.parameters:
            annotation = hints.get(written.name, empty)
            if written.kind is inspect.Parameter.VAR_KEYWORD and get_origin(annotation) in _UNPACKED:
                parameters += _unpacked(name, get_args(annotation)[0], read.parameters, documentation)
            elif written.kind is inspect.Parameter.VAR_KEYWORD:
                extra = Any if annotation is empty else annotation
            elif written.name not in read.bound:
                _refuse_unnamed(name, read.function, written, read.parameters)
                try:
                    is_own = is_injected(annotation, written.default)
                except RegistrationError as error:
                    raise RegistrationError(f"{name}: {written.name}: {error}") from None
                if is_own:
                    injected.append(Parameter(written.name, annotation, written.default))
                    continue
                try:
                    parameters.append(parameter(written.name, annotation, written.default, documentation))
                except RegistrationError as error:
                    raise RegistrationError(f"{name}: {error}") from None
        for each in parameters:
            documented.pop(each.python_name, None)
        if describes_arguments:
            documented |= {each.name: each.python_name for each in parameters}
            documented |= {each.python_name: each.python_name for each in parameters}
        if any(each.name != each.python_name for each in parameters):
            refuse_shared_names(name, parameters, has_keyword_arguments=extra is not empty)
        return cls(
            name=name,
            documentation=documentation,
            parameters=tuple(parameters),
            injected=tuple(injected),
            extra=extra,
            returns=hints.get("return", empty),
            is_async=inspect.iscoroutinefunction(read.function),
        )


def _unpacked(
    name: str, cls: Any, written: tuple[inspect.Parameter, ...], documentation: Documented
) -> list[Parameter]:
    """Return the parameters that `**kwargs: Unpack[cls]` stands for (PEP 692)."""
    keys = of_keys(cls, documentation)
    if twice := {each.name for each in keys} & {each.name for each in written}:
        raise RegistrationError(
            f"{name}: {min(twice)!r} is a parameter and also a key of {cls.__name__}. Rename one"
        )
    return keys


def _refuse_unnamed(
    name: str, function: Any, written: inspect.Parameter, all_written: tuple[inspect.Parameter, ...]
) -> None:
    last = all_written[-1]
    if written.kind is inspect.Parameter.VAR_POSITIONAL and last.kind is inspect.Parameter.VAR_KEYWORD:
        raise RegistrationError(
            f"{name}: *{written.name} and **{last.name} do not name its arguments; if it wraps another function, "
            "decorate it with @functools.wraps(function), else name each argument"
        )
    if written.kind is inspect.Parameter.VAR_POSITIONAL:
        raise RegistrationError(
            f"{name}: arguments are passed by name, so *{written.name} cannot be filled; "
            f"write `{written.name}: list[...]` instead"
        )
    if written.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise RegistrationError(
            f"{name}: arguments are passed by name, so the positional-only {written.name!r} cannot be "
            "filled; remove the `/` from the signature"
        )
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if written.name == "self" and written.annotation is empty and owner and not owner.endswith("<locals>"):
        raise RegistrationError(
            f"{name}: it is a method without its instance; use the decorator from mcpkit "
            "and include(...) an instance"
        )


def _unbound(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def innermost(fn: Any, *, through_decorators: bool = False) -> Any:
    """Return the plain function, or the class, inside a partial, a method or a callable object.

    Args:
        fn: Any callable.
        through_decorators: Whether it is what decorators wrap, which holds hints and docstring; else what they made.
    """
    unwrap = inspect.unwrap if through_decorators else _unbound
    fn = unwrap(_unbound(fn))
    fn = unwrap(getattr(fn, "__func__", fn))
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = unwrap(type(fn).__call__)
    return getattr(fn, "__func__", fn)


def _docstring(fn: Any, function: Any) -> str | None:
    written: str | None = function.__doc__
    unbound = _unbound(fn)
    if written is None and not inspect.isroutine(unbound):
        return type(unbound).__doc__
    return written


def _passed(function: Any) -> tuple[str, ...]:
    """Return the names of a function's parameters: clients do not see those that a partial or the framework fills."""
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _reader(text: str | None, names: Mapping[str, str | None]) -> Documented:
    """Return a function that reads a docstring on its first call."""

    @functools.cache
    def read() -> Documentation:
        from . import docstring

        return docstring.read(text, names)

    return read


def _bound_keywords(fn: Any) -> frozenset[str]:
    bound: set[str] = set()
    while isinstance(fn, functools.partial):
        bound.update(fn.keywords)
        fn = fn.func
    return frozenset(bound)


def _hints(function: Any, name: str) -> dict[str, Any]:
    # inspect.get_annotations evaluates what PEP 649 defers, and raises NameError as PEP 563's strings do
    # below; CPython 3.14 itself is untested.
    function = function.__init__ if inspect.isclass(function) else function
    try:
        annotations = inspect.get_annotations(function)
        return resolve(annotations, getattr(function, "__globals__", {}), _closure(function))
    except NameError as error:
        raise UnresolvedHint(
            f"{name}: the type hint {error.name!r} is not defined; define it in the function's module, "
            "not inside another function, and import it outside `if TYPE_CHECKING`"
        ) from error
    except (TypeError, SyntaxError, AttributeError) as error:
        raise RegistrationError(f"{name}: its type hints cannot be read: {error}") from error


def _closure(function: Any) -> dict[str, Any]:
    names: tuple[str, ...] = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    closure: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return closure


def resolve(
    annotations: Mapping[str, Any], namespace: dict[str, Any], closure: dict[str, Any]
) -> dict[str, Any]:
    """Return annotations with every string and forward reference in them evaluated."""
    if all(type(annotation) is type for annotation in annotations.values()):
        return dict(annotations)
    # Not the function itself: 3.10 would read its defaults too, and write Optional around some hints.
    holder = types.SimpleNamespace(__annotations__=dict(annotations))
    return typing.get_type_hints(holder, namespace, closure, include_extras=True)
