"""The server under test, and the checks of any server: lists, capabilities, responses, calls and the mcpkit client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from ..._utils.exceptions import INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, TransportError
from ..._utils.package import __version__
from ...client.server_schemas_and_typed_results import UnusableSchemaError, output_schema_of, result_problems
from ...lockfile.lockfile import variables_of
from ...protocol.jsonrpc import Json, is_array, is_object, object_at
from ...protocol.revisions import (
    ALL,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LATEST,
    LATEST_HANDSHAKE,
    PROTOCOL_VERSION,
)
from ..exit_status import Status
from ..findings import Finding
from .finding_catalogue import CATALOGUE

if TYPE_CHECKING:
    from ...client.client import Client

T = TypeVar("T")

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_INFO: Final = {"name": "mcpkit-doctor", "version": __version__}


def initialize_params(revision: str) -> Json:
    """Return the params of `initialize`."""
    return {"protocolVersion": revision, "capabilities": {}, "clientInfo": _INFO}


def stateless_params(params: Json | None = None) -> Json:
    """Return the params of a request in the latest stateless revision, which carries revision and client info."""
    meta = {PROTOCOL_VERSION: LATEST, CLIENT_INFO: _INFO, CLIENT_CAPABILITIES: {}}
    return {**(params or {}), "_meta": meta}


@dataclass(frozen=True)
class Answer:
    """Response to a request, or the reason why there is none.

    Attributes:
        result: The result; None if there is none.
        error: The error; None if there is none.
        problem: Why there is neither; empty otherwise.
        seconds: Its duration.
        status: The HTTP status; 0 without HTTP.
    """

    result: Json | None = None
    error: Json | None = None
    problem: str = ""
    seconds: float = 0.0
    status: int = 0

    @property
    def code(self) -> int | None:
        """The code of the error; None if there is none."""
        code = None if self.error is None else self.error.get("code")
        return code if isinstance(code, int) else None

    def __str__(self) -> str:
        if self.result is not None:
            return "a result"
        if self.error is not None:
            return f"error {self.error.get('code')} ({str(self.error.get('message'))[:80]})"
        return self.problem


def answer_from_message(message: Json, seconds: float, status: int = 0) -> Answer:
    """Return the answer for a response message."""
    result, error = message.get("result"), message.get("error")
    if is_object(result):
        return Answer(result, None, "", seconds, status)
    if is_object(error):
        return Answer(None, error, "", seconds, status)
    return Answer(None, None, "a response without result or error", seconds, status)


@dataclass
class CheckResult:
    """Result of a check.

    Attributes:
        step: The name of the check.
        summary: The observation in a line; may be empty.
        findings: The problems.
        stops: Whether the following checks cannot run.
    """

    step: str
    summary: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])
    stops: bool = False

    def add_finding(self, code: str, **facts: object) -> None:
        """Add a finding of the catalogue unless it has been added already."""
        finding = CATALOGUE[code].finding(code, self.step, **facts)
        if finding not in self.findings:
            self.findings.append(finding)


def quoted(text: str, max_length: int = 80) -> str:
    """Return untrusted text quoted and shortened for one line."""
    return repr(text if len(text) <= max_length else f"{text[:max_length]}...")


@dataclass
class Probe:
    """State of the server under test, which the checks share.

    Attributes:
        response_timeout: Seconds for each response.
        first_timeout: Seconds for the first response.
        calls_tools: Whether tools may be called.
        client: Opens a client of mcpkit.
        initialize_result: The result of `initialize` with the latest handshake revision; None if it failed.
        discover_result: The result of `server/discover`; None if it failed.
        revisions: The supported revisions.
        send_request: Sends a request over the connection that checks use, and waits for its response; a missing one is
            an `Answer` with a problem. None before the connection is known.
        listen: Sends `subscriptions/listen` with params and a timeout, and returns those of the acknowledgement as a
            result; None if the stateless revisions are not supported.
        lists: The items by list method.
        paged: The methods with several pages.
        looped: The methods with a repeated cursor.
        has_unshared_sessions: Whether requests of a session reach instances that do not know it.
        has_buffered_events: Whether a proxy buffers events.
        status: The exit status; None if the findings determine it.
    """

    response_timeout: float
    first_timeout: float
    calls_tools: bool
    client: Callable[[], AbstractAsyncContextManager[Client]]
    initialize_result: Json | None = None
    discover_result: Json | None = None
    revisions: list[str] = field(default_factory=list[str])
    send_request: Callable[[str, Json | None], Awaitable[Answer]] | None = None
    listen: Callable[[Json, float], Awaitable[Answer]] | None = None
    lists: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    paged: set[str] = field(default_factory=set[str])
    looped: set[str] = field(default_factory=set[str])
    has_unshared_sessions: bool = False
    has_buffered_events: bool = False
    status: Status | None = None

    @property
    def is_stateless(self) -> bool:
        """True if the server supports only the stateless revisions."""
        return self.initialize_result is None

    @property
    def capabilities(self) -> Json:
        """The declared capabilities."""
        result = self.discover_result if self.initialize_result is None else self.initialize_result
        return object_at(result or {}, "capabilities")

    async def request(self, method: str, params: Json | None = None) -> Answer:
        """Send a request over the connection, in the form of the revision."""
        params = stateless_params(params) if self.is_stateless else params
        return await required(self.send_request)(method, params)


def required(value: T | None) -> T:
    """Return a value that an earlier check has set."""
    assert value is not None, "an earlier check stops the run if this is missing"
    return value


# Revisions

FUTURE: Final = "2099-12-31"
"""A revision that does not exist."""


def compare_revisions(
    probe: Probe, check: CheckResult, answers: dict[str, Answer], discovered: Answer
) -> None:
    """Record the supported revisions, and add findings for wrong responses.

    Args:
        probe: The server.
        check: The result to add to.
        answers: The responses to `initialize`, by requested revision.
        discovered: The response to `server/discover`.
    """
    if probe.initialize_result is not None:
        answers = {**answers, LATEST_HANDSHAKE: Answer(probe.initialize_result)}
    supported = None if discovered.result is None else discovered.result.get("supportedVersions")
    stateless = [each for each in ALL if is_array(supported) and each in supported]
    if LATEST in stateless:
        probe.discover_result = discovered.result
    offered: set[str] = set()
    for requested, answer in answers.items():
        version = None if answer.result is None else answer.result.get("protocolVersion")
        if version == requested == FUTURE:
            check.add_finding("echoed-revision", asked=requested)
        elif isinstance(version, str) and version in ALL:
            offered.add(version)
        elif answer.result is not None:
            check.add_finding("unknown-revision", answer=quoted(str(version)))
    probe.revisions = [each for each in ALL if each in offered or each in stateless]
    if offered:
        for requested, answer in answers.items():
            if answer.result is None:
                check.add_finding("no-common-revision", asked=requested, answer=answer)
    if not probe.revisions:
        check.stops = True
        if not check.findings:
            check.add_finding("no-mcp", answer=answers.get(LATEST_HANDSHAKE, discovered))
        return
    check.summary = f"supports {', '.join(probe.revisions)}"


def server_of(result: Json | None) -> str:
    """Return name and version of a server after a comma; empty if they are missing."""
    info = object_at(result or {}, "serverInfo")
    return f", {str(info.get('name'))[:60]} {str(info.get('version'))[:30]}" if info else ""


# Lists and capabilities

_MAX_PAGES: Final = 100
_LISTS: Final = (
    ("tools", "tools/list", "tools"),
    ("resources", "resources/list", "resources"),
    ("resources", "resources/templates/list", "resourceTemplates"),
    ("prompts", "prompts/list", "prompts"),
)
"""Capability, method and the member of its result."""


async def check_lists(probe: Probe, check: CheckResult) -> None:
    """Read every list, declared or not."""
    counts: list[str] = []
    for capability, method, key in _LISTS:
        is_declared = capability in probe.capabilities
        items, problem = await _read_list(probe, check, method, key)
        probe.lists[method] = items
        if problem is not None:
            is_left_out = key == "resourceTemplates" and problem.code == METHOD_NOT_FOUND
            if is_declared and not is_left_out:
                check.add_finding("list-fails", capability=capability, method=method, answer=problem)
        elif items and not is_declared:
            check.add_finding("undeclared", capability=capability, method=method, count=len(items))
        if items:
            name = "templates" if key == "resourceTemplates" else key
            counts.append(f"{len(items)} {name if len(items) > 1 else name[:-1]}")
    check.summary = ", ".join(counts) or "all lists are empty"


async def _read_list(
    probe: Probe, check: CheckResult, method: str, key: str
) -> tuple[list[Json], Answer | None]:
    """Return all items of a list, and the response that is not a list page, if any."""
    items: list[Json] = []
    cursors: list[object] = []
    while len(cursors) < _MAX_PAGES:
        answer = await probe.request(method, {"cursor": cursors[-1]} if cursors else {})
        if answer.result is None:
            return items, answer
        page = answer.result.get(key)
        if not is_array(page):
            return items, Answer(problem=f"a result without the list {key}")
        items += [item for item in page if is_object(item)]
        cursor = answer.result.get("nextCursor")
        if cursor is None:
            break
        probe.paged.add(method)
        if cursor in cursors:
            check.add_finding("cursor-loops", method=method)
            probe.looped.add(method)
            break
        cursors.append(cursor)
    return items, None


async def check_capabilities(probe: Probe, check: CheckResult) -> None:
    """Try the declared capabilities other than lists."""
    tried: list[str] = []
    if "completions" in probe.capabilities:
        tried.append("completions")
        answer = await probe.request("completion/complete", _completion_params(probe))
        if answer.result is None and answer.code != INVALID_PARAMS:  # the prompt or template may be missing
            check.add_finding("completions-fail", answer=answer)
    if "logging" in probe.capabilities and not probe.is_stateless:
        tried.append("logging")
        answer = await probe.request("logging/setLevel", {"level": "info"})
        if answer.result is None:
            check.add_finding("logging-fails", answer=answer)
    resources = probe.lists["resources/list"]
    is_subscribable = object_at(probe.capabilities, "resources").get("subscribe") is True
    if is_subscribable and resources and not probe.is_stateless:
        tried.append("resources.subscribe")
        params: Json = {"uri": resources[0].get("uri")}
        answer = await probe.request("resources/subscribe", params)
        if answer.result is None:
            check.add_finding("subscribe-fails", answer=answer)
        else:
            await probe.request("resources/unsubscribe", params)
    if await _try_listen(probe, check):
        tried.append("subscriptions/listen")
    check.summary = ", ".join(tried)


def _completion_params(probe: Probe) -> Json:
    """Return params that complete the first argument of a prompt or a template."""
    for prompt in probe.lists["prompts/list"]:
        for argument in prompt.get("arguments") or ():
            name = {"name": argument.get("name"), "value": ""}
            return {"ref": {"type": "ref/prompt", "name": prompt.get("name")}, "argument": name}
    for template in probe.lists["resources/templates/list"]:
        uri = str(template.get("uriTemplate"))
        name = {"name": next(iter(variables_of(uri)), ""), "value": ""}
        return {"ref": {"type": "ref/resource", "uri": uri}, "argument": name}
    return {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "none", "value": ""}}


async def _try_listen(probe: Probe, check: CheckResult) -> bool:
    """Subscribe to all declared list changes, in the stateless revisions; return whether there are any."""
    if probe.listen is None or probe.discover_result is None or probe.has_buffered_events:
        return False
    capabilities = object_at(probe.discover_result, "capabilities")
    declared = [
        f"{name}ListChanged"
        for name in ("tools", "resources", "prompts")
        if object_at(capabilities, name).get("listChanged") is True
    ]
    if not declared:
        return False
    answer = await probe.listen({"notifications": dict.fromkeys(declared, True)}, probe.response_timeout)
    granted = object_at(answer.result or {}, "notifications")
    missing = [each for each in declared if granted.get(each) is not True]
    if missing:
        reason = "it is missing in the response" if answer.result is not None else answer
        check.add_finding("listen-refused", declared=", ".join(missing), answer=reason)
    return True


async def check_standard_responses(probe: Probe, check: CheckResult) -> None:
    """Send requests with a fixed response: ping, an unknown method, an unknown cursor."""
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
    parts = {"ping": not probe.is_stateless, "unknown methods": True, "unknown cursors": bool(probe.paged)}
    check.summary = ", ".join(name for name, is_sent in parts.items() if is_sent)


async def check_tool_calls(probe: Probe, check: CheckResult) -> None:
    """Call each tool that is read-only or idempotent and needs no arguments."""
    tools = [tool for tool in probe.lists["tools/list"] if _is_safe(tool)]
    for tool in tools if probe.calls_tools else ():
        answer = await probe.request("tools/call", {"name": tool.get("name"), "arguments": {}})
        if answer.result is None:
            check.add_finding("call-fails", tool=tool.get("name"), answer=answer)
        elif "outputSchema" in tool and not answer.result.get("isError") and "content" in answer.result:
            schema = output_schema_of(tool)
            if isinstance(schema, UnusableSchemaError):
                problem = str(schema)
            else:
                problem = "".join(map(str, result_problems(schema, answer.result)[:1]))
            if problem:
                check.add_finding("output-mismatch", tool=tool.get("name"), problem=quoted(problem, 160))
    if tools:
        count = f"{len(tools)} of {len(probe.lists['tools/list'])} tools"
        check.summary = f"called {count}" if probe.calls_tools else f"{count} can be called with --call"


def _is_safe(tool: Json) -> bool:
    hints, schema = object_at(tool, "annotations"), tool.get("inputSchema")
    is_repeatable = True in (hints.get("readOnlyHint"), hints.get("idempotentHint"))
    return is_repeatable and is_object(schema) and not schema.get("required")


async def check_client(probe: Probe, check: CheckResult) -> None:
    """Connect with `Client`, which tries the newest revision first, and read all lists."""
    if probe.has_unshared_sessions:
        return
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # its warnings are findings already
    try:
        async with probe.client() as connected:
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
