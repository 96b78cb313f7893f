"""Core schemas of pydantic that accept exactly the values of JSON Schemas.

pydantic's own modes do not follow JSON Schema: the lax one takes "5" for a number, the strict one refuses 5.0 for an
integer, and both take a numeric string for a date and drop duplicates of a set without an error. Only the parts of a
core schema that hold such a type are replaced, by those of value_validators.py.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from ipaddress import IPv6Address
from typing import Any, Literal, cast

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from ..content.blocks import shown
from ..content.json_encoding import Node, Rewrite, instead_of, is_named_tuple, member_name, rewritten
from ..protocol.jsonrpc import Json, is_array, is_object, without
from . import json_schema, patterns_and_formats, value_validators
from .json_schema import Described

# --- Traversal


def nodes(core: object, skipped: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield a core schema and those that are written within it.

    Args:
        core: The schema, or several.
        skipped: Keys of schemas below which nothing is looked for.
    """
    if is_object(core):
        is_node = isinstance(core.get("type"), str)  # else these are fields by name, or a default value
        if is_node:
            yield core
        for key, inner in core.items():
            if not (is_node and key in skipped):
                yield from nodes(inner, skipped)
    elif isinstance(core, (list, tuple)):
        for inner in cast("Iterable[object]", core):
            yield from nodes(inner, skipped)


def copied(core: Any, change: Callable[[Any], Any], unchanged: Collection[str] = ()) -> Any:
    """Return a copy of a core schema with changed inner values.

    Args:
        core: The schema, or several.
        change: Returns the replacement of an inner value.
        unchanged: Keys of schemas with unchanged values.
    """
    if is_object(core):
        unchanged = unchanged if isinstance(core.get("type"), str) else ()
        return {key: inner if key in unchanged else change(inner) for key, inner in core.items()}
    # A default value may be of a class derived from these.
    return type(core)(map(change, core)) if type(core) in (list, tuple) else core


def choices_of(union: Node) -> list[Node]:
    """Return the choices of a union, without their labels."""
    return [choice[0] if isinstance(choice, tuple) else choice for choice in union["choices"]]


# --- Core schemas of types

_OWN = frozenset({"type", "strict", "ref", "metadata", "serialization"})


def validating(core: CoreSchema, of_node: Callable[[Node], Described | None]) -> CoreSchema:
    """Return the core schema that accepts what the type's JSON Schema accepts.

    Args:
        core: Core schema of pydantic.
        of_node: Describes a node for a class that pydantic does not know; None for others.
    """

    def foreign(node: Node) -> Any:
        if (found := of_node(node)) is not None:
            return found.core
        if node["type"] != "lax-or-strict":
            return node
        # Of a defaultdict, and before pydantic 2.14 of an OrderedDict, the strict schema expects an instance, and
        # validates its items again.
        lax, strict = node["lax_schema"], node["strict_schema"]
        is_twice = lax["type"] in ("function-wrap", "function-after") and strict["type"] == "chain"
        return lax if is_twice else strict

    rewrites = _REWRITES | dict.fromkeys(("is-instance", "fraction", "lax-or-strict"), _replaced(foreign))
    named = {each["ref"]: each for each in cast("Node", core).get("definitions", ())}

    def definition(reference: Node) -> Any:
        # Its definition is that of a value, not that of a key.
        return rewritten(without(named[reference["schema_ref"]], "ref"), key_rewrites)

    key_rewrites = {**rewrites, **_KEY_REWRITES, "definition-ref": definition}

    def keys(node: Node) -> Any:
        names = rewritten(node["keys_schema"], key_rewrites)
        mapping = {**node["mapping"], "keys_schema": names}
        if names["type"] in ("str", "any"):
            return mapping
        return instead_of(mapping, _distinct_keys(cast("CoreSchema", mapping), names))

    return bounded(cast("CoreSchema", rewritten(core, {**rewrites, "keys": keys})))


def _constraints(node: Node) -> Node:
    return without(node, *_OWN)


def _bare(node: Node) -> Any:
    """Return a leaf without the keys of its place, which its replacement takes over."""
    return {"type": node["type"], **_constraints(node)}


def _replaced(build: Callable[[Node], Any]) -> Rewrite:
    return lambda node: instead_of(node, build(node))


