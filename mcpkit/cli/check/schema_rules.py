"""Rules for schemas of tools: validity, keywords that hosts drop or reject, and strict modes."""

from __future__ import annotations

from collections.abc import Iterator

from ...lockfile.schema_subset import SchemaCheck, target_of
from ...protocol.jsonrpc import Json, is_array, is_object
from ...schema.json_schema import nodes, subschemas
from .host_limits import MAX_CHOICES, MAX_DEPTH, MAX_PROPERTIES, STRICT_MODES, StrictMode, names_in, schema_of
from .rule import CheckInputs, Problem, rule

_ANY_OUTPUT = "2026-07-28"
"""Since then results may be of any kind (server/tools, "Output Schema")."""
_UNIONS = ("allOf", "anyOf", "enum", "not", "oneOf")
_DROPPED = ("$id", "$schema", "dependencies", "patternProperties")
"""What Qwen Code drops in its mode `openapi_30`; Gemini CLI drops `$schema` always.
https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/utils/schemaConverter.ts
https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md ("Schema processing")"""


@rule("schema-invalid", "error")
def invalid_schema(inputs: CheckInputs) -> Iterator[Problem]:
    """A schema is invalid, or larger than any host accepts."""
    for where, tool in inputs.each("tool"):
        for key in ("inputSchema", "outputSchema"):
            if (key == "inputSchema" or key in tool) and not SchemaCheck(tool.get(key)).is_usable:
                yield Problem(
                    where,
                    f"its {key} is not a valid JSON Schema",
                    "use JSON Schema 2020-12",
                )


