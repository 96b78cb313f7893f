"""Rules for schemas of tools: validity, keywords that hosts drop or reject, and strict modes."""

from __future__ import annotations

from collections.abc import Iterator

from ...lockfile.schema_subset import SchemaCheck, names_at, target_of
from ...protocol.jsonrpc import Json, is_array, is_object, object_at
from ...schema.json_schema import nodes, subschemas
from .rule_form_and_host_limits import (
    MAX_CHOICES,
    MAX_DEPTH,
    MAX_PROPERTIES,
    STRICT_MODES,
    CheckInputs,
    Problem,
    StrictMode,
    item_rule,
    rule,
    schema_of,
)

_ANY_OUTPUT = "2026-07-28"
"""Since then results may be of any kind (server/tools, "Output Schema")."""
_UNIONS = ("allOf", "anyOf", "enum", "not", "oneOf")
_DROPPED = ("$id", "$schema", "dependencies", "patternProperties")
"""What Qwen Code drops in its mode `openapi_30`; Gemini CLI drops `$schema` always.
https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/utils/schemaConverter.ts
https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md ("Schema processing")"""


@item_rule("schema-invalid", "error")
def invalid_schema(tool: Json) -> Iterator[tuple[str, str]]:
    """A schema is invalid, or larger than any host accepts."""
    for key in ("inputSchema", "outputSchema"):
        if (key == "inputSchema" or key in tool) and not SchemaCheck(tool.get(key)).is_usable:
            yield f"its {key} is not a valid JSON Schema", "use JSON Schema 2020-12"


@item_rule("input-not-object", "error")
def input_not_object(tool: Json) -> Iterator[tuple[str, str]]:
    """The schema of a tool's arguments is not that of an object."""
    if schema_of(tool).get("type") != "object":
        yield "its inputSchema is not of type object, so clients reject the tool", 'set "type": "object"'


@rule("output-not-object", "warning")
def output_not_object(inputs: CheckInputs) -> Iterator[Problem]:
    """The schema of a tool's results is not that of an object, in a revision before 2026-07-28, which requires one."""
    for surface in inputs.surfaces:
        message = f"its outputSchema is not of type object, so clients of {surface.revision} reject the tool"
        for place, tool in inputs.each_of(surface, "tool") if surface.revision < _ANY_OUTPUT else ():
            if "outputSchema" in tool and object_at(tool, "outputSchema").get("type") != "object":
                yield Problem(place, message, 'wrap the result in an object, and set "type": "object"')


@item_rule("union-at-top", "warning")
def union_at_top(tool: Json) -> Iterator[tuple[str, str]]:
    """The schema of a tool's arguments has a union at its top, which OpenAI's and Anthropic's APIs reject."""
    for key in _UNIONS:
        if key in schema_of(tool):
            message = f"OpenAI and Anthropic reject `{key}` at the top level of a schema"
            yield message, "move the union into an argument, or make two tools"


@item_rule("default-invalid", "error")
def default_invalid(tool: Json) -> Iterator[tuple[str, str]]:
    """A default does not match its own schema."""
    for schema in nodes(schema_of(tool)):
        if "default" in schema and SchemaCheck(schema, schema_of(tool)).rejects(schema["default"]):
            message = f"the default {schema['default']!r:.60} does not match its schema"
            yield message, "correct the default or the schema"


@item_rule("example-invalid", "warning")
def example_invalid(tool: Json) -> Iterator[tuple[str, str]]:
    """An example does not match its own schema."""
    for schema in nodes(schema_of(tool)):
        examples: object = schema.get("examples")
        for each in examples if is_array(examples) else ():
            if SchemaCheck(schema, schema_of(tool)).rejects(each):
                message = f"the example {each!r:.60} does not match its schema"
                yield message, "correct the example or the schema"


@item_rule("reference-elsewhere", "error")
def reference_elsewhere(tool: Json) -> Iterator[tuple[str, str]]:
    """A `$ref` points outside its schema, which clients must not follow, or to nothing."""
    for key in ("inputSchema", "outputSchema"):
        root = object_at(tool, key)
        for schema in nodes(root):
            reference = schema.get("$ref")
            if "$ref" not in schema or isinstance(target_of(reference, root), (dict, bool)):
                continue
            if isinstance(reference, str) and reference.startswith("#/"):
                message = f"{reference!r:.60} in its {key} points to nothing"
            else:
                message = f"clients do not follow {reference!r:.60} in its {key}"
            yield message, "move the schema to `$defs`, and use `#/$defs/<name>`"


@item_rule("schema-recursive", "warning")
def recursive_schema(tool: Json) -> Iterator[tuple[str, str]]:
    """The schema of a tool's arguments is recursive, which some hosts reject."""
    if _is_recursive(schema_of(tool)):
        yield (
            "its inputSchema is recursive: Anthropic's strict mode rejects it, and hosts that inline `$ref` fail",
            "use a flat list of items with the id of their parent, or a fixed number of levels",
        )


