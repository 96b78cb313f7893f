"""Recursive unions in core schemas, which take time in proportion to the value.

pydantic-core tries all choices of a union at each level: a value of depth d takes choices**d steps if several choices
lead to the union again, and no time limit reaches into them. Here each choice is tried once at each value. The choice
is selected as pydantic does: the one that knows most of an object's members, else the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, cast

from pydantic_core import CoreSchema, PydanticCustomError, ValidationError, core_schema

from .._utils.core_schema import Node, choices_of, copied, instead_of, nodes
from ..protocol.jsonrpc import is_array, is_object, without
from .formats import refusal

_FIELDS = frozenset({"model-fields", "dataclass-args", "typed-dict"})
_KIND_OF = {
    **dict.fromkeys((*_FIELDS, "dict"), "object"),
    **dict.fromkeys(("list", "tuple", "set", "frozenset"), "array"),
}
_SCALARS = frozenset({"int", "float", "str", "bool", "none", "date", "time", "datetime", "timedelta"})
_CHANGING = frozenset({"function-before", "function-wrap", "function-plain"})
"""Core schemas that may make a value of another kind."""
_CODE = ("function", "post_init", "custom_init", "missing", "custom_error_type")
"""Keys of core schemas with code or errors of the author's."""
_NO_VALUES = ("metadata", "serialization")
"""Keys of core schemas without schemas of validated values."""

_MAX_TRIES = 10_000
"""Choices that are tried at one value of any size."""
_TRIES_OF_PART = 4
"""Times that all choices may be tried for each array and object of the value, if that is more than `_MAX_TRIES`.

Each is tried once, unless a validator of the author's makes other values of the input.
"""


class _Run:
    """One validation of a value that starts at a recursive union."""

    def __init__(self, value: Any, choices: int) -> None:
        self._value = value
        self._choices = choices
        self._left = _MAX_TRIES
        self.is_over = False
        """Whether there were too many tries, so that nothing is known of the value."""
        self.choice: int | str = 0
        """The choice that a union is about to try."""
        self.outcomes: dict[tuple[int, int], tuple[bool, Any, Any]] = {}
        """By union and value: whether a choice fits, the result or error, and the value.

        The reference to the value prevents that another one gets its place in memory.
        """

    def count(self) -> bool:
        """Count one try, and return whether it is allowed."""
        self._left -= 1
        if self._left < 0 and self._choices:
            waiting: list[Any] = [self._value]
            for each in waiting:
                inner: Iterable[Any] = each.values() if is_object(each) else each
                waiting.extend(part for part in inner if is_object(part) or is_array(part))
            self._left += max(0, _TRIES_OF_PART * self._choices * len(waiting) - _MAX_TRIES)
            self._choices = 0  # the parts are counted once
        self.is_over = self.is_over or self._left < 0
        return not self.is_over


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
        if node["type"] == "union" and _branches_out(node, definitions)
    ]
    if not unions:
        return core
    among = sum(len(choices_of(union)) for union in unions)
    has_checks = any(
        any(map(node.get, _CODE))
        for node in nodes(core, (*_NO_VALUES, "function"))
        if not (node["type"] == "function-plain" and node["function"]["function"] is int)  # of integers
    )
    selections = {
        id(union): _Selection(
            [(_kind(choice, definitions), _members(choice, definitions)) for choice in choices_of(union)],
            among,
            has_checks=has_checks,
        )
        for union in unions
    }

    def replace(value: Any) -> Any:
        copy = copied(value, replace, _NO_VALUES)
        selection = selections.get(id(value))
        if selection is None:
            return copy
        choices: Any = dict(enumerate(choices_of(copy)))
        choices["all"] = without(copy, "ref")  # pydantic's own rule, for scalars: they cannot lead back
        tagged = core_schema.tagged_union_schema(choices, discriminator=_choice)
        return instead_of(copy, core_schema.no_info_wrap_validator_function(selection, tagged))

    return cast("CoreSchema", replace(core))