@rule("input-not-object", "error")
def input_not_object(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's arguments is not that of an object."""
    for where, tool in inputs.each("tool"):
        if schema_of(tool).get("type") != "object":
            yield Problem(
                where,
                "its inputSchema is not of type object, so clients reject the tool",
                'set "type": "object"',
            )


@rule("output-not-object", "warning")
def output_not_object(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's results is not that of an object, in a revision before 2026-07-28, which requires one."""
    for surface in inputs.surfaces:
        for tool in surface.tools if surface.revision < _ANY_OUTPUT else ():
            if "outputSchema" in tool and schema_of(tool, "outputSchema").get("type") != "object":
                yield Problem(
                    f"{inputs.prefix(surface)}tool {tool.get('name')}",
                    f"its outputSchema is not of type object, so clients of {surface.revision} reject the tool",
                    'wrap the result in an object, and set "type": "object"',
                )


@rule("union-at-top", "warning")
def union_at_top(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's arguments has a union at its top, which OpenAI's and Anthropic's APIs reject."""
    for where, tool in inputs.each("tool"):
        for key in _UNIONS:
            if key in schema_of(tool):
                yield Problem(
                    where,
                    f"OpenAI and Anthropic reject `{key}` at the top level of a schema",
                    "move the union into an argument, or make two tools",
                )


@rule("default-invalid", "error")
def default_invalid(inputs: CheckInputs) -> Iterator[Problem]:
    """A default does not match its own schema."""
    for where, tool in inputs.each("tool"):
        for schema in nodes(schema_of(tool)):
            if "default" in schema and SchemaCheck(schema, schema_of(tool)).rejects(schema["default"]):
                yield Problem(
                    where,
                    f"the default {schema['default']!r:.60} does not match its schema",
                    "correct the default or the schema",
                )


@rule("example-invalid", "warning")
def example_invalid(inputs: CheckInputs) -> Iterator[Problem]:
    """An example does not match its own schema."""
    for where, tool in inputs.each("tool"):
        for schema in nodes(schema_of(tool)):
            examples: object = schema.get("examples")
            for each in examples if is_array(examples) else ():
                if SchemaCheck(schema, schema_of(tool)).rejects(each):
                    yield Problem(
                        where,
                        f"the example {each!r:.60} does not match its schema",
                        "correct the example or the schema",
                    )


@rule("reference-elsewhere", "error")
def reference_elsewhere(inputs: CheckInputs) -> Iterator[Problem]:
    """A `$ref` points outside its schema, which clients must not follow, or to nothing."""
    for where, tool in inputs.each("tool"):
        for key in ("inputSchema", "outputSchema"):
            root = schema_of(tool, key)
            for schema in nodes(root):
                reference = schema.get("$ref")
                if "$ref" not in schema or isinstance(target_of(reference, root), (dict, bool)):
                    continue
                if isinstance(reference, str) and reference.startswith("#/"):
                    wrong = f"{reference!r:.60} in its {key} points to nothing"
                else:
                    wrong = f"clients do not follow {reference!r:.60} in its {key}"
                yield Problem(where, wrong, "move the schema to `$defs`, and use `#/$defs/<name>`")


@rule("schema-recursive", "warning")
def recursive_schema(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's arguments is recursive, which some hosts reject."""
    for where, tool in inputs.each("tool"):
        if is_recursive(schema_of(tool)):
            yield Problem(
                where,
                "its inputSchema is recursive: Anthropic's strict mode rejects it, and hosts that inline `$ref` fail",
                "use a flat list of items with the id of their parent, or a fixed number of levels",
            )


@rule("keyword-dropped", "advice")
def dropped_keyword(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's arguments has keywords that Gemini CLI or Qwen Code drop."""
    for where, tool in inputs.each("tool"):
        for key in _DROPPED:
            if any(key in schema for schema in nodes(schema_of(tool))):
                host = (
                    "Gemini CLI and Qwen Code drop"
                    if key == "$schema"
                    else "Qwen Code's openapi_30 mode drops"
                )
                yield Problem(
                    where, f"{host} `{key}`", "remove it, or describe the constraint in the description"
                )


@rule("map-dropped", "warning")
def map_dropped(inputs: CheckInputs) -> Iterator[Problem]:
    """An argument is a map whose values have a schema, which Gemini CLI drops."""
    for where, tool in inputs.each("tool"):
        if any(is_object(schema.get("additionalProperties")) for schema in nodes(schema_of(tool))):
            yield Problem(
                where,
                "Gemini CLI drops a schema in `additionalProperties`",
                "use a list of objects with a name and a value",
            )


@rule("default-dropped", "advice")
def default_dropped(inputs: CheckInputs) -> Iterator[Problem]:
    """A default other than null stands beside `anyOf`, where Gemini CLI and Qwen Code drop it."""
    for where, tool in inputs.each("tool"):
        for name, schema in schema_of(schema_of(tool), "properties").items():
            if is_object(schema) and "anyOf" in schema and schema.get("default") is not None:
                yield Problem(
                    where,
                    f"some hosts drop the default of {name}, which has `anyOf`",
                    f"mention it in the description of {name}",
                )


@rule("enum-not-texts", "warning")
def enum_not_texts(inputs: CheckInputs) -> Iterator[Problem]:
    """An argument has an enum with other values than strings: Gemini rejects it, Qwen Code converts them."""
    for where, tool in inputs.each("tool"):
        for schema in nodes(schema_of(tool)):
            choices: object = schema.get("enum", [schema["const"]] if "const" in schema else [])
            if is_array(choices) and any(
                choice is not None and not isinstance(choice, str) for choice in choices
            ):
                yield Problem(
                    where,
                    f"Gemini rejects the enum {choices!r:.60}, which has values other than strings",
                    "use strings, or a number with minimum and maximum",
                )


@rule("types-cut", "advice")
def types_cut(inputs: CheckInputs) -> Iterator[Problem]:
    """An argument has a list of types, or is a tuple: Qwen Code's `openapi_30` mode keeps only the first type."""
    for where, tool in inputs.each("tool"):
        for schema in nodes(schema_of(tool)):
            kinds: object = schema.get("type")
            if is_array(kinds) and len([kind for kind in kinds if kind != "null"]) > 1:
                yield Problem(
                    where,
                    f"some hosts keep only the first type of {kinds!r:.60}",
                    "use `anyOf`, or one type",
                )
            if "prefixItems" in schema or is_array(schema.get("items")):
                yield Problem(
                    where, "some hosts do not support tuples", "use an object with a name for each item"
                )


@rule("one-of", "advice")
def one_of(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's arguments has `oneOf`, which OpenAI's and Anthropic's strict modes reject."""
    for where, tool in inputs.each("tool"):
        if any("oneOf" in schema for schema in nodes(schema_of(tool))):
            yield Problem(where, "strict modes of OpenAI and Anthropic reject `oneOf`", "use `anyOf`")


@rule("schema-too-large", "warning")
def schema_too_large(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's arguments is deeper or larger than OpenAI's models accept."""
    for where, tool in inputs.each("tool"):
        root = schema_of(tool)
        parts = list(nodes(root))
        counted = {
            "levels": (_depth(root), MAX_DEPTH),
            "properties": (sum(len(schema_of(schema, "properties")) for schema in parts), MAX_PROPERTIES),
            "choices": (
                sum(len(schema["enum"]) for schema in parts if is_array(schema.get("enum"))),
                MAX_CHOICES,
            ),
        }
        for what, (count, limit) in counted.items():
            if count > limit:
                yield Problem(
                    where,
                    f"its inputSchema has {count:,} {what}; OpenAI accepts at most {limit:,}",
                    "split the tool, or use fewer arguments",
                )


def is_recursive(root: Json) -> bool:
    """Return whether a schema contains itself."""

    def leads_back(schema: object, within: tuple[str, ...]) -> bool:
        if not is_object(schema):
            return False
        reference: object = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within or reference == "#":
                return True
            if leads_back(target_of(reference, root), (*within, reference)):
                return True
        return any(
            leads_back(inner, within)
            for (keyword, *_), inner in subschemas(schema)
            if keyword not in ("$defs", "definitions")
        )

    return leads_back(root, ())


def _depth(schema: object) -> int:
    if not is_object(schema):
        return 0
    deepest = max((_depth(inner) for _, inner in subschemas(schema)), default=0)
    return deepest + 1 if "properties" in schema else deepest


@rule("strict-mode", "warning")
def strict_mode(inputs: CheckInputs) -> Iterator[Problem]:
    """A tool cannot be used in a strict mode that `--host` selects, by its documentation."""
    for host in inputs.strict_hosts:
        mode = STRICT_MODES[host]
        for where, tool in inputs.each("tool"):
            for what, cure in _strict_mode_problems(mode, schema_of(tool)):
                yield Problem(where, f"{mode.host}'s strict mode {what}", cure)


def _strict_mode_problems(mode: StrictMode, root: Json) -> Iterator[tuple[str, str]]:
    parts = list(nodes(root))
    rejected = sorted({key for schema in parts for key in schema if key in mode.rejected_keywords})
    if rejected:
        yield (
            f"rejects {', '.join(f'`{key}`' for key in rejected)}",
            "describe the constraint in a description",
        )
    objects = [schema for schema in parts if schema.get("type") == "object"]
    if any(schema.get("additionalProperties") is not False for schema in objects):
        yield "requires `additionalProperties: false` in each object", "use models instead of maps"
    if mode.requires_all and any(
        schema_of(each, "properties").keys() - names_in(each, "required") for each in objects
    ):
        yield "requires each property to be required", "make optional properties nullable and required"
    if not mode.allows_recursion and is_recursive(root):
        yield "rejects recursive schemas", "use a fixed number of levels"