@item_rule("keyword-dropped", "advice")
def dropped_keyword(tool: Json) -> Iterator[tuple[str, str]]:
    """The schema of a tool's arguments has keywords that Gemini CLI or Qwen Code drop."""
    keys = {key for schema in nodes(schema_of(tool)) for key in schema}
    for key in _DROPPED:
        if key in keys:
            hosts = (
                "Gemini CLI and Qwen Code drop" if key == "$schema" else "Qwen Code's openapi_30 mode drops"
            )
            yield f"{hosts} `{key}`", "remove it, or describe the constraint in the description"


@item_rule("map-dropped", "warning")
def map_dropped(tool: Json) -> Iterator[tuple[str, str]]:
    """An argument is a map with a schema for its values, which Gemini CLI drops."""
    if any(is_object(schema.get("additionalProperties")) for schema in nodes(schema_of(tool))):
        message = "Gemini CLI drops a schema in `additionalProperties`"
        yield message, "use a list of objects with a name and a value"


@item_rule("default-dropped", "advice")
def default_dropped(tool: Json) -> Iterator[tuple[str, str]]:
    """A default other than null stands beside `anyOf`, where Gemini CLI and Qwen Code drop it."""
    for name, schema in object_at(schema_of(tool), "properties").items():
        if is_object(schema) and "anyOf" in schema and schema.get("default") is not None:
            message = f"some hosts drop the default of {name}, which has `anyOf`"
            yield message, f"mention it in the description of {name}"


@item_rule("enum-not-texts", "warning")
def enum_not_texts(tool: Json) -> Iterator[tuple[str, str]]:
    """An argument has an enum with other values than strings: Gemini rejects it, Qwen Code converts them."""
    for schema in nodes(schema_of(tool)):
        choices: object = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if is_array(choices) and not all(each is None or isinstance(each, str) for each in choices):
            message = f"Gemini rejects the enum {choices!r:.60}, which has values other than strings"
            yield message, "use strings, or a number with minimum and maximum"


@item_rule("types-cut", "advice")
def types_cut(tool: Json) -> Iterator[tuple[str, str]]:
    """An argument has a list of types, or is a tuple: Qwen Code's `openapi_30` mode keeps only the first type."""
    for schema in nodes(schema_of(tool)):
        kinds: object = schema.get("type")
        if is_array(kinds) and len([kind for kind in kinds if kind != "null"]) > 1:
            yield f"some hosts keep only the first type of {kinds!r:.60}", "use `anyOf`, or one type"
        if "prefixItems" in schema or is_array(schema.get("items")):
            yield "some hosts do not support tuples", "use an object with a name for each item"


@item_rule("one-of", "advice")
def one_of(tool: Json) -> Iterator[tuple[str, str]]:
    """The schema of a tool's arguments has `oneOf`, which OpenAI's and Anthropic's strict modes reject."""
    if any("oneOf" in schema for schema in nodes(schema_of(tool))):
        yield "strict modes of OpenAI and Anthropic reject `oneOf`", "use `anyOf`"


@item_rule("schema-too-large", "warning")
def schema_too_large(tool: Json) -> Iterator[tuple[str, str]]:
    """The schema of a tool's arguments is deeper or larger than OpenAI's models accept."""
    root = schema_of(tool)
    parts = list(nodes(root))
    properties = sum(len(object_at(schema, "properties")) for schema in parts)
    choices = sum(len(schema["enum"]) for schema in parts if is_array(schema.get("enum")))
    for what, count, limit in (
        ("levels", _depth(root), MAX_DEPTH),
        ("properties", properties, MAX_PROPERTIES),
        ("choices", choices, MAX_CHOICES),
    ):
        if count > limit:
            message = f"its inputSchema has {count:,} {what}; OpenAI accepts at most {limit:,}"
            yield message, "split the tool, or use fewer arguments"


def _is_recursive(root: Json) -> bool:
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
        for place, tool in inputs.each("tool"):
            for message, cure in _strict_mode_problems(mode, schema_of(tool)):
                yield Problem(place, f"{mode.host}'s strict mode {message}", cure)


def _strict_mode_problems(mode: StrictMode, root: Json) -> Iterator[tuple[str, str]]:
    parts = list(nodes(root))
    rejected = sorted({f"`{key}`" for schema in parts for key in schema if key in mode.rejected_keywords})
    if rejected:
        yield f"rejects {', '.join(rejected)}", "describe the constraint in a description"
    objects = [schema for schema in parts if schema.get("type") == "object"]
    if any(schema.get("additionalProperties") is not False for schema in objects):
        yield "requires `additionalProperties: false` in each object", "use models instead of maps"
    if mode.requires_all and any(
        object_at(each, "properties").keys() - names_at(each, "required") for each in objects
    ):
        yield "requires each property to be required", "make optional properties nullable and required"
    if not mode.allows_recursion and _is_recursive(root):
        yield "rejects recursive schemas", "use a fixed number of levels"
