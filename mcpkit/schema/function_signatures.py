"""Signatures of functions and keys of TypedDicts: parameters with names, types, defaults and descriptions."""

from __future__ import annotations

import copy
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

import typing_extensions
from typing_extensions import NotRequired, Required

from .._utils.exceptions import RegistrationError, UnresolvedHint, exception_text
from ..content.json_encoding import check_sendable

if TYPE_CHECKING:
    from .docstrings import Documentation

# Subscribed with what is only known at run time, which no type checker follows.
_ANNOTATED: Any = Annotated

# Marks a missing annotation or default.
empty: Any = inspect.Parameter.empty

# Parses a docstring on first use: registering a function does not need its texts.
Documented = Callable[[], "Documentation"]


# --- Classes with fields

_QUALIFIERS: tuple[Any, ...] = (Required, NotRequired, typing_extensions.ReadOnly)
# Attributes of classes with fields: TypedDicts, dataclasses, NamedTuples, those of attrs and of msgspec.
_MARKS = ("__total__", "__dataclass_fields__", "_fields", "__attrs_attrs__", "__struct_encode_fields__")


def is_bare(annotation: object) -> bool:
    """Return whether an annotation is an alias of `typing` without brackets: `List`, which stands for `list`."""
    return get_origin(annotation) is not None and not hasattr(annotation, "__args__")


def hints_of(cls: Any) -> dict[str, Any]:
    """Return the types of a class's fields, with their metadata.

    Raises:
        NameError: One of them needs a name that is not defined.
    """
    return typing_extensions.get_type_hints(cls, include_extras=True)


def fields_of(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a TypedDict: the type of each, and whether it is required."""

    def unqualified(hint: Any, is_required: bool) -> tuple[Any, bool]:
        origin = get_origin(hint)
        if origin is Annotated:
            inner, is_required = unqualified(hint.__origin__, is_required)
            parts = (inner, *hint.__metadata__)
            return _ANNOTATED[parts], is_required
        if origin in _QUALIFIERS:
            is_required = is_required if origin is _QUALIFIERS[2] else origin is Required
            return unqualified(get_args(hint)[0], is_required)
        return hint, is_required

    # The qualifiers are unknown to the class of Python 3.10, and hidden from all by PEP 563.
    return {name: unqualified(hint, name in cls.__required_keys__) for name, hint in hints_of(cls).items()}


def classes_of(annotation: Any) -> Iterator[Any]:
    """Yield every class in a type: in its arguments, and in the fields of its classes.

    Raises:
        NameError: The type of a field needs a name that is not defined.
    """
    waiting: list[Any] = [annotation]
    seen: set[Any] = set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, type) or get_origin(part) is not None:
            waiting += get_args(part)
        elif part not in seen:
            seen.add(part)
            yield part
            if any(hasattr(part, name) for name in _MARKS):
                waiting += hints_of(part).values()


# --- Parameters


def last_text(metadata: Iterable[object]) -> str | None:
    """Return the last text among metadata of `Annotated`: a string, or `Doc("...")` of PEP 727."""
    text: str | None = None
    for item in metadata:
        written = getattr(item, "documentation", None) if type(item).__name__ == "Doc" else item
        text = written if isinstance(written, str) else text
    return text


class Parameter(NamedTuple):
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
        alias_of: Name of the function's parameter, if it differs from `name`.
        factory_takes_data: Whether `default_factory` receives the arguments before it as a dict.
    """

    name: str
    annotation: Any = empty
    default: Any = empty
    default_factory: Callable[..., object] | None = None
    is_supplied: bool = False
    may_be_omitted: bool = False
    text: str | None = None
    metadata: tuple[Any, ...] = ()
    documentation: Documented | None = None
    alias_of: str | None = None
    factory_takes_data: bool = False

    @property
    def python_name(self) -> str:
        """Name of the function's parameter."""
        return self.name if self.alias_of is None else self.alias_of

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


# Options of `Field` that a parameter has and a type has not.
_FIELD_ONLY = frozenset({
    "alias", "alias_priority", "validation_alias", "serialization_alias", "default", "default_factory", "repr"
})  # fmt: skip


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

    def is_field(value: object) -> bool:
        # By name: a server whose author does not import pydantic shall not import it either.
        return any(
            cls.__name__ == "FieldInfo" and cls.__module__ == "pydantic.fields" for cls in type(value).__mro__
        )

    is_supplied = is_field(default)
    if is_supplied:
        annotation = Annotated[Any if annotation is empty else annotation, default]
        default = empty
    metadata: tuple[Any, ...] = annotation.__metadata__ if get_origin(annotation) is Annotated else ()
    factory: Callable[..., object] | None = None
    takes_data = False
    text: str | None = None
    alias: object = None
    for item in metadata:
        if (described := last_text([item])) is not None:
            text = described
        elif is_field(item):
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
    if alias is not None or is_supplied:
        # pydantic writes the default of a type as text, which may not be possible.
        annotation = _without_field_options(annotation)
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
        name,
        takes_data,
    )


