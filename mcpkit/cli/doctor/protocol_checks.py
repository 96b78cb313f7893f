"""Checks of any server: revisions, lists, capabilities, standard responses, tool calls and the mcpkit client."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from ..._utils.exceptions import INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, TransportError
from ...client.server_schemas_and_typed_results import UnusableSchemaError, output_schema_of, result_problems
from ...protocol.jsonrpc import Json, is_array, is_object
from ...protocol.revisions import ALL, HANDSHAKE, LATEST, LATEST_HANDSHAKE
from .probe import (
    Answer,
    CheckResult,
    Probe,
    StatelessConnection,
    initialize_params,
    quoted,
    required,
    stateless_params,
)
from .process_probe import ProcessProbe

_FUTURE: Final = "2099-12-31"


async def check_process_revisions(probe: ProcessProbe) -> CheckResult:
    """Request each revision from a second process, `server/discover` first, as clients of 2026-07-28 do."""
    process = probe.start()
    discover_result = await process.request(
        "server/discover", stateless_params(LATEST), seconds=probe.first_timeout
    )
    check = CheckResult("revisions")
    fresh = True

    async def initialize_with(revision: str) -> Answer:
        nonlocal process, fresh
        answer = await process.request("initialize", initialize_params(revision))
        if answer.result is None and not fresh:  # some servers accept one initialize per process
            process = probe.start()
            answer = await process.request(
                "initialize", initialize_params(revision), seconds=probe.first_timeout
            )
        fresh = False
        return answer

    first = await initialize_with(LATEST_HANDSHAKE)
    if discover_result.result is None and discover_result.error is None:
        check.add_finding("discover-silent" if first.result is not None else "discover-ends")
        if first.result is None:
            process = probe.start()
    answers = {
        LATEST_HANDSHAKE: first if probe.initialize_result is None else Answer(probe.initialize_result)
    }
    for revision in (*HANDSHAKE[:-1], _FUTURE):
        answers[revision] = await initialize_with(revision)
    _compare_revisions(probe, check, answers, discover_result)
    if probe.discover_result is not None:
        probe.listener = StatelessConnection(probe.start(), LATEST)
    if probe.initialize_result is not None:
        probe.connection = probe.main
    elif probe.discover_result is not None:
        probe.connection = StatelessConnection(required(probe.main), LATEST)
    return check


async def check_http_revisions(
    probe: Probe, initialize_with: Callable[[str], Awaitable[Answer]], discover_result: Answer
) -> CheckResult:
    """Request each revision from a server at a URL.

    Args:
        probe: The server.
        initialize_with: Sends `initialize` with a revision, in a new session.
        discover_result: The response to `server/discover`.
    """
    check = CheckResult("revisions")
    answers = {revision: await initialize_with(revision) for revision in (*HANDSHAKE[:-1], _FUTURE)}
    if probe.initialize_result is not None:
        answers[LATEST_HANDSHAKE] = Answer(probe.initialize_result)
    _compare_revisions(probe, check, answers, discover_result)
    return check


def _compare_revisions(
    probe: Probe, check: CheckResult, answers: dict[str, Answer], discover_result: Answer
) -> None:
    """Record the supported revisions, and add findings for wrong responses."""
    supported = None if discover_result.result is None else discover_result.result.get("supportedVersions")
    spoken = [each for each in ALL if is_array(supported) and each in supported]
    if spoken and LATEST in spoken:
        probe.discover_result = discover_result.result
    offered: set[str] = set()
    for requested, answer in answers.items():
        version = None if answer.result is None else answer.result.get("protocolVersion")
        if version == requested == _FUTURE:
            check.add_finding("echoed-revision", asked=requested)
        elif isinstance(version, str) and version in ALL:
            offered.add(version)
        elif answer.result is not None:
            check.add_finding("unknown-revision", answer=quoted(str(version)))
    probe.revisions = [each for each in ALL if each in offered or each in spoken]
    if offered:
        for requested, answer in answers.items():
            if answer.result is None:
                check.add_finding("no-common-revision", asked=requested, answer=answer)
    if not probe.revisions:
        check.stops = True
        if not check.findings:
            check.add_finding("no-mcp", answer=answers.get(LATEST_HANDSHAKE, discover_result))
        return
    check.summary = f"supports {', '.join(probe.revisions)}"


def server_of(result: Json | None) -> str:
    """Return name and version of a server after a comma; empty if they are missing."""
    info = None if result is None else result.get("serverInfo")
    if not is_object(info):
        return ""
    return f", {str(info.get('name'))[:60]} {str(info.get('version'))[:30]}"


_MAX_PAGES: Final = 100


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


async def check_lists(probe: Probe) -> CheckResult:
    """Read every list, declared or not."""
    check = CheckResult("lists")
    counts: list[str] = []
    for each in _LISTS:
        is_declared = each.capability in probe.capabilities
        items, problem = await _read_list(probe, check, each)
        probe.lists[each.method] = items
        if problem is not None:
            is_left_out = each.key == "resourceTemplates" and problem.code == METHOD_NOT_FOUND
            if is_declared and not is_left_out:
                check.add_finding(
                    "list-fails", capability=each.capability, method=each.method, answer=problem
                )
        elif items and not is_declared:
            check.add_finding("undeclared", capability=each.capability, method=each.method, count=len(items))
        if items:
            name = "templates" if each.key == "resourceTemplates" else each.key
            counts.append(f"{len(items)} {name if len(items) > 1 else name[:-1]}")
    check.summary = ", ".join(counts) or "all lists are empty"
    return check


async def _read_list(probe: Probe, check: CheckResult, each: _List) -> tuple[list[Json], Answer | None]:
    """Return all items of a list, and the response that is not a list page, if any."""
    items: list[Json] = []
    cursors: list[object] = []
    while len(cursors) < _MAX_PAGES:
        answer = await probe.request(each.method, {"cursor": cursors[-1]} if cursors else {})
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
        probe.paged.add(each.method)
        if cursor in cursors:
            check.add_finding("cursor-loops", method=each.method)
            probe.looped.add(each.method)
            return items, None
        cursors.append(cursor)
    return items, None


async def check_capabilities(probe: Probe) -> CheckResult:
    """Try the declared capabilities other than lists."""
    check = CheckResult("capabilities")
    tried = ["completions"] if "completions" in probe.capabilities else []
    if tried:
        answer = await probe.request("completion/complete", _completion_params(probe))
        if answer.result is None and answer.code != INVALID_PARAMS:  # the prompt or template may be missing
            check.add_finding("completions-fail", answer=answer)
    if not probe.is_stateless:
        if "logging" in probe.capabilities:
            tried.append("logging")
            answer = await probe.request("logging/setLevel", {"level": "info"})
            if answer.result is None:
                check.add_finding("logging-fails", answer=answer)
        tried += [uri async for uri in _try_subscribe(probe, check)]
    tried += [each async for each in _try_listen(probe, check)]
    check.summary = ", ".join(tried)
    return check


def _completion_params(probe: Probe) -> Json:
    """Return params that complete the first argument of a prompt or a template."""
    for prompt in probe.lists["prompts/list"]:
        for argument in prompt.get("arguments") or ():
            name = {"name": argument.get("name"), "value": ""}
            return {"ref": {"type": "ref/prompt", "name": prompt.get("name")}, "argument": name}
    for template in probe.lists["resources/templates/list"]:
        uri = str(template.get("uriTemplate"))
        inner = uri.partition("{")[2].partition("}")[0].lstrip("+#./;?&")
        name = {"name": inner.partition(",")[0].partition(":")[0].rstrip("*"), "value": ""}
        return {"ref": {"type": "ref/resource", "uri": uri}, "argument": name}
    return {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "none", "value": ""}}


async def _try_subscribe(probe: Probe, check: CheckResult) -> AsyncIterator[str]:
    resources = probe.lists["resources/list"]
    if not probe.has("resources", "subscribe") or not resources:
        return
    params: Json = {"uri": resources[0].get("uri")}
    answer = await probe.request("resources/subscribe", params)
    if answer.result is None:
        check.add_finding("subscribe-fails", answer=answer)
    else:
        await probe.request("resources/unsubscribe", params)
    yield "resources.subscribe"


async def _try_listen(probe: Probe, check: CheckResult) -> AsyncIterator[str]:
    """Subscribe to all declared list changes, in the stateless revisions."""
    if probe.listener is None or probe.discover_result is None or probe.has_buffered_events:
        return
    declared = dict(_declared_lists(probe.discover_result))
    if not declared:
        return
    answer = await probe.listener.listen({"notifications": declared}, probe.response_timeout)
    granted = None if answer.result is None else answer.result.get("notifications")
    missing = [each for each in declared if not is_object(granted) or granted.get(each) is not True]
    if missing:
        reason = "it is missing in the response" if answer.result is not None else answer
        check.add_finding("listen-refused", declared=", ".join(missing), answer=reason)
    yield "subscriptions/listen"


def _declared_lists(result: Json) -> Iterator[tuple[str, bool]]:
    capabilities = result.get("capabilities")
    for name in ("tools", "resources", "prompts"):
        declared = capabilities.get(name) if is_object(capabilities) else None
        if is_object(declared) and declared.get("listChanged") is True:
            yield f"{name}ListChanged", True


async def check_standard_responses(probe: Probe) -> CheckResult:
    """Send requests with a fixed response: ping, an unknown method, an unknown cursor."""
    check = CheckResult("answers")
    if not probe.is_stateless:
        answer = await probe.request("ping")
        if answer.result is None:
            check.add_finding("ping-fails", answer=answer)
    answer = await probe.request("mcpkit/there-is-no-such-method", {})
    if answer.code != METHOD_NOT_FOUND:
        check.add_finding("unknown-method", answer=answer)
    for method in sorted(probe.paged):
        answer = await probe.request(method, {"cursor": "mcpkit-a-cursor-of-nobody"})
        if answer.code != INVALID_PARAMS:
            check.add_finding("cursor-accepted", method=method, answer=answer)
    check.summary = "ping, unknown methods" + (", unknown cursors" if probe.paged else "")
    if probe.is_stateless:
        check.summary = check.summary.removeprefix("ping, ")
    return check


async def check_tool_calls(probe: Probe) -> CheckResult:
    """Call each tool that is read-only or idempotent and needs no arguments."""
    check = CheckResult("calls")
    tools = [tool for tool in probe.lists["tools/list"] if _is_safe(tool)]
    for tool in tools if probe.calls_tools else ():
        answer = await probe.request("tools/call", {"name": tool.get("name"), "arguments": {}})
        if answer.result is None:
            check.add_finding("call-fails", tool=tool.get("name"), answer=answer)
        elif "outputSchema" in tool and not answer.result.get("isError") and "content" in answer.result:
            schema = output_schema_of(tool)
            problems = (
                [str(schema)]
                if isinstance(schema, UnusableSchemaError)
                else result_problems(schema, answer.result)
            )
            if problems:
                check.add_finding(
                    "output-mismatch", tool=tool.get("name"), problem=quoted(str(problems[0]), 160)
                )
    if tools:
        count = f"{len(tools)} of {len(probe.lists['tools/list'])} tools"
        check.summary = f"called {count}" if probe.calls_tools else f"{count} can be called with --call"
    return check


def _is_safe(tool: Json) -> bool:
    hints, schema = tool.get("annotations"), tool.get("inputSchema")
    if not is_object(hints) or not is_object(schema) or schema.get("required"):
        return False
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


async def check_client(probe: Probe) -> CheckResult:
    """Connect with `Client`, which tries the newest revision first, and read all lists."""
    check = CheckResult("client")
    if probe.has_unshared_sessions:
        return check
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # its warnings are findings already
    try:
        async with required(probe.client)() as connected:
            listed = {
                "tools/list": connected.list_tools,
                "resources/list": connected.list_resources,
                "resources/templates/list": connected.list_resource_templates,
                "prompts/list": connected.list_prompts,
            }
            for method, items in probe.lists.items():
                if items and method not in probe.looped:
                    await listed[method]()
            check.summary = f"the mcpkit client connected with revision {connected.protocol_version}"
    except (ProtocolError, TransportError, TimeoutError, ValueError, TypeError) as error:
        check.add_finding("client-fails", problem=quoted(str(error), 300))
    finally:
        logging.disable(before)
    return check
