"""Unions that lead back to themselves, made to try each of their choices once for each value.

pydantic-core tries all choices of a union at each level: a value of depth d takes choices**d steps where several
choices lead to the union again, and no time limit reaches into them. Here the choices at one value are tried once,
whichever way leads there, so that the time grows with the value. Which choice wins is decided as pydantic does:
the one that knows most of an object's members, else the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, cast

from pydantic_core import CoreSchema, PydanticCustomError, ValidationError, core_schema

from ..protocol.jsonrpc import is_array, is_object
from .core_nodes import copied, nodes

Node = dict[str, Any]

_OBJECTS = frozenset({"model", "model-fields", "dataclass", "dataclass-args", "typed-dict", "dict"})
_ARRAYS = frozenset({"list", "tuple", "set", "frozenset", "deque", "generator", "named-tuple"})
_FIELDS = frozenset({"model-fields", "dataclass-args", "typed-dict"})


_MOST_TRIES: Final = 10_000
"""Choices that are tried at one value of any size."""

_TRIES_OF_ONE: Final = 4
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

    __slots__ = ("_choices", "_left", "_value", "is_over", "outcomes", "tried")

    def __init__(self, value: Any, choices: int) -> None:
        self._value = value
        self._choices = choices
        self._left = _MOST_TRIES
        self.is_over = False
        """Whether there have been too many tries, so that nothing is known of the value."""
        self.tried: int | str = 0
        """The choice that a union is about to try."""
        self.outcomes: dict[tuple[int, int], tuple[bool, Any, Any]] = {}
        """By union and value: whether a choice fits, what it makes of the value, or why none does, and the value.

        A value that a validator of the author's has made is kept, as another one could have its place in memory.
        """

    def count(self) -> bool:
        """Count one more try; say whether there may be one."""
        self._left -= 1
        if self._left < 0 and self._choices:
            self._left += max(0, _TRIES_OF_ONE * self._choices * _holders(self._value) - _MOST_TRIES)
            self._choices = 0  # they are counted once
        self.is_over = self.is_over or self._left < 0
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
    """Return a core schema whose unions take time in proportion to the value; the same where all do."""
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
    among = sum(len(_choices(union)) for union in unions)
    replaced = {id(union): _tried_once(union, definitions, among) for union in unions}
    return cast("CoreSchema", _with(core, replaced))


def _choices(union: Node) -> list[Node]:
    return [choice[0] if isinstance(choice, tuple) else choice for choice in union["choices"]]


def _branches_out(node: Node, definitions: Mapping[str, Node]) -> bool:
    """Tell whether two choices of a union, for the same kind of value, lead to the union again."""
    if node["type"] != "union":
        return False
    again = [choice for choice in _choices(node) if _reaches(choice, node, definitions)]
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
        if each["type"] in _OBJECTS:
            return "object"
        if each["type"] in _ARRAYS:
            return "array"
    return None


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
    return frozenset()


def _tried_once(union: Node, definitions: Mapping[str, Node], among: int) -> Callable[[Any], CoreSchema]:
    members = [_members(choice, definitions) for choice in _choices(union)]

    def build(rewritten: Any) -> CoreSchema:
        choices: Any = dict(enumerate(_choices(rewritten)))
        # What holds nothing cannot lead back, and is left to pydantic's own rule.
        choices["all"] = {key: value for key, value in rewritten.items() if key != "ref"}
        tagged = core_schema.tagged_union_schema(choices, discriminator=_tried)
        select = _Select(members, among)
        built: Any = core_schema.no_info_wrap_validator_function(select, tagged)
        return cast("CoreSchema", {**built, "ref": rewritten["ref"]} if "ref" in rewritten else built)

    return build


def _tried(value: Any) -> int | str:
    run = _run.get()
    assert run is not None, "a union is entered by its selection alone"
    return run.tried


class _Select:
    """Tries the choices of a union at a value, once.

    Args:
        members: Of each choice, the members of an object that it knows.
        choices: How many choices all such unions have.
    """

    def __init__(self, members: list[frozenset[Any]], choices: int) -> None:
        self._members = members
        self._choices = choices

    def __call__(self, value: Any, handler: Callable[[Any], Any]) -> Any:
        run = _run.get()
        if run is not None:
            return self._outcome(value, handler, run)
        token = _run.set(run := _Run(value, self._choices))
        try:
            outcome = self._outcome(value, handler, run)
        except ValidationError:
            if run.is_over:
                raise _too_many_tries() from None
            raise
        finally:
            _run.reset(token)
        if run.is_over:
            raise _too_many_tries()
        return outcome

    def _outcome(self, value: Any, handler: Callable[[Any], Any], run: _Run) -> Any:
        if not (is_object(value) or is_array(value)):
            run.tried = "all"
            return handler(value)
        key = (id(self), id(value))
        if key not in run.outcomes:
            run.outcomes[key] = (*self._chosen(value, handler, run), value)
        fits, outcome, _ = run.outcomes[key]
        if not fits:
            raise outcome
        return outcome

    def _chosen(self, value: Any, handler: Callable[[Any], Any], run: _Run) -> tuple[bool, Any]:
        most = -1
        outcome: Any = PydanticCustomError("json_schema", "{reason}", {"reason": "no choice"})
        for index, members in enumerate(self._members):
            known = len(members.intersection(value)) if is_object(value) else 0
            if known <= most:
                continue
            if not run.count():
                return False, _too_many_tries()
            run.tried = index
            try:
                outcome, most = handler(value), known
            except ValidationError as error:
                if most < 0 and _is_of_author(error):
                    outcome = error
        return most >= 0, outcome


def _too_many_tries() -> PydanticCustomError:
    return PydanticCustomError("json_schema", "Input should be a value that can be read in fewer tries")


def _is_of_author(error: ValidationError) -> bool:
    """Tell whether an error is of the author's own checks alone, which the schema says nothing of."""
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
