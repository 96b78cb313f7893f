"""The server under test: state shared by the checks, the connection that they use, and their results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ..._utils.package import __version__
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from ..exit_status import Status
from ..findings import Finding
from .finding_catalogue import CATALOGUE

if TYPE_CHECKING:
    from ...client.client import Client

T = TypeVar("T")

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
INFO: Final = {"name": "mcpkit-doctor", "version": __version__}


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

    def add_finding(self, code: str, **facts: object) -> CheckResult:
        """Add a finding of the catalogue unless it has been added already, and return this result."""
        finding = CATALOGUE[code].finding(code, self.step, **facts)
        if finding not in self.findings:
            self.findings.append(finding)
        return self


def quoted(text: str, max_length: int = 80) -> str:
    """Return untrusted text quoted and shortened for one line."""
    return repr(text if len(text) <= max_length else f"{text[:max_length]}...")


class Connection(Protocol):
    """Connection to the server; a missing response is an `Answer` with a problem, not an exception."""

    async def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        request_id: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its response.

        Args:
            method: The method.
            params: Its parameters.
            request_id: The id of the request; None for the next number.
            seconds: Timeout; None for that of the probe.
        """
        ...

    async def notify(self, method: str) -> None:
        """Send a notification."""
        ...

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Send `subscriptions/listen`, and return the params of the acknowledgement as a result."""
        ...


def initialize_params(revision: str) -> Json:
    """Return the params of `initialize`."""
    return {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}


def stateless_params(revision: str, params: Json | None = None) -> Json:
    """Return the params of a request in the stateless revisions."""
    meta = {PROTOCOL_VERSION: revision, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: {}}
    return {**(params or {}), "_meta": meta}


class StatelessConnection:
    """A connection in a stateless revision: each request carries revision and client info."""

    def __init__(self, inner: Connection, revision: str) -> None:
        self._inner = inner
        self._revision = revision

    async def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        request_id: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its response."""
        return await self._inner.request(
            method, stateless_params(self._revision, params), request_id=request_id, seconds=seconds
        )

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._inner.notify(method)

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Send `subscriptions/listen`, and return the params of the acknowledgement as a result."""
        return await self._inner.listen(stateless_params(self._revision, params), seconds)


@dataclass
class Probe:
    """State of the server under test.

    Attributes:
        response_timeout: Seconds for each response.
        first_timeout: Seconds for the first response.
        calls_tools: Whether tools may be called.
        initialize_result: The result of `initialize` with the latest handshake revision; None if it failed.
        discover_result: The result of `server/discover`; None if it failed.
        revisions: The supported revisions.
        connection: The connection that checks use; None before it is known.
        listener: A connection in the stateless revision; None if that is not supported.
        lists: The items by list method.
        paged: The methods with several pages.
        looped: The methods with a repeated cursor.
        has_unshared_sessions: Whether requests of a session reach instances that do not know it.
        client: Opens a client of mcpkit; None before it is set.
        has_buffered_events: Whether a proxy buffers events.
        status: The exit status; None if the findings determine it.
    """

    response_timeout: float
    first_timeout: float
    calls_tools: bool
    initialize_result: Json | None = None
    discover_result: Json | None = None
    revisions: list[str] = field(default_factory=list[str])
    connection: Connection | None = None
    listener: Connection | None = None
    lists: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    paged: set[str] = field(default_factory=set[str])
    looped: set[str] = field(default_factory=set[str])
    has_unshared_sessions: bool = False
    client: Callable[[], AbstractAsyncContextManager[Client]] | None = None
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
        capabilities = None if result is None else result.get("capabilities")
        return capabilities if is_object(capabilities) else {}

    def has(self, capability: str, part: str) -> bool:
        """Return whether a part of a capability is declared, such as `listChanged` of `tools`."""
        declared = self.capabilities.get(capability)
        return is_object(declared) and declared.get(part) is True

    async def request(self, method: str, params: Json | None = None) -> Answer:
        """Send a request over the connection."""
        assert self.connection is not None, "the checks stop if the server cannot be reached"
        return await self.connection.request(method, params)


def required(value: T | None) -> T:
    """Return a value that an earlier check has set."""
    assert value is not None, "an earlier check stops the run if this is missing"
    return value
