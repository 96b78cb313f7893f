"""Unions that lead back to themselves, made to try each of their choices once for each value.

pydantic-core tries all choices of a union at each level: a value of depth d takes choices**d steps where several
choices lead to the union again, and no time limit reaches into them. Here the choices at one value are tried once,
whichever way leads there, so that the time grows with the value. Which choice wins is decided as pydantic does:
the one that knows most of an object's members, else the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

from pydantic_core import CoreSchema, PydanticCustomError, ValidationError, core_schema

from .._utils.core_schema import choices_of, copied, instead_of, nodes
from ..protocol.jsonrpc import is_array, is_object, without
from .values import refusal

Node = dict[str, Any]

_Choice = tuple[int, frozenset[Any]]
"""The place of a choice, and the members of an object that it knows."""

_FIELDS = frozenset({"model-fields", "dataclass-args", "typed-dict"})
_OBJECTS = _FIELDS | {"dict"}
_ARRAYS = frozenset({"list", "tuple", "set", "frozenset"})
_SCALARS = frozenset({"int", "float", "str", "bool", "none", "date", "time", "datetime", "timedelta"})
_CHANGING = frozenset({"function-before", "function-wrap", "function-plain"})
"""Core schemas that may make a value of another kind."""
_CODE = ("function", "post_init", "custom_init", "missing", "custom_error_type")
"""Where a core schema has code or errors of the author's."""

_NO_MEMBERS: frozenset[Any] = frozenset()

_MOST_TRIES = 10_000
"""Choices that are tried at one value of any size."""

_TRIES_OF_ONE = 4
"""Times that all choices may be tried for each array and object of the value, whichever is more.

Each is tried once, unless a validator of the author's makes other values of the input.
"""


_NO_VALUES = ("metadata", "serialization")
"""Where a core schema has no schemas of what is validated."""


class _Run:
    """One validation of a value that starts at such a union.

    Args:
        value: The value.
        choices: How many choices all such unions have.
    """

    def __init__(self, value: Any, choices: int) -> None:
        self._value = value
        self._choices = choices
        self.left = _MOST_TRIES
        """How many more tries there may be, as far as is known."""
        self.is_over = False
        """Whether there have been too many tries, so that nothing is known of the value."""
        self.tried: int | str = 0
        """The choice that a union is about to try."""
        self.outcomes: dict[tuple[int, int], tuple[bool, Any, Any]] = {}
        """By union and value: whether a choice fits, what it makes of the value, or why none does, and the value.

        A value that a validator of the author's has made is kept, as another one could have its place in memory.
        """

    def may_go_on(self) -> bool:
        """Return whether one more try is allowed, after the limit seemed to be reached."""
        if self._choices:
            self.left += max(0, _TRIES_OF_ONE * self._choices * _holders(self._value) - _MOST_TRIES)
            self._choices = 0  # they are counted once
        self.is_over = self.is_over or self.left < 0
        return not self.is_over


def _holders(value: Any) -> int:
    """Return how many arrays and objects are in a JSON value, itself among them."""
    waiting: list[Any] = [value]
    for each in waiting:
        held: Iterable[Any] = each.values() if is_object(each) else each if is_array(each) else ()
        waiting.extend(inner for inner in held if is_object(inner) or is_array(inner))
    return len(waiting)


_run: ContextVar[_Run | None] = ContextVar("_run", default=None)


def bounded(core: CoreSchema) -> CoreSchema:
    """Return a core schema with unions that take time proportional to the value; unchanged if all do."""
    if core["type"] != "definitions":
        return core
    definitions = {cast("Node", each)["ref"]: cast("Node", each) for each in core["definitions"]}
    unions = [
        node
        for root in definitions.values()
        for node in nodes(root, _NO_VALUES)
        if _branches_out(node, definitions)
    ]
    if not unions:
        return core
    among = sum(len(choices_of(union)) for union in unions)
    written = nodes(core, (*_NO_VALUES, "function"))
    has_checks = any(not _calls_int(node) and any(map(node.get, _CODE)) for node in written)
    alike: dict[Any, _Select] = {}
    replaced: dict[int, Callable[[Any], CoreSchema]] = {}
    for union in unions:
        choices = [
            (_kind(choice, definitions), _members(choice, definitions)) for choice in choices_of(union)
        ]
        select = alike.setdefault(_content(union), _Select(choices, among, has_checks=has_checks))
        replaced[id(union)] = partial(_tried_once, select)
    return cast("CoreSchema", _with(core, replaced))


def _calls_int(node: Node) -> bool:
    """Return whether a schema calls `int`, as those of integers do."""
    return node["type"] == "function-plain" and node["function"]["function"] is int


def _content(core: Any) -> Any:
    """Return what two schemas of one meaning have in common: each value is tried once by both."""
    if is_object(core):
        ignored = (*_NO_VALUES, "ref") if isinstance(core.get("type"), str) else ()
        return frozenset((key, _content(inner)) for key, inner in core.items() if key not in ignored)
    if is_array(core) or isinstance(core, tuple):
        several = cast("Iterable[Any]", core)
        return tuple(map(_content, several))
    return (type(core), core) if isinstance(core, (str, int, float)) else id(core)


def _branches_out(node: Node, definitions: Mapping[str, Node]) -> bool:
    """Return whether two choices of a union, for the same kind of value, contain the union again."""
    if node["type"] != "union":
        return False
    again = [choice for choice in choices_of(node) if _reaches(choice, node, definitions)]
    kinds = [_kind(choice, definitions) for choice in again]
    return len(kinds) > 1 and (None in kinds or len(set(kinds)) < len(kinds))