def _formatted(name: str) -> Rewrite:
    return _replaced(lambda node: value_validators.temporal(name, _bare(node), node.get("tz_constraint")))


def scheme_pattern(schemes: list[str]) -> str:
    """Return the pattern of URLs with one of a few schemes."""
    return f"^(?:{'|'.join(map(re.escape, schemes))}):"


def _url(node: Node) -> CoreSchema:
    constraints = {"pattern": scheme_pattern(node["allowed_schemes"])} if node.get("allowed_schemes") else {}
    text = value_validators.string(**constraints)
    return core_schema.chain_schema([text, value_validators.formatted("uri"), _bare(node)])


def decimal_pattern(schema: Mapping[str, Any]) -> str:
    """Return the pattern of decimal numbers with at most the decimal places of a core schema."""
    places = schema.get("decimal_places")
    if places is None:
        return patterns_and_formats.DECIMAL_PATTERN
    return r"^-?[0-9]+$" if places == 0 else rf"^-?[0-9]+(\.[0-9]{{1,{places}}})?$"


def _lax_container(node: Node) -> Node:
    """Accept a JSON array or object, whatever Python types the author's class requires."""
    node.pop("strict", None)
    if "config" in node:
        node["config"] = without(node["config"], "strict", "coerce_numbers_to_str")
    return node


def _exact_container(node: Node) -> Node:
    # It stops at the first wrong item: validation_errors.py finds the others, within bounds.
    return {**node, "strict": True, "fail_fast": True}


def _tuple(node: Node) -> Node:
    node = _lax_container(node)
    return {**node, "fail_fast": True} if "variadic_item_index" in node else node


def _set(node: Node) -> Any:
    constraints = _constraints(node)
    items = constraints.pop("items_schema", None) or core_schema.any_schema()
    return value_validators.hashed(frozenset if node["type"] == "frozenset" else set, items, **constraints)


def _field(node: Node) -> Node:
    alias = node.get("validation_alias")
    if is_array(alias):
        # The published name is the first alias that is a single name.
        paths: list[list[Any]] = [path if is_array(path) else [path] for path in alias]
        node["validation_alias"] = next((path[0] for path in paths if len(path) == 1), alias)
    return node


def encoding(node: Mapping[str, Any]) -> str | None:
    """Return the encoding of a type such as pydantic's `Base64Bytes`, "base64" or "base64url"; None for others."""
    coder: Any = getattr(node["function"]["function"], "__self__", None)
    if type(coder).__name__ != "EncodedBytes":
        return None
    name: str = coder.encoder.get_json_format()
    return name if name in ("base64", "base64url") else None


def _after(node: Node) -> Any:
    coding = encoding(node)
    if coding is not None:
        return value_validators.base64_bytes(core_schema.bytes_schema(), is_url_safe=coding == "base64url")
    # The class also reads a zone, as in "fe80::1%eth0", which is no part of an address in JSON Schema.
    if node["function"]["function"] is not IPv6Address:
        return node
    return core_schema.chain_schema([value_validators.formatted("ipv6"), cast("CoreSchema", node)])


def _union(node: Node) -> Any:
    node = _lax_container(node)
    first = value_validators.first_choices(choices_of(node))
    return instead_of(node, value_validators.in_order([*first, node])) if first else node


# The format of each kind of time.
TEMPORAL = {"datetime": "date-time", "date": "date", "time": "time", "timedelta": "duration"}

