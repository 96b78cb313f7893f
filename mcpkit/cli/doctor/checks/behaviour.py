"""Whether a server does what it declares, and declares what it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from ...._utils.exceptions import INVALID_PARAMS, METHOD_NOT_FOUND
from ....protocol.jsonrpc import Json, is_array, is_object
from ..findings.finding import Seen
from ..patients.conversation import Answer
from ..patients.patient import Patient

_MOST_PAGES: Final = 100


class _List(NamedTuple):
    capability: str
    method: str
    key: str


_LISTS: Final = (
    _List("tools", "tools/list", "tools"),
    _List("resources", "resources/list", "resources"),
    _List("resources", "resources/templates/list", "resourceTemplates"),
    _List("prompts", "prompts/list", "prompts"),
)


async def lists(patient: Patient) -> Seen:
    """Read every list, declared or not."""
    seen = Seen("lists")
    counts: list[str] = []
    for each in _LISTS:
        is_declared = each.capability in patient.capabilities
        items, problem = await _read(patient, seen, each)
        patient.lists[each.method] = items
        if problem is not None:
            is_left_out = each.key == "resourceTemplates" and problem.code == METHOD_NOT_FOUND
            if is_declared and not is_left_out:
                seen.find("list-fails", capability=each.capability, method=each.method, answer=problem)
        elif items and not is_declared:
            seen.find("undeclared", capability=each.capability, method=each.method, count=len(items))
        if items:
            name = "templates" if each.key == "resourceTemplates" else each.key
            counts.append(f"{len(items)} {name if len(items) > 1 else name[:-1]}")
    seen.summary = ", ".join(counts) or "all lists are empty"
    return seen


async def _read(patient: Patient, seen: Seen, each: _List) -> tuple[list[Json], Answer | None]:
    """Return all items of a list; and the answer that is none of a list."""
    items: list[Json] = []
    cursors: list[object] = []
    while len(cursors) < _MOST_PAGES:
        answer = await patient.ask(each.method, {"cursor": cursors[-1]} if cursors else {})
        page = None if answer.result is None else answer.result.get(each.key)
        if answer.result is None or not is_array(page):
            wrong = (
                answer if answer.result is None else Answer(problem=f"a result without the list {each.key}")
            )
            return items, wrong
        items += [item for item in page if is_object(item)]
        cursor = answer.result.get("nextCursor")
        if cursor is None:
            return items, None
        patient.paged.add(each.method)
        if cursor in cursors:
            seen.find("cursor-loops", method=each.method)
            patient.looped.add(each.method)
            return items, None
        cursors.append(cursor)
    return items, None


async def features(patient: Patient) -> Seen:
    """Try what is declared beside lists."""
    seen = Seen("capabilities")
    tried = ["completions"] if "completions" in patient.capabilities else []
    if tried:
        answer = await patient.ask("completion/complete", _to_complete(patient))
        if answer.result is None and answer.code != INVALID_PARAMS:  # as what is asked about may not be there
            seen.find("completions-fail", answer=answer)
    if not patient.is_stateless:
        if "logging" in patient.capabilities:
            tried.append("logging")
            answer = await patient.ask("logging/setLevel", {"level": "info"})
            if answer.result is None:
                seen.find("logging-fails", answer=answer)
        tried += [uri async for uri in _subscribed(patient, seen)]
    tried += [each async for each in _listened(patient, seen)]
    seen.summary = ", ".join(tried)
    return seen


def _to_complete(patient: Patient) -> Json:
    """Return what is asked to be completed: the first argument that there is of a prompt or a template."""
    for prompt in patient.lists["prompts/list"]:
        for argument in prompt.get("arguments") or ():
            name = {"name": argument.get("name"), "value": ""}
            return {"ref": {"type": "ref/prompt", "name": prompt.get("name")}, "argument": name}
    for template in patient.lists["resources/templates/list"]:
        uri = str(template.get("uriTemplate"))
        inner = uri.partition("{")[2].partition("}")[0].lstrip("+#./;?&")
        name = {"name": inner.partition(",")[0].partition(":")[0].rstrip("*"), "value": ""}
        return {"ref": {"type": "ref/resource", "uri": uri}, "argument": name}
    return {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "none", "value": ""}}


async def _subscribed(patient: Patient, seen: Seen) -> AsyncIterator[str]:
    resources = patient.lists["resources/list"]
    if not patient.has("resources", "subscribe") or not resources:
        return
    params: Json = {"uri": resources[0].get("uri")}
    answer = await patient.ask("resources/subscribe", params)
    if answer.result is None:
        seen.find("subscribe-fails", answer=answer)
    else:
        await patient.ask("resources/unsubscribe", params)
    yield "resources.subscribe"


async def _listened(patient: Patient, seen: Seen) -> AsyncIterator[str]:
    """Listen to all that is declared, in the stateless era."""
    if patient.listener is None or patient.discovered is None or patient.has_buffered_events:
        return
    declared = dict(_declared(patient.discovered))
    if not declared:
        return
    answer = await patient.listener.listen({"notifications": declared}, patient.patience)
    granted = None if answer.result is None else answer.result.get("notifications")
    missing = [each for each in declared if not is_object(granted) or granted.get(each) is not True]
    if missing:
        said = "it is missing in the response" if answer.result is not None else answer
        seen.find("listen-refused", declared=", ".join(missing), answer=said)
    yield "subscriptions/listen"


def _declared(result: Json) -> Iterator[tuple[str, bool]]:
    capabilities = result.get("capabilities")
    for name in ("tools", "resources", "prompts"):
        declared = capabilities.get(name) if is_object(capabilities) else None
        if is_object(declared) and declared.get("listChanged") is True:
            yield f"{name}ListChanged", True


async def answers(patient: Patient) -> Seen:
    """Ask what every server answers alike: ping, a method that there is not, a cursor that it never gave."""
    seen = Seen("answers")
    if not patient.is_stateless:
        answer = await patient.ask("ping")
        if answer.result is None:
            seen.find("ping-fails", answer=answer)
    answer = await patient.ask("mcpkit/there-is-no-such-method", {})
    if answer.code != METHOD_NOT_FOUND:
        seen.find("unknown-method", answer=answer)
    for method in sorted(patient.paged):
        answer = await patient.ask(method, {"cursor": "mcpkit-a-cursor-of-nobody"})
        if answer.code != INVALID_PARAMS:
            seen.find("cursor-accepted", method=method, answer=answer)
    seen.summary = "ping, unknown methods" + (", unknown cursors" if patient.paged else "")
    if patient.is_stateless:
        seen.summary = seen.summary.removeprefix("ping, ")
    return seen
