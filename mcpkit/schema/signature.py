"""What a function takes and returns: parameters with resolved type hints and the docstring's texts."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typing_extensions

from ..common.errors import RegistrationError, UnresolvedHint
from . import typed_dict

if TYPE_CHECKING:
    from .docstring import Documentation

_UNPACKED = (typing_extensions.Unpack, getattr(typing, "Unpack", typing_extensions.Unpack))

empty: Any = inspect.Parameter.empty
"""Stands where nothing is written: no annotation, no default."""


Documented = Callable[[], "Documentation"]
"""Takes a docstring apart when somebody asks: to register a function takes no such thing."""


def _documented(text: str | None) -> Documentation:
    from . import docstring

    return docstring.read(text)


class Parameter:
    """One argument of a function.

    Args:
        name: Its name on the wire: its alias, if it has one.
        annotation: The type with its `Annotated` metadata; `empty` when nothing is written.
        default: The value of an omitted argument; `empty` when it is required or has a factory.
        default_factory: Makes the value of an omitted argument.
        is_supplied: Whether an omitted argument must be passed to the function, because Python does not
            know its default (`Field(default=...)`).
        may_be_omitted: Whether it is optional without a default, like a `NotRequired` key.
        text: What its annotation says of it.
        metadata: The `Annotated` metadata of the argument as a whole.
        documentation: The docstring of its function, which says something where the annotation does not.
        python_name: The name of the function's parameter; the same as `name` unless it has an alias.
        factory_takes_data: Whether `default_factory` takes the arguments before it as a dict.
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
        default_factory: Callable[..., Any] | None = None,
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
        """Give what `Annotated[T, "text"]`, `Field(description=...)` or the docstring says of it, in this order."""
        if self.text is not None or self.documentation is None:
            return self.text
        texts = self.documentation().arguments
        return texts.get(self.python_name, texts.get(self.name))

    @property
    def context_hint(self) -> str:
        """What to write where it looks as if it were meant to be the Context; empty for others."""
        if self.annotation is not empty or self.name not in ("ctx", "context"):
            return ""
        return f"if the Context is meant, write `{self.name}: Context`"

    @property
    def is_required(self) -> bool:
        """Tell whether the caller must give the argument."""
        return self.default is empty and self.default_factory is None and not self.may_be_omitted


def parameter(
    name: str,
    annotation: Any,
    default: Any = empty,
    documentation: Documented | None = None,
    *,
    may_be_omitted: bool = False,
) -> Parameter:
    """Return a parameter, with what its annotation's metadata says of it.

    Raises:
        RegistrationError: Its alias is not a single name.
    """
    is_supplied = _is_field(default)
    if is_supplied:
        annotation = Annotated[Any if annotation is empty else annotation, default]
        default = empty
    metadata: tuple[Any, ...] = annotation.__metadata__ if get_origin(annotation) is Annotated else ()
    factory: Callable[..., Any] | None = None
    takes_data = False
    text: str | None = None
    alias: Any = None
    for item in metadata:
        if isinstance(item, str):
            text = item
        elif type(item).__name__ == "Doc" and isinstance(getattr(item, "documentation", None), str):
            text = item.documentation  # PEP 727
        elif _is_field(item):
            text = item.description or text
            alias = item.validation_alias or item.alias or alias
            if default is empty and item.default_factory is not None:
                factory, is_supplied = item.default_factory, True
                takes_data = bool(item.default_factory_takes_validated_data)
            elif default is empty and not item.is_required():
                default, is_supplied = item.default, True
    published = name
    if alias is not None or takes_data:
        from .aliases import as_type, published_name

        published = name if alias is None else published_name(name, alias)
        annotation = as_type(annotation)
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


def _is_field(value: object) -> bool:
    # By name: a server whose author does not import pydantic shall not import it either.
    return any(
        cls.__name__ == "FieldInfo" and cls.__module__ == "pydantic.fields" for cls in type(value).__mro__
    )


