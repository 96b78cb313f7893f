"""Values for schemas and schemas themselves, drawn by hypothesis, which knows nothing of the code that is tested."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXTS = st.sampled_from(["", "a", "b", "abc", "12", "2024-02-29", "2024-02-29T12:30:00Z", "a b", "x" * 10])
NUMBERS = st.one_of(st.integers(-12, 12), st.integers(-240, 240).map(lambda n: n / 20))
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=4,
)


def values(schema: Any, root: Any = None, depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that mostly fit a schema; who asks looks which."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > 6:
        return ANYTHING
    if "$ref" in schema and schema["$ref"].startswith("#/$defs/"):
        return values(root["$defs"][schema["$ref"].split("/")[-1]], root, depth + 1)
    branches = [branch for union in ("anyOf", "oneOf", "allOf") for branch in schema.get(union, [])]
    drawn = [values({**schema, **branch, "anyOf": [], "oneOf": [], "allOf": []}, root, depth + 1) for branch in branches
             if isinstance(branch, dict)]  # fmt: skip
    if "enum" in schema or "const" in schema:
        drawn.append(st.sampled_from(schema.get("enum") or [schema.get("const")]))
    elif "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        drawn += [_of_kind(kind, schema, root, depth) for kind in kinds]
    return st.one_of(drawn) if drawn else ANYTHING


def _of_kind(kind: str, schema: Any, root: Any, depth: int) -> st.SearchStrategy[Any]:
    if kind == "array":
        first = schema.get("prefixItems", [])
        begin = st.tuples(*(values(each, root, depth + 1) for each in first)).map(list)
        if schema.get("items") is False:
            return st.integers(0, len(first)).flatmap(lambda count: begin.map(lambda found: found[:count]))
        rest = st.lists(values(schema.get("items", True), root, depth + 1), max_size=4)
        return st.tuples(begin, rest).map(lambda found: found[0] + found[1])
    if kind == "object":
        properties, required = schema.get("properties", {}), set(schema.get("required", []))
        inner = {name: values(each, root, depth + 1) for name, each in properties.items()}
        named = st.fixed_dictionaries(
            {name: inner.get(name, ANYTHING) for name in sorted(required)},
            optional={name: inner[name] for name in properties if name not in required},
        )
        rest = schema.get("additionalProperties", True)
        if rest is False:
            return named
        return st.tuples(st.dictionaries(TEXTS, values(rest, root, depth + 1), max_size=2), named).map(
            lambda found: {**found[0], **found[1]}
        )
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(), "boolean": st.booleans(), "integer": NUMBERS.map(round), "number": NUMBERS, "string": TEXTS,
    }  # fmt: skip
    return kinds[kind]


LIMITS = {
    "integer": {"minimum": st.integers(-3, 3), "maximum": st.integers(-3, 6), "exclusiveMinimum": st.integers(-3, 3),
                "multipleOf": st.integers(1, 4)},
    "number": {"minimum": NUMBERS, "exclusiveMaximum": NUMBERS, "multipleOf": st.sampled_from([0.05, 0.5, 1, 2])},
    "string": {"minLength": st.integers(0, 3), "maxLength": st.integers(0, 4), "pattern": st.sampled_from(["^a", "b$"]),
               "format": st.sampled_from(["date", "date-time"])},
    "boolean": {}, "null": {},
}  # fmt: skip


def _leaves() -> st.SearchStrategy[Any]:
    limited = [
        st.fixed_dictionaries({"type": st.just(kind)}, optional=optional) for kind, optional in LIMITS.items()
    ]
    scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), TEXTS)
    named = st.lists(scalars, min_size=1, max_size=4).map(lambda choices: {"enum": choices})
    kinds = st.lists(st.sampled_from(list(LIMITS)), min_size=2, max_size=3, unique=True)
    return st.one_of(*limited, named, kinds.map(lambda found: {"type": found}), st.just({}))


def _inner(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "c"])
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)},
        optional={
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "minProperties": st.integers(0, 2),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
        },
    )
    unions = st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3))
    return st.one_of(objects, arrays, unions.map(lambda found: {found[0]: found[1]}))


def schemas() -> st.SearchStrategy[Any]:
    """Return schemas of arguments."""
    return st.recursive(_leaves(), _inner, max_leaves=5).map(
        lambda schema: {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    )