_REWRITES: dict[str, Rewrite] = {
    "int": _replaced(lambda node: value_validators.integer(**_constraints(node))),
    "float": _replaced(lambda node: value_validators.number(**_constraints(node))),
    "str": _replaced(lambda node: value_validators.string(**without(_constraints(node), "regex_engine"))),
    "bool": _replaced(lambda node: core_schema.bool_schema(strict=True)),
    "bytes": _replaced(lambda node: value_validators.base64_bytes(_bare(node))),
    "decimal": _replaced(
        lambda node: core_schema.chain_schema([value_validators.string(pattern=decimal_pattern(node)), _bare(node)])
    ),
    **{kind: _formatted(name) for kind, name in TEMPORAL.items()},
    "uuid": _formatted("uuid"),
    "url": _replaced(_url),
    "enum": _replaced(lambda node: value_validators.one_of(json_schema.members(node["cls"]))),
    "literal": _replaced(
        lambda node: value_validators.one_of([(json_schema.choice_value(value), value) for value in node["expected"]])
    ),
    "set": _replaced(_set),
    "frozenset": _replaced(_set),
    "list": _exact_container,
    "dict": _exact_container,
    "tuple": _tuple,
    **dict.fromkeys(("deque", "model", "dataclass", "dataclass-args", "model-fields", "typed-dict", "tagged-union",
                     "nullable"), _lax_container),
    "union": _union,
    **dict.fromkeys(("model-field", "typed-dict-field", "dataclass-field"), _field),
    "named-tuple": _replaced(lambda node: value_validators.array(_bare(node))),
    "call": _replaced(lambda node: value_validators.array(cast("CoreSchema", node)) if is_named_tuple(node) else node),
    "function-after": _replaced(_after),
    # An iterable of arguments is there as a whole; checked lazily, its errors would come from the function.
    "generator": _replaced(lambda node: core_schema.list_schema(node.get("items_schema"), strict=True)),
    "json-or-python": _replaced(lambda node: node["json_schema"]),
}  # fmt: skip


# --- Keys of mappings
#
# The names of a JSON object are strings, whatever Python's keys are. An `int` is written `"5"`, a `bool` `"true"`.

INTEGER_KEY = "^-?[0-9]+$"
NUMBER_KEY = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"


def _converted_key(pattern: str, node: Node) -> CoreSchema:
    convert = {**without(node, "ref", "metadata", "serialization"), "strict": False}
    return core_schema.chain_schema([value_validators.string(pattern=pattern), cast("CoreSchema", convert)])


def _key_choice(choices: Iterable[tuple[Any, Any]]) -> CoreSchema:
    return value_validators.one_of([(member_name(value), result) for value, result in choices])


def _key_union(choices: list[Any]) -> CoreSchema:
    # Strings come last: any name is one.
    return value_validators.in_order(sorted(choices, key=lambda choice: choice["type"] == "str"))


# Rewrites of nodes that are keys, in place of those in `_REWRITES`.
_KEY_REWRITES: dict[str, Rewrite] = {
    "int": partial(_converted_key, INTEGER_KEY),
    "float": lambda node: _converted_key(NUMBER_KEY, {**node, "allow_inf_nan": False}),
    "bool": lambda _: _key_choice([(True, True), (False, False)]),
    "none": lambda _: _key_choice([(None, None)]),
    "enum": lambda node: _key_choice(json_schema.members(node["cls"])),
    "literal": lambda node: _key_choice(
        (each.value if isinstance(each, enum.Enum) else each, each) for each in node["expected"]
    ),
    "union": lambda node: _key_union(choices_of(node)),
    "nullable": lambda node: _key_union([_key_choice([(None, None)]), node["schema"]]),
}


def _distinct_keys(mapping: CoreSchema, keys: CoreSchema) -> CoreSchema:
    """Return the validator of a mapping that refuses two names of the same key, and many keys of one hash."""

    @cache
    def validate_keys() -> Callable[[Any], list[Any]]:
        return SchemaValidator(core_schema.list_schema(keys, fail_fast=True)).validate_python

    def check(value: Any, validate: Callable[[Any], Any]) -> Any:
        if is_object(value) and len(value) > value_validators.MAX_COLLISIONS:
            with suppress(ValidationError):  # raised again below, with its place
                value_validators.check_hashes(validate_keys()(list(value)))
        result = validate(value)
        if len(result) < len(value):
            names: dict[Any, str] = {}
            for name, key in zip(value, validate_keys()(list(value)), strict=True):
                other = names.setdefault(key, name)
                if other is not name:
                    raise ValueError(
                        f"the keys {shown(other)} and {shown(name)} are the same value; send one of them"
                    )
        return result

    return core_schema.no_info_wrap_validator_function(check, mapping)


# --- Core schemas of JSON Schemas, for the keywords that this package writes


def validator_of(schema: Json) -> SchemaValidator:
    """Return the validator of a JSON Schema with the keywords that this package writes."""
    return SchemaValidator(core_of(schema))