# Levels less that a default may have than can be copied here: a call is deeper in the stack.
_CALL_DEPTH = 250


def check_copied(where: str, default: object) -> None:
    """Refuse a default without a hash, which pydantic-core copies for each call, if it cannot be copied.

    Raises:
        RegistrationError: It is nested too deeply, or contains a value that cannot be copied.
    """
    try:
        hash(default)
    except Exception:  # noqa: BLE001 - of the author's class
        for _ in range(_CALL_DEPTH):
            default = [default]
        try:
            copy.deepcopy(default)
        except Exception as error:
            raise RegistrationError(
                f"{where}: a default cannot be copied for each call: {exception_text(error) or type(error).__name__}. "
                "Use a `default_factory`, or a simpler value"
            ) from error


def _published_name(name: str, alias: object) -> str:
    """Return the name of an argument in requests: the first alias that is a single name."""
    for choice in getattr(alias, "choices", [alias]):
        path = getattr(choice, "path", [choice])
        if len(path) == 1 and isinstance(path[0], str):
            return path[0]
    raise RegistrationError(
        f"argument {name!r}: {alias!r} reads inside another argument, which a JSON Schema cannot describe. "
        "Use an alias that is a single name"
    )


def _without_field_options(annotation: Any) -> object:
    """Return an `Annotated` type without the options of fields: pydantic would warn that they have no effect."""
    parts: list[object] = [annotation.__origin__]
    for item in annotation.__metadata__:
        if not hasattr(item, "validation_alias"):
            parts.append(item)
            continue
        from pydantic import Field

        attributes = item.asdict()["attributes"].items()
        own = {key: value for key, value in attributes if value is not None and key not in _FIELD_ONLY}
        parts += [*item.metadata, Field(**own)]
    return Annotated[tuple(parts)]


def key_parameters(cls: Any, documentation: Documented | None = None) -> list[Parameter]:
    """Return the keys of a TypedDict as parameters."""
    return [
        parameter(key, hint, documentation=documentation, may_be_omitted=not is_required)
        for key, (hint, is_required) in fields_of(cls).items()
    ]


# --- Signatures


class Head(NamedTuple):
    """Name, parameters and type hints of a callable.

    Args:
        name: Name of the function, or of the class of a callable object.
        function: Plain function with the type hints, or a class.
        parameters: Parameters as they are written.
        hints: Resolved type hints by name.
        bound: Parameters that a partial binds by keyword.
    """

    name: str
    function: Any
    parameters: tuple[inspect.Parameter, ...]
    hints: dict[str, Any]
    bound: frozenset[str]