class Head:
    """What is written in the head of a callable.

    Args:
        name: The function's name, or that of the class of a callable object.
        function: The plain function that holds its type hints, or a class.
        parameters: Its parameters as they are written.
        hints: The type hints by name, resolved.
        bound: The parameters that a partial binds by keyword.
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
        raise RegistrationError(f"{name}: it has no signature to read; wrap it in a function") from error
    written = tuple(signature.parameters.values())
    return Head(name, function, written, _hints(function, name), _bound_keywords(fn))


class Signature:
    """What a function takes and returns.

    Args:
        name: Its name.
        documentation: Its docstring, read on first use.
        parameters: The arguments of a caller, in the order they are written.
        injected: The parameters that the framework passes.
        extra: The type of `**kwargs`; `empty` when there are none.
        returns: The return annotation; `empty` when there is none.
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
    def of(cls, fn: Callable[..., Any], *, is_injected: Callable[[Any, Any], bool]) -> Signature:
        """Read the signature of a function, method, callable object or `functools.partial`.

        Arguments that a partial binds, by position or by keyword, are no arguments of the caller.

        Args:
            fn: The callable.
            is_injected: Tells from a parameter's annotation and default whether the framework passes it.

        Returns:
            Its signature, with type hints resolved.

        Raises:
            RegistrationError: A parameter that a client cannot name, or no signature at all.
            UnresolvedHint: A type hint cannot be resolved now.
        """
        read = head(fn)
        name, hints = read.name, read.hints
        documentation = functools.cache(functools.partial(_documented, _docstring(fn, read.function)))
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
        _refuse_shared_names(name, parameters, extra)
        return cls(
            name=name,
            documentation=documentation,
            parameters=tuple(parameters),
            injected=tuple(injected),
            extra=extra,
            returns=hints.get("return", empty),
            is_async=inspect.iscoroutinefunction(read.function),
        )


def of_keys(cls: Any, documentation: Documented | None = None) -> list[Parameter]:
    """Return the keys of a TypedDict as parameters."""
    return [
        parameter(key, hint, documentation=documentation, may_be_omitted=not is_required)
        for key, (hint, is_required) in typed_dict.fields(cls).items()
    ]


def _unpacked(
    name: str, cls: Any, written: tuple[inspect.Parameter, ...], documentation: Documented
) -> list[Parameter]:
    """Return the parameters that `**kwargs: Unpack[cls]` stands for (PEP 692)."""
    keys = of_keys(cls, documentation)
    if twice := {each.name for each in keys} & {each.name for each in written}:
        raise RegistrationError(f"{name}: {min(twice)!r} is a parameter, and a key of {cls.__name__} too")
    return keys


def _refuse_shared_names(name: str, parameters: list[Parameter], extra: Any) -> None:
    """Refuse two arguments of one name on the wire, and an alias beside `**kwargs`, which would take the other name."""
    seen: dict[str, Parameter] = {}
    for each in parameters:
        other = seen.setdefault(each.name, each)
        if other is not each:
            raise RegistrationError(
                f"{name}: the arguments {other.python_name!r} and {each.python_name!r} are both sent as "
                f"{each.name!r}. Give one of them another alias"
            )
        if extra is not empty and each.name != each.python_name:
            raise RegistrationError(
                f"{name}: argument {each.python_name!r} is sent as {each.name!r}, and **kwargs would take "
                f"{each.python_name!r} a second time. Remove the alias or **kwargs"
            )


def _refuse_unnamed(
    name: str, function: Any, written: inspect.Parameter, all_written: tuple[inspect.Parameter, ...]
) -> None:
    last = all_written[-1]
    if written.kind is inspect.Parameter.VAR_POSITIONAL and last.kind is inspect.Parameter.VAR_KEYWORD:
        raise RegistrationError(
            f"{name}: *{written.name} and **{last.name} say nothing of its arguments; if it wraps another function, "
            "write @functools.wraps(function) over it, else name each argument"
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
            f"{name}: it is a method without its object; mark it with the free decorator "
            "and include an instance"
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