def core_of(schema: Json) -> CoreSchema:
    """Return the core schema of a JSON Schema with the keywords that this package writes."""
    core = _core(schema)
    if definitions := schema.get("$defs"):
        named: list[Any] = [{**_core(inner), "ref": f"#/$defs/{name}"} for name, inner in definitions.items()]
        core = bounded(core_schema.definitions_schema(core, named))
    return core


def _core(schema: Json) -> CoreSchema:
    if "$ref" in schema:
        return core_schema.definition_reference_schema(schema["$ref"])
    if "allOf" in schema:
        return core_schema.chain_schema([_core(part) for part in schema["allOf"]])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return value_validators.in_order([_core(part) for part in schema[keyword]])
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return value_validators.one_of([(choice, choice) for choice in choices])
    kind = schema.get("type")
    if is_array(kind):
        return value_validators.in_order([_core({**schema, "type": each}) for each in kind])
    keywords = value_validators.CONSTRAINTS.get(kind, {})
    return _KINDS[kind](schema, {name: schema[key] for name, key in keywords.items() if key in schema})


def _string(schema: Json, constraints: Json) -> CoreSchema:
    # A constraint of any kind makes the validator look at the characters, and find lone surrogates.
    text = value_validators.string(**{"min_length": 0, **constraints})
    if schema.get("format") in patterns_and_formats.FORMATS:
        return core_schema.chain_schema([text, value_validators.formatted(schema["format"])])
    if schema.get("contentEncoding") == "base64":
        return core_schema.chain_schema([text, value_validators.base64_bytes(core_schema.any_schema())])
    return text


def _array(schema: Json, constraints: Json) -> CoreSchema:
    core: CoreSchema
    if (prefix := schema.get("prefixItems")) is None:
        items = _core(schema.get("items", {}))
        core = core_schema.list_schema(items, strict=True, fail_fast=True, **constraints)
    else:
        # A tuple of this package has as many items as types, but for those with a default at its end.
        each = [_core(item) for item in prefix]
        lengths = range(schema.get("minItems", 0), len(each) + 1)
        tuples = [core_schema.tuple_schema(each[:length]) for length in lengths]
        core = value_validators.array(value_validators.in_order(tuples))
    return value_validators.unique(core) if schema.get("uniqueItems") else core


def _object(schema: Json, constraints: Json) -> CoreSchema:
    properties: Json = schema.get("properties", {})
    additional = schema.get("additionalProperties", True)
    extras = _core(additional) if is_object(additional) else None
    if not properties and additional is not False:
        # Constraints of any kind as in _string: keys have characters too.
        keys = _core({"type": "string", **schema.get("propertyNames", {})})
        items = extras or core_schema.any_schema()
        return cast("CoreSchema", {**value_validators.mapping(keys, items), **constraints})
    required = set(schema.get("required", ()))
    fields = {
        name: core_schema.typed_dict_field(_core(inner), required=name in required)
        for name, inner in properties.items()
    }
    behavior: Literal["forbid", "allow"] = "forbid" if additional is False else "allow"
    return core_schema.typed_dict_schema(fields, extras_schema=extras, extra_behavior=behavior)


_KINDS: dict[str | None, Callable[[Json, Json], CoreSchema]] = {
    None: lambda _, __: core_schema.any_schema(),
    "integer": lambda _, constraints: value_validators.integer(**constraints),
    "number": lambda _, constraints: value_validators.number(**constraints),
    "string": _string,
    "boolean": lambda _, __: core_schema.bool_schema(strict=True),
    "null": lambda _, __: core_schema.none_schema(),
    "array": _array,
    "object": _object,
}


# --- Recursive unions
#
# pydantic-core tries all choices of a union at each level: a value of depth d takes choices**d steps if several choices
# lead to the union again, and no time limit reaches into them. Here each choice is tried once at each value. The choice
# is selected as pydantic does: the one that knows most of an object's members, else the first.

_FIELDS = frozenset({"model-fields", "dataclass-args", "typed-dict"})
_ARRAYS = ("list", "tuple", "set", "frozenset")
_KIND_OF = dict.fromkeys((*_FIELDS, "dict"), "object") | dict.fromkeys(_ARRAYS, "array")
_SCALARS = frozenset({"int", "float", "str", "bool", "none", "date", "time", "datetime", "timedelta"})
# Core schemas that may make a value of another kind.
_CHANGING = frozenset({"function-before", "function-wrap", "function-plain"})
# Keys of core schemas without schemas of validated values.
_NO_VALUES = ("metadata", "serialization")

