"""What ledgers say: what was lost, what has changed that must not, and what was done too often. It asks nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.helpers.cluster.clients import ENDED, FAILED, UNKNOWN
from tests.helpers.cluster.ledger import Line

_PASSING = {"_meta", "pollIntervalMs", "cacheScope", "ttlSeconds"}
"""Members of an answer that are of the answer, and not of the task."""


def promises_broken(asked: Iterable[Line]) -> list[str]:
    """Judge what clients were told of tasks.

    Args:
        asked: The ledger of the clients: `created` with `key` and `id` where a task was acknowledged, `seen` with `id`
            and `task` for each answer about it, `error` with `id` and `code` for each error.

    Returns:
        What was promised and not held: nothing where all is well.
    """
    lines = list(asked)
    ids: dict[str, set[str]] = defaultdict(set)
    ends: dict[str, list[dict[str, Any]]] = defaultdict(list)
    found: list[str] = []
    for line in lines:
        if line["what"] == "created":
            ids[line["key"]].add(line["id"])
        elif line["what"] == "seen":
            task = {name: each for name, each in line["task"].items() if name not in _PASSING}
            if task["status"] in ENDED:
                ends[line["id"]].append(task)
            elif ends[line["id"]]:
                found.append(f"went on after its end: {line['id']} is {task['status']}")
        elif line["what"] == "error":
            what = "lost: nobody knows" if line["code"] == UNKNOWN else "an error for"
            found.append(f"{what} {line['id']}: {line['error']}")
    for key, several in ids.items():
        if len(several) > 1:
            found.append(f"created twice: {key} is {sorted(several)}")
    for id_ in sorted(set().union(*ids.values())):
        if not ends[id_]:
            found.append(f"lost: {id_} has no end")
        for end in ends[id_][1:]:
            if end["status"] != ends[id_][0]["status"]:
                found.append(f"changed its end: {id_} was {ends[id_][0]['status']}, then {end['status']}")
            elif end != ends[id_][0]:
                found.append(f"two results: {id_} was {ends[id_][0]}, then {end}")
    return found


def effects_wrong(asked: Iterable[Line], effects: Iterable[Line]) -> list[str]:
    """Judge what tools have done, each by what it promises to do: `risks...` at most once, others at least once.

    Args:
        asked: The ledger of the clients; in `created` is the tool.
        effects: The ledger of the tools.

    Returns:
        What was done too often or not at all.
    """
    done = Counter(line["key"] for line in effects if line["what"] == "effect")
    tools = {line["key"]: line["tool"] for line in asked if line["what"] == "created"}
    found = list(_committed_wrong(effects))
    for key, end in _ends(asked).items():
        tool, times = tools[key], done[key]
        is_once = tool.startswith("risks")
        if is_once and times > 1:
            found.append(f"done {times} times: {key} of {tool}")
        if end["status"] == "completed" and tool != "steps" and not times:
            found.append(f"completed and never done: {key} of {tool}")
        if end["status"] == "failed" and (not is_once or end["error"]["code"] != FAILED):
            found.append(f"failed: {key} of {tool}: {end['error']}")
    for key, times in done.items():
        if key in tools and times > 1 and tools[key].startswith("risks"):
            found.append(f"done {times} times: {key} of {tools[key]}")
    return sorted(set(found))


def _ends(asked: Iterable[Line]) -> dict[str, dict[str, Any]]:
    keys = {line["id"]: line["key"] for line in asked if line["what"] == "created"}
    return {
        keys[line["id"]]: line["task"]
        for line in asked
        if line["what"] == "seen" and line["task"]["status"] in ENDED
    }


def _committed_wrong(effects: Iterable[Line]) -> Iterator[str]:
    """Judge what is done once: when its value has come back, it is never done again, and the value is always this."""
    committed: dict[tuple[str, str], str] = {}
    for line in effects:
        if line["what"] not in {"ran", "once"}:
            continue
        step = (line["call"], line["name"])
        if line["what"] == "ran" and step in committed:
            yield f"done again: {step} in attempt {line['attempt']}"
        elif line["what"] == "once" and committed.setdefault(step, line["value"]) != line["value"]:
            yield f"another value: {step} in attempt {line['attempt']}"


def changes_unheard(asked: Iterable[Line]) -> list[str]:
    """Judge what subscribers know in the end.

    Args:
        asked: The ledger of the clients: `touched` with `name` and `version` for each change that was acknowledged,
            `read` with `who`, `name` and `version` for each look of a subscriber, which looks when it is told to.

    Returns:
        The subscribers that do not know of the last change, as they were told neither of it nor of a gap.
    """
    versions: dict[str, int] = {}
    known: dict[tuple[str, str], int] = {}
    for line in asked:
        if line["what"] == "touched":
            versions[line["name"]] = max(versions.get(line["name"], 0), line["version"])
        elif line["what"] == "read":
            known[line["who"], line["name"]] = line["version"]
    return [
        f"unheard: {who} knows {name} as of {version}, and it is {versions[name]}"
        for (who, name), version in sorted(known.items())
        if version < versions.get(name, 0)
    ]