def _branches_out(union: Node, definitions: Mapping[str, Node]) -> bool:
    """Return whether two choices of a union, for the same kind of value, contain the union again."""

    def leads_back(choice: Node) -> bool:
        seen: set[str] = set()
        waiting = [choice]
        for each in waiting:
            for node in nodes(each, _NO_VALUES):
                if node is union:
                    return True
                if node["type"] == "definition-ref" and (name := node["schema_ref"]) not in seen:
                    seen.add(name)
                    waiting.append(definitions[name])
        return False

    kinds = [_kind(choice, definitions) for choice in choices_of(union) if leads_back(choice)]
    return len(kinds) > 1 and (None in kinds or len(set(kinds)) < len(kinds))


def _followed(node: Node, definitions: Mapping[str, Node]) -> Iterator[Node]:
    """Yield a core schema and those that validate the same value after it."""
    seen: set[int] = set()
    following: Any = node
    while is_object(following) and id(following) not in seen:
        seen.add(id(following))
        yield following
        if following["type"] == "definition-ref":
            following = definitions[following["schema_ref"]]
        else:
            following = following["steps"][0] if following["type"] == "chain" else following.get("schema")


def _kind(node: Node, definitions: Mapping[str, Node]) -> str | None:
    """Return the kind of JSON value that a choice takes, None if it is not known."""
    for each in _followed(node, definitions):
        if each["type"] in _CHANGING or "on_error" in each:
            return None
        if each["type"] in _KIND_OF:
            return _KIND_OF[each["type"]]
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
    return frozenset()


def _choice(value: Any) -> int | str:
    run = _run.get()
    assert run is not None, "a union is entered by its selection alone"
    return run.choice


class _Selection:
    """Tries the choices of a union for a value, once.

    Args:
        choices: For each choice, the kind of value that it accepts, and its known members of an object.
        among: Number of choices of all recursive unions.
        has_checks: Whether checks of the author may refuse a value; their error is then reported.
    """

    def __init__(
        self, choices: list[tuple[str | None, frozenset[Any]]], among: int, *, has_checks: bool
    ) -> None:
        self._choices = {
            kind: [(index, members) for index, (own, members) in enumerate(choices) if own in (kind, None)]
            for kind in ("array", "object")
        }
        self._among = among
        self._has_checks = has_checks

    def __call__(self, value: Any, handler: Callable[[Any], Any]) -> Any:
        run = _run.get()
        if run is not None:
            return self._select(value, handler, run)
        token = _run.set(run := _Run(value, self._among))
        try:
            outcome = self._select(value, handler, run)
        except ValidationError:
            if run.is_over:
                raise _tries_error() from None
            raise
        finally:
            _run.reset(token)
        if run.is_over:
            raise _tries_error()
        return outcome

    def _select(self, value: Any, handler: Callable[[Any], Any], run: _Run) -> Any:
        if not (is_object(value) or is_array(value)):
            run.choice = "all"
            return handler(value)
        key = (id(self), id(value))
        if key not in run.outcomes:
            run.outcomes[key] = (*self._try(value, handler, run), value)
        fits, outcome, _ = run.outcomes[key]
        if fits:
            return outcome
        raise outcome or refusal("no choice")

    def _try(self, value: Any, handler: Callable[[Any], Any], run: _Run) -> tuple[bool, Any]:
        most = -1
        outcome: Any = None
        for index, members in self._choices["object" if is_object(value) else "array"]:
            known = len(members.intersection(value)) if members and is_object(value) else 0
            if known <= most:
                continue
            if not run.count():
                return False, _tries_error()
            run.choice = index
            try:
                outcome, most = handler(value), known
            except ValidationError as error:
                if most < 0 and self._has_checks and _is_of_author(error):
                    outcome = error
        return most >= 0, outcome


def _tries_error() -> PydanticCustomError:
    return refusal("Input should be a value that can be read in fewer tries")


def _is_of_author(error: ValidationError) -> bool:
    """Return whether an error is only of the author's checks, which the schema does not have."""
    if error.error_count() > 1:
        return False
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return details[0]["type"] in ("value_error", "assertion_error")
