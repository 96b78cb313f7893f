"""Changes between two contracts, and which of them break clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ..protocol.jsonrpc import Json, is_array, is_object
from .keyword_bounds import shown
from .lockfile import KEYS, servers_of
from .verdict import Effect, Verdict, of_input, of_output

_WORDS: Final = {"tools": "tool", "resources": "resource", "templates": "template", "prompts": "prompt"}
_TEXTS: Final = ("title", "description")
_PROMISES: Final[dict[str, tuple[bool, bool, str]]] = {
    "readOnlyHint": (False, True, "the tool may change data now"),
    "destructiveHint": (True, False, "the tool may destroy data now"),
    "idempotentHint": (False, True, "repeated calls may have more effects now"),
    "openWorldHint": (True, False, "the tool may access external systems now"),
}
"""Tool annotations: the default, the value that hosts rely on, and the meaning of losing that value."""
_OF_TASKS: Final = {"forbidden": 0, "optional": 0, "required": 1}


class Change(NamedTuple):
    """Something that has changed.

    Attributes:
        where: What it is about, such as `tool price`.
        what: What has changed, and what comes of it.
        effect: What it does to clients that keep to the old contract.
    """

    where: str
    what: str
    effect: Effect


def changes(old: Json, new: Json) -> list[Change]:
    """Compare two contracts, as `lockfile.contract_of` makes and `lockfile.read` reads them.

    Returns:
        What has changed, what breaks clients first.
    """
    before, after = servers_of(old), servers_of(new)
    found: list[Change] = []
    for name in {**before, **after}:
        if name not in after:
            found.append(Change(f"server {name}", "it was removed", Effect.BREAKING))
        elif name not in before:
            found.append(Change(f"server {name}", "it was added", Effect.COMPATIBLE))
        else:
            found += _of_server(f"{name}: " if name else "", before[name], after[name])
    order = list(Effect)
    return sorted(found, key=lambda change: order.index(change.effect))


def _of_server(prefix: str, old: Json, new: Json) -> Iterator[Change]:
    for kind, keys in KEYS.items():
        before = {str(item[keys[0]]): item for item in old.get(kind, [])}
        after = {str(item[keys[0]]): item for item in new.get(kind, [])}
        moved = dict(_moved(before, after)) if kind == "templates" else {}
        for name, item in before.items():
            where = f"{prefix}{_WORDS[kind]} {name}"
            if name in moved:
                yield from _of_template(where, name, moved[name])
            elif name not in after:
                yield Change(where, "it was removed", Effect.BREAKING)
            else:
                yield from _COMPARED[kind](where, item, after[name])
                yield from _of_texts(where, item, after[name])
        for name in after.keys() - before.keys() - set(moved.values()):
            yield Change(f"{prefix}{_WORDS[kind]} {name}", "it was added", Effect.COMPATIBLE)


def _of_texts(where: str, old: Json, new: Json) -> Iterator[Change]:
    changed = [key for key in _TEXTS if old.get(key) != new.get(key)]
    if changed:
        yield Change(where, f"its {' and '.join(changed)} changed", Effect.COMPATIBLE)


# Tools


def _of_tool(where: str, old: Json, new: Json) -> Iterator[Change]:
    if old.get("inputSchema") != new.get("inputSchema"):
        verdict = of_input(old.get("inputSchema", {}), new.get("inputSchema", {}))
        yield from _told(where, "argument", "arguments", "a call with {} is rejected now", verdict)
    yield from _of_output(where, old.get("outputSchema"), new.get("outputSchema"))
    before, after = _object(old.get("annotations")), _object(new.get("annotations"))
    for hint, (default, relied_on, meaning) in _PROMISES.items():
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
        breaks = _OF_TASKS.get(is_task, 0) > _OF_TASKS.get(was_task, 0) or is_task == "forbidden"
        effect = Effect.BREAKING if breaks else Effect.COMPATIBLE
        yield Change(where, f"taskSupport changed from {was_task} to {is_task}", effect)


def _of_output(where: str, old: object, new: object) -> Iterator[Change]:
    if old == new:
        return
    if old is None:
        yield Change(where, "it got an output schema", Effect.COMPATIBLE)
    elif new is None:
        yield Change(
            where, "its output schema was removed, so it returns no structured content", Effect.BREAKING
        )
    else:
        verdict = of_output(old, new)
        yield from _told(
            where, "result", "results", "the old schema does not allow {}, which the new one does", verdict
        )


def _told(where: str, one: str, many: str, example: str, verdict: Verdict) -> Iterator[Change]:
    if verdict.effect is Effect.COMPATIBLE:
        yield Change(where, f"the schema of its {many} changed", Effect.COMPATIBLE)
        return
    parts = [f"{one} {found.path}: {found.why}" if found.path else found.why for found in verdict.obstacles]
    told = "; ".join(dict.fromkeys(parts[:5])) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")
    if verdict.example is None:
        told += " (this may break clients)"
    else:
        told += f" ({example.format(shown(verdict.example.value))})"
    yield Change(where, told, verdict.effect)


# Resources and prompts


def _of_resource(where: str, old: Json, new: Json) -> Iterator[Change]:
    if old.get("mimeType") != new.get("mimeType"):
        effect = Effect.COMPATIBLE if old.get("mimeType") is None else Effect.BREAKING
        yield Change(where, f"its mimeType is {shown(new.get('mimeType'))} now", effect)
    if old.get("name") != new.get("name"):
        yield Change(where, f"its name is {shown(new.get('name'))} now", Effect.COMPATIBLE)


def _moved(before: Json, after: Json) -> Iterator[tuple[str, str]]:
    """Yield the URIs of templates that have another one under the same name."""
    names = {str(item.get("name")): uri for uri, item in after.items() if uri not in before}
    for uri, item in before.items():
        if uri not in after and str(item.get("name")) in names:
            yield uri, names.pop(str(item.get("name")))


def _of_template(where: str, old: str, new: str) -> Iterator[Change]:
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


def _of_prompt(where: str, old: Json, new: Json) -> Iterator[Change]:
    before, after = ({str(each["name"]): each for each in _arguments(prompt)} for prompt in (old, new))
    for name, argument in before.items():
        if name not in after:
            yield Change(where, f"argument {name} was removed", Effect.BREAKING)
        elif after[name].get("required") and not argument.get("required"):
            yield Change(where, f"argument {name} is required now", Effect.BREAKING)
        elif argument.get("required") and not after[name].get("required"):
            yield Change(where, f"argument {name} is no longer required", Effect.COMPATIBLE)
        if name in after:
            yield from _of_texts(f"{where}, argument {name}", argument, after[name])
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


_COMPARED: Final[dict[str, Callable[[str, Json, Json], Iterator[Change]]]] = {
    "tools": _of_tool,
    "resources": _of_resource,
    "templates": _of_resource,
    "prompts": _of_prompt,
}
