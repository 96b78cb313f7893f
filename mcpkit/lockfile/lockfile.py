"""The interface of a server, its lockfile, which is sorted, and the changes between two of them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._utils.exceptions import METHOD_NOT_FOUND, ProtocolError
from ..client.client import Client
from ..client.client_group import failures_of, servers_of
from ..protocol.jsonrpc import Json, is_array, is_object, object_at
from ..protocol.revisions import LATEST
from .schema_changes import Effect, Verdict, compare_input_schemas, compare_output_schemas
from .schema_subset import shown

FORMAT: Final = 1
"""The version of the file's format."""
NAME: Final = "mcp.lock.json"

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "tools": ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"),
    "resources": ("uri", "name", "title", "description", "mimeType"),
    "templates": ("uriTemplate", "name", "title", "description", "mimeType"),
    "prompts": ("name", "title", "description", "arguments"),
}
"""Members to store per item; the first one identifies it."""


class LockfileError(ValueError):
    """A file is not a lockfile that this version can read."""


# Interfaces of running servers


@dataclass(frozen=True)
class Surface:
    """The tools, resources, templates and prompts of one server.

    Attributes:
        server: Its name in a configuration, or else its own name.
        revision: The protocol version of the connection.
        instructions: Its instructions for models.
        tools: Its tools, as in `tools/list`.
        resources: Its resources.
        templates: Its resource templates.
        prompts: Its prompts.
    """

    server: str = "server"
    revision: str = LATEST
    instructions: str = ""
    tools: list[Json] = field(default_factory=list[Json])
    resources: list[Json] = field(default_factory=list[Json])
    templates: list[Json] = field(default_factory=list[Json])
    prompts: list[Json] = field(default_factory=list[Json])


def items_of(surface: Surface, kind: str) -> list[Json]:
    """Return the tools, resources, templates or prompts of a server, by a key of `KEYS`."""
    items: list[Json] = getattr(surface, kind)
    return items


