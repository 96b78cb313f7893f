"""Changes between two lockfiles, and which of them break clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from ..protocol.jsonrpc import Json, is_array, is_object
from ..schema.json_schema import replaced, subschemas
from .counterexamples import Counterexample, counterexample
from .lockfile import KEYS, servers_in
from .schema_subset import Obstacle, SchemaCheck, obstacles, shown

_KINDS: Final = {"tools": "tool", "resources": "resource", "templates": "template", "prompts": "prompt"}
_TEXTS: Final = ("title", "description")
_HINTS: Final[dict[str, tuple[bool, bool, str]]] = {
    "readOnlyHint": (False, True, "the tool may change data now"),
    "destructiveHint": (True, False, "the tool may destroy data now"),
    "idempotentHint": (False, True, "repeated calls may have more effects now"),
    "openWorldHint": (True, False, "the tool may access external systems now"),
}
"""Tool annotations: the default, the value that hosts rely on, and the meaning of losing that value."""
_TASK_SUPPORT: Final = {"forbidden": 0, "optional": 0, "required": 1}


class Effect(str, Enum):
    """The effect of a change on clients."""

    BREAKING = "breaking"
    UNKNOWN = "unknown"
    COMPATIBLE = "compatible"


class Change(NamedTuple):
    """A change of a server.

    Attributes:
        where: The changed item, such as `tool price`.
        what: The change, and its consequence.
        effect: The effect on clients that were written for the old version.
    """

    where: str
    what: str
    effect: Effect


def changes(old: Json, new: Json) -> list[Change]:
    """Compare two contracts, as `contract_of` and `read` return them.

    Returns:
        The changes, breaking ones first.
    """
    before, after = servers_in(old), servers_in(new)
    found: list[Change] = []
    for name in {**before, **after}:
        if name not in after:
            found.append(Change(f"server {name}", "it was removed", Effect.BREAKING))
        elif name not in before:
            found.append(Change(f"server {name}", "it was added", Effect.COMPATIBLE))
        else:
            found += _server_changes(f"{name}: " if name else "", before[name], after[name])
    order = list(Effect)
    return sorted(found, key=lambda change: order.index(change.effect))


def _server_changes(prefix: str, old: Json, new: Json) -> Iterator[Change]:
    for kind, keys in KEYS.items():
        before = {str(item[keys[0]]): item for item in old.get(kind, [])}
        after = {str(item[keys[0]]): item for item in new.get(kind, [])}
        moved = dict(_moved_templates(before, after)) if kind == "templates" else {}
        for name, item in before.items():
            where = f"{prefix}{_KINDS[kind]} {name}"
            if name in moved:
                yield from _template_changes(where, name, moved[name])
            elif name not in after:
                yield Change(where, "it was removed", Effect.BREAKING)
            else:
                yield from _COMPARE[kind](where, item, after[name])
                yield from _text_changes(where, item, after[name])
        for name in after.keys() - before.keys() - set(moved.values()):
            yield Change(f"{prefix}{_KINDS[kind]} {name}", "it was added", Effect.COMPATIBLE)


def _text_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    changed = [key for key in _TEXTS if old.get(key) != new.get(key)]
    if changed:
        yield Change(where, f"its {' and '.join(changed)} changed", Effect.COMPATIBLE)


# Tools


def _tool_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    if old.get("inputSchema") != new.get("inputSchema"):
        verdict = compare_input_schemas(old.get("inputSchema", {}), new.get("inputSchema", {}))
        yield from _schema_changes(where, "argument", "arguments", "a call with {} is rejected now", verdict)
    yield from _output_changes(where, old.get("outputSchema"), new.get("outputSchema"))
    before, after = _object(old.get("annotations")), _object(new.get("annotations"))
    for hint, (default, relied_on, meaning) in _HINTS.items():
        was, is_now = before.get(hint, default), after.get(hint, default)
        if was != is_now:
            effect = Effect.BREAKING if was is relied_on else Effect.COMPATIBLE
            is_broken = effect is Effect.BREAKING
            yield Change(
                where, f"{hint} is {shown(is_now)} now" + (f": {meaning}" if is_broken else ""), effect
            )
    was_task, is_task = (
        str(_object(each.get("execution")).get("taskSupport", "forbidden")) for each in (old, new)
    )
    if was_task != is_task:
        breaks = _TASK_SUPPORT.get(is_task, 0) > _TASK_SUPPORT.get(was_task, 0) or is_task == "forbidden"
        effect = Effect.BREAKING if breaks else Effect.COMPATIBLE
        yield Change(where, f"taskSupport changed from {was_task} to {is_task}", effect)


def _output_changes(where: str, old: object, new: object) -> Iterator[Change]:
    if old == new:
        return
    if old is None:
        yield Change(where, "it got an output schema", Effect.COMPATIBLE)
    elif new is None:
        yield Change(
            where, "its output schema was removed, so it returns no structured content", Effect.BREAKING
        )
    else:
        verdict = compare_output_schemas(old, new)
        yield from _schema_changes(
            where, "result", "results", "the old schema does not allow {}, which the new one does", verdict
        )


def _schema_changes(
    where: str, singular: str, plural: str, example: str, verdict: Verdict
) -> Iterator[Change]:
    if verdict.effect is Effect.COMPATIBLE:
        yield Change(where, f"the schema of its {plural} changed", Effect.COMPATIBLE)
        return
    parts = [
        f"{singular} {found.path}: {found.why}" if found.path else found.why for found in verdict.obstacles
    ]
    what = "; ".join(dict.fromkeys(parts[:5])) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")
    if verdict.example is None:
        what += " (this may break clients)"
    else:
        what += f" ({example.format(shown(verdict.example.value))})"
    yield Change(where, what, verdict.effect)


# Resources and prompts


def _resource_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    if old.get("mimeType") != new.get("mimeType"):
        effect = Effect.COMPATIBLE if old.get("mimeType") is None else Effect.BREAKING
        yield Change(where, f"its mimeType is {shown(new.get('mimeType'))} now", effect)
    if old.get("name") != new.get("name"):
        yield Change(where, f"its name is {shown(new.get('name'))} now", Effect.COMPATIBLE)


def _moved_templates(before: Json, after: Json) -> Iterator[tuple[str, str]]:
    """Yield the URIs of templates that have another one under the same name."""
    names = {str(item.get("name")): uri for uri, item in after.items() if uri not in before}
    for uri, item in before.items():
        if uri not in after and str(item.get("name")) in names:
            yield uri, names.pop(str(item.get("name")))


def _template_changes(where: str, old: str, new: str) -> Iterator[Change]:
    before, after = set(variables_of(old)), set(variables_of(new))
    parts = [f"variable {name} was removed" for name in sorted(before - after)]
    parts += [f"variable {name} was added" for name in sorted(after - before)]
    yield Change(where, "; ".join([f"it is {new} now", *parts]), Effect.BREAKING)


def variables_of(template: str) -> list[str]:
    """Return the names of the variables of a URI template (RFC 6570)."""
    return [
        re.sub(r"(\*|:\d+)$", "", name.strip())
        for expression in re.findall(r"\{[+#./;?&]?([^{}]*)\}", template)
        for name in expression.split(",")
    ]


def _prompt_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    before, after = ({str(each["name"]): each for each in _arguments(prompt)} for prompt in (old, new))
    for name, argument in before.items():
        if name not in after:
            yield Change(where, f"argument {name} was removed", Effect.BREAKING)
        elif after[name].get("required") and not argument.get("required"):
            yield Change(where, f"argument {name} is required now", Effect.BREAKING)
        elif argument.get("required") and not after[name].get("required"):
            yield Change(where, f"argument {name} is no longer required", Effect.COMPATIBLE)
        if name in after:
            yield from _text_changes(f"{where}, argument {name}", argument, after[name])
    for name in after.keys() - before.keys():
        is_required = bool(after[name].get("required"))
        effect = Effect.BREAKING if is_required else Effect.COMPATIBLE
        yield Change(
            where, f"argument {name} was added" + (" and is required" if is_required else ""), effect
        )


def _arguments(prompt: Json) -> list[Json]:
    arguments: object = prompt.get("arguments")
    return [each for each in arguments if is_object(each) and "name" in each] if is_array(arguments) else []


def _object(value: object) -> Json:
    return value if is_object(value) else {}


_COMPARE: Final[dict[str, Callable[[str, Json, Json], Iterator[Change]]]] = {
    "tools": _tool_changes,
    "resources": _resource_changes,
    "templates": _resource_changes,
    "prompts": _prompt_changes,
}


# Schemas

_IN_PLACE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
"""Keywords that apply further schemas to the same value."""


class Verdict(NamedTuple):
    """The effect of a changed schema.

    Attributes:
        effect: The effect. `BREAKING` has an example, `COMPATIBLE` has no obstacles.
        obstacles: The obstacles to compatibility.
        example: A value that fits one schema and not the other; None if there is none, or none was found.
    """

    effect: Effect
    obstacles: list[Obstacle]
    example: Counterexample | None


def compare_input_schemas(old: object, new: object) -> Verdict:
    """Judge a new schema of arguments: each call that fits the old schema has to fit the new one.

    Args:
        old: The schema that clients know. Its objects have only the named properties, unless they allow others
            explicitly, since clients send what is declared.
        new: The new schema of the server.
    """
    return _compare_schemas(closed(old), new)


def compare_output_schemas(old: object, new: object) -> Verdict:
    """Judge a new schema of results: each result that fits the new schema has to fit the old one.

    Args:
        old: The schema that clients know.
        new: The new schema of the server, with the named properties only unless it allows others explicitly.
    """
    return _compare_schemas(closed(new), old)


def _compare_schemas(narrow: object, wide: object) -> Verdict:
    if not (SchemaCheck(narrow).is_usable and SchemaCheck(wide).is_usable):
        return Verdict(Effect.UNKNOWN, [Obstacle("", "the schema is invalid")], None)
    found = obstacles(narrow, wide)
    if not found:
        return Verdict(Effect.COMPATIBLE, [], None)
    example = counterexample(narrow, wide)
    return Verdict(Effect.UNKNOWN if example is None else Effect.BREAKING, found, example)


def closed(schema: object) -> object:
    """Return a schema without additional properties, unless it allows them explicitly.

    JSON Schema allows further properties by default, but clients and servers send those that are declared. A schema
    that composes one object of several is returned unchanged.
    """
    return schema if _combines_schemas(schema) else _closed(schema)


def _combines_schemas(schema: object) -> bool:
    if not is_object(schema):
        return False
    if (
        "allOf" in schema
        or "not" in schema
        or (is_object(schema.get("properties")) and _IN_PLACE & schema.keys())
    ):
        return True
    return any(_combines_schemas(inner) for _, inner in subschemas(schema))


def _closed(schema: object) -> object:
    if not is_object(schema):
        return schema
    inner = replaced(schema, lambda _, each: _closed(each))
    is_open = not {"additionalProperties", "patternProperties", "unevaluatedProperties"} & schema.keys()
    if is_object(schema.get("properties")) and is_open:
        inner["additionalProperties"] = False
    return inner