# Choices that are tried at one value of any size.
_MAX_TRIES = 10_000
# Times that all choices may be tried for each array and object of the value, if that is more than `_MAX_TRIES`.
#
# Each is tried once, unless a validator of the author's makes other values of the input.
_TRIES_OF_PART = 4


class _Run:
    """One validation of a value that starts at a recursive union.

    Args:
        value: The value.
        choices: Number of choices of all recursive unions.

    Attributes:
        left: How many more tries are allowed; below 0, nothing is known of the value.
        choice: The choice that a union is about to try.
        outcomes: By union and value: the result of the choice that fits, the error of the author's checks or None, and
            the value. That reference prevents that another value gets its place in memory.
    """

    def __init__(self, value: Any, choices: int) -> None:
        parts: list[Any] = [(value,)]
        for part in parts:
            inner: Iterable[Any] = part.values() if is_object(part) else part
            parts.extend(each for each in inner if is_object(each) or is_array(each))
        self.left = max(_MAX_TRIES, _TRIES_OF_PART * choices * len(parts))
        self.choice: int | str = 0
        self.outcomes: dict[tuple[int, int], tuple[bool, Any, Any]] = {}


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
    selections = {id(union): _Selection(choices_of(union), definitions, among) for union in unions}

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
            aliases = ((name, field.get("validation_alias")) for name, field in named)
            return frozenset(alias if isinstance(alias, str) else name for name, alias in aliases)
    return frozenset()


def _choice(value: Any) -> int | str:
    run = _run.get()
    assert run is not None, "a union is entered by its selection alone"
    return run.choice


class _Selection:
    """Tries the choices of a union for a value, once.

    Args:
        choices: The choices.
        definitions: The definitions of the core schema.
        among: Number of choices of all recursive unions.
    """

    def __init__(self, choices: list[Node], definitions: Mapping[str, Node], among: int) -> None:
        known = [(_kind(choice, definitions), _members(choice, definitions)) for choice in choices]
        # By kind of value: the choices that accept it, each with the members of an object that it knows.
        self._choices = {
            kind: [(index, members) for index, (own, members) in enumerate(known) if own in (kind, None)]
            for kind in ("array", "object")
        }
        self._among = among

    def __call__(self, value: Any, handler: Callable[[Any], Any]) -> Any:
        run = _run.get()
        if run is not None:
            return self._validate(value, handler, run)
        token = _run.set(run := _Run(value, self._among))
        try:
            return self._validate(value, handler, run)
        finally:
            _run.reset(token)
            if run.left < 0:
                raise value_validators.refusal("Input should be a value that can be read in fewer tries")

    def _validate(self, value: Any, handler: Callable[[Any], Any], run: _Run) -> Any:
        if not (is_object(value) or is_array(value)):
            run.choice = "all"
            return handler(value)
        key = (id(self), id(value))
        if key not in run.outcomes:
            run.outcomes[key] = (*self._try(value, handler, run), value)
        fits, outcome, _ = run.outcomes[key]
        if fits:
            return outcome
        raise outcome or value_validators.refusal("no choice")

    def _try(self, value: Any, handler: Callable[[Any], Any], run: _Run) -> tuple[bool, Any]:
        """Return whether a choice fits, and its result or else the error of the author's checks, if there is one."""
        most = -1
        outcome: Any = None
        names: Any = value if is_object(value) else ()
        for index, members in self._choices["object" if is_object(value) else "array"]:
            known = len(members.intersection(names))
            if known <= most or run.left < 0:
                continue
            run.left -= 1
            run.choice = index
            try:
                outcome, most = handler(value), known
            except ValidationError as error:
                if most < 0 and _is_of_author(error):
                    outcome = error
        return most >= 0, outcome


def _is_of_author(error: ValidationError) -> bool:
    """Return whether an error is only of the author's checks, which the schema does not have."""
    if error.error_count() > 1:
        return False
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return details[0]["type"] in ("value_error", "assertion_error")