async def surface_of(client: Client, name: str | None = None) -> Surface:
    """List the surface of the server of an open client.

    Args:
        client: The client of one server.
        name: The name of the server; its own name by default.
    """

    async def listed(capability: str, request: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        if capability not in client.server_capabilities:
            return []
        try:
            return await request()
        except ProtocolError as error:
            if error.code == METHOD_NOT_FOUND:  # for example by a server without templates
                return []
            raise

    return Surface(
        name or str(client.server_info.get("name") or "server"),
        client.protocol_version,
        client.instructions or "",
        await listed("tools", client.list_tools),
        await listed("resources", client.list_resources),
        await listed("resources", client.list_resource_templates),
        await listed("prompts", client.list_prompts),
    )


async def surfaces_of(client: Client) -> list[Surface]:
    """List the surfaces of the servers of an open client: one, or all of a configuration.

    Raises:
        ConnectionError: A server of the configuration cannot be reached.
    """
    for name, error in failures_of(client).items():
        raise ConnectionError(f"server {name} cannot be reached: {error}") from error
    servers = servers_of(client)
    if list(servers.values()) == [client]:
        return [await surface_of(client)]
    return [await surface_of(each, name) for name, each in servers.items()]


# Lockfiles


def contract_of(surfaces: Sequence[Surface]) -> Json:
    """Return the content of a lockfile.

    Args:
        surfaces: The surfaces of one server, or of several in a configuration.
    """
    if len(surfaces) == 1:
        return {"format": FORMAT, **_lists(surfaces[0])}
    return {"format": FORMAT, "servers": {each.server: _lists(each) for each in surfaces}}


def read(path: Path) -> Json:
    """Read a lockfile.

    Raises:
        FileNotFoundError: There is no such file.
        LockfileError: The file is not a lockfile.
    """
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LockfileError(f"{path} is not valid JSON: {error}") from None
    if not is_object(found) or "format" not in found:
        raise LockfileError(f"{path} is not a lockfile of mcpkit. Delete it, and write it with mcpkit lock")
    if found["format"] != FORMAT:
        raise LockfileError(
            f"{path} has format {found['format']!r:.20}, but this version of mcpkit supports {FORMAT}. "
            "Delete it, and write it with mcpkit lock"
        )
    for part in servers_in(found).values():
        for kind, keys in KEYS.items():
            items: object = part.get(kind, []) if is_object(part) else None
            if not is_array(items) or not all(
                is_object(each) and isinstance(each.get(keys[0]), str) for each in items
            ):
                raise LockfileError(f"{path} has invalid {kind}. Delete it, and write it with mcpkit lock")
    return found


def read_if_exists(path: Path) -> Json | None:
    """Read a lockfile; None if there is no such file.

    Raises:
        LockfileError: The file is not a lockfile.
    """
    return read(path) if path.is_file() else None


def write(path: Path, contract: Json) -> None:
    """Write a lockfile."""
    text = json.dumps(contract, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def servers_in(contract: Json) -> Json:
    """Return the lists of each server by its name; the only server has an empty name."""
    servers: object = contract.get("servers")
    return servers if is_object(servers) else {"": contract}


def _lists(surface: Surface) -> Json:
    return {
        kind: sorted((_stored_members(kind, item) for item in items_of(surface, kind)), key=_name)
        for kind in KEYS
    }


def _stored_members(kind: str, item: Json) -> Json:
    stored: Json = {key: item[key] for key in KEYS[kind] if item.get(key) is not None}
    if is_array(stored.get("arguments")):
        stored["arguments"] = sorted(stored["arguments"], key=_name)
    for key in ("inputSchema", "outputSchema"):
        if key in stored:
            stored[key] = _with_sorted_required(stored[key])
    return stored


def _with_sorted_required(schema: object) -> object:
    """Return a schema with its `required` sorted, as the order has no meaning."""
    if is_array(schema):
        return [_with_sorted_required(each) for each in schema]
    if not is_object(schema):
        return schema
    required: object = schema.get("required")
    inner: Json = {key: _with_sorted_required(value) for key, value in schema.items()}
    if is_array(required) and all(isinstance(name, str) for name in required):
        inner["required"] = sorted(map(str, required))
    return inner


def _name(item: object) -> str:
    return json.dumps([item.get(key) for key in ("name", "uri", "uriTemplate")]) if is_object(item) else ""


# Changes of servers

_TEXTS: Final = ("title", "description")
_HINTS: Final[dict[str, tuple[bool, bool, str]]] = {
    "readOnlyHint": (False, True, "the tool may change data now"),
    "destructiveHint": (True, False, "the tool may destroy data now"),
    "idempotentHint": (False, True, "repeated calls may have more effects now"),
    "openWorldHint": (True, False, "the tool may access external systems now"),
}
"""Tool annotations: the default, the value that hosts rely on, and the meaning of losing that value."""


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
            where = f"{prefix}{kind[:-1]} {name}"
            if name in moved:
                yield from _template_changes(where, name, moved[name])
            elif name not in after:
                yield Change(where, "it was removed", Effect.BREAKING)
            else:
                yield from _COMPARE[kind](where, item, after[name])
                yield from _text_changes(where, item, after[name])
        for name in after.keys() - before.keys() - set(moved.values()):
            yield Change(f"{prefix}{kind[:-1]} {name}", "it was added", Effect.COMPATIBLE)


def _effect(is_breaking: bool) -> Effect:
    return Effect.BREAKING if is_breaking else Effect.COMPATIBLE


def _text_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    changed = [key for key in _TEXTS if old.get(key) != new.get(key)]
    if changed:
        yield Change(where, f"its {' and '.join(changed)} changed", Effect.COMPATIBLE)


# Tools


def _tool_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    if old.get("inputSchema") != new.get("inputSchema"):
        verdict = compare_input_schemas(old.get("inputSchema", {}), new.get("inputSchema", {}))
        yield from _schema_changes(where, "argument", "a call with {} is rejected now", verdict)
    yield from _output_changes(where, old.get("outputSchema"), new.get("outputSchema"))
    before, after = object_at(old, "annotations"), object_at(new, "annotations")
    for hint, (default, relied_on, meaning) in _HINTS.items():
        was, is_now = before.get(hint, default), after.get(hint, default)
        if was != is_now:
            is_broken = was is relied_on
            what = f"{hint} is {shown(is_now)} now" + (f": {meaning}" if is_broken else "")
            yield Change(where, what, _effect(is_broken))
    was, is_now = (str(object_at(each, "execution").get("taskSupport", "forbidden")) for each in (old, new))
    if (
        was != is_now
    ):  # a call without a task fails if one is required, and one with a task if they are forbidden
        is_broken = is_now in {"required", "forbidden"}
        yield Change(where, f"taskSupport changed from {was} to {is_now}", _effect(is_broken))


def _output_changes(where: str, old: object, new: object) -> Iterator[Change]:
    if old == new:
        return
    if old is None:
        yield Change(where, "it got an output schema", Effect.COMPATIBLE)
    elif new is None:
        what = "its output schema was removed, so it returns no structured content"
        yield Change(where, what, Effect.BREAKING)
    else:
        example = "the old schema does not allow {}, which the new one does"
        yield from _schema_changes(where, "result", example, compare_output_schemas(old, new))


def _schema_changes(where: str, noun: str, example: str, verdict: Verdict) -> Iterator[Change]:
    if verdict.effect is Effect.COMPATIBLE:
        yield Change(where, f"the schema of its {noun}s changed", Effect.COMPATIBLE)
        return
    parts = [f"{noun} {found.path}: {found.why}" if found.path else found.why for found in verdict.obstacles]
    what = "; ".join(dict.fromkeys(parts[:5])) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")
    outcome = "this may break clients"
    if verdict.example is not None:
        outcome = example.format(shown(verdict.example.value))
    yield Change(where, f"{what} ({outcome})", verdict.effect)


# Resources and prompts


def _resource_changes(where: str, old: Json, new: Json) -> Iterator[Change]:
    if old.get("mimeType") != new.get("mimeType"):
        what = f"its mimeType is {shown(new.get('mimeType'))} now"
        yield Change(where, what, _effect(old.get("mimeType") is not None))
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
        what = f"argument {name} was added" + (" and is required" if is_required else "")
        yield Change(where, what, _effect(is_required))


def _arguments(prompt: Json) -> list[Json]:
    arguments: object = prompt.get("arguments")
    return [each for each in arguments if is_object(each) and "name" in each] if is_array(arguments) else []


_COMPARE: Final[dict[str, Callable[[str, Json, Json], Iterator[Change]]]] = {
    "tools": _tool_changes,
    "resources": _resource_changes,
    "templates": _resource_changes,
    "prompts": _prompt_changes,
}