def _reaches(start: Node, union: Node, definitions: Mapping[str, Node]) -> bool:
    seen: set[str] = set()
    waiting = [start]
    for each in waiting:
        for node in nodes(each, _NO_VALUES):
            if node is union:
                return True
            if node["type"] == "definition-ref" and (name := node["schema_ref"]) not in seen:
                seen.add(name)
                waiting.append(definitions[name])
    return False


def _followed(node: Node, definitions: Mapping[str, Node]) -> Iterator[Node]:
    """Yield a schema and those that it hands its value on to, as far as there is one way."""
    seen: set[int] = set()
    following: Any = node
    while is_object(following) and id(following) not in seen:
        seen.add(id(following))
        yield following
        if following["type"] == "definition-ref":
            following = definitions[following["schema_ref"]]
        elif following["type"] == "chain":
            following = following["steps"][0]
        else:
            following = following.get("schema")


def _kind(node: Node, definitions: Mapping[str, Node]) -> str | None:
    """Return the kind of JSON value that a choice takes, None where that is not known."""
    for each in _followed(node, definitions):
        kind = each["type"]
        if kind in _CHANGING or "on_error" in each:
            return None
        if kind in _OBJECTS:
            return "object"
        if kind in _ARRAYS:
            return "array"
        if _is_scalar(each):
            return "scalar"
    return None


def _is_scalar(node: Node) -> bool:
    """Return whether a choice accepts neither arrays nor objects, as far as known without its references."""
    if node["type"] == "union":
        return all(map(_is_scalar, choices_of(node)))
    if node["type"] == "chain":
        return _is_scalar(node["steps"][0])
    return node["type"] in _SCALARS or (node["type"] == "is-instance" and node["cls"] is float)


def _members(node: Node, definitions: Mapping[str, Node]) -> frozenset[Any]:
    """Return the names of the members of an object that a choice knows."""
    for each in _followed(node, definitions):
        if each["type"] in _FIELDS:
            fields: Any = each["fields"]
            named = fields.items() if is_object(fields) else [(field["name"], field) for field in fields]
            return frozenset(
                alias if isinstance(alias := field.get("validation_alias"), str) else name
                for name, field in named
            )
    return _NO_MEMBERS


def _tried_once(select: _Select, union: Any) -> CoreSchema:
    choices: Any = dict(enumerate(choices_of(union)))
    # What holds nothing cannot lead back, and is left to pydantic's own rule.
    choices["all"] = without(union, "ref")
    tagged = core_schema.tagged_union_schema(choices, discriminator=_tried)
    built: Any = core_schema.no_info_wrap_validator_function(select, tagged)
    return cast("CoreSchema", instead_of(union, built))


def _tried(value: Any) -> int | str:
    run = _run.get()
    assert run is not None, "a union is entered by its selection alone"
    return run.tried


class _Select:
    """Tries the choices of a union for a value, once.

    Args:
        choices: For each choice, the kind of value that it accepts, and its known members of an object.
        among: Number of choices of all such unions.
        has_checks: Whether checks of the author may refuse a value; their error is then reported.
    """

    def __init__(
        self, choices: list[tuple[str | None, frozenset[Any]]], among: int, *, has_checks: bool
    ) -> None:
        self._choices = {
            kind: [
                (index, members if kind == "object" else _NO_MEMBERS)
                for index, (of, members) in enumerate(choices)
                if of in (kind, None)
            ]
            for kind in ("array", "object")
        }
        self._among = among
        self._has_checks = has_checks

    def __call__(self, value: Any, handler: Callable[[Any], Any]) -> Any:
        run = _run.get()
        if run is None:
            return self._started(value, handler)
        if is_object(value):
            choices = self._choices["object"]
        elif is_array(value):
            choices = self._choices["array"]
        else:
            run.tried = "all"
            return handler(value)
        key = (id(self), id(value))
        found = run.outcomes.get(key)
        if found is None:
            found = run.outcomes[key] = (*self._chosen(value, choices, handler, run), value)
        fits, outcome, _ = found
        if fits:
            return outcome
        raise outcome or refusal("no choice")

    def _started(self, value: Any, handler: Callable[[Any], Any]) -> Any:
        token = _run.set(run := _Run(value, self._among))
        try:
            outcome = self(value, handler)
        except ValidationError:
            if run.is_over:
                raise _too_many_tries() from None
            raise
        finally:
            _run.reset(token)
        if run.is_over:
            raise _too_many_tries()
        return outcome

    def _chosen(
        self, value: Any, choices: list[_Choice], handler: Callable[[Any], Any], run: _Run
    ) -> tuple[bool, Any]:
        most = -1
        outcome: Any = None
        for index, members in choices:
            known = len(members.intersection(value)) if members else 0
            if known <= most:
                continue
            run.left -= 1
            if run.left < 0 and not run.may_go_on():
                return False, _too_many_tries()
            run.tried = index
            try:
                outcome, most = handler(value), known
            except ValidationError as error:
                if most < 0 and self._has_checks and _is_of_author(error):
                    outcome = error
        return most >= 0, outcome


def _too_many_tries() -> PydanticCustomError:
    return refusal("Input should be a value that can be read in fewer tries")


def _is_of_author(error: ValidationError) -> bool:
    """Return whether an error is only of the author's checks, which the schema does not have."""
    if error.error_count() > 1:
        return False
    return error.errors(include_url=False, include_input=False, include_context=False)[0]["type"] in (
        "value_error",
        "assertion_error",
    )


def _with(value: Any, replaced: Mapping[int, Callable[[Any], CoreSchema]]) -> Any:
    """Return a copy of a schema with other unions."""
    copy = copied(value, lambda inner: _with(inner, replaced), _NO_VALUES)
    build = replaced.get(id(value))
    return copy if build is None else build(copy)