def head(fn: Callable[..., Any]) -> Head:
    """Return name, parameters and hints of a function, class, method, callable object or `functools.partial`.

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
    bound: set[str] = set()
    partial = fn
    while isinstance(partial, functools.partial):
        bound.update(partial.keywords)
        partial = partial.func
    parameters = tuple(signature.parameters.values())
    return Head(name, function, parameters, _hints(function, name), frozenset(bound))


class Signature(NamedTuple):
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

    name: str
    documentation: Documented
    parameters: tuple[Parameter, ...]
    injected: tuple[Parameter, ...]
    extra: Any
    returns: Any
    is_async: bool

    @property
    def description(self) -> str | None:
        """The docstring without the sections about arguments."""
        return self.documentation().description

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        is_injected: Callable[[Any, Any], bool],
        describes_arguments: bool = True,
    ) -> Signature:
        """Return the signature of a function, method, callable object or `functools.partial`.

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
        name, function, all_written, hints, bound = head(fn)
        code = getattr(function, "__code__", None)
        # Clients do not see parameters that a partial or the framework fills.
        names = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        documented: dict[str, str | None] = dict.fromkeys(names)
        docstring: str | None = function.__doc__
        if docstring is None and not inspect.isroutine(unbound := _unbound(fn)):
            docstring = type(unbound).__doc__
        check_sendable(name, "docstring", docstring)
        documentation = functools.cache(functools.partial(_parse, docstring, documented))
        parameters: list[Parameter] = []
        injected: list[Parameter] = []
        extra: Any = empty
        for written in all_written:
            annotation = hints.get(written.name, empty)
            # PEP 692
            if written.kind is inspect.Parameter.VAR_KEYWORD and get_origin(annotation) in _UNPACKED:
                keys = key_parameters(packed := get_args(annotation)[0], documentation)
                if twice := {each.name for each in keys} & {each.name for each in all_written}:
                    raise RegistrationError(
                        f"{name}: {min(twice)!r} is a parameter and also a key of {packed.__name__}. Rename one"
                    )
                parameters += keys
            elif written.kind is inspect.Parameter.VAR_KEYWORD:
                extra = Any if annotation is empty else annotation
            elif written.name not in bound:
                _refuse_unnamed(name, function, written, all_written[-1])
                where = f"{name}: {written.name}"
                try:
                    if is_injected(annotation, written.default):
                        injected.append(Parameter(written.name, annotation, written.default))
                        continue
                    where = name
                    parameters.append(parameter(written.name, annotation, written.default, documentation))
                except RegistrationError as error:
                    raise RegistrationError(f"{where}: {error}") from None
        for each in parameters:
            documented.pop(each.python_name, None)
        if describes_arguments:
            documented |= {each.name: each.python_name for each in parameters}
            documented |= {each.python_name: each.python_name for each in parameters}
        if any(each.name != each.python_name for each in parameters):
            _refuse_shared_names(name, parameters, has_keyword_arguments=extra is not empty)
        returns, is_async = hints.get("return", empty), inspect.iscoroutinefunction(function)
        return cls(name, documentation, tuple(parameters), tuple(injected), extra, returns, is_async)


def _parse(docstring: str | None, names: Mapping[str, str | None]) -> Documentation:
    from . import docstrings

    return docstrings.read(docstring, names)


_UNPACKED = (typing_extensions.Unpack, getattr(typing, "Unpack", typing_extensions.Unpack))


def _refuse_unnamed(name: str, function: Any, written: inspect.Parameter, last: inspect.Parameter) -> None:
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
            f"{name}: it is a method without its instance; use the decorator from mcpkit and include(...) an instance"
        )


def _refuse_shared_names(owner: str, parameters: list[Parameter], *, has_keyword_arguments: bool) -> None:
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


def _unbound(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def innermost(fn: Any, *, through_decorators: bool = False) -> Any:
    """Return the plain function, or the class, inside a partial, a method or a callable object.

    Args:
        fn: Any callable.
        through_decorators: Whether to return the function inside decorators, which has hints and docstring.
    """
    unwrap = inspect.unwrap if through_decorators else _unbound
    fn = unwrap(_unbound(fn))
    fn = unwrap(getattr(fn, "__func__", fn))
    if not (inspect.isroutine(fn) or inspect.isclass(fn)):
        fn = unwrap(type(fn).__call__)
    return getattr(fn, "__func__", fn)


def _hints(function: Any, name: str) -> dict[str, Any]:
    # inspect.get_annotations evaluates annotations that PEP 649 defers, and raises NameError as PEP 563's strings do
    # below; CPython 3.14 itself is untested.
    function = function.__init__ if inspect.isclass(function) else function
    closure: dict[str, Any] = {}
    names: tuple[str, ...] = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for variable, cell in zip(names, getattr(function, "__closure__", None) or (), strict=True):
        try:
            closure[variable] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    try:
        annotations = inspect.get_annotations(function)
        return resolve(annotations, getattr(function, "__globals__", {}), closure)
    except NameError as error:
        raise UnresolvedHint(
            f"{name}: the type hint {error.name!r} is not defined; define it in the function's module, "
            "not inside another function, and import it outside `if TYPE_CHECKING`"
        ) from error
    except (TypeError, SyntaxError, AttributeError) as error:
        raise RegistrationError(f"{name}: its type hints cannot be read: {error}") from error


def resolve(
    annotations: Mapping[str, Any], namespace: dict[str, Any], closure: dict[str, Any]
) -> dict[str, Any]:
    """Return annotations with every string and forward reference in them evaluated."""
    if all(type(annotation) is type for annotation in annotations.values()):
        return dict(annotations)
    # Not the function itself: 3.10 would read its defaults too, and write Optional around some hints.
    holder = types.SimpleNamespace(__annotations__=dict(annotations))
    return typing.get_type_hints(holder, namespace, closure, include_extras=True)
